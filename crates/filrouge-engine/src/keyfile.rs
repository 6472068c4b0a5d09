//! The keyring's file: outside the data directory, readable only by its owner (DESIGN §9).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use filrouge_store::{Entropy, KeyId, Keyring};
use filrouge_types::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeyring {
    active: KeyId,
    keys: BTreeMap<KeyId, HexSecret>,
}

#[derive(Serialize, Deserialize)]
struct HexSecret(#[serde(with = "filrouge_store::hex")] [u8; 32]);

fn unavailable(path: &Path, e: &io::Error) -> Failure {
    ErrorCode::StoreUnavailable.failure(format!("{}: {e}", path.display()))
}

fn malformed(path: &Path, detail: impl std::fmt::Display) -> Failure {
    ErrorCode::KeyMissing
        .failure(format!("{} is no keyring: {detail}", path.display()))
        .with_hint("put the keyring file back from a backup")
}

/// Whether a write may replace the file, and whether it is durable once it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// Creates the file, durably. Leaves an existing file unchanged, without an error.
    CreateOnly,
    /// Replaces the old file; the new one is durable once the call returns.
    Durable,
    /// Replaces the old file; a power cut may restore the old one.
    Unsynced,
}

/// Writes a file atomically: after a crash, the file has either the complete old or the complete new content.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], mode: WriteMode) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("file");
    let temporary = directory.join(format!(".{name}.{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    if mode == WriteMode::CreateOnly {
        let link_result = fs::hard_link(&temporary, path);
        fs::remove_file(&temporary)?;
        match link_result {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    } else {
        fs::rename(&temporary, path)?;
    }
    if mode == WriteMode::Unsynced {
        Ok(())
    } else {
        File::open(directory)?.sync_all()
    }
}

/// Opens the file, or creates it, and takes an exclusive lock, which is released when the file is dropped.
pub(crate) fn open_locked(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    file.lock()?;
    Ok(file)
}

/// Reads the keyring of `path`.
///
/// # Errors
/// `key_missing` when it is absent or malformed, `store_unavailable` when it cannot be read.
pub fn load(path: &Path) -> Result<Keyring, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(ErrorCode::KeyMissing
                .failure(format!("there is no keyring at {}", path.display()))
                .with_hint("put the keyring file back from a backup"));
        }
        Err(e) => return Err(unavailable(path, &e)),
    };
    let stored: StoredKeyring = serde_json::from_str(&text).map_err(|e| malformed(path, e))?;
    let keys = stored.keys.into_iter();
    let secrets = keys.map(|(id, HexSecret(secret))| (id, secret)).collect();
    Keyring::new(secrets, stored.active).map_err(|e| malformed(path, e))
}

/// Reads the keyring; creates one with a single key when there is none. When two processes create a keyring at the same
/// time, both use the one that was created first.
///
/// # Errors
/// As [`load`].
pub fn load_or_create(path: &Path, entropy: &dyn Entropy) -> Result<Keyring, Failure> {
    if !path.exists() {
        let keyring = Keyring::single(random_secret(entropy)?);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|e| unavailable(directory, &e))?;
        }
        write_atomic(path, &encode(&keyring)?, WriteMode::CreateOnly)
            .map_err(|e| unavailable(path, &e))?;
    }
    load(path)
}

/// Adds a key and makes it the active one. The older keys remain, to verify what they signed.
///
/// # Errors
/// As [`load`].
pub fn rotate(path: &Path, entropy: &dyn Entropy) -> Result<Keyring, Failure> {
    // Without the lock, two concurrent rotations would add the same id, and one secret would be lost.
    let lock = path.with_extension("lock");
    let lock = open_locked(&lock).map_err(|e| unavailable(&lock, &e))?;
    let keyring = load(path)?;
    let mut secrets = keyring.secrets().clone();
    let id = secrets.keys().next_back().map_or(1, |id| id + 1);
    secrets.insert(id, random_secret(entropy)?);
    let rotated = Keyring::new(secrets, id).map_err(|e| malformed(path, e))?;
    write_atomic(path, &encode(&rotated)?, WriteMode::Durable)
        .map_err(|e| unavailable(path, &e))?;
    drop(lock);
    Ok(rotated)
}

fn random_secret(entropy: &dyn Entropy) -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes)?;
    Ok(bytes)
}

fn encode(keyring: &Keyring) -> Result<Vec<u8>, Failure> {
    let secrets = keyring.secrets().iter();
    let keys = secrets
        .map(|(id, secret)| (*id, HexSecret(*secret)))
        .collect();
    let stored = StoredKeyring {
        active: keyring.active(),
        keys,
    };
    serde_json::to_vec_pretty(&stored).map_err(|e| Failure::new(ErrorCode::Internal, e.to_string()))
}

#[cfg(test)]
mod tests {
    use filrouge_store::OsEntropy;

    use super::*;

    #[test]
    fn a_keyring_is_created_once_reread_and_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/keyring.json");
        assert_eq!(load(&path).unwrap_err().code, ErrorCode::KeyMissing);
        let first = load_or_create(&path, &OsEntropy).unwrap();
        let reloaded = load_or_create(&path, &OsEntropy).unwrap();
        assert_eq!(first.secrets(), reloaded.secrets());
        let rotated = rotate(&path, &OsEntropy).unwrap();
        assert_eq!((rotated.active(), rotated.secrets().len()), (2, 2));
        assert_eq!(load(&path).unwrap().active(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(
                fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn a_malformed_keyring_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyring.json");
        for text in [
            "",
            "{}",
            r#"{"active":1,"keys":{"1":"zz"}}"#,
            r#"{"active":2,"keys":{}}"#,
        ] {
            fs::write(&path, text).unwrap();
            assert_eq!(
                load(&path).unwrap_err().code,
                ErrorCode::KeyMissing,
                "{text}"
            );
        }
    }
}
