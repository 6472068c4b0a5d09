//! Records, in the store, the keys with which the store is written. Servers that share a store need the same keyring: a
//! server that starts with another keyring is refused before it writes anything.

use std::collections::BTreeMap;

use filrouge_store::{Domain, KeyId, Keyring};
use filrouge_types::{ErrorCode, Failure, Result};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{failure, malformed};
use crate::migrate::{has_data, in_locked_transaction};

/// The prefix of the names of rows for keys in the table `store`. The rest of a name is the key's id, the value is the
/// key's [`key_mark`].
const KEY_PREFIX: &str = "key ";

/// The mark of a key: a MAC of the store's id under this key, in hexadecimal digits (docs/format.md). It identifies the
/// key without revealing it. `None` if the keyring lacks the key.
fn key_mark(keyring: &Keyring, id: KeyId, store_id: &str) -> Option<String> {
    let mac = keyring.mac(id, Domain::Store, &[&id.to_be_bytes(), store_id.as_bytes()])?;
    Some(mac.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The keyring's root: its first key, from which turn ids are derived.
fn root_key(keyring: &Keyring) -> Option<KeyId> {
    keyring.secrets().keys().next().copied()
}

/// Records the marks of the keyring's root and of its active key, unless they are already recorded.
pub(super) async fn write(client: &Client, keyring: &Keyring, store_id: &str) -> Result<()> {
    for id in root_key(keyring).into_iter().chain([keyring.active()]) {
        let (name, value) = (format!("{KEY_PREFIX}{id}"), key_mark(keyring, id, store_id));
        let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        client
            .query_typed(sql, &[(&name, Type::TEXT), (&value, Type::TEXT)])
            .await
            .map_err(|e| failure(&e))?;
    }
    Ok(())
}

/// Whether the mark of any key is recorded in the store.
pub(super) async fn are_recorded(client: &Client) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM filrouge.store WHERE starts_with(name, $1))";
    let row = client
        .query_typed_one(sql, &[(&KEY_PREFIX, Type::TEXT)])
        .await;
    Ok(row.map_err(|e| failure(&e))?.get(0))
}

/// Reads the marks of the keys with which the store was written.
async fn read_marks(client: &Client) -> Result<BTreeMap<KeyId, String>> {
    let sql = "SELECT name, value FROM filrouge.store WHERE starts_with(name, $1)";
    let rows = client.query_typed(sql, &[(&KEY_PREFIX, Type::TEXT)]).await;
    let rows = rows.map_err(|e| failure(&e))?;
    let read = |row: &tokio_postgres::Row| {
        let id = row
            .get::<_, &str>(0)
            .strip_prefix(KEY_PREFIX)?
            .parse()
            .ok()?;
        Some((id, row.get(1)))
    };
    let keys: Option<BTreeMap<_, _>> = rows.iter().map(read).collect();
    keys.ok_or_else(|| malformed("key mark"))
}

/// Records the marks of this server's keys in a store without marks: an administrator has created the store by running
/// the migrations' SQL, and this server is the first to open it. If another server was faster, returns the marks that
/// it recorded.
async fn record_first(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<BTreeMap<KeyId, String>> {
    in_locked_transaction(client, async {
        let marks = read_marks(client).await?;
        if !marks.is_empty() {
            return Ok(marks);
        }
        // Servers record their keys before they write data, so the marks of this store were deleted.
        if has_data(client).await? {
            return Err(malformed("key mark"));
        }
        write(client, keyring, store_id).await?;
        read_marks(client).await
    })
    .await
}

/// Refuses a keyring other than the store's. If the keyring's active key is new, because the operator rotated keys,
/// records it. If the keyring lacks one of the store's keys, only logs a warning: all data that was written with other
/// keys can still be read.
pub(super) async fn check(client: &Client, keyring: &Keyring, store_id: &str) -> Result<()> {
    let mut marks = read_marks(client).await?;
    if marks.is_empty() {
        marks = record_first(client, keyring, store_id).await?;
    }
    compare(&marks, keyring, store_id)?;
    if !marks.contains_key(&keyring.active()) {
        write(client, keyring, store_id).await?;
        // The operator may have rotated the keys of another server separately, and that server may have recorded a
        // different key with this id first.
        marks = read_marks(client).await?;
        compare(&marks, keyring, store_id)?;
    }
    for id in marks.keys().filter(|id| !keyring.contains(**id)) {
        tracing::warn!(
            key = *id,
            "the keyring lacks a key of the store: what was written with that key cannot be read; copy the \
             keyring file from the server that has it"
        );
    }
    Ok(())
}

/// Refuses a keyring if its root differs from the store's, or a key that both have has another mark.
fn compare(marks: &BTreeMap<KeyId, String>, keyring: &Keyring, store_id: &str) -> Result<()> {
    let first = marks.keys().next().copied();
    if first != root_key(keyring) {
        let first = first.unwrap_or_default();
        return Err(other_keyring(format!(
            "its first key is {first}, which is not the keyring's first"
        )));
    }
    let differs = |(id, recorded): &(&KeyId, &String)| {
        key_mark(keyring, **id, store_id).is_some_and(|mark| mark != **recorded)
    };
    match marks.iter().find(differs) {
        Some((id, _)) => Err(other_keyring(format!("its key {id} is not the keyring's"))),
        None => Ok(()),
    }
}

fn other_keyring(detail: String) -> Failure {
    ErrorCode::KeyMissing.failure(format!("the store is written with another keyring: {detail}"))
    .with_hint(
        "all servers of a store need the same keyring file: copy it from the one that wrote first",
    )
}
