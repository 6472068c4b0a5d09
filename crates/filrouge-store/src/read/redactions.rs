//! Checks that exactly those items have no content that a redaction in the session's chain names (DESIGN §9).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Item, Result};

use super::{VerifiedSession, VerifiedSnapshot};
use crate::record::{Decoded, Event, RecordFaultKind, Seqs};
use crate::rows::View;

/// A cache of the redactions of one session, so that each is read only once.
#[derive(Default)]
pub(crate) struct Redactions {
    /// The redactions that were read, by their seqs. The value is the set of seqs that the redaction names, or `None`
    /// if no redaction is stored at this seq.
    by_seq: BTreeMap<u64, Option<Seqs>>,
    /// The seqs that any redaction of the session names, once they were read.
    all: Option<Seqs>,
}

impl Redactions {
    /// Whether one of the redactions that were read names all items from `first` to `last`.
    pub(super) fn cover(&self, first: u64, last: u64) -> bool {
        let mut read = self.by_seq.values().flatten();
        read.any(|seqs| seqs.covers(first, last))
    }
}

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// Checks that the items of a record that have no content are exactly those that redactions name.
    pub(super) fn check_redactions(
        &self,
        session: &VerifiedSession,
        decoded: &Decoded,
        cache: &mut Redactions,
    ) -> Result<()> {
        self.check_contentless(session, &decoded.redacted, cache)?;
        let mut items = decoded.items.iter();
        items.try_for_each(|(item, _)| self.check_content(session, item, cache))
    }

    /// Checks that each item without content is named by the redaction to which it points. `contentless` contains
    /// pairs: the item's seq and the redaction's seq.
    pub(super) fn check_contentless(
        &self,
        session: &VerifiedSession,
        contentless: &[(u64, u64)],
        cache: &mut Redactions,
    ) -> Result<()> {
        for &(seq, redaction_seq) in contentless {
            let named = match cache.by_seq.entry(redaction_seq) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let events = self.redaction_events(session, redaction_seq)?;
                    entry.insert(events.and_then(|events| redacted_seqs(&events).cloned()))
                }
            };
            if !named.as_ref().is_some_and(|seqs| seqs.contains(seq)) {
                return Err(session.integrity_failure(Some(seq), RecordFaultKind::Contentless));
            }
        }
        Ok(())
    }

    /// Checks that no redaction names an item with content: an older record of the item, put back outside filrouge, has
    /// a valid MAC. The session's head names the newest redaction, which knows what all redactions have erased.
    pub(super) fn check_content(
        &self,
        session: &VerifiedSession,
        item: &Item,
        cache: &mut Redactions,
    ) -> Result<()> {
        if item.redacted || item.seq >= session.head.checkpoints.redacted {
            return Ok(());
        }
        if cache.all.is_none() {
            cache.all = Some(self.all_redacted(session)?);
        }
        if cache.all.as_ref().is_some_and(|all| all.contains(item.seq)) {
            let detail = "the item was redacted and has a content";
            return Err(session.integrity_failure(Some(item.seq), detail));
        }
        Ok(())
    }

    /// The items that record the redactions of these items, which have no content and are in ascending order. Other
    /// redactions of the same records may be among them.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn redactions_of(
        &self,
        session: &VerifiedSession,
        contentless: &[u64],
    ) -> Result<Vec<Item>> {
        let (mut redactions, mut read_until) = (BTreeSet::new(), 0);
        for &seq in contentless {
            if seq <= read_until {
                continue;
            }
            if let Some(row) = self.view.records(session.pk, seq, 1)?.first() {
                let decoded = self.decode_without_redactions(session, row)?;
                read_until = row.last_seq();
                redactions.extend(decoded.redacted.iter().map(|(_, redaction)| *redaction));
            }
        }
        let redactions = redactions.into_iter();
        redactions.map(|seq| self.item_at(session, seq)).collect()
    }

    /// The seqs that any redaction of the session names. A redaction that was trimmed names trimmed items only.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn all_redacted(&self, session: &VerifiedSession) -> Result<Seqs> {
        let newest = session.head.checkpoints.redacted;
        if newest < self.view.first_seq(session.pk)?.max(1) {
            return Ok(Seqs::default());
        }
        match self.redaction_events(session, newest)? {
            Some(events) => Ok(all_redacted_seqs(&events)),
            None => Err(session.integrity_failure(Some(newest), RecordFaultKind::Missing)),
        }
    }

    /// The events of the item at `seq`, unless its content is erased; `None` when no such item is stored.
    fn redaction_events(&self, session: &VerifiedSession, seq: u64) -> Result<Option<Vec<Event>>> {
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
        Ok(item.map(|(_, events)| events))
    }
}

/// The seqs that an item's events redact; `None` if the item is not a redaction.
pub(crate) fn redacted_seqs(events: &[Event]) -> Option<&Seqs> {
    events.iter().find_map(|e| match e {
        Event::Redact(seqs) => Some(seqs),
        _ => None,
    })
}

/// The seqs that a redaction with these events and all earlier redactions name.
pub(crate) fn all_redacted_seqs(events: &[Event]) -> Seqs {
    let all = events.iter().find_map(|e| match e {
        Event::Redacted(seqs) => Some(seqs),
        _ => None,
    });
    all.or_else(|| redacted_seqs(events))
        .cloned()
        .unwrap_or_default()
}
