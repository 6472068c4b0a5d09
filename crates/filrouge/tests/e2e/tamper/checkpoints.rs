//! A checkpoint that somebody puts back into the database after its deletion is not shown.

use serde_json::json;

use super::change_rows;
use crate::leases::serve_with;
use crate::world::{Server, World};

/// A session keeps two checkpoints.
const SETTINGS: [(&str, &str); 1] = [("FILROUGE_CHECKPOINTS_KEPT", "2")];

/// A statement that writes the stored checkpoint at `seq`. `{}` is the place of the schema.
fn insertion(world: &World, schema: &str, seq: u64) -> String {
    let (columns, values, data) = match schema {
        "" => {
            let store = rusqlite::Connection::open(world.store()).unwrap();
            let sql = format!("SELECT hex(data) FROM checkpoint WHERE seq = {seq}");
            let data: String = store.query_row(&sql, [], |row| row.get(0)).unwrap();
            ("session_pk", "pk", format!("x'{data}'"))
        }
        _ => {
            let sql =
                format!("SELECT encode(data, 'hex') FROM filrouge.checkpoint WHERE seq = {seq}");
            let data = world.database().sql(&sql)[0][0].clone().unwrap();
            (
                "lane, session_pk",
                "lane, pk",
                format!("decode('{data}', 'hex')"),
            )
        }
    };
    format!(
        "INSERT INTO {{}}checkpoint ({columns}, seq, data) SELECT {values}, {seq}, {data} FROM {{}}session"
    )
}

fn deletion(seq: u64) -> String {
    format!("DELETE FROM {{}}checkpoint WHERE seq = {seq}")
}

/// Reads the list and the newest checkpoint.
fn check(server: &Server, readable: &[u64], unreadable: &[u64]) {
    let client = server.client();
    let list = client.get_body("/s/checkpoints");
    let rows = list["data"].as_array().unwrap();
    let seqs = |is_unreadable: bool| -> Vec<u64> {
        let rows = rows.iter().filter(|row| row["unreadable"] == is_unreadable);
        rows.map(|row| row["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(seqs(false), readable, "{list}");
    assert_eq!(seqs(true), unreadable, "{list}");
    let mut unreadable = rows.iter().filter(|row| row["unreadable"] == true);
    assert!(unreadable.all(|row| row["state"].is_null()), "{list}");
    let latest = client.get("/s/checkpoints/latest");
    match readable.first() {
        Some(newest) => assert_eq!(latest.is(200)["seq"], *newest),
        None => drop(latest.fails(404, "checkpoint_not_found")),
    }
}

/// Carries out an attack while a server runs; returns a server that was started after it.
fn attack(
    (world, schema): (&World, &str),
    server: Server,
    sql: &str,
    (readable, unreadable): (&[u64], &[u64]),
) -> Server {
    change_rows(world, schema, sql);
    check(&server, readable, unreadable);
    server.stop();
    let verified = world.run(&["verify"]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert!(verified.stdout.contains("\"s\""), "{verified:?}");
    let server = serve_with(world, &SETTINGS);
    check(&server, readable, unreadable);
    server
}

#[test]
fn checkpoints_that_were_put_back_are_not_shown() {
    for (world, schema) in [
        (World::on_sqlite(), ""),
        (World::on_postgres(), "filrouge."),
    ] {
        let store = (&world, schema);
        let server = serve_with(&world, &SETTINGS);
        let client = server.client();
        let [oldest, older, newest] = [2, 4, 6].map(|seq| {
            let turn = json!({ "request_id": format!("r{seq}"), "question_neutral": "?", "answer_neutral": "!" });
            client.post("/s/turns", &turn).wrote(201);
            let checkpoint = json!({ "seq": seq, "state": { "n": seq } });
            client.put("/s/checkpoints", &checkpoint).wrote(201);
            insertion(&world, schema, seq)
        });
        check(&server, &[6, 4], &[]);
        let server = attack(store, server, &oldest, (&[6, 4], &[2]));
        // Now the number of checkpoints is right.
        let server = attack(store, server, &deletion(4), (&[6], &[4, 2]));
        let server = attack(store, server, &deletion(6), (&[], &[6, 4, 2]));
        let client = server.client();
        let refused = client.put("/s/checkpoints", &json!({ "state": {} }));
        // The next head must not authenticate what was put back.
        refused.fails(500, "integrity_error");
        let repair = format!("{}; {older}; {newest}", deletion(2));
        change_rows(&world, schema, &repair);
        check(&server, &[6, 4], &[]);
        let turn = client.get_body("/s/turns?request_id=r6");
        let turn = turn["data"][0]["turn_id"].as_str().unwrap();
        let reason = json!({ "reason": "on request" });
        client
            .post(&format!("/s/turns/{turn}/redact"), &reason)
            .wrote(200);
        check(&server, &[4], &[]);
        let server = attack(store, server, &newest, (&[4], &[6]));
        change_rows(&world, schema, &deletion(6));
        check(&server, &[4], &[]);
        server.stop();
        world.verify();
    }
}
