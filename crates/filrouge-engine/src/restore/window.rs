//! Which turns are restored: from the newest back, until a bound is reached. What lies before is not read (P8).

use std::collections::HashMap;

use filrouge_store::read::{Loaded, Sight};
use filrouge_store::rows::{TurnRow, View};
use filrouge_types::{Failure, Item, TurnId, TurnStatus};

use super::estimate;
use super::plan::{Block, Mark, Plan, PlanTurn, Say, Speaker};
use super::query::RestoreQuery;
use super::report::{Fate, Fates, Window};
use super::shape::Shaped;
use super::summary::Summary;
use super::turns::{Turned, turned};
use crate::conversation::CONTENTS_MAX;

/// Most turn rows read at once: a page's items are freed before the next ones are read, so that their memory is used
/// again. And how many are read first when tokens bound the window.
const ALL_ROWS: usize = 256;
const FIRST_ROWS: usize = 16;

/// Reads and shapes the turns of a window, newest first.
pub(super) struct Reader<'a, 'v, V: ?Sized> {
    sight: &'a Sight<'v, V>,
    session: &'a Loaded,
    query: RestoreQuery,
    /// Items that were read and not yet given to their turn.
    waiting: HashMap<TurnId, Vec<Item>>,
    /// Items of no turn.
    loose: Vec<u64>,
    /// Items of turns that had to make room.
    outside: Vec<u64>,
    /// The lowest seq that was read.
    low: u64,
    /// How many bytes of contents may still be read.
    room: usize,
    /// Also those that show nothing, as their items are accounted for.
    picked: Vec<Turned>,
    /// How many of the picked count as turns.
    turns: usize,
    tokens: u64,
    /// Whether a picked turn shows something.
    shows: bool,
    /// The newest summary of a picked turn.
    summary: Option<Summary>,
    /// Whether older turns are left out.
    cut: bool,
}

impl<'a, 'v, V: View + ?Sized> Reader<'a, 'v, V> {
    pub(super) fn new(sight: &'a Sight<'v, V>, session: &'a Loaded, query: RestoreQuery) -> Self {
        Self {
            sight,
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
            shows: false,
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
            let rows = self.sight.turn_rows_back(self.session, before, size)?;
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
            self.check_whole()?;
        }
        Ok(self.finish())
    }

