//! The script: constant text, known to the server by its hash.

use std::sync::LazyLock;

use redis::Script;

/// One text for all policies: what differs is passed as arguments.
const TEXT: &str = concat!(
    include_str!("../../../lua/account.lua"),
    include_str!("../../../lua/accounts.lua"),
    include_str!("../../../lua/token_bucket.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/weighted_window.lua"),
    include_str!("../../../lua/trail.lua"),
    include_str!("../../../lua/throttle.lua"),
);

/// Hashed once.
static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TEXT));

pub(super) const fn text() -> &'static str {
    TEXT
}

pub(super) fn hash() -> &'static str {
    SCRIPT.get_hash()
}
