//! Adding up sessions, with and without copies.

use std::collections::BTreeMap;

use super::ChangesFrom;
use crate::library::facts::{DayShare, Facts, Spans, Tally, add_changes, change};
use crate::library::forks::{Copies, Seen};
use crate::library::sums::{ModelUse, Sums, ToolUse};
use crate::library::{Library, clean};
use crate::{Changes, Header};

/// A session as it is counted.
pub(super) struct Counted<'a> {
    pub(super) seen: Seen<'a>,
    copies: Copies,
    /// Of the messages that may be copies, those that are none, where that is some of them.
    originals: Option<Tally>,
}

/// What some sessions amount to.
#[derive(Default)]
pub(super) struct Count {
    all: Part,
    /// Without messages that are copies.
    originals: Part,
}

#[derive(Default)]
struct Part {
    /// `active` stays 0.
    sums: Sums,
    spans: Spans,
}

impl<'a> Counted<'a> {
    /// Reads the session again when only some of its old messages are copies: its origin has changed since then. Should it not be readable any more, all of them count as copies.
    pub(super) fn of(library: &Library, seen: Seen<'a>, copies: Copies) -> Self {
        let originals = match &copies {
            Copies::AllBut(places) => {
                let read = library.conversation(seen.entry).ok();
                read.map(|read| Tally::of(places.iter().filter_map(|at| read.messages.get(*at))))
            }
            _ => None,
        };
        Self {
            seen,
            copies,
            originals,
        }
    }

    /// Of the messages that may be copies, those that are none.
    fn originals(&self) -> Option<&Tally> {
        match self.copies {
            Copies::None => Some(&self.seen.facts.old),
            Copies::All => None,
            Copies::AllBut(_) => self.originals.as_ref(),
        }
    }

    /// Its days, without copies.
    pub(super) fn days(&self) -> impl Iterator<Item = &(i64, DayShare)> {
        let originals = self.originals().into_iter();
        let originals = originals.flat_map(|tally| &tally.days);
        self.seen.facts.fresh.days.iter().chain(originals)
    }

    /// What it has changed, without copies.
    fn changes_without_copied(&self) -> Changes {
        let facts = &self.seen.facts;
        if self.copies == Copies::None {
            return changes(&self.seen.entry.header, facts).0;
        }
        let mut left = facts.fresh.sums.changes;
        if let Some(originals) = self.originals() {
            add_changes(&mut left, &originals.sums.changes);
        }
        left
    }
}

/// What a session has changed, copies and all, and where that is known from.
pub(super) fn changes(header: &Header, facts: &Facts) -> (Changes, ChangesFrom) {
    let summary = header.changes.filter(|c| *c != Changes::default());
    match summary {
        Some(summary) => (summary, ChangesFrom::Summary),
        None => (facts.changes, ChangesFrom::ToolCalls),
    }
}

impl Count {
    pub(super) fn add(&mut self, one: &Counted<'_>) {
        let facts = &one.seen.facts;
        for part in [&mut self.all, &mut self.originals] {
            part.add(&facts.fresh.sums, &facts.fresh.spans);
        }
        self.all.add(&facts.old.sums, &facts.old.spans);
        if let Some(tally) = one.originals() {
            self.originals.add(&tally.sums, &tally.spans);
        }
        self.all
            .add_session(&changes(&one.seen.entry.header, facts).0);
        self.originals.add_session(&one.changes_without_copied());
    }

    /// Everything.
    pub(super) fn all(&self) -> Sums {
        self.all.sums()
    }

    /// Everything but copies.
    pub(super) fn without_copied(&self) -> Sums {
        self.originals.sums()
    }
}

impl Part {
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
    /// These sums, without what has the form of a credential in names if `mask` says so.
    pub(super) fn masked(mut self, mask: bool) -> Self {
        if mask {
            clean::keys(&mut self.parts_by_type, |sum, more| *sum += more);
            clean::keys(&mut self.agents, |sum, more| *sum += more);
            clean::keys(&mut self.models, add_model);
            clean::keys(&mut self.tools, add_tool);
        }
        self
    }

    /// Adds what `more` tells of messages and parts; not its sessions, its changes and its times.
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
            change(&mut self.models, name, |sum| add_model(sum, used));
        }
        for (name, used) in &more.tools {
            change(&mut self.tools, name, |sum| add_tool(sum, used));
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
        change(sums, name, |sum| *sum += count);
    }
}
