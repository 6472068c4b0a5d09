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
    pub(super) all: SumsAndSpans,
    /// The sums without copied messages.
    pub(super) originals: SumsAndSpans,
}

/// Sums over several sessions, with the time spans in which agents worked.
#[derive(Default)]
pub(super) struct SumsAndSpans {
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
            sums.add(&facts.certain_originals);
        }
        self.all.add(&facts.maybe_copied);
        if let Some(tally) = session.originals() {
            self.originals.add(tally);
        }
        let changes = changes(&session.session.entry.header, facts).0;
        self.all.add_session(&changes);
        self.originals
            .add_session(&session.changes_without_copied());
    }
}

impl SumsAndSpans {
    fn add(&mut self, tally: &Tally) {
        self.sums.add_messages(&tally.sums);
        self.spans.extend(&tally.spans);
    }

    fn add_session(&mut self, changes: &Changes) {
        self.sums.sessions += 1;
        add_changes(&mut self.sums.changes, changes);
    }

    pub(super) fn sums(&self) -> Sums {
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
            clean::mask_keys(&mut self.models, ModelUse::add);
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
        let add_count = |sum: &mut u64, more: &u64| *sum += more;
        add_entries(&mut self.parts_by_type, &more.parts_by_type, add_count);
        add_entries(&mut self.agents, &more.agents, add_count);
        add_entries(&mut self.models, &more.models, ModelUse::add);
        add_entries(&mut self.tools, &more.tools, add_tool);
    }
}

fn add_tool(sum: &mut ToolUse, more: &ToolUse) {
    sum.calls += more.calls;
    sum.errors += more.errors;
}

fn add_entries<V: Default>(
    sums: &mut BTreeMap<String, V>,
    more: &BTreeMap<String, V>,
    add: fn(&mut V, &V),
) {
    for (name, value) in more {
        update_entry(sums, name, |sum| add(sum, value));
    }
}
