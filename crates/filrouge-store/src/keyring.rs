//! The keys that authenticate stored data. They are stored outside the data directory (DESIGN §9).

mod derived;

use std::collections::BTreeMap;
use std::fmt;

use filrouge_types::{
    ErrorCode, Failure, IdentityId, RequestId, SessionId, TenantId, Timestamp, TurnId,
};
use hmac::Mac;

use derived::{HmacSha256, derived_key, hmac};

pub(crate) use derived::SecretNumbers;

use crate::command::SessionToken;
use crate::lane::Lanes;
use crate::text_index::IndexKey;

/// The id of a key in a keyring.
pub type KeyId = u32;

/// The length of a stored MAC in bytes.
pub const MAC_BYTES: usize = 16;

/// A source of random bytes for salts and keys. Tests pass a repeatable source.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    ///
    /// # Errors
    /// `internal` when the source fails.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Failure>;
}

/// A random, unique name for a store, a process or a run.
///
/// # Errors
/// `internal` when the random source fails.
pub fn random_id(entropy: &dyn Entropy) -> Result<String, Failure> {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes)?;
    let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
    Ok(id.to_string())
}

/// The operating system's source of random bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        getrandom::fill(bytes)
            .map_err(|e| ErrorCode::Internal.failure(format!("the random source failed: {e}")))
    }
}

/// The reason why a set of keys is not a valid keyring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The keyring has no key.
    #[error("a keyring needs a key")]
    Empty,
    /// The active key is not among the keys.
    #[error("the active key {0} is not in the ring")]
    ActiveKeyMissing(KeyId),
}

/// The kind of data that a MAC authenticates; a MAC of one kind is invalid for another.
#[derive(Debug, Clone, Copy)]
pub enum Domain {
    /// A record of items.
    Record,
    /// A session's head row.
    Head,
    /// A turn's row.
    Turn,
    /// A row of the commit log.
    Commit,
    /// A turn id.
    TurnId,
    /// The fingerprint of a request.
    Request,
    /// The anchor.
    Anchor,
    /// An event's row.
    Event,
    /// A note.
    Note,
    /// A draft, and a chunk of one.
    Draft,
    /// A checkpoint.
    Checkpoint,
    /// An agent of a session.
    Agent,
    /// A write in the spool.
    Spool,
    /// The stored hash of an anonymous session's secret or of an erased session's owner.
    Owner,
    /// A shared store; its servers compare their keys by this MAC.
    Store,
    /// The stored hash of a network address.
    Address,
    /// A turn in the hot store's copy of recent turns.
    Copy,
    /// The file of the API keys that a machine has last seen.
    ApiKeys,
    /// A sign-in of a browser.
    SignIn,
}

impl Domain {
    /// Whether the MACs are valid in one store only: those of the commit log, of notes, and of the rows whose MACs
    /// cover the number of their session. Records are valid in every store, so that a copy keeps them.
    const fn is_bound_to_store(self) -> bool {
        matches!(
            self,
            Self::Head
                | Self::Turn
                | Self::Commit
                | Self::Event
                | Self::Note
                | Self::Draft
                | Self::Checkpoint
                | Self::Agent
        )
    }

    const fn label(self) -> &'static [u8] {
        match self {
            Self::Record => b"filrouge record 1\0",
            Self::Head => b"filrouge head 1\0",
            Self::Turn => b"filrouge turn 1\0",
            Self::Commit => b"filrouge commit 1\0",
            Self::TurnId => b"filrouge turn id 1\0",
            Self::Request => b"filrouge request 1\0",
            Self::Anchor => b"filrouge anchor 1\0",
            Self::Event => b"filrouge event 1\0",
            Self::Note => b"filrouge note 1\0",
            Self::Draft => b"filrouge draft 1\0",
            Self::Checkpoint => b"filrouge checkpoint 1\0",
            Self::Agent => b"filrouge agent 1\0",
            Self::Spool => b"filrouge spool 1\0",
            Self::Owner => b"filrouge owner 1\0",
            Self::Store => b"filrouge store 1\0",
            Self::Address => b"filrouge address 1\0",
            Self::Copy => b"filrouge copy 1\0",
            Self::ApiKeys => b"filrouge api keys 1\0",
            Self::SignIn => b"filrouge sign-in 1\0",
        }
    }
}

