//! Rebuilds a session from its items alone.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Channel, Failure, TurnId, TurnStatus};

use crate::read::{VerifiedSession, all_redacted_seqs, redacted_seqs};
use crate::record::{Event, RecordFaultKind, Seqs};
use crate::rows::{HeadRow, TurnRow};
use crate::rules::final_slot;

/// The turns and redactions that a session's items describe.
#[derive(Default)]
pub(crate) struct RebuiltSession {
    pub(crate) turns: BTreeMap<TurnId, RebuiltTurn>,
    /// The number of turns, without replacements.
    pub(crate) turn_count: u64,
    /// The number of item keys and request keys that the items require.
    pub(crate) keys: u64,
    /// The agents that the items name.
    pub(crate) agents: BTreeSet<Box<str>>,
    /// The seqs of the summaries, ascending.
    pub(crate) summaries: Vec<u64>,
    /// The seqs of items without content, each with the seq of the redaction that it points to.
    pub(crate) contentless: BTreeMap<u64, u64>,
    /// The seqs that redactions name, each with the seq of the first redaction that names it.
    named: BTreeMap<u64, u64>,
    /// The seqs of `named` as ranges: the last seq of each range by its first.
    covered: BTreeMap<u64, u64>,
    /// The seqs of redactions.
    redactions: BTreeSet<u64>,
    /// The seq of the newest redaction, also of one that names no items; 0 if there is none.
    pub(crate) newest_redaction: u64,
    /// The turns by the seq of their first item.
    starts: BTreeMap<u64, TurnId>,
}

/// Whether an item records a redaction. If no item that it names was kept, it has no event.
fn is_redaction(item: &filrouge_types::Item, events: &[Event]) -> bool {
    let redacts = |event: &Event| matches!(event, Event::Redact(_) | Event::Redacted(_));
    item.turn_id.is_none()
        && (item.body.channel == Channel::Redaction || events.iter().any(redacts))
}

/// A turn rebuilt from its items.
pub(crate) struct RebuiltTurn {
    pub(crate) row: TurnRow,
    /// The turn's items, as runs of seqs: the first and last seq of each.
    runs: Vec<(u64, u64)>,
}

