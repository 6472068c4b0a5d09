//! The states of a call.

use serde::{Deserialize, Serialize};

/// The state of a call, which is the label of its checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    #[default]
    Start,
    Qualif,
    /// Slots will be proposed once the calendar answers.
    Slots,
    /// Slots were proposed.
    WaitConfirm,
    Confirmed,
    Transferred,
}

/// The states in which a call does not continue.
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
