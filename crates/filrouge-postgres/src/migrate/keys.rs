//! The record of the keys that a store is written with. Servers that share a store need the same keyring: one that
//! starts with another keyring is refused before it signs anything.

use std::collections::BTreeMap;

use filrouge_store::{Domain, KeyId, Keyring};
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{failure, malformed};
use crate::migrate::{has_data, in_locked_transaction};

/// The prefix of the rows for keys in the table `store`.
const KEY_PREFIX: &str = "key ";

/// The mark that identifies a key in this store, in hexadecimal digits (docs/format.md).
fn mark(keyring: &Keyring, id: KeyId, store_id: &str) -> Option<String> {
    let mac = keyring.mac(id, Domain::Store, &[&id.to_be_bytes(), store_id.as_bytes()])?;
    Some(mac.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The first key of the keyring, which turn ids are derived from.
fn root(keyring: &Keyring) -> Option<KeyId> {
    keyring.secrets().keys().next().copied()
}

/// Records the keyring's root and its active key, unless they are already recorded.
pub(super) async fn write(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    for id in root(keyring).into_iter().chain([keyring.active()]) {
        let (name, value) = (format!("{KEY_PREFIX}{id}"), mark(keyring, id, store_id));
        let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        client
            .query_typed(sql, &[(&name, Type::TEXT), (&value, Type::TEXT)])
            .await
            .map_err(|e| failure(&e))?;
    }
    Ok(())
}

/// Whether the store has a record of any keys.
pub(super) async fn are_recorded(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT FROM filrouge.store WHERE starts_with(name, $1))";
    let row = client
        .query_typed_one(sql, &[(&KEY_PREFIX, Type::TEXT)])
        .await;
    Ok(row.map_err(|e| failure(&e))?.get(0))
}

/// The marks of the keys that the store was written with.
async fn read_marks(client: &Client) -> Result<BTreeMap<KeyId, String>, Failure> {
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

/// Records the keys of the first server that opens a store created by running the migrations' statements.
async fn record_first(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<BTreeMap<KeyId, String>, Failure> {
    in_locked_transaction(client, async {
        let marks = read_marks(client).await?;
        if !marks.is_empty() {
            return Ok(marks);
        }
        // Data is written with keys only, so their marks must have been deleted.
        if has_data(client).await? {
            return Err(malformed("key mark"));
        }
        write(client, keyring, store_id).await?;
        read_marks(client).await
    })
    .await
}

/// Refuses a keyring other than the store's. Records a key that was rotated to. Only warns about a key that the keyring
/// lacks: only what was written with that key cannot be read.
pub(super) async fn check(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    let mut marks = read_marks(client).await?;
    if marks.is_empty() {
        marks = record_first(client, keyring, store_id).await?;
    }
    compare(&marks, keyring, store_id)?;
    if !marks.contains_key(&keyring.active()) {
        write(client, keyring, store_id).await?;
        // Another server may have rotated independently, and recorded its key first.
        marks = read_marks(client).await?;
        compare(&marks, keyring, store_id)?;
    }
    for id in marks.keys().filter(|id| !keyring.knows(**id)) {
        tracing::warn!(
            key = *id,
            "the keyring lacks a key of the store: what was written with that key cannot be read; copy the \
             keyring file from the server that has it"
        );
    }
    Ok(())
}

fn compare(
    marks: &BTreeMap<KeyId, String>,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    let first = marks.keys().next().copied();
    if first != root(keyring) {
        let first = first.unwrap_or_default();
        return Err(other(format!(
            "its first key is {first}, which is not the keyring's first"
        )));
    }
    let differs = |(id, recorded): &(&KeyId, &String)| {
        mark(keyring, **id, store_id).is_some_and(|mark| mark != **recorded)
    };
    match marks.iter().find(differs) {
        Some((id, _)) => Err(other(format!("its key {id} is not the keyring's"))),
        None => Ok(()),
    }
}

fn other(what: String) -> Failure {
    Failure::new(
        ErrorCode::KeyMissing,
        format!("the store is written with another keyring: {what}"),
    )
    .with_hint(
        "all servers of a store need the same keyring file: copy it from the one that wrote first",
    )
}
