//! Selects the turns to restore, from the newest back, until a limit is reached. Older turns are not read (P8).

use std::collections::HashMap;

use filrouge_store::read::{LedgerSnapshot, VerifiedSession};
use filrouge_store::rows::TurnRow;
use filrouge_types::{Failure, Item, TurnId, TurnStatus};

use super::estimate;
use super::plan::{Block, Mark, Message, Plan, PlanTurn, Speaker};
use super::query::RestoreQuery;
use super::report::{Disposition, Dispositions, Window};
use super::summary::{self, Summary};
use super::turns::{WindowTurn, window_turn};
use crate::conversation::CONTENTS_MAX;

/// The maximum number of turn rows read at once. The items of one page are freed before the next page is read, so that
/// their memory is reused.
const PAGE_ROWS_MAX: usize = 256;
/// The size of the first page if tokens limit the window.
const FIRST_PAGE_ROWS: usize = 16;

/// Reads and shapes the turns of a window, newest first.
pub(super) struct WindowReader<'a, 'v> {
    snapshot: &'a LedgerSnapshot<'v>,
    session: &'a VerifiedSession,
    query: RestoreQuery,
    /// Items that were read, of turns whose rows were not read yet.
    items_by_turn: HashMap<TurnId, Vec<Item>>,
    /// The seqs of items without a turn.
    without_turn: Vec<u64>,
    /// The seqs of items of turns that did not fit in the window.
    outside: Vec<u64>,
    /// The lowest seq read so far.
    lowest_seq: u64,
    /// The number of bytes of contents that may still be read.
    bytes_left: usize,
    /// The turns of the window, newest first. Turns without blocks are included, because their items are reported as
    /// well.
    selected: Vec<WindowTurn>,
    /// Number of selected turns that count towards the query's `last_turns`.
    counted_turns: usize,
    tokens: u64,
    /// Whether a selected turn has a block.
    has_blocks: bool,
    /// Whether older turns are left out.
    older_omitted: bool,
}

impl<'a, 'v> WindowReader<'a, 'v> {
    pub(super) fn new(
        snapshot: &'a LedgerSnapshot<'v>,
        session: &'a VerifiedSession,
        query: RestoreQuery,
    ) -> Self {
        Self {
            snapshot,
            session,
            query,
            items_by_turn: HashMap::new(),
            without_turn: Vec::new(),
            outside: Vec::new(),
            lowest_seq: session.head.last_seq + 1,
            bytes_left: CONTENTS_MAX,
            selected: Vec::new(),
            counted_turns: 0,
            tokens: 0,
            has_blocks: false,
            older_omitted: false,
        }
    }

    /// The plan of the window.
    pub(super) fn plan(mut self) -> Result<Plan, Failure> {
        let mut size = match (self.query.last_turns, self.query.max_tokens) {
            (Some(n), _) => n.saturating_add(1).min(PAGE_ROWS_MAX),
            (None, Some(_)) => FIRST_PAGE_ROWS,
            (None, None) => PAGE_ROWS_MAX,
        };
        let mut before = None;
        loop {
            let rows = self
                .snapshot
                .turn_rows_descending(self.session, before, size)?;
            let Some(oldest) = rows.last() else {
                break;
            };
            before = Some(oldest.place());
            self.read_items(&rows)?;
            if !self.select_all(&rows) {
                self.older_omitted = true;
                break;
            }
            size = (size * 2).min(PAGE_ROWS_MAX);
        }
        if !self.older_omitted {
            self.check_complete()?;
        }
        self.into_plan()
    }

    /// Reads the items from the beginning of the oldest of these turns up to the items already read.
    fn read_items(&mut self, rows: &[TurnRow]) -> Result<(), Failure> {
        let first = rows
            .iter()
            .map(|r| r.first_seq)
            .min()
            .unwrap_or(self.lowest_seq);
        if first >= self.lowest_seq {
            return Ok(());
        }
        let items = self.items_from(first)?;
        let mut older: HashMap<TurnId, Vec<Item>> = HashMap::new();
        for item in items {
            match item.turn_id {
                Some(turn) => older.entry(turn).or_default().push(item),
                None => self.without_turn.push(item.seq),
            }
        }
        for (turn, mut items) in older {
            let newer = self.items_by_turn.entry(turn).or_default();
            items.append(newer);
            *newer = items;
        }
        Ok(())
    }

