//! Converts an ephemeral session so that the ledger can adopt it when its user logs in (DESIGN §7): selects the items
//! to keep, renumbers them from 1, and chains them again with their existing salts and times.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Channel, Failure, RawJson, Role, SessionId, TenantId, TurnId};

use crate::chain::GENESIS;
use crate::command::{Adopt, SideRows};
use crate::read::{
    VerifiedSession, VerifiedSnapshot, in_session, session_erased, session_not_found,
};
use crate::record::{ChainedItem, CommitmentProof, Event, Seqs, relinked};
use crate::rows::View;
use crate::rules::redaction_prefix;

filrouge_types::words!(
    /// The items that are kept when an ephemeral session is adopted by the ledger (DESIGN §7).
    #[derive(Default)]
    pub enum ItemRetention: "policy of what is recorded" {
        /// All items.
        #[default]
        All => "all",
        /// Questions, answers (complete or partial), items that record how a turn ended, links and redactions.
        Conversation => "conversation",
    }
);

/// The retention policy for an ephemeral session that is adopted by the ledger (DESIGN §7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldRetention {
    /// The members of turns' metadata that are kept; `None` keeps all.
    pub metadata: Option<Vec<String>>,
    /// The kept items.
    pub record: ItemRetention,
}

/// Converts a snapshot's session for adoption by the ledger.
pub(super) fn adopt<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    tenant: &TenantId,
    id: &SessionId,
    keep: &FieldRetention,
) -> Result<Adopt, Failure> {
    let stored = snapshot.view.session(tenant, id, None)?;
    let stored = stored.ok_or_else(|| session_not_found(id))?;
    let session = snapshot.load(stored)?;
    if session.row.erased.is_some() {
        return Err(session_erased(id));
    }
    let items = in_session(id, kept(snapshot, &session, keep))?;
    let renumbered = Renumbered::of(&items);
    let side_rows = renumbered.side_rows(snapshot, &session)?;
    let items = renumbered.items(items, &session, keep);
    Ok(Adopt {
        session: session.row,
        updated_at: session.head.updated_at,
        items,
        side_rows,
    })
}

/// The kept items, unchanged.
fn kept<V: View + ?Sized>(
    snapshot: &VerifiedSnapshot<'_, V>,
    session: &VerifiedSession,
    keep: &FieldRetention,
) -> Result<Vec<ChainedItem>, Failure> {
    let mut known_turns: BTreeMap<TurnId, bool> = BTreeMap::new();
    let (mut kept, mut question_filter) = (Vec::new(), QuestionFilter::default());
    snapshot.each_chained(session, |one| {
        let exists = match one.item.turn_id {
            None => true,
            Some(id) => match known_turns.get(&id) {
                Some(exists) => *exists,
                None => {
                    let exists = snapshot.view.turn(session.pk, &id)?.is_some();
                    known_turns.insert(id, exists);
                    exists
                }
            },
        };
        // A trimmed turn may have left items among those of later turns.
        if exists {
            let wanted = is_kept(&one, keep);
            question_filter.take(one, wanted, &mut kept);
        }
        Ok(())
    })?;
    Ok(kept)
}

/// An item without a turn concerns the session (it was linked, redacted or closed), and events define their turn: both
/// are always kept.
fn is_kept(one: &ChainedItem, keep: &FieldRetention) -> bool {
    one.item.turn_id.is_none()
        || !one.events.is_empty()
        || keep.record.keeps(&one.item.body.channel)
}

/// Selects items so that a turn's question stays the same. The question consists of the question items among the turn's
/// first two items. If a later question is kept, the item that follows the turn's first item is kept too; otherwise the
/// later question would become the second item and thus part of the turn's question.
///
/// The value: the newest started turn, the seq of its first item, and the item directly after that one if nothing else
/// keeps it. `None` once another item was kept.
#[derive(Default)]
struct QuestionFilter(Option<(TurnId, u64, Option<ChainedItem>)>);

