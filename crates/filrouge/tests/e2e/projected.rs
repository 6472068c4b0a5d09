//! The projection `copy` of a test: its settings, its status, and its tables in a SQLite file.

use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::http::Client;
use crate::world::World;

/// How long a test waits for a projection.
const LIMIT: Duration = Duration::from_secs(120);

/// The section of the projection `copy`, with more settings.
pub(crate) fn section(kind: &str, url: &str, more: &str) -> String {
    named_section("copy", kind, url, more)
}

/// The section of the projection `name`, with more settings.
pub(crate) fn named_section(name: &str, kind: &str, url: &str, more: &str) -> String {
    format!("[[projections]]\nname = \"{name}\"\nkind = \"{kind}\"\nurl = \"{url}\"\n{more}\n")
}

/// A projection into tables in a SQLite file beside the configuration file, with more settings.
pub(crate) fn tables(more: &str) -> String {
    section("tables", "sqlite:copy.db", more)
}

/// Records a turn with this answer.
pub(crate) fn turn(client: &Client, session: &str, request: &str, answer: &str) -> Value {
    let turn = json!({ "request_id": request, "question_neutral": "what is it?", "answer_neutral": answer });
    client.post(&format!("/{session}/turns"), &turn).wrote(201)
}

/// Polls until `reached`. The pauses are as long as the polls: one that runs a command must not take the time of the
/// processes for which it waits.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    loop {
        let polled = Instant::now();
        if reached() {
            return;
        }
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(polled.elapsed().max(Duration::from_millis(5)));
    }
}

/// The status of each projection.
pub(crate) fn statuses(world: &World) -> Value {
    let output = world.run(&["project", "status", "--json"]);
    let mut status: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    status["projections"].take()
}

/// The status of the first projection.
pub(crate) fn status(world: &World) -> Value {
    statuses(world)[0].clone()
}

/// Waits until the projection has everything and needs no cleaning. Then it must equal the ledger.
#[track_caller]
pub(crate) fn wait_until_equal(world: &World) {
    wait_until("the projection is up to date", || {
        let status = status(world);
        let is_filled = status["lag_commits"] == 0 && status["building"].is_null();
        is_filled && status["uncleaned"] == 0 && status["failures"] == 0
    });
    let verified = world.run(&["project", "verify", "copy"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// The projection's entry in a receipt.
#[track_caller]
pub(crate) fn projection_in(receipt: &Value) -> &Value {
    let stores = receipt["stores"].as_array().unwrap();
    let entry = stores.last().unwrap();
    assert_eq!(
        (&entry["store"], &entry["name"]),
        (&json!("projection"), &json!("copy"))
    );
    entry
}

/// Opens the file of [`tables`], which must exist.
pub(crate) fn open(world: &World) -> rusqlite::Result<Connection> {
    let path = world.path("config/filrouge/copy.db");
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

fn rows(connection: &Connection, query: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let mut statement = connection.prepare(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column: usize| -> rusqlite::Result<String> {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => String::new(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    String::from_utf8_lossy(bytes).into_owned()
                }
            })
        };
        found.push((0..columns).map(text).collect::<rusqlite::Result<_>>()?);
    }
    Ok(found)
}

/// The rows that a query of [`tables`] returns, as texts.
pub(crate) fn query(world: &World, query: &str) -> Vec<Vec<String>> {
    try_query(world, query).unwrap()
}

/// As [`query`]; fails while the file or the table does not exist.
pub(crate) fn try_query(world: &World, query: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    rows(&open(world)?, query)
}

/// All rows of all generations in [`tables`].
pub(crate) fn all_rows(world: &World) -> String {
    let connection = open(world).unwrap();
    // A rebuild must drop no table between the queries.
    connection.execute_batch("BEGIN").unwrap();
    let names = rows(
        &connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
    );
    let tables = names.unwrap().into_iter().map(|name| {
        let rows = rows(&connection, &format!("SELECT * FROM \"{}\"", name[0]));
        format!("{}: {:?}\n", name[0], rows.unwrap())
    });
    tables.collect()
}

/// What a server of another program returns.
pub(crate) fn get(url: &str, bearer: Option<&str>) -> String {
    let config = ureq::Agent::config_builder().proxy(None).build();
    let mut request = ureq::Agent::from(config).get(url);
    if let Some(key) = bearer {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let mut response = request.call().unwrap_or_else(|e| panic!("{url}: {e}"));
    let body = response.body_mut().with_config().limit(1 << 30);
    body.read_to_string().unwrap()
}