    /// Reads the items from `first` on that were not read before.
    fn items_from(&mut self, first: u64) -> Result<Vec<Item>, Failure> {
        let last = self.lowest_seq - 1;
        self.lowest_seq = first;
        self.snapshot
            .items_between(self.session, first, last, &mut self.bytes_left)
    }

    /// Selects turns until a limit is reached. Returns `false` if one was reached.
    fn select_all(&mut self, rows: &[TurnRow]) -> bool {
        for row in rows {
            let is_newest = self
                .selected
                .last()
                .is_none_or(|p| p.ordinal != row.ordinal);
            if is_newest
                && self
                    .query
                    .last_turns
                    .is_some_and(|n| self.counted_turns >= n)
            {
                return false;
            }
            let items = self.items_by_turn.remove(&row.turn_id).unwrap_or_default();
            if !self.select(window_turn(row, items, is_newest, self.query)) {
                return false;
            }
        }
        true
    }

    /// Selects a turn if it fits in the limit of tokens; returns `false` if it does not.
    fn select(&mut self, mut turn: WindowTurn) -> bool {
        self.mark_unanswered(&mut turn.shaped.turn);
        let pair = turn.shaped.turn.pair.as_ref().map_or(0, estimate::pair);
        turn.tokens = pair + estimate::blocks(&turn.shaped.turn.blocks);
        let max = self.query.max_tokens;
        if max.is_some_and(|max| self.tokens + turn.tokens > max) {
            let seqs = turn.shaped.dispositions.iter().map(|f| f.seq);
            self.outside.extend(seqs);
            return false;
        }
        self.tokens += turn.tokens;
        self.has_blocks |= !turn.shaped.turn.blocks.is_empty();
        self.counted_turns += usize::from(turn.is_counted);
        self.selected.push(turn);
        true
    }

    /// Adds a mark to an open turn without an answer if later turns follow, so that user and assistant alternate.
    fn mark_unanswered(&self, turn: &mut PlanTurn) {
        let has_answer = matches!(
            turn.blocks.last(),
            Some(Block::Message(message)) if message.speaker == Speaker::Assistant
        );
        if turn.status == TurnStatus::Open
            && self.has_blocks
            && !has_answer
            && !turn.blocks.is_empty()
        {
            turn.blocks
                .push(Block::Message(Message::mark(Mark::Unanswered, None)));
        }
    }

    /// After all turns were read, checks that every item with a turn id belongs to one of them.
    fn check_complete(&mut self) -> Result<(), Failure> {
        if self.lowest_seq > 1 {
            let all = self.items_from(1)?;
            if let Some(orphan) = all.iter().find(|i| i.turn_id.is_some()) {
                return Err(self.orphaned_item(orphan.seq));
            }
            self.without_turn.extend(all.iter().map(|i| i.seq));
        }
        let orphan = self.items_by_turn.values().flatten().map(|i| i.seq).min();
        match orphan {
            // If the oldest turns were trimmed, their items may be stored between those of later turns.
            Some(seq) if self.snapshot.view.first_ordinal(self.session.pk)? == 1 => {
                Err(self.orphaned_item(seq))
            }
            _ => Ok(()),
        }
    }

    fn orphaned_item(&self, seq: u64) -> Failure {
        self.session
            .integrity_failure(Some(seq), "the item belongs to a turn that does not exist")
    }

    /// The summary that replaces the turns before the window; `None` without a summary, or if it does not fit in the
    /// limit of tokens. To make it fit, drops the oldest selected turns that the summary covers.
    fn fit_summary(&mut self) -> Result<Option<Summary>, Failure> {
        let oldest = self.selected.iter().map(|p| p.first_seq).min();
        let Some(oldest) = oldest.filter(|_| self.older_omitted) else {
            return Ok(None);
        };
        let summaries = self.snapshot.newest_summaries(self.session)?;
        let summary = summary::first_before(&summaries, self.query.variant, oldest);
        Ok(summary.filter(|summary| self.make_room(summary)))
    }

