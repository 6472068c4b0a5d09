//! Projections of a genuine history of OpenCode, by the built binary.

use std::fs;
use std::path::{Path, PathBuf};

use filrouge_testbed::{OpenSearch, Weaviate};
use rusqlite::Connection;
use serde_json::json;

use crate::not_tested::{Unavailable, or_report_untested};
use crate::projected::{
    all_rows, query, section, status, tables, try_query, turn, wait_until, wait_until_equal,
};
use crate::webhooks::write_config;
use crate::world::{World, copy_tree, fixture};

/// The folder of the build in which servers are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// The text of the history whose id is the smallest. It is not in the session that [`remove_a_session`] deletes.
const A_TEXT: &str =
    "SELECT id FROM part WHERE json_extract(data, '$.type') = 'text' ORDER BY id LIMIT 1";

/// A copy of a history with 25 sessions, and the setting that names it.
fn history(world: &World) -> (PathBuf, String) {
    let folder = world.path("history");
    copy_tree(&fixture("opencode-sqlite"), &folder);
    let setting = format!("source = \"opencode:{}\"", folder.display());
    (folder, setting)
}

/// Changes the history as OpenCode does.
fn change(folder: &Path, statements: &str) {
    let database = Connection::open(folder.join("opencode.db")).unwrap();
    database.execute_batch(statements).unwrap();
}

/// Changes a text of the history to this one.
fn change_text(folder: &Path, text: &str) {
    let data = format!("json_set(data, '$.text', '{text}')");
    change(
        folder,
        &format!(
            "UPDATE part SET data = {data}, time_updated = time_updated + 1 WHERE id = ({A_TEXT})"
        ),
    );
}

/// Deletes the session with the greatest id.
fn remove_a_session(folder: &Path) {
    let session = "(SELECT max(id) FROM session)";
    change(
        folder,
        &format!(
            "DELETE FROM part WHERE session_id = {session};
             DELETE FROM message WHERE session_id = {session};
             DELETE FROM session WHERE id = {session};"
        ),
    );
}

/// A world with a store.
fn world() -> World {
    let world = World::new();
    world.serve().stop();
    world
}

/// Updates the projection, which must then equal the history.
fn run_once(world: &World) {
    let once = world.ok(&["project", "run", "copy", "--once"]);
    assert_eq!(once, "copy: up to date\n");
    wait_until_equal(world);
}

fn session_count(world: &World) -> String {
    query(world, "SELECT count(*) FROM sessions")[0][0].clone()
}

#[test]
fn tables_follow_a_history_of_opencode() {
    let world = world();
    let (folder, source) = history(&world);
    write_config(
        &world,
        &tables(&format!("{source}\ntenants = [\"agents\"]")),
    );
    let shown = world.ok(&["config", "show"]);
    assert!(shown.contains("source opencode:"), "{shown}");
    run_once(&world);
    assert_eq!(session_count(&world), "25");
    for (text, expected) in [
        ("SELECT DISTINCT tenant FROM sessions", "agents"),
        (
            "SELECT DISTINCT json_extract(metadata, '$.origin.source') FROM sessions",
            "opencode",
        ),
        (
            "SELECT count(*) FROM items WHERE turn_id NOT IN (SELECT turn_id FROM turns)",
            "0",
        ),
        ("SELECT count(*) > 20 FROM turns", "1"),
        ("SELECT count(answer_neutral) > 20 FROM turns", "1"),
        ("SELECT count(*) FROM call_sessions", "0"),
    ] {
        assert_eq!(query(&world, text), [[expected]], "{text}");
    }

    change_text(&folder, "moonflower");
    remove_a_session(&folder);
    let behind = world.run(&["project", "verify", "copy"]);
    assert_eq!(behind.code, Some(1), "{behind:?}");
    run_once(&world);
    assert_eq!(session_count(&world), "24");
    assert!(all_rows(&world).contains("moonflower"));

    let server = world.serve();
    // The ledger's sessions are not copied, and its erasures do not concern the copy.
    let client = server.client();
    turn(&client, "of-the-ledger", "r1", "words");
    let receipt = client.delete("/of-the-ledger").is(200);
    assert!(!receipt.to_string().contains("projection"), "{receipt}");
    change_text(&folder, "sunflower");
    remove_a_session(&folder);
    wait_until("the server has seen the changes", || {
        let counted = try_query(&world, "SELECT count(*) FROM sessions");
        counted.is_ok_and(|counted| counted == [["23"]])
    });
    wait_until_equal(&world);
    let rows = all_rows(&world);
    assert!(rows.contains("sunflower") && !rows.contains("moonflower"));
    let before = status(&world)["generation"].clone();
    world.ok(&["project", "rebuild", "copy"]);
    wait_until("a generation was built", || {
        status(&world)["generation"] != before
    });
    wait_until_equal(&world);
    server.stop();

    let retried = world.ok(&["project", "retry", "copy"]);
    assert_eq!(retried, "copy: there are no dead letters\n");
    let exported = world.json(&["project", "export", "copy", "--to", "files"]);
    assert_eq!(exported["sessions"], 23, "{exported}");
    assert_eq!(exported["left_out"], json!([]), "{exported}");
    world.verify();
}

