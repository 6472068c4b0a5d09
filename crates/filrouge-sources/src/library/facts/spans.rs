//! The time spans in which agents were working.

use crate::{Message, Role};

/// Spans of time in milliseconds since 1970; each ends later than it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::library) struct Spans(Vec<(i64, i64)>);

impl Spans {
    /// Adds the time span of an answer, from its creation to its completion; if no completion is recorded, to the
    /// latest time of its parts. Ignores all other messages.
    pub(super) fn add(&mut self, message: &Message) {
        if message.role != Role::Assistant {
            return;
        }
        let parts = message.parts.iter().filter_map(|p| p.end.or(p.start));
        let end = message.completed.or_else(|| parts.max());
        if let Some(end) = end
            && end > message.created
        {
            self.0.push((message.created, end));
        }
    }

    /// Adds all spans of `more`.
    pub(in crate::library) fn extend(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// Merges overlapping spans.
    pub(in crate::library) fn merge(&mut self) {
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let overlaps = next.0 <= kept.1;
            if overlaps {
                kept.1 = kept.1.max(next.1);
            }
            overlaps
        });
        self.0.shrink_to_fit();
    }

    /// The total length in milliseconds; overlaps count once.
    pub(in crate::library) fn length(mut self) -> i64 {
        self.merge();
        let lengths = self.0.iter().map(|(start, end)| end.saturating_sub(*start));
        lengths.fold(0, i64::saturating_add)
    }

    /// The approximate size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        16 * self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(spans: &[(i64, i64)]) -> i64 {
        Spans(spans.to_vec()).length()
    }

    #[test]
    fn overlaps_count_once_and_pauses_do_not_count() {
        assert_eq!(length(&[]), 0);
        assert_eq!(length(&[(10, 20), (30, 45)]), 25);
        assert_eq!(length(&[(30, 45), (10, 20), (20, 31)]), 35);
        // One span is inside another, and two spans only touch.
        assert_eq!(length(&[(0, 100), (10, 20), (100, 110)]), 110);
        assert_eq!(length(&[(i64::MIN, 0), (0, i64::MAX)]), i64::MAX);
    }
}
