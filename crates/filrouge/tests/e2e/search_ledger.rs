//! The ledger's index on the command line: shown, updated and rebuilt; and how the server shows it.

use std::fs;

use serde_json::{Value, json};

use crate::caller::within_five_seconds;
use crate::search_http::{found, search_by_index, send_search, turn};
use crate::world::World;

/// The ledger's row of `filrouge index` with these arguments.
fn row(world: &World, words: &[&str]) -> Value {
    let asked = [&["index"], words, &["--source", "ledger"]].concat();
    let reported = world.json(&asked);
    let rows = reported["indexes"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{reported}");
    assert_eq!(rows[0]["source"], "ledger", "{reported}");
    rows[0].clone()
}

#[test]
fn the_index_is_shown_updated_and_rebuilt() {
    let world = World::on_sqlite();
    let without = [
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ("FILROUGE_SEARCH_INDEX", "false"),
    ];
    let server = world.serve_with_env(&without, &[]);
    for n in 0..9 {
        turn(
            &server.client(),
            &format!("s{n}"),
            "r",
            ("a lantern", "lit"),
        );
    }
    server.stop();
    let file = world.path("data/filrouge/filrouge.db.index");
    let before = row(&world, &["status"]);
    assert_eq!(before["file"], file.to_str().unwrap());
    assert!(before["documents"].is_null() && !file.exists(), "{before}");

    let made = row(&world, &["update"]);
    let reported = (&made["status"], &made["sessions"], &made["documents"]);
    assert_eq!(
        reported,
        (&json!("updated"), &json!(9), &json!(18)),
        "{made}"
    );
    let after = row(&world, &["status"]);
    let reported = (&after["sessions"], &after["documents"], &after["behind"]);
    assert_eq!(reported, (&json!(9), &json!(18), &json!(0)), "{after}");
    assert!(after["bytes"].as_u64() > Some(0) && after["as_of"].is_string());
    assert_eq!(row(&world, &["update"])["documents"], 0);
    let found = world.json(&["search", "lantern", "--source", "ledger"]);
    assert_eq!(found["total_sessions"], 9, "{found}");
    assert!(found["as_of"].is_string(), "by the index: {found}");

    // Stale after writes of a server that does not use the index.
    let server = world.serve_with_env(&without, &[]);
    turn(&server.client(), "s9", "r", ("a lantern", "lit"));
    server.stop();
    assert!(row(&world, &["status"])["behind"].as_u64() > Some(0));
    let table = world.ok(&["index", "status", "--source", "ledger"]);
    assert!(table.contains("commits behind"), "{table}");
    assert_eq!(row(&world, &["rebuild"])["documents"], 20);
    assert_eq!(row(&world, &["status"])["behind"], 0);

    // It can be deleted at any time.
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(format!("{}{ending}", file.display())).ok();
    }
    let found = world.json(&["search", "lantern", "--source", "ledger"]);
    assert_eq!(found["total_sessions"], 10, "{found}");
    assert!(!file.exists(), "a search creates no index");
}

#[test]
fn the_index_is_rebuilt_and_used_on_postgresql() {
    let world = World::on_postgres();
    let server = world.serve();
    turn(&server.client(), "s", "r", ("a lantern", "lit"));
    server.stop();
    let made = row(&world, &["rebuild"]);
    assert_eq!(
        (&made["status"], &made["documents"]),
        (&json!("updated"), &json!(2))
    );
    let after = row(&world, &["status"]);
    assert!(
        after["file"].as_str().unwrap().starts_with("postgres"),
        "{after}"
    );
    assert_eq!(
        (&after["documents"], &after["behind"]),
        (&json!(2), &json!(0))
    );
    // A text that some databases cannot store is searched for like any other.
    let server = world.serve();
    let client = server.client();
    turn(&client, "t", "r", ("a nul \0 inside", "50% of_it \\ 'all'"));
    for query in [
        "nul \0 in",
        "\"l \0 i\"",
        "50%",
        "of_it",
        "\\",
        "'all'",
        "0% o",
    ] {
        let page = search_by_index(&client, &[("q", query)]);
        let reported = (&page["total_sessions"], &page["notices"]);
        assert_eq!(reported, (&json!(1), &json!([])), "{query:?}: {page}");
    }
    let page = send_search(&client, &[("q", "5%f")]).is(200);
    assert_eq!(page["total_sessions"], 0, "{page}");
    server.stop();
}

/// `7d` means the same on every page.
#[test]
fn a_relative_time_means_the_same_on_every_page() {
    let world = World::on_sqlite();
    let server = world.serve();
    for n in 0..3 {
        let said = ("a lantern", "lit");
        turn(&server.client(), &format!("s{n}"), "r", said);
    }
    server.stop();
    let mut asked = vec!["search", "lantern", "--since", "7d", "--limit", "1"];
    asked.extend(["--source", "ledger"]);
    let (mut ids, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut asked = asked.clone();
        asked.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor]));
        let page = world.json(&asked);
        ids.push(page["data"][0]["session_id"].as_str().unwrap().to_owned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    ids.sort();
    assert_eq!(ids, ["s0", "s1", "s2"]);
}

pub(crate) fn gauge(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name}: {text}"))
        .trim()
        .parse()
        .unwrap()
}

/// An index that does not answer is reported; meanwhile everything is scanned.
#[test]
fn an_index_that_does_not_answer_is_reported() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    turn(&client, "s", "r", ("a lantern", "lit"));
    assert_eq!(found(&client, &[("q", "lantern")]), ["s"]);
    let metrics = client.send_without_body("GET", "/metrics", "").text;
    assert_eq!(gauge(&metrics, "filrouge_search_index_up "), 1);
    assert_eq!(gauge(&metrics, "filrouge_search_index_documents_total "), 2);
    assert_eq!(gauge(&metrics, "filrouge_search_index_behind_commits "), 0);
    assert!(client.get_body("/readyz")["search"].is_null());

    // Its tables are dropped while the server runs.
    let file = world.path("data/filrouge/filrouge.db.index");
    let index = rusqlite::Connection::open(&file).unwrap();
    index
        .execute_batch("ALTER TABLE document RENAME TO elsewhere")
        .unwrap();
    turn(&client, "t", "r", ("a second lantern", "lit"));
    let page = send_search(&client, &[("q", "lantern")]).is(200);
    assert_eq!(page["total_sessions"], 2, "{page}");
    // Only the operator learns why it does not answer.
    let reported = "a search index does not answer: its history was scanned";
    assert_eq!(
        (&page["as_of"], &page["notices"]),
        (&Value::Null, &json!([reported]))
    );
    within_five_seconds("the server logs the failure", || {
        let ready = client.get_body("/readyz");
        ready["status"] == "degraded" && ready["search"].is_string()
    });
    let metrics = client.send_without_body("GET", "/metrics", "").text;
    assert_eq!(gauge(&metrics, "filrouge_search_index_up "), 0);
    assert_eq!(gauge(&metrics, "filrouge_degraded "), 1);
    assert!(gauge(&metrics, "filrouge_search_index_errors_total ") > 0);

    index
        .execute_batch("ALTER TABLE elsewhere RENAME TO document")
        .unwrap();
    within_five_seconds("the server logs the recovery", || {
        client.get_body("/readyz")["status"] == "ready"
    });
    let page = search_by_index(&client, &[("q", "lantern")]);
    assert_eq!(page["total_sessions"], 2, "{page}");
    server.stop();
}
