//! The names of the statuses of a session.

use filrouge_types::SessionStatus;

use super::Language;

super::words! {
    /// The names of the statuses of a session. Filters and addresses have the words of the API.
    StatusWords {
        active: "active", "active", "aktiv";
        paused: "paused", "en pause", "pausiert";
        closed: "closed", "clôturée", "abgeschlossen";
    }
}

impl StatusWords {
    /// The name of a status in a language.
    pub(crate) const fn name(language: Language, status: SessionStatus) -> &'static str {
        let words = Self::of(language);
        match status {
            SessionStatus::Active => words.active,
            SessionStatus::Paused => words.paused,
            SessionStatus::Closed => words.closed,
        }
    }
}
