//! Where a call stands.

use serde::{Deserialize, Serialize};

/// Where a call stands: the label of its checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    #[default]
    Start,
    Qualif,
    /// Slots are to be proposed, as soon as the agenda answers.
    Slots,
    /// Slots were proposed.
    WaitConfirm,
    Confirmed,
    Transferred,
}

/// States that a call does not go on from.
pub(crate) const TERMINAL: [State; 2] = [State::Confirmed, State::Transferred];

impl State {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "START",
            Self::Qualif => "QUALIF",
            Self::Slots => "SLOTS",
            Self::WaitConfirm => "WAIT_CONFIRM",
            Self::Confirmed => "CONFIRMED",
            Self::Transferred => "TRANSFERRED",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        TERMINAL.contains(&self)
    }
}
