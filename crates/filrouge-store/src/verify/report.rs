//! The report of a verification.

use filrouge_types::{ErrorCode, Failure};
use serde::Serialize;

use super::finding::Finding;

/// The counts and findings of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Verification)]
pub struct VerificationReport {
    /// The number of checked sessions.
    pub sessions: u64,
    /// The number of checked turns.
    pub turns: u64,
    /// The number of checked items.
    pub items: u64,
    /// The number of checked events.
    pub events: u64,
    /// The number of checked checkpoints.
    pub checkpoints: u64,
    /// The number of checked notes.
    pub notes: u64,
    /// The number of checked commits.
    pub commits: u64,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The outcome of a verification; it determines the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No stored data was changed.
    Intact,
    /// Stored data was changed or is missing.
    Broken,
    /// A key is missing or the store does not answer.
    CannotTell,
}

impl VerificationReport {
    /// Records an integrity failure or a missing key as a finding; returns other failures to the caller.
    pub(super) fn add_result(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(f) if matches!(f.code, ErrorCode::IntegrityError | ErrorCode::KeyMissing) => {
                self.add_finding(f.into());
                Ok(())
            }
            result => result,
        }
    }

    /// Adds the counts and findings of another report.
    pub(crate) fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.items += other.items;
        self.events += other.events;
        self.checkpoints += other.checkpoints;
        self.notes += other.notes;
        self.commits += other.commits;
        for finding in other.findings {
            self.add_finding(finding);
        }
    }

    /// Adds a finding. A finding without a session may recur for each session, so it is added only once.
    pub(super) fn add_finding(&mut self, finding: Finding) {
        if finding.session_id.is_some() || !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// The verdict that follows from the findings.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let has = |code: ErrorCode| self.findings.iter().any(|f| f.code == code.as_str());
        if has(ErrorCode::IntegrityError) {
            Verdict::Broken
        } else if self.findings.is_empty() {
            Verdict::Intact
        } else {
            Verdict::CannotTell
        }
    }
}