/// The keys that authenticate stored data, by id. New data is signed with the active key. The other keys still verify
/// the data that was signed with them.
#[derive(Clone)]
pub struct Keyring {
    keys: BTreeMap<KeyId, HmacSha256>,
    /// The keys of the domains that are bound to a store ([`Self::for_store`]).
    row_keys: BTreeMap<KeyId, HmacSha256>,
    secrets: BTreeMap<KeyId, [u8; 32]>,
    active: KeyId,
    /// The lowest key id. Its key, the root key, derives turn ids and the key of the store digest. A rotation adds a
    /// key with a greater id, so the root key never changes.
    root: KeyId,
    /// The key of the store digest, which has no other use.
    digest: SecretNumbers,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("Keyring")
            .field("ids", &ids)
            .field("active", &self.active)
            .finish()
    }
}

/// The secret of the root key, which every keyring has.
fn root_secret(secrets: &BTreeMap<KeyId, [u8; 32]>, root: KeyId) -> &[u8; 32] {
    secrets.get(&root).unwrap_or(&[0; 32])
}

/// The label of the key of the store digest.
const DIGEST_KEY: &[u8] = b"filrouge digest key 2\0";
/// The label of the keys of rows.
const ROW_KEY: &[u8] = b"filrouge store key 2\0";
/// The label of the keys of search indexes.
const INDEX_KEY: &[u8] = b"filrouge index key 1\0";

impl Keyring {
    /// A keyring of `secrets`, of which the key `active` signs new data.
    ///
    /// # Errors
    /// [`KeyringError`] when `secrets` is empty or lacks `active`.
    pub fn new(secrets: BTreeMap<KeyId, [u8; 32]>, active: KeyId) -> Result<Self, KeyringError> {
        let root = secrets.keys().next().ok_or(KeyringError::Empty)?;
        if !secrets.contains_key(&active) {
            return Err(KeyringError::ActiveKeyMissing(active));
        }
        Ok(Self::of_store((*root, active), secrets, &[]))
    }

    /// A keyring of `secrets`, with the keys of rows of the store that `store` names.
    fn of_store(
        (root, active): (KeyId, KeyId),
        secrets: BTreeMap<KeyId, [u8; 32]>,
        store: &[u8],
    ) -> Self {
        let each_key = |derive: &dyn Fn(&[u8; 32]) -> HmacSha256| {
            let keys = secrets.iter().map(|(id, secret)| (*id, derive(secret)));
            keys.collect()
        };
        Self {
            keys: each_key(&hmac),
            row_keys: each_key(&|secret| derived_key(secret, ROW_KEY, store)),
            digest: SecretNumbers(derived_key(root_secret(&secrets, root), DIGEST_KEY, store)),
            secrets,
            active,
            root,
        }
    }

    /// These keys, for the rows of the store with this id and this number of lanes. A head, turn, event, note, draft,
    /// checkpoint, agent or commit that one store has signed is invalid in every other store.
    pub fn for_store(&self, store_id: &str, lanes: Lanes) -> Self {
        let store = [&lanes.count().to_be_bytes(), store_id.as_bytes()].concat();
        Self::of_store((self.root, self.active), self.secrets.clone(), &store)
    }

    /// A keyring of one key with id 1.
    pub fn single(secret: [u8; 32]) -> Self {
        Self::of_store((1, 1), BTreeMap::from([(1, secret)]), &[])
    }

    /// The id of the key that signs new data.
    pub const fn active(&self) -> KeyId {
        self.active
    }

    /// The id of the root key: the lowest id in the keyring.
    pub(crate) const fn root_id(&self) -> KeyId {
        self.root
    }

    /// The keys' ids and secrets, for storing the keyring.
    pub const fn secrets(&self) -> &BTreeMap<KeyId, [u8; 32]> {
        &self.secrets
    }

    /// Whether the keyring has the key `id`.
    pub fn contains(&self, id: KeyId) -> bool {
        self.keys.contains_key(&id)
    }

    /// The MAC of `pieces` under key `id`; `None` when the key is not in the keyring.
    pub fn mac(&self, id: KeyId, domain: Domain, pieces: &[&[u8]]) -> Option<[u8; MAC_BYTES]> {
        let keys = match domain.is_bound_to_store() {
            true => &self.row_keys,
            false => &self.keys,
        };
        let mut mac = keys.get(&id)?.clone();
        mac.update(domain.label());
        for piece in pieces {
            mac.update(piece);
        }
        let full = mac.finalize().into_bytes();
        let mut short = [0; MAC_BYTES];
        short.copy_from_slice(&full[..MAC_BYTES]);
        Some(short)
    }

    /// A pseudorandom number for `pieces` under the key of the store digest.
    pub(crate) fn digest_number(&self, pieces: &[&[u8]]) -> u128 {
        self.digest.number(pieces)
    }