impl QuestionFilter {
    fn take(&mut self, one: ChainedItem, wanted: bool, kept: &mut Vec<ChainedItem>) {
        let (item, seq) = (&one.item, one.item.seq);
        let starts = one.events.iter().any(|e| matches!(e, Event::Start(_)));
        if starts && let Some(turn) = item.turn_id {
            self.0 = Some((turn, seq, None));
            kept.push(one);
            return;
        }
        if !wanted {
            // While this item directly follows the first one, no later item can become the second.
            if let Some((_, first, between)) = &mut self.0
                && seq == *first + 1
            {
                *between = Some(one);
            }
            return;
        }
        if let Some((turn, _, between)) = self.0.take() {
            let asks = item.body.role == Role::User && item.body.channel == Channel::Question;
            if asks && item.turn_id == Some(turn) {
                kept.extend(between);
            }
        }
        kept.push(one);
    }
}

/// The new seqs of the kept items by their old seqs: dense from 1.
struct Renumbered(BTreeMap<u64, u64>);

impl Renumbered {
    fn of(items: &[ChainedItem]) -> Self {
        Self(items.iter().map(|one| one.item.seq).zip(1..).collect())
    }

    /// The items with their new seqs, chained in this order.
    fn items(
        &self,
        items: Vec<ChainedItem>,
        session: &VerifiedSession,
        keep: &FieldRetention,
    ) -> Vec<ChainedItem> {
        let mut link = GENESIS;
        let renumbered = items.into_iter().zip(1..).map(|(mut one, seq)| {
            one.item.seq = seq;
            self.update_references(&mut one);
            one.events.iter_mut().for_each(|event| filter(event, keep));
            one.link = relinked(&one, &link, &session.scope);
            link = one.link;
            one
        });
        renumbered.collect()
    }

    /// Updates an item's references to the new seqs.
    fn update_references(&self, one: &mut ChainedItem) {
        if let CommitmentProof::Erased { redaction_seq, .. } = &mut one.proof {
            // A redaction has no turn and follows the items that it names, so it is kept.
            *redaction_seq = self.0.get(redaction_seq).copied().unwrap_or(0);
        }
        let mut named = None;
        for event in &mut one.events {
            if let Event::Redact(seqs) = event {
                let now = self.seqs(seqs);
                let then = std::mem::replace(seqs, now.clone());
                named = Some((then, now));
            }
        }
        let Some((then, now)) = named else {
            return;
        };
        let (then, text) = (redaction_prefix(&then), one.item.body.parts.as_str());
        if let Some(rest) = text.strip_prefix(&then) {
            let parts = format!("{}{rest}", redaction_prefix(&now));
            one.item.body.parts = RawJson::from_checked(parts);
        }
        // A redaction of which no named item is kept stays as an item that records the person and the reason.
        one.events
            .retain(|event| !matches!(event, Event::Redact(seqs) if seqs.count() == 0));
    }

    /// The lease and the checkpoints. A checkpoint's new seq is that of the last kept item that it covers.
    fn side_rows<V: View + ?Sized>(
        &self,
        snapshot: &VerifiedSnapshot<'_, V>,
        session: &VerifiedSession,
    ) -> Result<SideRows, Failure> {
        let mut checkpoints = BTreeMap::new();
        for seq in snapshot.view.checkpoint_seqs(session.pk)? {
            // Unreadable checkpoints are dropped.
            if let Some(mut found) = snapshot.readable_checkpoint(session, seq)? {
                let last = self.0.range(..=seq).next_back();
                found.seq = last.map_or(0, |(_, seq)| *seq);
                checkpoints.insert(found.seq, found);
            }
        }
        Ok(SideRows {
            lease: session.head.lease.clone(),
            checkpoints: checkpoints.into_values().collect(),
        })
    }

    fn seqs(&self, seqs: &Seqs) -> Seqs {
        let kept = seqs
            .ranges()
            .flat_map(|(first, last)| self.0.range(first..=last));
        let kept: BTreeSet<u64> = kept.map(|(_, seq)| *seq).collect();
        Seqs::of(kept.into_iter().map(|seq| (seq, seq))).unwrap_or_default()
    }
}

/// Drops the members of a turn's metadata that are not listed.
fn filter(event: &mut Event, keep: &FieldRetention) {
    let metadata = match event {
        Event::Start(start) => &mut start.metadata,
        Event::Close(close) => &mut close.metadata,
        _ => return,
    };
    if let Some(all) = metadata {
        let (kept, _) = keep.metadata_of(all);
        *metadata = Some(kept);
    }
}
