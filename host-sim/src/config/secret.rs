//! What nobody is to see: never printed, not even by `{:?}`.

use std::fmt;

/// Shown instead of a secret.
pub const MASK: &str = "(secret)";

/// A text that `Debug` does not show, and that has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show() {
        assert_eq!(
            format!("{:?} {:#?}", Secret::new("hunter2"), Some(Secret::new("hunter2"))).matches("hunter2").count(),
            0
        );
    }
}
