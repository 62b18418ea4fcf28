//! Why a command was not carried out.

/// In words that say what to do next.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// No such container.
    #[error("{0}")]
    NotFound(String),
    /// The engine runs no such container.
    #[error("{0}")]
    NotOnEngine(String),
    /// What was given cannot be obeyed.
    #[error("{0}")]
    Invalid(String),
    /// It makes no sense now, or is ambiguous.
    #[error("{0}")]
    Refused(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}
