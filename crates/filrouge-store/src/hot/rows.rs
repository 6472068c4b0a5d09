//! The rows of one session as fields of a hot store: the same rows that every ledger has, each under a short name.
//!
//! Only what a write has touched is encoded again, so that a write costs what it changes and not what the session holds.

use std::collections::{BTreeMap, HashMap};

use super::{Change, Field};
use crate::codec::Malformed;
use crate::keyring::Keyring;
use crate::memory::rows::{Account, Rows};
use crate::rows::{HeadRow, Piece, SessionPk, TurnRow};

mod codec;
#[cfg(test)]
mod tests;
mod trim;

pub(super) use trim::Bounds;

/// The number of the one session: MACs are over it, so it is the same in every process.
pub(super) const PK: SessionPk = 1;

/// The rows of one session, or of none, with what was changed of them since they were last put.
pub(super) struct HeldRows {
    /// They keep account of what a write touches.
    pub(super) rows: Rows,
    /// Fields that have been encoded, or are to go, since they were last put.
    pending: BTreeMap<Piece, Option<Vec<u8>>>,
    /// The bytes of each field's value, as they were last encoded.
    sizes: HashMap<Piece, usize>,
    /// Their sum.
    bytes: u64,
}

impl Default for HeldRows {
    fn default() -> Self {
        Self {
            rows: Rows {
                account: Some(Account::default()),
                ..Rows::default()
            },
            pending: BTreeMap::new(),
            sizes: HashMap::new(),
            bytes: 0,
        }
    }
}

impl HeldRows {
    /// The session of these fields.
    pub(super) fn decode(fields: &[Field]) -> Result<Self, Malformed> {
        let mut held = Self::default();
        for field in fields {
            let piece = codec::read(&mut held.rows, &field.name, &field.value)?;
            if let Piece::Item(id) = &piece {
                let seq = held.rows.keys.get(&(PK, id.clone())).copied();
                let keys = &mut held.account().item_keys;
                keys.entry(seq.unwrap_or(0)).or_default().push(id.clone());
            }
            held.bytes += field.value.len() as u64;
            if held.sizes.insert(piece, field.value.len()).is_some() {
                return Err(Malformed);
            }
        }
        Ok(held)
    }

    /// All its fields.
    #[cfg(test)]
    pub(super) fn encode(&self) -> Vec<Field> {
        let pieces = self.sizes.keys();
        let fields = pieces.map(|piece| Field {
            name: piece.name(),
            value: codec::write(&self.rows, piece).unwrap(),
        });
        fields.collect()
    }

    /// Whether something was touched since it was last put.
    pub(super) fn is_changed(&self) -> bool {
        let touched = |account: &Account| account.erased || !account.touched.is_empty();
        self.rows.account.as_ref().is_some_and(touched) || !self.pending.is_empty()
    }

    /// What was changed since it was last put, and from now on counts as put.
    pub(super) fn take_change(&mut self) -> Change {
        self.settle();
        let mut change = Change::default();
        for (piece, value) in std::mem::take(&mut self.pending) {
            let name = piece.name();
            match value {
                Some(value) => change.puts.push(Field { name, value }),
                None => change.removes.push(name),
            }
        }
        change
    }

    /// Encodes what was touched; its bytes are counted then.
    fn settle(&mut self) {
        let account = self.account();
        let mut touched = std::mem::take(&mut account.touched);
        if std::mem::take(&mut account.erased) {
            let stays = |piece: &&Piece| matches!(piece, Piece::Session | Piece::Head);
            touched.extend(self.sizes.keys().filter(|p| !stays(p)).cloned());
        }
        for piece in touched {
            let value = codec::write(&self.rows, &piece);
            let before = match &value {
                Some(value) => self.sizes.insert(piece.clone(), value.len()),
                None => self.sizes.remove(&piece),
            };
            self.bytes += value.as_ref().map_or(0, Vec::len) as u64;
            self.bytes -= before.unwrap_or(0) as u64;
            // What was never put need not go.
            if value.is_some() || before.is_some() {
                self.pending.insert(piece, value);
            }
        }
    }

    /// The bytes of all its values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The session's head.
    pub(super) fn head(&self) -> Option<&HeadRow> {
        self.rows.heads.get(&PK)
    }

    /// What is not as it was signed among the rows of turns, events and drafts. What a key signed that is not there is left
    /// to whoever asks for it.
    pub(super) fn changed(&self, keyring: &Keyring) -> Option<&'static str> {
        let rows = &self.rows;
        let changed = Some(false);
        if rows
            .turns
            .values()
            .any(|t| t.verified(keyring, PK) == changed)
        {
            return Some("a turn was changed");
        }
        if rows
            .events
            .values()
            .any(|e| e.verified(keyring, PK) == changed)
        {
            return Some("an event was changed");
        }
        let mut drafts = rows.drafts.values();
        drafts
            .any(|d| d.verified(keyring, PK) == changed)
            .then_some("a draft was changed")
    }

    /// The turns that are open.
    pub(super) fn open_turns(&self) -> impl Iterator<Item = &TurnRow> {
        let any = self.head().is_some_and(|head| head.open_turns > 0);
        let turns = any.then(|| self.rows.turns.values());
        let turns = turns.into_iter().flatten();
        turns.filter(|turn| turn.status == filrouge_types::TurnStatus::Open)
    }

    fn account(&mut self) -> &mut Account {
        self.rows.account.get_or_insert_default()
    }
}

const _: () = assert!(PK == 1, "rows in memory number their first session so");
