//! An item without content is given out only when a chained redaction names it (DESIGN §9).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use filrouge_types::Failure;

use super::{Loaded, Sight};
use crate::record::{Event, FaultKind, Seqs};
use crate::rows::View;

/// What the redactions name that a page has looked up, by their seqs: each is read once.
#[derive(Default)]
pub(crate) struct Redactions(BTreeMap<u64, Option<Seqs>>);

impl<V: View + ?Sized> Sight<'_, V> {
    /// Every item that has no content must be named by the redaction it points to: seqs with those of redactions.
    pub(super) fn check_redactions(
        &self,
        session: &Loaded,
        redacted: &[(u64, u64)],
        known: &mut Redactions,
    ) -> Result<(), Failure> {
        for &(seq, redaction_seq) in redacted {
            let named = match known.0.entry(redaction_seq) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.redaction(session, redaction_seq)?),
            };
            if !named.as_ref().is_some_and(|seqs| seqs.contains(seq)) {
                return Err(session.broken(Some(seq), FaultKind::Contentless));
            }
        }
        Ok(())
    }

    /// What the redaction at `seq` names; `None` when no redaction stands there.
    fn redaction(&self, session: &Loaded, seq: u64) -> Result<Option<Seqs>, Failure> {
        if seq > session.head.last_seq {
            return Ok(None);
        }
        let rows = self.view.records(session.pk, seq, 1)?;
        let Some(row) = rows.first().filter(|r| r.first_seq <= seq) else {
            return Ok(None);
        };
        let mut items = self.decode_alone(session, row)?.items.into_iter();
        let found = items.find(|(item, _)| item.seq == seq && !item.redacted);
        Ok(found.and_then(|(_, events)| named_by(&events).cloned()))
    }
}

/// What an item's events redact.
pub(crate) fn named_by(events: &[Event]) -> Option<&Seqs> {
    events.iter().find_map(|e| match e {
        Event::Redact(seqs) => Some(seqs),
        _ => None,
    })
}
