//! Reasons why a command was not executed.

/// A message that says what to do next.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such container.
    #[error("{0}")]
    NotFound(String),
    /// The engine does not run such a container.
    #[error("{0}")]
    NotOnEngine(String),
    /// An argument is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The command is ambiguous, or not applicable in the current state.
    #[error("{0}")]
    Refused(String),
    /// Execution failed.
    #[error("{0}")]
    Failed(String),
}