impl RebuiltSession {
    /// Adds the session's next item, with its events. Fails if they contradict the earlier items.
    pub(crate) fn add_item(
        &mut self,
        session: &VerifiedSession,
        item: &filrouge_types::Item,
        events: &[Event],
    ) -> Result<(), Failure> {
        self.agents.extend(item.body.agent.clone());
        if item.body.channel == Channel::Summary {
            self.summaries.push(item.seq);
        }
        if let Some(seqs) = redacted_seqs(events) {
            self.apply_redaction(session, item, seqs)?;
        }
        self.check_all_redacted(session, item, events)?;
        let Some(turn_id) = item.turn_id else {
            return Ok(());
        };
        for event in events {
            if let Event::Start(start) = event {
                let (ordinal, record_version) =
                    match start.replaces.and_then(|id| self.turns.get(&id)) {
                        Some(replaced) => (replaced.row.ordinal, replaced.row.record_version + 1),
                        None => {
                            self.turn_count += 1;
                            (self.turn_count, 1)
                        }
                    };
                self.starts.insert(item.seq, turn_id);
                let (first, at) = (item.seq, item.created_at);
                let row = TurnRow::new(turn_id, ordinal, record_version, first, at);
                let runs = Vec::new();
                self.turns.insert(turn_id, RebuiltTurn { row, runs });
            }
        }
        let Some(turn) = self.turns.get_mut(&turn_id) else {
            return Err(session.integrity_failure(
                Some(item.seq),
                "the item belongs to a turn that never began",
            ));
        };
        if turn.row.status.is_closed() {
            if !events.is_empty() || !item.body.channel.may_be_late() {
                let detail = "the item was added to a turn that had ended";
                return Err(session.integrity_failure(Some(item.seq), detail));
            }
            turn.row.late_seq = item.seq;
        } else {
            turn.row.last_seq = item.seq;
        }
        turn.row.last_write_at = item.created_at;
        turn.row.items += 1;
        match turn.runs.last_mut() {
            Some((_, last)) if *last + 1 == item.seq => *last = item.seq,
            _ => turn.runs.push((item.seq, item.seq)),
        }
        if let Some(slot) = final_slot(item.body.role, &item.body.channel, item.body.variant) {
            turn.row.finals[slot] = item.seq;
        }
        for event in events {
            match event {
                Event::Start(_) => {}
                Event::Close(close) => turn.row.status = close.status,
                Event::Interrupt {} => turn.row.status = TurnStatus::Interrupted,
                Event::Reopen {} => turn.row.status = TurnStatus::Open,
                Event::Redact(_) | Event::Redacted(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that a redaction knows what all redactions so far have erased.
    fn check_all_redacted(
        &mut self,
        session: &VerifiedSession,
        item: &filrouge_types::Item,
        events: &[Event],
    ) -> Result<(), Failure> {
        if !is_redaction(item, events) {
            return Ok(());
        }
        self.newest_redaction = item.seq;
        let covered = self.covered.iter().map(|(first, last)| (*first, *last));
        if Seqs::from_ranges(covered).unwrap_or_default() != all_redacted_seqs(events) {
            let detail = "a redaction does not name what earlier ones have erased";
            return Err(session.integrity_failure(Some(item.seq), detail));
        }
        Ok(())
    }

    /// Applies a redaction: a turn counts as redacted when it has ended and one redaction names all its items.
    fn apply_redaction(
        &mut self,
        session: &VerifiedSession,
        item: &filrouge_types::Item,
        seqs: &Seqs,
    ) -> Result<(), Failure> {
        if item.turn_id.is_some() {
            let detail = "a redaction belongs to a turn";
            return Err(session.integrity_failure(Some(item.seq), detail));
        }
        for (first, last) in seqs.ranges() {
            if self.redactions.range(first..=last).next().is_some() {
                let detail = "a redaction names a redaction";
                return Err(session.integrity_failure(Some(item.seq), detail));
            }
            for id in self.starts.range(first..=last).map(|(_, id)| id) {
                if let Some(turn) = self.turns.get_mut(id)
                    && turn.row.status != TurnStatus::Open
                    && turn.row.redacted_by == 0
                    && turn
                        .runs
                        .iter()
                        .all(|(first, last)| seqs.covers(*first, *last))
                {
                    turn.row.redacted_by = item.seq;
                }
            }
        }
        self.redactions.insert(item.seq);
        for (first, last) in seqs.ranges() {
            self.add_named_range(first, last, item.seq);
        }
        Ok(())
    }

    /// Records a range that a redaction names. Skips the parts of it that an earlier redaction has named, so that
    /// repeated redactions of the same items cost no more than one.
    fn add_named_range(&mut self, first: u64, last: u64, redaction_seq: u64) {
        let mut seq = first;
        while seq <= last {
            let previous = self.covered.range(..=seq).next_back();
            if let Some((_, end)) = previous.filter(|(_, end)| **end >= seq) {
                seq = end + 1;
                continue;
            }
            let next = self.covered.range(seq..=last).next();
            let end = next.map_or(last, |(start, _)| start - 1);
            self.named
                .extend((seq..=end).map(|seq| (seq, redaction_seq)));
            self.covered.insert(seq, end);
            seq = end + 1;
        }
    }

    /// What is wrong if the agents by which lists find the session, or the summaries that its head names, are not those
    /// of the items.
    pub(crate) fn derived_error(
        &self,
        agents: &BTreeSet<Box<str>>,
        head: &HeadRow,
    ) -> Option<&'static str> {
        if *agents != self.agents {
            return Some("the agents by which lists find the session are not those of its items");
        }
        let differs = !head.names_newest_of(&self.summaries);
        differs.then_some("the summaries that the head names are not the newest of its items")
    }

    /// The rows of all turns, without MACs.
    pub(crate) fn rows(&self) -> impl Iterator<Item = TurnRow> {
        self.turns.values().map(|turn| turn.row.clone())
    }

    /// The first item whose content is missing without a redaction or present despite a redaction, with a description.
    pub(crate) fn first_redaction_error(&self) -> Option<(u64, String)> {
        let unnamed = self
            .contentless
            .iter()
            .filter(|(seq, redaction_seq)| self.named.get(*seq) != Some(*redaction_seq))
            .map(|(seq, _)| (*seq, RecordFaultKind::Contentless.to_string()));
        let with_content = self
            .named
            .keys()
            .filter(|seq| !self.contentless.contains_key(*seq))
            .map(|seq| (*seq, "the item was redacted and has a content".to_owned()));
        unnamed.chain(with_content).min()
    }
}
