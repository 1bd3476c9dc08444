//! Why a configuration cannot be.

use std::fmt;

/// A configuration that cannot be: which tier, which field, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    tier: Option<String>,
    field: &'static str,
    advice: String,
}

impl ConfigError {
    pub(super) fn new(field: &'static str, advice: impl Into<String>) -> Self {
        Self {
            tier: None,
            field,
            advice: advice.into(),
        }
    }

    pub(super) fn of_tier(mut self, tier: &str) -> Self {
        self.tier = Some(tier.to_owned());
        self
    }

    /// The tier that is wrong, if it is one.
    #[must_use]
    pub fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }

    /// The field that is wrong.
    #[must_use]
    pub const fn field(&self) -> &str {
        self.field
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tier) = &self.tier {
            write!(f, "tier {tier:?}, ")?;
        }
        write!(f, "{}: {}", self.field, self.advice)
    }
}

impl std::error::Error for ConfigError {}
