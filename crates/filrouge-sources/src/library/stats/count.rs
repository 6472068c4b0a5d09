//! Sums over sessions, with and without copies.

use std::collections::BTreeMap;

use super::ChangesFrom;
use crate::library::facts::{DaySums, Facts, Spans, Tally, add_changes, update_entry};
use crate::library::forks::{ForkCopies, SessionFacts};
use crate::library::sums::{ModelUse, Sums, ToolUse};
use crate::library::{Library, clean};
use crate::{Changes, Header};

/// A session with the data for counting it with and without copies.
pub(super) struct Counted<'a> {
    pub(super) session: SessionFacts<'a>,
    copies: ForkCopies,
    /// Sums over the originals among the messages that may be copies; only set if some of them are copies and others
    /// are not.
    originals: Option<Tally>,
}

/// Sums over several sessions.
#[derive(Default)]
pub(super) struct Count {
    /// The sums over all messages, including copied ones.
    all: SumsAndSpans,
    /// The sums without copied messages.
    originals: SumsAndSpans,
}

/// Sums over several sessions, with the time spans in which agents worked.
#[derive(Default)]
struct SumsAndSpans {
    /// The sums; `active` stays 0, because [`SumsAndSpans::sums`] computes it from the spans.
    sums: Sums,
    spans: Spans,
}

impl<'a> Counted<'a> {
    /// Prepares a session for counting. If only some of its possible copies are copies, because its origin has changed
    /// since the fork, this reads the session again to sum up the others. If the session can no longer be read, all
    /// possible copies count as copies.
    pub(super) fn new(library: &Library, session: SessionFacts<'a>, copies: ForkCopies) -> Self {
        let originals = match &copies {
            ForkCopies::AllBut(indexes) => {
                let conversation = library.conversation(session.entry).ok();
                conversation
                    .map(|c| Tally::new(indexes.iter().filter_map(|at| c.messages.get(*at))))
            }
            _ => None,
        };
        Self {
            session,
            copies,
            originals,
        }
    }

    /// Sums over the originals among the messages that may be copies.
    fn originals(&self) -> Option<&Tally> {
        match self.copies {
            ForkCopies::None => Some(&self.session.facts.maybe_copied),
            ForkCopies::All => None,
            ForkCopies::AllBut(_) => self.originals.as_ref(),
        }
    }

    /// The sums of each day of the session, without copies. A day can occur twice.
    pub(super) fn days(&self) -> impl Iterator<Item = &(i64, DaySums)> {
        let originals = self.originals().into_iter();
        let originals = originals.flat_map(|tally| &tally.days);
        self.session
            .facts
            .certain_originals
            .days
            .iter()
            .chain(originals)
    }

    /// The session's changes without those of copied messages.
    fn changes_without_copied(&self) -> Changes {
        let facts = &self.session.facts;
        if self.copies == ForkCopies::None {
            return changes(&self.session.entry.header, facts).0;
        }
        let mut changes = facts.certain_originals.sums.changes;
        if let Some(originals) = self.originals() {
            add_changes(&mut changes, &originals.sums.changes);
        }
        changes
    }
}

/// A session's changes, including those of copied messages, and the origin of the numbers.
pub(super) fn changes(header: &Header, facts: &Facts) -> (Changes, ChangesFrom) {
    let summary = header.changes.filter(|c| *c != Changes::default());
    match summary {
        Some(summary) => (summary, ChangesFrom::Summary),
        None => (facts.changes, ChangesFrom::ToolCalls),
    }
}

impl Count {
    pub(super) fn add(&mut self, session: &Counted<'_>) {
        let facts = &session.session.facts;
        for sums in [&mut self.all, &mut self.originals] {
            sums.add(
                &facts.certain_originals.sums,
                &facts.certain_originals.spans,
            );
        }
        self.all
            .add(&facts.maybe_copied.sums, &facts.maybe_copied.spans);
        if let Some(tally) = session.originals() {
            self.originals.add(&tally.sums, &tally.spans);
        }
        self.all
            .add_session(&changes(&session.session.entry.header, facts).0);
        self.originals
            .add_session(&session.changes_without_copied());
    }

    /// The sums with copies.
    pub(super) fn all(&self) -> Sums {
        self.all.sums()
    }

    /// The sums without copies.
    pub(super) fn without_copied(&self) -> Sums {
        self.originals.sums()
    }
}

impl SumsAndSpans {
    fn add(&mut self, sums: &Sums, spans: &Spans) {
        self.sums.add_messages(sums);
        self.spans.extend(spans);
    }

    fn add_session(&mut self, changes: &Changes) {
        self.sums.sessions += 1;
        add_changes(&mut self.sums.changes, changes);
    }

    fn sums(&self) -> Sums {
        Sums {
            active: self.spans.clone().length(),
            ..self.sums.clone()
        }
    }
}

impl Sums {
    /// Returns the sums; if `mask` is true, anything with the form of a credential is masked in names.
    pub(super) fn masked(mut self, mask: bool) -> Self {
        if mask {
            clean::mask_keys(&mut self.parts_by_type, |sum, more| *sum += more);
            clean::mask_keys(&mut self.agents, |sum, more| *sum += more);
            clean::mask_keys(&mut self.models, add_model);
            clean::mask_keys(&mut self.tools, add_tool);
        }
        self
    }

    /// Adds the counts of messages and parts, but not those of sessions, changes and times.
    fn add_messages(&mut self, more: &Self) {
        self.message_count += more.message_count;
        self.user_messages += more.user_messages;
        self.part_count += more.part_count;
        self.tokens.add(&more.tokens);
        self.cost += more.cost;
        self.errors += more.errors;
        add_counts(&mut self.parts_by_type, &more.parts_by_type);
        add_counts(&mut self.agents, &more.agents);
        for (name, used) in &more.models {
            update_entry(&mut self.models, name, |sum| add_model(sum, used));
        }
        for (name, used) in &more.tools {
            update_entry(&mut self.tools, name, |sum| add_tool(sum, used));
        }
    }
}

fn add_model(sum: &mut ModelUse, more: &ModelUse) {
    sum.messages += more.messages;
    sum.tokens.add(&more.tokens);
    sum.cost += more.cost;
}

fn add_tool(sum: &mut ToolUse, more: &ToolUse) {
    sum.calls += more.calls;
    sum.errors += more.errors;
}

fn add_counts(sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        update_entry(sums, name, |sum| *sum += count);
    }
}
