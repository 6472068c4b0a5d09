//! The API keys as this machine has last seen them, for a server that starts while the ledger does not answer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use filrouge_store::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::{Deserialize, Serialize};

use super::{ApiKey, ApiKeys};
use crate::keyfile::{WriteMode, write_atomic};
use crate::shared::to_json;

/// The file with the keys of a store: like the store, it has only hashes of their secrets. A MAC under the keyring
/// covers it, so that nobody without the keyring can add a key or undo a revocation in it.
#[derive(Debug, Clone)]
pub struct KeptKeys {
    path: PathBuf,
    store_id: String,
    keyring: Keyring,
    max_age: Duration,
}

/// The keys in the file.
#[derive(Debug, Clone)]
pub struct SeenKeys {
    /// The keys, revoked ones too.
    pub keys: ApiKeys,
    /// When they were read from the ledger.
    pub seen_at: Timestamp,
    /// They may be used until this moment.
    pub until: Timestamp,
}

impl SeenKeys {
    /// Whether they may be used at `now`. Keys from the future may not, because their age is unknown.
    #[must_use]
    pub fn may_be_used(&self, now: Timestamp) -> bool {
        self.seen_at <= now && now < self.until
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    key_id: KeyId,
    #[serde(with = "filrouge_store::hex")]
    mac: [u8; MAC_BYTES],
    /// A [`StoredKeys`] as JSON, which the MAC covers.
    seen: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    seen_at: Timestamp,
    version: u64,
    keys: Vec<ApiKey>,
}

impl KeptKeys {
    /// The file of `store_id` in `directory`, with keys that may be used for `max_age` after they were last seen.
    pub fn new(directory: &Path, store_id: &str, keyring: Keyring, max_age: Duration) -> Self {
        Self {
            path: directory.join(format!("{store_id}.keys")),
            store_id: store_id.to_owned(),
            keyring,
            max_age,
        }
    }

    fn mac(&self, key: KeyId, seen: &str) -> Option<[u8; MAC_BYTES]> {
        let length = (self.store_id.len() as u64).to_be_bytes();
        let pieces: [&[u8]; 3] = [&length, self.store_id.as_bytes(), seen.as_bytes()];
        self.keyring.mac(key, Domain::ApiKeys, &pieces)
    }

    fn unavailable(&self, error: &io::Error) -> Failure {
        let detail = format!("{}: {error}", self.path.display());
        Failure::new(ErrorCode::StoreUnavailable, detail)
    }

    /// Replaces the file with `keys`, which were read from the ledger at `now`.
    ///
    /// # Errors
    /// `store_unavailable` when it cannot be written.
    pub fn write(&self, keys: &ApiKeys, now: Timestamp) -> Result<(), Failure> {
        let seen = to_json(&StoredKeys {
            seen_at: now,
            version: keys.version,
            keys: keys.keys.clone(),
        })?;
        let key_id = self.keyring.active();
        // `mac` returns `None` only for a key that is not in the keyring; the active one is.
        let mac = self.mac(key_id, &seen).unwrap_or_default();
        let file = to_json(&StoredFile { key_id, mac, seen })?;
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)
            .and_then(|()| write_atomic(&self.path, file.as_bytes(), WriteMode::Durable))
            .map_err(|e| self.unavailable(&e))
    }

    /// The keys that were last written; `None` if there is no file.
    ///
    /// # Errors
    /// `integrity_error` when the file was changed or its key is not in the keyring, `store_unavailable` when it cannot
    /// be read.
    pub fn read(&self) -> Result<Option<SeenKeys>, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.unavailable(&e)),
        };
        let stored = self.parse(&text).ok_or_else(|| {
            let detail = format!("the API keys in {} were changed", self.path.display());
            Failure::new(ErrorCode::IntegrityError, detail)
        })?;
        Ok(Some(SeenKeys {
            seen_at: stored.seen_at,
            until: stored.seen_at.after(self.max_age),
            keys: ApiKeys {
                version: stored.version,
                keys: stored.keys,
            },
        }))
    }

    fn parse(&self, text: &str) -> Option<StoredKeys> {
        let file: StoredFile = serde_json::from_str(text).ok()?;
        let mac = self.mac(file.key_id, &file.seen)?;
        if !equal_macs(&mac, &file.mac) {
            return None;
        }
        serde_json::from_str(&file.seen).ok()
    }
}

#[cfg(test)]
mod tests {
    use filrouge_store::OsEntropy;
    use filrouge_types::TenantId;

    use super::*;
    use crate::api_keys::{ApiKeyText, Role};

    fn keys() -> ApiKeys {
        let (_, key_id, hash) = ApiKeyText::random(&OsEntropy).unwrap();
        let at = Timestamp::from_micros(1_000_000);
        let key = ApiKey {
            key_id,
            hash,
            name: None,
            tenant_id: TenantId::default_tenant(),
            role: Role::Service,
            identity_id: None,
            created_at: at,
            expires_at: None,
            revoked_at: Some(at),
        };
        ApiKeys {
            version: 7,
            keys: vec![key],
        }
    }

    #[test]
    fn keys_are_used_for_a_bounded_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let file = |secret: u8, id: &str| {
            let age = Duration::from_secs(60);
            KeptKeys::new(&folder, id, Keyring::single([secret; 32]), age)
        };
        assert!(file(1, "a").read().unwrap().is_none());
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        file(1, "a").write(&keys(), at(100)).unwrap();
        let seen = file(1, "a").read().unwrap().unwrap();
        assert_eq!(seen.keys.version, 7);
        assert!(seen.keys.keys[0].revoked_at.is_some());
        let usable = [99, 100, 159, 160].map(|second| seen.may_be_used(at(second)));
        assert_eq!(usable, [false, true, true, false]);
        assert!(file(1, "b").read().unwrap().is_none());
    }

    #[test]
    fn a_changed_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = |secret: u8, id: &str| {
            let age = Duration::from_secs(60);
            KeptKeys::new(folder.path(), id, Keyring::single([secret; 32]), age)
        };
        file(1, "a")
            .write(&keys(), Timestamp::from_micros(0))
            .unwrap();
        let refused = |file: KeptKeys| file.read().unwrap_err().code == ErrorCode::IntegrityError;
        assert!(refused(file(2, "a")), "another keyring");
        fs::copy(folder.path().join("a.keys"), folder.path().join("b.keys")).unwrap();
        assert!(refused(file(1, "b")), "another store");
        let path = folder.path().join("a.keys");
        let text = fs::read_to_string(&path).unwrap();
        let mut date = text.find("revoked_at").unwrap();
        date += text[date..].find("1970").unwrap();
        for changed in [
            text.replacen(r#"\"version\":7"#, r#"\"version\":8"#, 1),
            format!("{}2{}", &text[..date], &text[date + 1..]),
            text[..text.len() - 1].to_owned(),
            String::new(),
        ] {
            assert_ne!(changed, text);
            fs::write(&path, changed).unwrap();
            assert!(refused(file(1, "a")));
        }
    }
}
