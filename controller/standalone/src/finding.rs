//! What is wrong with a manifest or an object, as people and programs are told.

use std::sync::Arc;

use portolan_model::read::{Severity, Violation};

/// One problem. Two findings are the same problem when nothing but the line differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file as it was named on the command line, joined with the path below it; empty: not about a file
    pub file: Arc<str>,
    /// 1-based; 0: the file as a whole
    pub line: u32,
    /// 1-based; 0: the line as a whole
    pub column: u32,
    /// `HTTPRoute shop/cart`
    pub object: Option<String>,
    /// Path of the field, or the condition; empty: the object as a whole
    pub field: String,
    /// What is wrong and what to do
    pub message: String,
    /// What is in force meanwhile, where that is not what the manifest says
    pub meanwhile: Option<String>,
    /// False: a remark, nothing is refused
    pub error: bool,
}

impl Finding {
    /// An error about a whole file or directory.
    #[must_use]
    pub fn of_file(file: &Arc<str>, message: impl Into<String>, meanwhile: Option<String>) -> Self {
        Self {
            file: Arc::clone(file),
            line: 0,
            column: 0,
            object: None,
            field: String::new(),
            message: message.into(),
            meanwhile,
            error: true,
        }
    }

    /// What the reader found, with what is in force meanwhile.
    #[must_use]
    pub fn of_violation(violation: &Violation, meanwhile: Option<String>) -> Self {
        Self {
            file: Arc::clone(&violation.location.file),
            line: violation.location.line,
            column: violation.location.column,
            object: violation.object.clone(),
            field: violation.field.clone(),
            message: violation.message.clone(),
            meanwhile,
            error: violation.severity == Severity::Error,
        }
    }

    /// Whether both say the same although text above them may have moved them.
    #[must_use]
    pub fn same_problem(&self, other: &Self) -> bool {
        (&self.file, &self.object, &self.field, &self.message, &self.meanwhile, self.error)
            == (&other.file, &other.object, &other.field, &other.message, &other.meanwhile, other.error)
    }
}

/// Findings that arose and findings that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingChanges {
    pub arisen: Vec<Finding>,
    pub cleared: Vec<Finding>,
}

impl FindingChanges {
    /// Takes note of what replaced what.
    pub fn replace(&mut self, before: &[Finding], after: &[Finding]) {
        let missing = |from: &[Finding], in_: &[Finding]| -> Vec<Finding> {
            from.iter().filter(|finding| !in_.iter().any(|other| other.same_problem(finding))).cloned().collect()
        };
        self.arisen.extend(missing(after, before));
        self.cleared.extend(missing(before, after));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arisen.is_empty() && self.cleared.is_empty()
    }
}
