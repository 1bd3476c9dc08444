#!/usr/bin/env bash
# Everything that must hold, in the order of what fails fastest. Needs cargo; installs what the tests need, if it is missing:
# redis-server, and faketime, by which processes get clocks that are off.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; "$@"; }

install() {
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    if command -v apt-get >/dev/null; then
        "${as_root[@]}" apt-get install -y "$@" || { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y "$@"; }
    else
        echo "the tests need $*: please install it" >&2
        exit 1
    fi
}
command -v redis-server >/dev/null || step install redis-server
command -v faketime >/dev/null || step install faketime

step cargo fmt --all --check
step cargo clippy --all-targets --all-features -- -D warnings

# The benchmark, with its peers, compiles.
step cargo clippy -p bench -- -D warnings

# Each feature on its own, and none.
for feature in "" axum tonic tracing redis redis-tls; do
    step cargo clippy --no-default-features --features "$feature" -- -D warnings
done

# Examples first: the suite starts them.
step cargo build --examples --all-features
step cargo test --all-features
# Extractors must work in every set of features, not only in the full one.
step cargo test --no-default-features --test keys --test service

RUSTDOCFLAGS="-D warnings" step cargo doc --no-deps --all-features
RUSTDOCFLAGS="-D warnings" step cargo doc --no-deps
