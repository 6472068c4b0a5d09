//! What became of every item of a restored context: nothing is left out in silence (DESIGN §5, P9).

use serde::Serialize;

/// An item that is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DroppedItem))]
pub struct Dropped {
    /// The item.
    pub seq: u64,
    /// Why.
    pub reason: &'static str,
}

/// An item that is shown otherwise than it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = AdaptedItem))]
pub struct Adapted {
    /// The item.
    pub seq: u64,
    /// What was changed.
    pub change: &'static str,
}

/// What the context was taken from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ContextWindow))]
pub struct Window {
    /// The bound on turns that was asked for.
    pub last_turns: Option<usize>,
    /// The bound on tokens that was asked for.
    pub max_tokens: Option<u64>,
    /// The name of the estimate that tokens are counted by.
    pub estimate: &'static str,
    /// How many tokens the context has by that estimate.
    pub tokens: u64,
    /// How many turns are shown.
    pub turns: usize,
    /// The first seq that was looked at; `null` when there was none.
    pub first_seq: Option<u64>,
    /// The last seq that was looked at; `null` when there was none.
    pub last_seq: Option<u64>,
    /// Whether there are older turns that the window leaves out.
    pub cut: bool,
    /// The item whose summary stands for older turns, if one does.
    pub summary_seq: Option<u64>,
}

/// What was kept, and what was left out and why. Every item from `window.first_seq` to `window.last_seq` is
/// counted once: `kept` and `dropped` together are all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ContextReport))]
pub struct Report {
    /// How many items are shown, wholly or in part.
    pub kept: usize,
    /// The items that are not shown.
    pub dropped: Vec<Dropped>,
    /// The kept items that are shown otherwise than they were recorded.
    pub adapted: Vec<Adapted>,
    /// What the context was taken from.
    pub window: Window,
}

/// What became of one item: how many pieces of it are shown, and why the others are not.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    pub(super) seq: u64,
    pub(super) pieces: u32,
    /// Why the first piece that is not shown is not.
    pub(super) reason: Option<&'static str>,
    /// How what is shown differs from what was recorded.
    pub(super) change: Option<&'static str>,
}

impl Fate {
    /// An item of which `pieces` are shown; with the reason why the first one that is not is not.
    #[must_use]
    pub const fn new(seq: u64, pieces: u32, reason: Option<&'static str>) -> Self {
        Self {
            seq,
            pieces,
            reason,
            change: None,
        }
    }
}

/// The fates of the items that were looked at.
#[derive(Debug, Clone, Default)]
pub struct Fates {
    /// Ascending by seq.
    fates: Vec<Fate>,
    /// What they were taken from.
    pub window: Window,
}

impl Fates {
    /// The fates of items in any order.
    #[must_use]
    pub fn new(mut fates: Vec<Fate>, window: Window) -> Self {
        fates.sort_unstable_by_key(|fate| fate.seq);
        Self { fates, window }
    }

    fn of(&mut self, seq: u64) -> Option<&mut Fate> {
        let at = self.fates.binary_search_by_key(&seq, |f| f.seq).ok()?;
        self.fates.get_mut(at)
    }

    /// One piece of item `seq` is not shown after all.
    pub fn lose(&mut self, seq: u64, reason: &'static str) {
        if let Some(fate) = self.of(seq) {
            fate.pieces = fate.pieces.saturating_sub(1);
            fate.reason.get_or_insert(reason);
        }
    }

    /// Item `seq` is shown otherwise than it was recorded; the first change is told.
    pub fn adapt(&mut self, seq: u64, change: &'static str) {
        if let Some(fate) = self.of(seq) {
            fate.change.get_or_insert(change);
        }
    }

    /// How many items are shown.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.fates.iter().filter(|f| f.pieces > 0).count()
    }

    /// The report.
    #[must_use]
    pub fn report(self) -> Report {
        let mut report = Report {
            window: self.window,
            ..Report::default()
        };
        for fate in self.fates {
            if fate.pieces == 0 {
                let reason = fate.reason.unwrap_or("empty");
                report.dropped.push(Dropped {
                    seq: fate.seq,
                    reason,
                });
                continue;
            }
            report.kept += 1;
            if let Some(change) = fate.change.or(fate.reason) {
                report.adapted.push(Adapted {
                    seq: fate.seq,
                    change,
                });
            }
        }
        report
    }
}
