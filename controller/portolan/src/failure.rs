//! How a command ends.

use std::process::ExitCode;

/// Why a command did not do what was asked. The number is the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An argument that the command line's grammar cannot judge
    #[error("{0}")]
    Usage(String),
    /// Something about this machine
    #[error("{0}")]
    Environment(String),
}

impl Failure {
    /// The machine is wrong.
    pub fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }

    /// The exit code that `--help` documents.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Environment(_) => 3,
        }
    }
}

/// What a command that was carried out says about the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Findings,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::SUCCESS,
            Verdict::Findings => Self::from(1),
        }
    }
}
