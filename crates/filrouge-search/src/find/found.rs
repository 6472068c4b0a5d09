//! What was found, and what is said beside it.

use std::borrow::Cow;

use filrouge_sources::library::Entry;
use filrouge_types::Failure;

use super::asked::Asked;
use super::inside::InSession;
use crate::ask::Order;
use crate::rank::Evidence;

/// A session in which something was found.
pub(super) struct Found<'c> {
    pub(super) id: Cow<'c, str>,
    pub(super) updated: i64,
    /// Its entry in the catalog; `None` for one of the ledger.
    pub(super) entry: Option<&'c Entry>,
    pub(super) evidence: Evidence,
    pub(super) score: i64,
    pub(super) at: At,
}

/// Where it was found.
pub(super) enum At {
    /// In its source, where it was read whole.
    Source,
    /// In the index of a place.
    Index(usize, InSession),
}

impl<'c> Found<'c> {
    /// One that was read whole.
    pub(super) fn read(entry: &'c Entry, evidence: Evidence) -> Self {
        Self {
            id: Cow::Borrowed(&entry.header.id),
            updated: entry.header.updated,
            entry: Some(entry),
            evidence,
            score: 0,
            at: At::Source,
        }
    }

    /// What was found in it by an index.
    pub(super) const fn inside(&self) -> Option<&InSession> {
        match &self.at {
            At::Source => None,
            At::Index(_, inside) => Some(inside),
        }
    }

    /// How likely it holds what is looked for, and in how many messages about.
    pub(super) fn estimated(&self) -> (f64, f64) {
        match self.inside() {
            #[allow(clippy::cast_precision_loss)]
            None => (1.0, self.evidence.matches as f64),
            Some(inside) => (inside.likely, inside.about),
        }
    }

    /// Whether it is shown without another look.
    pub(super) fn is_sure(&self) -> bool {
        self.inside()
            .is_none_or(|inside| inside.holds() || !inside.near.is_empty())
    }
}

/// All that was found.
#[derive(Default)]
pub(super) struct Everything<'c> {
    pub(super) sessions: Vec<Found<'c>>,
    pub(super) told: Told,
}

impl Everything<'_> {
    /// The best first.
    pub(super) fn order(&mut self, asked: &Asked<'_>) {
        if asked.ask.order == Order::Newest {
            self.sessions
                .iter_mut()
                .for_each(|one| one.score = one.updated);
        }
        let place = |one: &Found<'_>| (one.score, one.updated);
        self.sessions
            .sort_unstable_by(|a, b| place(b).cmp(&place(a)).then_with(|| a.id.cmp(&b.id)));
    }
}

/// What is said beside what was found.
#[derive(Clone, Default)]
pub(super) struct Told {
    pub(super) notices: Vec<String>,
    /// Of when the answers of the indexes are, the oldest; milliseconds since 1970.
    pub(super) as_of: Option<i64>,
}

impl Told {
    pub(super) fn known_at(&mut self, at: i64) {
        self.as_of = Some(self.as_of.map_or(at, |other| other.min(at)));
    }

    /// Says it once.
    pub(super) fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.notices.push(text);
        }
    }

    /// Says that an index does not answer; why, is for the operator.
    pub(super) fn unanswered(&mut self, why: &Failure) {
        tracing::warn!(code = why.code.as_str(), detail = %why.detail, "a search index does not answer");
        let text = "a search index does not answer: its history was looked through";
        self.notice(text.to_owned());
    }
}
