//! A search finds what somebody has removed from the search index, or changed in it.

use crate::http::Client;
use crate::search_http::{found, search_by_index, turn};
use crate::search_ledger::gauge;
use crate::world::{Server, World};

fn damaged(client: &Client) -> u64 {
    let metrics = client.send_without_body("GET", "/metrics", "").text;
    gauge(&metrics, "filrouge_search_index_damaged_total ")
}

/// Removes documents of the session `s`, and then its row too, with the function `attack`, to which it passes SQL; the
/// arguments are the tables of documents, of sessions and of shards, and the column of a session's number. A search
/// finds the session nevertheless. `attack` returns the server that is asked.
fn check(
    world: &World,
    [documents, sessions, shards, no]: [&str; 4],
    attack: impl Fn(Server, &str) -> Server,
) {
    let of_s =
        format!("FROM {documents} WHERE session = (SELECT {no} FROM {sessions} WHERE key = 's')");
    let attacks = [
        format!("DELETE {of_s}"),
        format!("DELETE {of_s}; DELETE FROM {sessions} WHERE key = 's'"),
        format!("UPDATE {sessions} SET key = 'x' WHERE key = 's'"),
        format!("UPDATE {shards} SET realm = owner"),
    ];
    let mut server = world.serve();
    for session in ["s", "t"] {
        turn(&server.client(), session, "r", ("a lantern", "lit"));
    }
    for sql in attacks {
        let page = search_by_index(&server.client(), &[("q", "lantern")]);
        assert_eq!(page["total_sessions"], 2, "{page}");
        server = attack(server, &sql);
        let client = server.client();
        let before = damaged(&client);
        let mut ids = found(&client, &[("q", "lantern")]);
        ids.sort();
        assert_eq!(ids, ["s", "t"], "{sql}");
        assert!(damaged(&client) > before, "{sql}");
    }
    server.stop();
}

#[test]
fn a_search_finds_what_was_removed_from_the_index_file() {
    let world = World::on_sqlite();
    let tables = ["document", "session", "shard", "id"];
    check(&world, tables, |server, sql| {
        let file = world.path("data/filrouge/filrouge.db.index");
        let index = rusqlite::Connection::open(file).unwrap();
        index.execute_batch(sql).unwrap();
        server
    });
}

#[test]
fn a_search_finds_what_was_removed_from_the_index_in_postgresql() {
    let world = World::on_postgres();
    let tables = [
        "filrouge.search_document",
        "filrouge.search_session",
        "filrouge.search_shard",
        "no",
    ];
    check(&world, tables, |server, sql| {
        // A running server checks the index again within ten seconds.
        server.stop();
        world.database().sql(sql);
        world.serve()
    });
}
