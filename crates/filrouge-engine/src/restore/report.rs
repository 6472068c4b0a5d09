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

#[derive(Debug, Clone, Copy)]
struct Fate {
    seq: u64,
    /// How many pieces of it are shown.
    pieces: u32,
    /// Why the first piece that is not shown is not.
    reason: Option<&'static str>,
    change: Option<&'static str>,
}

/// The fates of the items that were looked at.
#[derive(Debug, Clone, Default)]
pub struct Fates {
    /// Ascending by seq once [`Fates::sort`] was called.
    fates: Vec<Fate>,
    /// What they were taken from.
    pub window: Window,
}

impl Fates {
    /// Takes in an item of which `pieces` are shown; the rest, if there is a rest, is not for `reason`.
    pub fn add(&mut self, seq: u64, pieces: u32, reason: Option<&'static str>) {
        self.fates.push(Fate {
            seq,
            pieces,
            reason,
            change: None,
        });
    }

    /// Puts the items in order; [`Fates::lose`] and [`Fates::adapt`] find them after that.
    pub fn sort(&mut self) {
        self.fates.sort_unstable_by_key(|f| f.seq);
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
