//! The explanation of a history that is not linearizable.

/// Operations that cannot be ordered, with the reason in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{explanation}")]
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
