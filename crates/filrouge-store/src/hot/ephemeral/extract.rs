//! Converts an ephemeral session so that the ledger can adopt it when its user logs in (DESIGN §7): selects the items
//! to keep, renumbers them from 1, and chains them again with their existing salts and times.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Channel, Failure, RawJson, Role, SessionId, TenantId, TurnId};

use crate::chain::GENESIS;
use crate::command::{Adopt, SideRows};
use crate::read::{LedgerSnapshot, VerifiedSession, in_session, session_erased, session_not_found};
use crate::record::{ChainedItem, CommitmentProof, Event, Seqs, compute_link};
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
pub(super) fn adopt(
    snapshot: &LedgerSnapshot<'_>,
    tenant: &TenantId,
    id: &SessionId,
    keep: &FieldRetention,
) -> Result<Adopt, Failure> {
    let stored = snapshot.view.session(tenant, id, None)?;
    let stored = stored.ok_or_else(|| session_not_found(id))?;
    let session = snapshot.verified_session(stored)?;
    if session.row.erased.is_some() {
        return Err(session_erased(id));
    }
    let items = in_session(id, kept_items(snapshot, &session, keep))?;
    let new_seqs = NewSeqs::new(&items);
    let side_rows = new_seqs.side_rows(snapshot, &session)?;
    let items = new_seqs.renumber(items, &session, keep);
    Ok(Adopt {
        session: session.row,
        updated_at: session.head.updated_at,
        items,
        side_rows,
    })
}

/// The kept items, unchanged.
fn kept_items(
    snapshot: &LedgerSnapshot<'_>,
    session: &VerifiedSession,
    keep: &FieldRetention,
) -> Result<Vec<ChainedItem>, Failure> {
    let mut known_turns: BTreeMap<TurnId, bool> = BTreeMap::new();
    let (mut kept, mut question_filter) = (Vec::new(), QuestionFilter::default());
    snapshot.for_each_chained_item(session, |chained| {
        let exists = match chained.item.turn_id {
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
            let is_kept = is_kept(&chained, keep);
            question_filter.add(chained, is_kept, &mut kept);
        }
        Ok(())
    })?;
    Ok(kept)
}

/// Whether the policy keeps an item. Items without a turn record changes of the session (link, redaction or closing),
/// and items with events define their turn: both are always kept.
fn is_kept(chained: &ChainedItem, keep: &FieldRetention) -> bool {
    chained.item.turn_id.is_none()
        || !chained.events.is_empty()
        || keep.record.keeps(&chained.item.body.channel)
}

/// Selects items so that a turn's question stays the same. The question consists of the question items among the turn's
/// first two items. If a later question is kept, the item that follows the turn's first item is kept too; otherwise the
/// later question would become the second item and thus part of the turn's question.
///
/// The value contains the newest started turn, the seq of its first item, and the following item if the policy does not
/// keep it. `None` after another item was kept.
#[derive(Default)]
struct QuestionFilter(Option<(TurnId, u64, Option<ChainedItem>)>);

impl QuestionFilter {
    /// Adds the session's next item to `kept`, if it is kept.
    fn add(&mut self, chained: ChainedItem, is_kept: bool, kept: &mut Vec<ChainedItem>) {
        let (item, seq) = (&chained.item, chained.item.seq);
        let starts_turn = chained.events.iter().any(|e| matches!(e, Event::Start(_)));
        if starts_turn && let Some(turn) = item.turn_id {
            self.0 = Some((turn, seq, None));
            kept.push(chained);
            return;
        }
        if !is_kept {
            // While this item directly follows the first one, no later item can become the second.
            if let Some((_, first, between)) = &mut self.0
                && seq == *first + 1
            {
                *between = Some(chained);
            }
            return;
        }
        if let Some((turn, _, between)) = self.0.take() {
            let is_question =
                item.body.role == Role::User && item.body.channel == Channel::Question;
            if is_question && item.turn_id == Some(turn) {
                kept.extend(between);
            }
        }
        kept.push(chained);
    }
}

/// The new seqs of the kept items by their old seqs: dense from 1.
struct NewSeqs(BTreeMap<u64, u64>);