    /// Drops the oldest selected turns that the summary covers until it fits in the limit of tokens, and counts its
    /// tokens; `false`, without a change, if it does not fit. The newest turn stays, and the turn of the summary.
    fn make_room(&mut self, summary: &Summary) -> bool {
        let summary_tokens = estimate::message(&summary.message);
        if let Some(max) = self.query.max_tokens {
            let summary_at = self
                .selected
                .iter()
                .position(|p| p.shaped.dispositions.iter().any(|f| f.seq == summary.seq));
            let (mut kept_count, mut tokens) = (self.selected.len(), self.tokens);
            while tokens + summary_tokens > max
                && kept_count > summary_at.unwrap_or(0) + 1
                && self.covers(summary, kept_count - 1)
            {
                kept_count -= 1;
                tokens -= self.selected[kept_count].tokens;
            }
            if tokens + summary_tokens > max {
                return false;
            }
            self.tokens = tokens;
            self.drop_older(kept_count);
        }
        self.tokens += summary_tokens;
        true
    }

    /// Whether the summary covers a selected turn completely.
    fn covers(&self, summary: &Summary, at: usize) -> bool {
        let dispositions = self.selected.get(at).map(|p| &p.shaped.dispositions);
        let covered = |seq: u64| (summary.from..=summary.to).contains(&seq);
        dispositions.is_some_and(|dispositions| dispositions.iter().all(|f| covered(f.seq)))
    }

    /// Keeps the first `kept_count` selected turns, which are the newest, and all versions of the last of these.
    fn drop_older(&mut self, mut kept_count: usize) {
        let ordinal = |at: usize| self.selected.get(at).map(|p| p.ordinal);
        while kept_count > 0
            && ordinal(kept_count).is_some_and(|o| ordinal(kept_count - 1) == Some(o))
        {
            kept_count += 1;
        }
        for dropped in self.selected.drain(kept_count..) {
            self.outside
                .extend(dropped.shaped.dispositions.iter().map(|f| f.seq));
        }
    }

    fn into_plan(mut self) -> Result<Plan, Failure> {
        let summary = self.fit_summary()?;
        let last_seq = self.session.head.last_seq;
        let first_seq = if self.older_omitted {
            self.selected.iter().map(|p| p.first_seq).min()
        } else {
            (last_seq > 0).then_some(1)
        };
        let (mut dispositions, mut turns) = (Vec::new(), Vec::with_capacity(self.selected.len()));
        for selected in self.selected.into_iter().rev() {
            dispositions.extend(selected.shaped.dispositions);
            if !selected.shaped.turn.blocks.is_empty() || selected.shaped.turn.pair.is_some() {
                turns.push(selected.shaped.turn);
            }
        }
        if let Some(first) = first_seq {
            let unread_turns = self.items_by_turn.into_values().flatten().map(|i| i.seq);
            let dropped = |reason| move |seq| Disposition::new(seq, 0, Some(reason));
            let outside = unread_turns.chain(self.outside);
            let outside = outside.map(dropped("outside_window"));
            let without_turn = self.without_turn.into_iter().map(dropped("bookkeeping"));
            dispositions.extend(outside.chain(without_turn).filter(|d| d.seq >= first));
        }
        if let Some(summary) = &summary {
            dispositions.retain(|d| d.seq != summary.seq);
            dispositions.push(Disposition::new(summary.seq, 1, summary.change));
        }
        let window = Window {
            last_turns: self.query.last_turns,
            max_tokens: self.query.max_tokens,
            estimate: estimate::ESTIMATE,
            tokens: self.tokens,
            turns: turns.len(),
            first_seq,
            last_seq: first_seq.map(|_| last_seq),
            cut: self.older_omitted,
            summary_seq: summary.as_ref().map(|s| s.seq),
        };
        Ok(Plan {
            summary: summary.map(|s| s.message),
            turns,
            dispositions: Dispositions::new(dispositions, window),
        })
    }
}
