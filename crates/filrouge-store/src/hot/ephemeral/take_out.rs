//! A session as the ledger takes it in at a login (DESIGN §7): filtered, numbered from 1, chained anew with the salts and times
//! that it has.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Channel, Failure, RawJson, Role, SessionId, TenantId, TurnId};

use crate::chain::GENESIS;
use crate::command::{Adopt, Beside};
use crate::read::{Loaded, Sight, in_session, session_erased, session_not_found};
use crate::record::{ChainedItem, Event, Proof, Seqs, relinked};
use crate::rows::View;
use crate::rules::redaction_begins;

filrouge_types::words!(
    /// Which items are kept when an ephemeral session goes into the ledger (DESIGN §7).
    #[derive(Default)]
    pub enum KeepItems: "policy of what is recorded" {
        /// All of them.
        #[default]
        All => "all",
        /// Questions and finals, what tells how a turn went, and what tells of links and redactions.
        Conversation => "conversation",
    }
);

/// What is kept of an ephemeral session when it goes into the ledger (DESIGN §7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    /// The members of turns' metadata that are kept; `None` keeps all.
    pub metadata: Option<Vec<String>>,
    /// Which items.
    pub record: KeepItems,
}

/// The session of a sight as the ledger is to take it in.
pub(super) fn adopt<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    tenant: &TenantId,
    id: &SessionId,
    keep: &Keep,
) -> Result<Adopt, Failure> {
    let stored = sight.view.session(tenant, id, None)?;
    let stored = stored.ok_or_else(|| session_not_found(id))?;
    let session = sight.load(stored)?;
    if session.row.erased.is_some() {
        return Err(session_erased(id));
    }
    let items = in_session(id, kept(sight, &session, keep))?;
    let renumbered = Renumbered::of(&items);
    let beside = renumbered.beside(sight, &session)?;
    let items = renumbered.items(items, &session, keep);
    Ok(Adopt {
        session: session.row,
        updated_at: session.head.updated_at,
        items,
        beside,
    })
}

/// The items that are kept, as they are.
fn kept<V: View + ?Sized>(
    sight: &Sight<'_, V>,
    session: &Loaded,
    keep: &Keep,
) -> Result<Vec<ChainedItem>, Failure> {
    let mut here: BTreeMap<TurnId, bool> = BTreeMap::new();
    let (mut kept, mut asking) = (Vec::new(), Asking::default());
    sight.each_chained(session, |one| {
        let there = match one.item.turn_id {
            None => true,
            Some(id) => match here.get(&id) {
                Some(there) => *there,
                None => {
                    let there = sight.view.turn(session.pk, &id)?.is_some();
                    here.insert(id, there);
                    there
                }
            },
        };
        // Of a turn that was let go, items may lie among those of later ones.
        if there {
            let wanted = is_kept(&one, keep);
            asking.take(one, wanted, &mut kept);
        }
        Ok(())
    })?;
    Ok(kept)
}

/// What belongs to no turn tells of the session: it was linked, redacted, closed. An event is what its turn is made of.
fn is_kept(one: &ChainedItem, keep: &Keep) -> bool {
    one.item.turn_id.is_none()
        || !one.events.is_empty()
        || keep.record.keeps(&one.item.body.channel)
}

/// A turn's question is in the two items that it begins with. Where something else stands between its first item and
/// another question, that stays, or else the other one would become part of the question.
#[derive(Default)]
struct Asking(Option<(TurnId, u64, Option<ChainedItem>)>);

impl Asking {
    fn take(&mut self, one: ChainedItem, wanted: bool, kept: &mut Vec<ChainedItem>) {
        let (item, seq) = (&one.item, one.item.seq);
        let starts = one.events.iter().any(|e| matches!(e, Event::Start(_)));
        if starts && let Some(turn) = item.turn_id {
            self.0 = Some((turn, seq, None));
            kept.push(one);
            return;
        }
        if !wanted {
            // Whatever lay behind the first item keeps others from being the second.
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

/// The seqs that items are to have, by those they had: dense from 1.
struct Renumbered(BTreeMap<u64, u64>);

impl Renumbered {
    fn of(items: &[ChainedItem]) -> Self {
        Self(items.iter().map(|one| one.item.seq).zip(1..).collect())
    }

    /// The items under their new seqs, chained in their new order.
    fn items(&self, items: Vec<ChainedItem>, session: &Loaded, keep: &Keep) -> Vec<ChainedItem> {
        let mut link = GENESIS;
        let renumbered = items.into_iter().zip(1..).map(|(mut one, seq)| {
            one.item.seq = seq;
            self.point(&mut one);
            one.events.iter_mut().for_each(|event| filter(event, keep));
            one.link = relinked(&one, &link, &session.scope);
            link = one.link;
            one
        });
        renumbered.collect()
    }

    /// Has an item name others by their new seqs.
    fn point(&self, one: &mut ChainedItem) {
        if let Proof::Erased { redaction_seq, .. } = &mut one.proof {
            // A redaction is of no turn and comes behind what it names, so it is there.
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
        let (then, text) = (redaction_begins(&then), one.item.body.parts.as_str());
        if let Some(rest) = text.strip_prefix(&then) {
            let parts = format!("{}{rest}", redaction_begins(&now));
            one.item.body.parts = RawJson::from_checked(parts);
        }
        // What names nothing any more tells who has redacted and why.
        one.events
            .retain(|event| !matches!(event, Event::Redact(seqs) if seqs.count() == 0));
    }

    /// What lies beside the items: checkpoints cover the items that are kept of those that they covered.
    fn beside<V: View + ?Sized>(
        &self,
        sight: &Sight<'_, V>,
        session: &Loaded,
    ) -> Result<Beside, Failure> {
        let mut checkpoints = BTreeMap::new();
        for seq in sight.view.checkpoint_seqs(session.pk)? {
            // One that cannot be read is none.
            if let Some(mut found) = sight.readable_checkpoint(session, seq)? {
                let last = self.0.range(..=seq).next_back();
                found.seq = last.map_or(0, |(_, seq)| *seq);
                checkpoints.insert(found.seq, found);
            }
        }
        Ok(Beside {
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

/// Keeps of a turn's metadata what is listed.
fn filter(event: &mut Event, keep: &Keep) {
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
