//! The disposition of every item of a restored context: no item is left out silently (DESIGN §5, P9).

use serde::Serialize;

/// An item that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = DroppedItem)]
pub struct Dropped {
    /// The item.
    pub seq: u64,
    /// The reason.
    pub reason: &'static str,
}

/// An item that is not shown exactly as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = AdaptedItem)]
pub struct Adapted {
    /// The item.
    pub seq: u64,
    /// The change.
    pub change: &'static str,
}

/// The range that the context was built from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ContextWindow)]
pub struct Window {
    /// The requested limit of turns.
    pub last_turns: Option<usize>,
    /// The requested limit of tokens.
    pub max_tokens: Option<u64>,
    /// The name of the estimate by which tokens are counted.
    pub estimate: &'static str,
    /// Tokens of the context by that estimate.
    pub tokens: u64,
    /// Number of turns shown.
    pub turns: usize,
    /// The first seq that was examined; `null` if there was none.
    pub first_seq: Option<u64>,
    /// The last seq that was examined; `null` if there was none.
    pub last_seq: Option<u64>,
    /// Whether there are older turns that the window leaves out.
    pub cut: bool,
    /// The item whose summary replaces older turns, if there is one.
    pub summary_seq: Option<u64>,
}

/// The items that were kept, and those that were left out, with the reasons. Every item from `window.first_seq` to
/// `window.last_seq` is counted once, in `kept` or in `dropped`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ContextReport)]
pub struct Report {
    /// Number of items shown, completely or in part.
    pub kept: usize,
    /// The items that are not shown.
    pub dropped: Vec<Dropped>,
    /// The kept items that are not shown exactly as recorded.
    pub adapted: Vec<Adapted>,
    /// The range that the context was built from.
    pub window: Window,
}

/// The disposition of one item: how many of its pieces are shown, and why others are not.
#[derive(Debug, Clone, Copy)]
pub struct Disposition {
    pub(super) seq: u64,
    /// The number of pieces that are shown; 0 if the item is left out.
    pub(super) pieces: u32,
    /// The reason why the first omitted piece is omitted.
    pub(super) reason: Option<&'static str>,
    /// How the shown pieces differ from the recorded ones; `None` if they are shown as recorded.
    pub(super) change: Option<&'static str>,
}

impl Disposition {
    /// An item with `pieces` pieces shown, and the reason why the first omitted piece is omitted.
    pub const fn new(seq: u64, pieces: u32, reason: Option<&'static str>) -> Self {
        Self {
            seq,
            pieces,
            reason,
            change: None,
        }
    }
}

/// The dispositions of the examined items.
#[derive(Debug, Clone, Default)]
pub struct Dispositions {
    /// The dispositions, in ascending order of seq.
    dispositions: Vec<Disposition>,
    /// The range that the context was built from.
    pub window: Window,
}

impl Dispositions {
    /// Collects dispositions, which may be in any order.
    pub fn new(mut dispositions: Vec<Disposition>, window: Window) -> Self {
        dispositions.sort_unstable_by_key(|disposition| disposition.seq);
        Self {
            dispositions,
            window,
        }
    }

    fn disposition_mut(&mut self, seq: u64) -> Option<&mut Disposition> {
        let at = self
            .dispositions
            .binary_search_by_key(&seq, |f| f.seq)
            .ok()?;
        self.dispositions.get_mut(at)
    }

    /// Marks one piece of item `seq` as not shown.
    pub fn omit_piece(&mut self, seq: u64, reason: &'static str) {
        if let Some(disposition) = self.disposition_mut(seq) {
            disposition.pieces = disposition.pieces.saturating_sub(1);
            disposition.reason.get_or_insert(reason);
        }
    }

    /// Marks item `seq` as changed; the first change is reported.
    pub fn adapt(&mut self, seq: u64, change: &'static str) {
        if let Some(disposition) = self.disposition_mut(seq) {
            disposition.change.get_or_insert(change);
        }
    }

    /// Builds the report.
    pub fn report(self) -> Report {
        let mut report = Report {
            window: self.window,
            ..Report::default()
        };
        for disposition in self.dispositions {
            let seq = disposition.seq;
            if disposition.pieces == 0 {
                let reason = disposition.reason.unwrap_or("empty");
                report.dropped.push(Dropped { seq, reason });
                continue;
            }
            report.kept += 1;
            if let Some(change) = disposition.change.or(disposition.reason) {
                report.adapted.push(Adapted { seq, change });
            }
        }
        report
    }
}