    /// The key of the seals of a search index. `name` identifies the index: the id of its store, or its file. The key is
    /// derived from the root key, so a rotation does not change it.
    pub fn index_key(&self, name: &[u8]) -> IndexKey {
        let secret = root_secret(&self.secrets, self.root);
        IndexKey::new(SecretNumbers(derived_key(secret, INDEX_KEY, name)))
    }

    /// The seed of the signing key of exported bundles, derived from key `id`; `None` when the key is not in the ring
    /// (docs/format.md).
    pub fn signing_seed(&self, id: KeyId) -> Option<[u8; 32]> {
        let mut mac = self.keys.get(&id)?.clone();
        mac.update(b"filrouge signing 1\0");
        Some(mac.finalize().into_bytes().into())
    }

    /// The keyed form of a request's fingerprint, under the root key. Without the keyring, nobody can check whether a
    /// guessed request has this fingerprint.
    pub fn request_fingerprint(&self, fingerprint: &[u8; MAC_BYTES]) -> [u8; MAC_BYTES] {
        // The keyring always has its root key.
        self.mac(self.root, Domain::Request, &[fingerprint])
            .unwrap_or_default()
    }

    /// The stored form of an anonymous session's secret. It is hashed with the root key, so that it stays valid after a
    /// rotation.
    pub fn session_token(&self, secret: &str) -> SessionToken {
        // The keyring always has its root key.
        let mac = self.mac(self.root, Domain::Owner, &[b"t", secret.as_bytes()]);
        SessionToken(mac.unwrap_or_default())
    }

    /// The MAC of a browser's sign-in with the API key `key_id`. It is computed with the root key, so that every server
    /// accepts it, also after a rotation.
    pub fn sign_in(&self, key_id: &str, expires_at: Timestamp) -> [u8; MAC_BYTES] {
        let pieces = [&expires_at.as_micros().to_be_bytes(), key_id.as_bytes()];
        // The keyring always has its root key.
        self.mac(self.root, Domain::SignIn, &pieces)
            .unwrap_or_default()
    }

    /// The stored form of a network address, different in each tenant (DESIGN §7). It is hashed with the root key, so
    /// that all servers compute the same hash and a rotation does not change it.
    pub fn address_hash(&self, tenant: &TenantId, address: &str) -> [u8; MAC_BYTES] {
        let length = (tenant.as_str().len() as u64).to_be_bytes();
        let pieces = [&length, tenant.as_str().as_bytes(), address.as_bytes()];
        // The keyring always has its root key.
        self.mac(self.root, Domain::Address, &pieces)
            .unwrap_or_default()
    }

    /// The stored hash of an erased session's owner. An anonymous session has a secret (`token`) instead of an
    /// identity, or neither.
    pub fn owner(
        &self,
        identity: Option<&IdentityId>,
        token: Option<SessionToken>,
    ) -> [u8; MAC_BYTES] {
        let piece = match (identity, token) {
            (Some(identity), _) => [b"i", identity.as_str().as_bytes()].concat(),
            (None, Some(token)) => [b"s", token.0.as_slice()].concat(),
            (None, None) => b"n".to_vec(),
        };
        // The keyring always has its root key.
        self.mac(self.root, Domain::Owner, &[&piece])
            .unwrap_or_default()
    }

    /// Derives the turn id of a request. The first four bytes depend only on the session, so that an index stores a
    /// session's turns together. The other bytes also depend on the request (DESIGN §3).
    pub fn turn_id(&self, tenant: &TenantId, session: &SessionId, request: &RequestId) -> TurnId {
        let with_length = |text: &str| {
            let mut piece = (text.len() as u64).to_be_bytes().to_vec();
            piece.extend_from_slice(text.as_bytes());
            piece
        };
        let (tenant, session) = (with_length(tenant.as_str()), with_length(session.as_str()));
        let root_mac = |pieces: &[&[u8]]| {
            // The keyring always has its root key.
            self.mac(self.root, Domain::TurnId, pieces)
                .unwrap_or_default()
        };
        let session_mac = root_mac(&[b"s", &tenant, &session]);
        let mut bytes = root_mac(&[b"t", &tenant, &session, request.as_str().as_bytes()]);
        bytes[..4].copy_from_slice(&session_mac[..4]);
        TurnId::from_derived(bytes)
    }
}

/// Compares two MACs in constant time.
#[must_use]
pub fn equal_macs(a: &[u8; MAC_BYTES], b: &[u8; MAC_BYTES]) -> bool {
    a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}

#[cfg(test)]
mod tests;
