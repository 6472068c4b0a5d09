//! Which keys a store is written with. Several servers share a store, so they need the same keyring: one that was
//! started with another is refused before it signs anything.

use std::collections::BTreeMap;

use filrouge_store::{Domain, KeyId, Keyring};
use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{failure, malformed};
use crate::migrate::{alone, is_written};

/// What the names of keys begin with in the table `store`.
const NAME: &str = "key ";

/// What a key is known by in this store, in hexadecimal digits (docs/format.md).
fn mark(keyring: &Keyring, id: KeyId, store_id: &str) -> Option<String> {
    let mac = keyring.mac(id, Domain::Store, &[&id.to_be_bytes(), store_id.as_bytes()])?;
    Some(mac.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The key that turn ids are derived with.
fn root(keyring: &Keyring) -> Option<KeyId> {
    keyring.secrets().keys().next().copied()
}

/// Notes the keyring's root and its active key, unless they are noted.
pub(super) async fn write(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    for id in root(keyring).into_iter().chain([keyring.active()]) {
        let (name, value) = (format!("{NAME}{id}"), mark(keyring, id, store_id));
        let sql = "INSERT INTO filrouge.store (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        client
            .query_typed(sql, &[(&name, Type::TEXT), (&value, Type::TEXT)])
            .await
            .map_err(|e| failure(&e))?;
    }
    Ok(())
}

/// Whether the store has been written with any keys.
pub(super) async fn are_noted(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT EXISTS (SELECT FROM filrouge.store WHERE starts_with(name, $1))";
    let row = client.query_typed_one(sql, &[(&NAME, Type::TEXT)]).await;
    Ok(row.map_err(|e| failure(&e))?.get(0))
}

/// The keys that the store has been written with.
async fn noted(client: &Client) -> Result<BTreeMap<KeyId, String>, Failure> {
    let sql = "SELECT name, value FROM filrouge.store WHERE starts_with(name, $1)";
    let rows = client.query_typed(sql, &[(&NAME, Type::TEXT)]).await;
    let rows = rows.map_err(|e| failure(&e))?;
    let read = |row: &tokio_postgres::Row| {
        let id = row.get::<_, &str>(0).strip_prefix(NAME)?.parse().ok()?;
        Some((id, row.get(1)))
    };
    let keys: Option<BTreeMap<_, _>> = rows.iter().map(read).collect();
    keys.ok_or_else(|| malformed("key mark"))
}

/// Notes the keys of the server that first opens a store which its migrations' statements have made.
async fn note_first(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<BTreeMap<KeyId, String>, Failure> {
    alone(client, async {
        let known = noted(client).await?;
        if !known.is_empty() {
            return Ok(known);
        }
        // What was written was written with keys, whose marks somebody has taken away.
        if is_written(client).await? {
            return Err(malformed("key mark"));
        }
        write(client, keyring, store_id).await?;
        noted(client).await
    })
    .await
}

/// Refuses a keyring other than the store's. A key that was rotated to is noted; one that is missing is told of, for
/// it keeps nothing from being read but what was written with it.
pub(super) async fn check(
    client: &Client,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    let mut known = noted(client).await?;
    if known.is_empty() {
        known = note_first(client, keyring, store_id).await?;
    }
    compare(&known, keyring, store_id)?;
    if !known.contains_key(&keyring.active()) {
        write(client, keyring, store_id).await?;
        // Another server may have rotated by itself, and noted its key first.
        known = noted(client).await?;
        compare(&known, keyring, store_id)?;
    }
    for id in known.keys().filter(|id| !keyring.knows(**id)) {
        tracing::warn!(
            key = *id,
            "the keyring lacks a key that the store was written with: what it wrote cannot be read; copy the \
             keyring file from the server that has it"
        );
    }
    Ok(())
}

fn compare(
    known: &BTreeMap<KeyId, String>,
    keyring: &Keyring,
    store_id: &str,
) -> Result<(), Failure> {
    let first = known.keys().next().copied();
    if first != root(keyring) {
        let first = first.unwrap_or_default();
        return Err(other(format!(
            "its first key is {first}, which is not the keyring's first"
        )));
    }
    let differs = |(id, noted): &(&KeyId, &String)| {
        mark(keyring, **id, store_id).is_some_and(|mark| mark != **noted)
    };
    match known.iter().find(differs) {
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
