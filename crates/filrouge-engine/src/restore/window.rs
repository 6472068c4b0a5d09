//! Selects the turns to restore, from the newest back, until a limit is reached. Older turns are not read (P8).

use std::collections::HashMap;

use filrouge_store::read::{VerifiedSession, VerifiedSnapshot};
use filrouge_store::rows::{TurnRow, View};
use filrouge_types::{Failure, Item, TurnId, TurnStatus};

use super::estimate;
use super::plan::{Block, Mark, Plan, PlanTurn, Say, Speaker};
use super::query::RestoreQuery;
use super::report::{Disposition, Dispositions, Window};
use super::shape::Shaped;
use super::summary::Summary;
use super::turns::{ShapedTurn, shape_turn};
use crate::conversation::CONTENTS_MAX;

/// The maximum number of turn rows read at once. The items of one page are freed before the next page is read, so that
/// their memory is reused.
const ALL_ROWS: usize = 256;
/// The size of the first page if tokens limit the window.
const FIRST_ROWS: usize = 16;

/// Reads and shapes the turns of a window, newest first.
pub(super) struct Reader<'a, 'v, V: ?Sized> {
    snapshot: &'a VerifiedSnapshot<'v, V>,
    session: &'a VerifiedSession,
    query: RestoreQuery,
    /// Items that were read before their turn.
    waiting: HashMap<TurnId, Vec<Item>>,
    /// Items without a turn.
    loose: Vec<u64>,
    /// Items of turns that did not fit in the window.
    outside: Vec<u64>,
    /// The lowest seq read so far.
    low: u64,
    /// Bytes of contents that may still be read.
    room: usize,
    /// The turns of the window, newest first. Turns without blocks are included, because their items are reported as
    /// well.
    picked: Vec<ShapedTurn>,
    /// Number of picked turns that count towards the query's `last_turns`.
    turns: usize,
    tokens: u64,
    /// Whether a picked turn has a block.
    has_blocks: bool,
    /// The newest summary of a picked turn.
    summary: Option<Summary>,
    /// Whether older turns are left out.
    cut: bool,
}

impl<'a, 'v, V: View + ?Sized> Reader<'a, 'v, V> {
    pub(super) fn new(
        snapshot: &'a VerifiedSnapshot<'v, V>,
        session: &'a VerifiedSession,
        query: RestoreQuery,
    ) -> Self {
        Self {
            snapshot,
            session,
            query,
            waiting: HashMap::new(),
            loose: Vec::new(),
            outside: Vec::new(),
            low: session.head.last_seq + 1,
            room: CONTENTS_MAX,
            picked: Vec::new(),
            turns: 0,
            tokens: 0,
            has_blocks: false,
            summary: None,
            cut: false,
        }
    }

    /// The plan of the window.
    pub(super) fn plan(mut self) -> Result<Plan, Failure> {
        let mut size = match (self.query.last_turns, self.query.max_tokens) {
            (Some(n), _) => n.saturating_add(1).min(ALL_ROWS),
            (None, Some(_)) => FIRST_ROWS,
            (None, None) => ALL_ROWS,
        };
        let mut before = None;
        loop {
            let rows = self.snapshot.turn_rows_back(self.session, before, size)?;
            let Some(oldest) = rows.last() else {
                break;
            };
            before = Some(oldest.place());
            self.read_items(&rows)?;
            if !self.pick_all(&rows) {
                self.cut = true;
                break;
            }
            size = (size * 2).min(ALL_ROWS);
        }
        if !self.cut {
            self.check_complete()?;
        }
        Ok(self.finish())
    }

    /// Reads the items from the beginning of the oldest of these turns up to the items already read.
    fn read_items(&mut self, rows: &[TurnRow]) -> Result<(), Failure> {
        let first = rows.iter().map(|r| r.first_seq).min().unwrap_or(self.low);
        if first >= self.low {
            return Ok(());
        }
        let items =
            self.snapshot
                .items_between(self.session, first, self.low - 1, &mut self.room)?;
        self.low = first;
        let mut older: HashMap<TurnId, Vec<Item>> = HashMap::new();
        for item in items {
            match item.turn_id {
                Some(turn) => older.entry(turn).or_default().push(item),
                None => self.loose.push(item.seq),
            }
        }
        for (turn, mut items) in older {
            let waiting = self.waiting.entry(turn).or_default();
            items.append(waiting);
            *waiting = items;
        }
        Ok(())
    }

    /// Picks turns until a limit is reached. Returns `false` if one was reached.
    fn pick_all(&mut self, rows: &[TurnRow]) -> bool {
        for row in rows {
            let newest = self.picked.last().is_none_or(|p| p.ordinal != row.ordinal);
            if newest && self.query.last_turns.is_some_and(|n| self.turns >= n) {
                return false;
            }
            let items = self.waiting.remove(&row.turn_id).unwrap_or_default();
            if !self.pick(shape_turn(row, items, newest, self.query)) {
                return false;
            }
        }
        true
    }

    /// Picks a turn if it fits in the limit of tokens; returns `false` if it does not.
    fn pick(&mut self, mut turn: ShapedTurn) -> bool {
        self.mark_unanswered(&mut turn.shaped.turn);
        turn.tokens = tokens(&turn.shaped);
        let max = self.query.max_tokens;
        if max.is_some_and(|max| self.tokens + turn.tokens > max) {
            let seqs = turn.shaped.dispositions.iter().map(|f| f.seq);
            self.outside.extend(seqs);
            return false;
        }
        self.summary = self.summary.take().or(turn.summary.take());
        self.tokens += turn.tokens;
        self.has_blocks |= !turn.shaped.turn.blocks.is_empty();
        self.turns += usize::from(turn.counts);
        self.picked.push(turn);
        true
    }

