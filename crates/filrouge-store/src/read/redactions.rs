//! Checks that a redaction in the session's chain names each item without content (DESIGN §9).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use filrouge_types::Failure;

use super::{VerifiedSession, VerifiedSnapshot};
use crate::record::{Event, RecordFaultKind, Seqs};
use crate::rows::View;

/// A cache of the redactions of one session, by their seqs, so that each is read only once. The value is the set of
/// seqs that the redaction names, or `None` if no redaction is stored at this seq.
#[derive(Default)]
pub(crate) struct Redactions(BTreeMap<u64, Option<Seqs>>);

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Checks that each redacted item is named by the redaction to which it points. `redacted` contains pairs: the
    /// item's seq and the redaction's seq.
    pub(super) fn check_redactions(
        &self,
        session: &VerifiedSession,
        redacted: &[(u64, u64)],
        cache: &mut Redactions,
    ) -> Result<(), Failure> {
        for &(seq, redaction_seq) in redacted {
            let named = match cache.0.entry(redaction_seq) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(self.redaction(session, redaction_seq)?),
            };
            if !named.as_ref().is_some_and(|seqs| seqs.contains(seq)) {
                return Err(session.integrity_failure(Some(seq), RecordFaultKind::Contentless));
            }
        }
        Ok(())
    }

    /// The seqs that the redaction at `seq` names; `None` when no redaction is stored at `seq`.
    fn redaction(&self, session: &VerifiedSession, seq: u64) -> Result<Option<Seqs>, Failure> {
        if seq > session.head.last_seq {
            return Ok(None);
        }
        let rows = self.view.records(session.pk, seq, 1)?;
        let Some(row) = rows.first().filter(|r| r.first_seq <= seq) else {
            return Ok(None);
        };
        let mut items = self
            .decode_without_redactions(session, row)?
            .items
            .into_iter();
        let item = items.find(|(item, _)| item.seq == seq && !item.redacted);
        Ok(item.and_then(|(_, events)| redacted_seqs(&events).cloned()))
    }
}

/// The seqs that an item's events redact; `None` if the item is not a redaction.
pub(crate) fn redacted_seqs(events: &[Event]) -> Option<&Seqs> {
    events.iter().find_map(|e| match e {
        Event::Redact(seqs) => Some(seqs),
        _ => None,
    })
}
