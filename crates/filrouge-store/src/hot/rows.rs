//! Stores the rows of one ephemeral session as fields of a hot store. The rows are those of any ledger; each is a field
//! with a short name.
//!
//! Only rows that a write has changed are encoded again, so that the cost of a write depends on its changes and not on
//! the size of the session.

use std::collections::{BTreeMap, HashMap};

use super::{Field, FieldChanges};
use crate::codec::Malformed;
use crate::keyring::Keyring;
use crate::memory::rows::{RowChanges, Rows};
use crate::rows::{HeadRow, RowKey, SessionPk, TurnRow};

mod codec;
#[cfg(test)]
mod tests;
mod trim;

pub(super) use trim::TrimContext;

/// The number of the only session. MACs cover the number, so it is the same in every process.
pub(super) const PK: SessionPk = 1;

/// The rows of one session, or of none, with the changes since the last commit.
pub(super) struct EphemeralRows {
    /// The rows, which record their changes.
    pub(super) rows: Rows,
    /// Fields that were encoded since the last commit; `None` for a field to remove.
    pending: BTreeMap<RowKey, Option<Vec<u8>>>,
    /// The size of each field's value when last encoded.
    sizes: HashMap<RowKey, usize>,
    /// The sum of these sizes.
    bytes: u64,
}

impl Default for EphemeralRows {
    fn default() -> Self {
        Self {
            rows: Rows {
                changes: Some(RowChanges::default()),
                ..Rows::default()
            },
            pending: BTreeMap::new(),
            sizes: HashMap::new(),
            bytes: 0,
        }
    }
}

impl EphemeralRows {
    /// Decodes the session from its fields.
    pub(super) fn decode(fields: &[Field]) -> Result<Self, Malformed> {
        let mut decoded = Self::default();
        for field in fields {
            let key = codec::read(&mut decoded.rows, &field.name, &field.value)?;
            if let RowKey::Item(id) = &key {
                let seq = decoded.rows.keys.get(&(PK, id.clone())).copied();
                let keys = &mut decoded.changes().item_keys;
                keys.entry(seq.unwrap_or(0)).or_default().push(id.clone());
            }
            decoded.bytes += field.value.len() as u64;
            if decoded.sizes.insert(key, field.value.len()).is_some() {
                return Err(Malformed);
            }
        }
        Ok(decoded)
    }

    /// Whether any row was changed since the last commit.
    pub(super) fn is_changed(&self) -> bool {
        let has_changes = |changes: &RowChanges| changes.erased || !changes.changed_rows.is_empty();
        self.rows.changes.as_ref().is_some_and(has_changes) || !self.pending.is_empty()
    }

    /// Takes the changes since the last commit. They count as committed from now on, so if the commit fails, the caller
    /// discards these rows.
    pub(super) fn take_change(&mut self) -> FieldChanges {
        self.encode_changes();
        let mut change = FieldChanges::default();
        for (key, value) in std::mem::take(&mut self.pending) {
            let name = key.field_name();
            match value {
                Some(value) => change.puts.push(Field { name, value }),
                None => change.removes.push(name),
            }
        }
        change
    }

    /// Encodes the changed rows and updates the sizes.
    fn encode_changes(&mut self) {
        let changes = self.changes();
        let mut changed_keys = std::mem::take(&mut changes.changed_rows);
        if std::mem::take(&mut changes.erased) {
            let is_kept = |key: &&RowKey| matches!(key, RowKey::Session | RowKey::Head);
            changed_keys.extend(self.sizes.keys().filter(|key| !is_kept(key)).cloned());
        }
        for key in changed_keys {
            let value = codec::write(&self.rows, &key);
            let previous_len = match &value {
                Some(value) => self.sizes.insert(key.clone(), value.len()),
                None => self.sizes.remove(&key),
            };
            self.bytes += value.as_ref().map_or(0, Vec::len) as u64;
            self.bytes -= previous_len.unwrap_or(0) as u64;
            // A field that was never written is not removed.
            if value.is_some() || previous_len.is_some() {
                self.pending.insert(key, value);
            }
        }
    }

    /// The size of all values in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The session's head.
    pub(super) fn head(&self) -> Option<&HeadRow> {
        self.rows.heads.get(&PK)
    }

    /// The kind of a modified row among the turns, events, drafts and agents, if there is one. A row that was signed
    /// with a key that is not in the keyring is not reported.
    pub(super) fn find_modified(&self, keyring: &Keyring) -> Option<&'static str> {
        let rows = &self.rows;
        let wrong_mac = Some(false);
        let (mut turns, mut events) = (rows.turns.values(), rows.events.values());
        if turns.any(|t| t.mac_matches(keyring, PK) == wrong_mac) {
            return Some("a turn was changed");
        }
        if events.any(|e| e.mac_matches(keyring, PK) == wrong_mac) {
            return Some("an event was changed");
        }
        let (mut drafts, mut agents) = (rows.drafts.values(), rows.agents.values());
        if drafts.any(|d| d.mac_matches(keyring, PK) == wrong_mac) {
            return Some("a draft was changed");
        }
        agents
            .any(|a| a.mac_matches(keyring, PK) == wrong_mac)
            .then_some("an agent was changed")
    }

    /// The open turns.
    pub(super) fn open_turns(&self) -> impl Iterator<Item = &TurnRow> {
        let has_open_turns = self.head().is_some_and(|head| head.open_turns > 0);
        let turns = has_open_turns.then(|| self.rows.turns.values());
        let turns = turns.into_iter().flatten();
        turns.filter(|turn| turn.status == filrouge_types::TurnStatus::Open)
    }

    /// The changes of the rows since they were loaded.
    fn changes(&mut self) -> &mut RowChanges {
        self.rows.changes.get_or_insert_default()
    }
}

const _: () = assert!(
    PK == 1,
    "rows in memory give their first session the number 1"
);
