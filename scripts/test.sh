#!/usr/bin/env bash
# Everything that must hold, in the order of what fails fastest. Needs cargo; installs nothing, as no test needs more yet.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; "$@"; }

step cargo fmt --all --check
step cargo clippy --all-targets --all-features -- -D warnings

# Each feature on its own, and none.
for feature in "" axum tonic tracing; do
    step cargo clippy --no-default-features --features "$feature" -- -D warnings
done

# Examples first: the suite starts them.
step cargo build --examples --all-features
step cargo test --all-features
# Extractors must work in every set of features, not only in the full one.
step cargo test --no-default-features --test keys --test service

RUSTDOCFLAGS="-D warnings" step cargo doc --no-deps --all-features
RUSTDOCFLAGS="-D warnings" step cargo doc --no-deps