    /// Reads the items from the oldest of these turns up to what was read before.
    fn read_items(&mut self, rows: &[TurnRow]) -> Result<(), Failure> {
        let first = rows.iter().map(|r| r.first_seq).min().unwrap_or(self.low);
        if first >= self.low {
            return Ok(());
        }
        let items = self
            .sight
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

    /// Picks turns until a bound is reached; whether it was not.
    fn pick_all(&mut self, rows: &[TurnRow]) -> bool {
        for row in rows {
            let newest = self.picked.last().is_none_or(|p| p.ordinal != row.ordinal);
            if newest && self.query.last_turns.is_some_and(|n| self.turns >= n) {
                return false;
            }
            let items = self.waiting.remove(&row.turn_id).unwrap_or_default();
            if !self.pick(turned(row, items, newest, self.query)) {
                return false;
            }
        }
        true
    }

    /// Picks a turn, if it fits.
    fn pick(&mut self, mut turned: Turned) -> bool {
        self.mark_unanswered(&mut turned.shaped.turn);
        turned.tokens = tokens(&turned.shaped);
        let max = self.query.max_tokens;
        if max.is_some_and(|max| self.tokens + turned.tokens > max) {
            let seqs = turned.shaped.fates.iter().map(|f| f.seq);
            self.outside.extend(seqs);
            return false;
        }
        self.summary = self.summary.take().or(turned.summary.take());
        self.tokens += turned.tokens;
        self.shows |= !turned.shaped.turn.blocks.is_empty();
        self.turns += usize::from(turned.counts);
        self.picked.push(turned);
        true
    }

    /// An open turn that others follow says that it has no answer, so that speakers alternate.
    fn mark_unanswered(&self, turn: &mut PlanTurn) {
        let answered = matches!(turn.blocks.last(), Some(Block::Say(say)) if say.speaker == Speaker::Assistant);
        if turn.status == TurnStatus::Open && self.shows && !answered && !turn.blocks.is_empty() {
            turn.blocks
                .push(Block::Say(Say::mark(Mark::Unanswered, None)));
        }
    }

    /// Once all turns were seen, every item has one.
    fn check_whole(&mut self) -> Result<(), Failure> {
        if self.low > 1 {
            let all: Vec<Item> =
                self.sight
                    .items_between(self.session, 1, self.low - 1, &mut self.room)?;
            if let Some(stray) = all.iter().find(|i| i.turn_id.is_some()) {
                return Err(self.stray(stray.seq));
            }
            self.loose.extend(all.iter().map(|i| i.seq));
            self.low = 1;
        }
        let stray = self.waiting.values().flatten().map(|i| i.seq).min();
        match stray {
            // Of a turn that was let go, items may lie among those of later ones.
            Some(seq) if self.sight.view.first_ordinal(self.session.pk)? == 1 => {
                Err(self.stray(seq))
            }
            _ => Ok(()),
        }
    }

    fn stray(&self, seq: u64) -> Failure {
        self.session
            .broken(Some(seq), "the item belongs to a turn that is not there")
    }

    /// Whether a summary stands for what is cut off: when it fits, if need be instead of the oldest turns that it
    /// covers as well.
    fn make_room(&mut self) -> Option<Say> {
        let oldest = self.picked.iter().map(|p| p.first_seq).min()?;
        let summary = self
            .summary
            .take()
            .filter(|s| self.cut && s.from < oldest)?;
        let cost = estimate::say(&summary.say);
        if let Some(max) = self.query.max_tokens {
            let own = self
                .picked
                .iter()
                .position(|p| p.shaped.fates.iter().any(|f| f.seq == summary.seq))?;
            let (mut keep, mut tokens) = (self.picked.len(), self.tokens);
            while tokens + cost > max && keep > own + 1 && self.covers(&summary, keep - 1) {
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
        let own = self.picked.iter_mut().flat_map(|p| &mut p.shaped.fates);
        for fate in own.filter(|f| f.seq == summary.seq) {
            (fate.pieces, fate.reason) = (1, summary.rest);
        }
        Some(summary.say)
    }

    /// Whether the summary tells of all of a picked turn.
    fn covers(&self, summary: &Summary, at: usize) -> bool {
        let fates = self.picked.get(at).map(|p| &p.shaped.fates);
        let covered = |seq: u64| (summary.from..=summary.to).contains(&seq);
        fates.is_some_and(|fates| fates.iter().all(|f| covered(f.seq)))
    }

    /// Leaves the first `keep` picked turns, with all versions of the last one.
    fn drop_older(&mut self, mut keep: usize) {
        let ordinal = |at: usize| self.picked.get(at).map(|p| p.ordinal);
        while keep > 0 && ordinal(keep).is_some_and(|o| ordinal(keep - 1) == Some(o)) {
            keep += 1;
        }
        for gone in self.picked.drain(keep..) {
            self.outside.extend(gone.shaped.fates.iter().map(|f| f.seq));
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
        let (mut fates, mut turns) = (Vec::new(), Vec::with_capacity(self.picked.len()));
        for picked in self.picked.into_iter().rev() {
            fates.extend(picked.shaped.fates);
            if !picked.shaped.turn.blocks.is_empty() || picked.shaped.turn.pair.is_some() {
                turns.push(picked.shaped.turn);
            }
        }
        if let Some(first) = first_seq {
            let waiting = self.waiting.into_values().flatten().map(|i| i.seq);
            let outside = waiting
                .chain(self.outside)
                .map(|seq| Fate::new(seq, 0, Some("outside_window")));
            let loose = self.loose.into_iter();
            let loose = loose.map(|seq| Fate::new(seq, 0, Some("bookkeeping")));
            fates.extend(outside.chain(loose).filter(|fate| fate.seq >= first));
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
            fates: Fates::new(fates, window),
        }
    }
}

fn tokens(shaped: &Shaped) -> u64 {
    let pair = shaped.turn.pair.as_ref().map_or(0, estimate::pair);
    pair + estimate::blocks(&shaped.turn.blocks)
}