#[test]
fn a_missing_history_is_reported_and_removes_nothing() {
    let (world, elsewhere) = (world(), "elsewhere");
    let (folder, source) = history(&world);
    write_config(&world, &tables(&source));
    run_once(&world);
    fs::rename(&folder, world.path(elsewhere)).unwrap();
    let once = world.run(&["project", "run", "copy", "--once"]);
    assert_eq!(once.code, Some(1), "{once:?}");
    let status = world.run(&["project", "status"]);
    assert_eq!(status.code, Some(1), "{status:?}");
    assert!(status.stdout.contains("does not exist"), "{status:?}");
    let server = world.serve();
    let client = server.client();
    wait_until("the server reports it", || {
        client.get_body("/readyz")["status"] == "degraded"
    });
    assert_eq!(session_count(&world), "25");
    fs::rename(world.path(elsewhere), &folder).unwrap();
    wait_until("the server continues", || {
        client.get_body("/readyz")["projections"].is_null()
    });
    server.stop();
    wait_until_equal(&world);
    assert_eq!(session_count(&world), "25");
}

#[test]
fn without_a_ledger_nothing_is_copied() {
    let world = World::on_sqlite();
    let (_, source) = history(&world);
    write_config(&world, &tables(&source));
    for command in ["run", "status"] {
        let refused = world.run(&["project", command]);
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("hint: "), "{refused:?}");
    }
    assert!(!world.path("config/filrouge/copy.db").exists());
}

/// Fills a target with a history, and follows changes.
fn is_followed(kind: &str, url: &str, more: &str) {
    let world = world();
    let (folder, source) = history(&world);
    let prefix = format!("prefix = \"history_{}\"", std::process::id());
    let more = format!("{source}\n{prefix}\n{more}");
    write_config(&world, &section(kind, url, &more));
    run_once(&world);
    change_text(&folder, "moonflower");
    remove_a_session(&folder);
    run_once(&world);
}

fn server<T>(kind: &str, server: Result<T, Unavailable>) -> Option<T> {
    let what = format!("a projection of a history into {kind}");
    or_report_untested(&format!("history_{kind}"), &what, server)
}

#[test]
fn opensearch_follows_a_history_of_opencode() {
    if let Some(server) = server("opensearch", OpenSearch::shared(Path::new(ALL))) {
        is_followed("opensearch", &server.url(), "");
    }
}

#[test]
fn weaviate_follows_a_history_of_opencode() {
    if let Some(server) = server("weaviate", Weaviate::shared(Path::new(ALL))) {
        let secret = format!("secret = \"{}\"", server.key());
        is_followed("weaviate", &server.url(), &secret);
    }
}