    /// Adds a mark to an open turn without an answer if later turns follow, so that speakers alternate.
    fn mark_unanswered(&self, turn: &mut PlanTurn) {
        let answered = matches!(turn.blocks.last(), Some(Block::Say(say)) if say.speaker == Speaker::Assistant);
        if turn.status == TurnStatus::Open
            && self.has_blocks
            && !answered
            && !turn.blocks.is_empty()
        {
            turn.blocks
                .push(Block::Say(Say::mark(Mark::Unanswered, None)));
        }
    }

    /// After all turns were read, checks that every item with a turn id belongs to one of them.
    fn check_complete(&mut self) -> Result<(), Failure> {
        if self.low > 1 {
            let all: Vec<Item> =
                self.snapshot
                    .items_between(self.session, 1, self.low - 1, &mut self.room)?;
            if let Some(stray) = all.iter().find(|i| i.turn_id.is_some()) {
                return Err(self.stray(stray.seq));
            }
            self.loose.extend(all.iter().map(|i| i.seq));
            self.low = 1;
        }
        let stray = self.waiting.values().flatten().map(|i| i.seq).min();
        match stray {
            // If the oldest turns were trimmed, their items may be stored between those of later turns.
            Some(seq) if self.snapshot.view.first_ordinal(self.session.pk)? == 1 => {
                Err(self.stray(seq))
            }
            _ => Ok(()),
        }
    }

    fn stray(&self, seq: u64) -> Failure {
        self.session
            .broken(Some(seq), "the item belongs to a turn that does not exist")
    }

    /// The summary that replaces the turns that are left out; `None` if there is none, or if it does not fit in the
    /// limit of tokens. To make it fit, drops the oldest picked turns that the summary covers.
    fn make_room(&mut self) -> Option<Say> {
        let oldest = self.picked.iter().map(|p| p.first_seq).min()?;
        let summary = self
            .summary
            .take()
            .filter(|s| self.cut && s.from < oldest)?;
        let cost = estimate::say(&summary.say);
        if let Some(max) = self.query.max_tokens {
            let summary_at = self
                .picked
                .iter()
                .position(|p| p.shaped.dispositions.iter().any(|f| f.seq == summary.seq))?;
            let (mut keep, mut tokens) = (self.picked.len(), self.tokens);
            while tokens + cost > max && keep > summary_at + 1 && self.covers(&summary, keep - 1) {
                keep -= 1;
                tokens -= self.picked[keep].tokens;
            }
            if tokens + cost > max {
                return None;
            }
            self.tokens = tokens;
            self.drop_older(keep);
        }
        self.tokens += cost;
        let own = self
            .picked
            .iter_mut()
            .flat_map(|p| &mut p.shaped.dispositions);
        for disposition in own.filter(|f| f.seq == summary.seq) {
            (disposition.pieces, disposition.reason) = (1, summary.rest);
        }
        Some(summary.say)
    }

    /// Whether the summary covers a picked turn completely.
    fn covers(&self, summary: &Summary, at: usize) -> bool {
        let dispositions = self.picked.get(at).map(|p| &p.shaped.dispositions);
        let covered = |seq: u64| (summary.from..=summary.to).contains(&seq);
        dispositions.is_some_and(|dispositions| dispositions.iter().all(|f| covered(f.seq)))
    }

    /// Keeps the first `keep` picked turns, which are the newest ones, and all versions of the last of these.
    fn drop_older(&mut self, mut keep: usize) {
        let ordinal = |at: usize| self.picked.get(at).map(|p| p.ordinal);
        while keep > 0 && ordinal(keep).is_some_and(|o| ordinal(keep - 1) == Some(o)) {
            keep += 1;
        }
        for gone in self.picked.drain(keep..) {
            self.outside
                .extend(gone.shaped.dispositions.iter().map(|f| f.seq));
        }
    }

    fn finish(mut self) -> Plan {
        let summary = self.make_room();
        let last_seq = self.session.head.last_seq;
        let first_seq = if self.cut {
            self.picked.iter().map(|p| p.first_seq).min()
        } else {
            (last_seq > 0).then_some(1)
        };
        let (mut dispositions, mut turns) = (Vec::new(), Vec::with_capacity(self.picked.len()));
        for picked in self.picked.into_iter().rev() {
            dispositions.extend(picked.shaped.dispositions);
            if !picked.shaped.turn.blocks.is_empty() || picked.shaped.turn.pair.is_some() {
                turns.push(picked.shaped.turn);
            }
        }
        if let Some(first) = first_seq {
            let waiting = self.waiting.into_values().flatten().map(|i| i.seq);
            let outside = waiting
                .chain(self.outside)
                .map(|seq| Disposition::new(seq, 0, Some("outside_window")));
            let loose = self.loose.into_iter();
            let loose = loose.map(|seq| Disposition::new(seq, 0, Some("bookkeeping")));
            dispositions.extend(
                outside
                    .chain(loose)
                    .filter(|disposition| disposition.seq >= first),
            );
        }
        let window = Window {
            last_turns: self.query.last_turns,
            max_tokens: self.query.max_tokens,
            estimate: estimate::ESTIMATE,
            tokens: self.tokens,
            turns: turns.len(),
            first_seq,
            last_seq: first_seq.map(|_| last_seq),
            cut: self.cut,
            summary_seq: summary.as_ref().and_then(|s| s.seq),
        };
        Plan {
            summary,
            turns,
            dispositions: Dispositions::new(dispositions, window),
        }
    }
}

fn tokens(shaped: &Shaped) -> u64 {
    let pair = shaped.turn.pair.as_ref().map_or(0, estimate::pair);
    pair + estimate::blocks(&shaped.turn.blocks)
}
