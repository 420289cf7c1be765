//! The explanation of a history that is not linearizable.

use std::fmt;

/// Operations that cannot be ordered, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    operations: Vec<usize>,
    explanation: String,
}

impl Violation {
    pub(crate) fn new(mut operations: Vec<usize>, explanation: String) -> Self {
        operations.sort_unstable();
        operations.dedup();
        Self {
            operations,
            explanation,
        }
    }

    /// Returns the indices of the operations that the explanation names, in ascending order.
    #[must_use]
    pub fn operations(&self) -> &[usize] {
        &self.operations
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.explanation)
    }
}

impl std::error::Error for Violation {}