impl NewSeqs {
    fn new(items: &[ChainedItem]) -> Self {
        Self(
            items
                .iter()
                .map(|chained| chained.item.seq)
                .zip(1..)
                .collect(),
        )
    }

    /// The items with their new seqs, chained in this order.
    fn renumber(
        &self,
        items: Vec<ChainedItem>,
        session: &VerifiedSession,
        keep: &FieldRetention,
    ) -> Vec<ChainedItem> {
        let mut link = GENESIS;
        let renumbered = items.into_iter().zip(1..).map(|(mut chained, seq)| {
            chained.item.seq = seq;
            self.update_references(&mut chained);
            chained
                .events
                .iter_mut()
                .for_each(|event| drop_unlisted_metadata(event, keep));
            chained.link = compute_link(&chained, &link, &session.scope);
            link = chained.link;
            chained
        });
        renumbered.collect()
    }

    /// Updates an item's references to the new seqs.
    fn update_references(&self, chained: &mut ChainedItem) {
        if let CommitmentProof::Erased { redaction_seq, .. } = &mut chained.proof {
            // A redaction has no turn and follows the items that it names, so it is kept.
            *redaction_seq = self.0.get(redaction_seq).copied().unwrap_or(0);
        }
        let mut redacted = None;
        for event in &mut chained.events {
            match event {
                Event::Redact(seqs) => {
                    let new = self.renumbered_seqs(seqs);
                    let old = std::mem::replace(seqs, new.clone());
                    redacted = Some((old, new));
                }
                Event::Redacted(seqs) => *seqs = self.renumbered_seqs(seqs),
                _ => {}
            }
        }
        // If no item that a redaction names is kept, the redaction stays as an item with the person and the reason.
        chained.events.retain(|event| {
            !matches!(event, Event::Redact(seqs) | Event::Redacted(seqs) if seqs.count() == 0)
        });
        let Some((old, new)) = redacted else {
            return;
        };
        let (old_prefix, text) = (redaction_prefix(&old), chained.item.body.parts.as_str());
        if let Some(suffix) = text.strip_prefix(&old_prefix) {
            let parts = format!("{}{suffix}", redaction_prefix(&new));
            chained.item.body.parts = RawJson::from_checked(parts);
        }
    }

    /// The lease and the checkpoints. A checkpoint's new seq is that of the last kept item that it covers.
    fn side_rows(
        &self,
        snapshot: &LedgerSnapshot<'_>,
        session: &VerifiedSession,
    ) -> Result<SideRows, Failure> {
        let mut checkpoints = BTreeMap::new();
        for seq in snapshot.view.checkpoint_seqs(session.pk)? {
            // Unreadable checkpoints are dropped.
            if let Some(mut checkpoint) = snapshot.readable_checkpoint(session, seq)? {
                let last = self.0.range(..=seq).next_back();
                checkpoint.seq = last.map_or(0, |(_, seq)| *seq);
                checkpoints.insert(checkpoint.seq, checkpoint);
            }
        }
        Ok(SideRows {
            lease: session.head.lease.clone(),
            checkpoints: checkpoints.into_values().collect(),
        })
    }

    /// The new seqs of those items in `seqs` that are kept.
    fn renumbered_seqs(&self, seqs: &Seqs) -> Seqs {
        let kept = seqs
            .ranges()
            .flat_map(|(first, last)| self.0.range(first..=last));
        let kept: BTreeSet<u64> = kept.map(|(_, seq)| *seq).collect();
        Seqs::from_ranges(kept.into_iter().map(|seq| (seq, seq))).unwrap_or_default()
    }
}

/// Drops the members of a turn's metadata that are not listed.
fn drop_unlisted_metadata(event: &mut Event, keep: &FieldRetention) {
    let metadata = match event {
        Event::Start(start) => &mut start.metadata,
        Event::Close(close) => &mut close.metadata,
        _ => return,
    };
    if let Some(members) = metadata {
        let (kept, _) = keep.metadata_of(members);
        *metadata = Some(kept);
    }
}
