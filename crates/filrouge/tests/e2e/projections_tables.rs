//! Projections into SQL tables in a SQLite file, by the built binary.

use filrouge_projections::parquet::NOT_ERASED;
use serde_json::{Value, json};

use crate::projected::{
    all_rows, open, projection_in, query, status, tables, try_query, turn, wait_until,
    wait_until_equal,
};
use crate::webhooks::write_config;
use crate::world::World;

const SECRET: &str = "moonflower";

#[test]
fn tables_have_each_turn_and_lose_what_is_erased() {
    let world = World::new();
    write_config(&world, &tables("tenant_ids = { default = 7 }"));
    let server = world.serve();
    let client = server.client();
    let secret = |session: &str| format!("{SECRET} {session}");
    for session in ["erased", "redacted", "later"] {
        turn(&client, session, "r1", &secret(session));
    }
    let kept = turn(&client, "kept", "r1", &secret("kept"));
    wait_until_equal(&world);
    assert_eq!(
        query(&world, "SELECT session_id FROM sessions ORDER BY 1"),
        [["erased"], ["kept"], ["later"], ["redacted"]]
    );
    let answer = secret("kept");
    assert_eq!(
        query(
            &world,
            "SELECT question_neutral, answer_neutral, status FROM turns WHERE session_id = 'kept'"
        ),
        [["what is it?", answer.as_str(), "finalized"]]
    );
    assert_eq!(
        query(
            &world,
            "SELECT seq, channel, text FROM items WHERE session_id = 'kept' ORDER BY seq"
        ),
        [
            ["1", "question", "what is it?"],
            ["2", "final", answer.as_str()]
        ]
    );
    assert_eq!(
        query(
            &world,
            "SELECT tenant_id, role, text FROM call_messages WHERE call_id = 'kept' ORDER BY seq"
        ),
        [
            ["7", "user", "what is it?"],
            ["7", "agent", answer.as_str()]
        ]
    );

    let redact = ["redact", "redacted", "--seq", "2", "--reason", "asked"];
    for receipt in [client.delete("/erased").is(200), world.json(&redact)] {
        assert_eq!(projection_in(&receipt)["status"], "erased", "{receipt}");
    }
    let path = format!("/kept/turns/{}/redact", kept["turn_id"].as_str().unwrap());
    client.post(&path, &json!({ "reason": "asked" })).wrote(200);
    let text = all_rows(&world);
    for session in ["erased", "redacted", "kept"] {
        assert!(!text.contains(&secret(session)), "{text}");
    }
    wait_until_equal(&world);
    assert!(
        world
            .ok(&["project", "status"])
            .contains("copy: generation")
    );
    server.stop();

    // Without a server, the command cleans.
    let receipt = world.ok(&["erase", "later", "--yes"]);
    assert!(receipt.contains("projection copy: erased"), "{receipt}");
    assert!(!all_rows(&world).contains(SECRET));
    let once = world.ok(&["project", "run", "copy", "--once"]);
    assert_eq!(once, "copy: up to date\n");
    wait_until_equal(&world);
    assert_eq!(query(&world, "SELECT count(*) FROM sessions"), [["2"]]);
    world.verify();
}

#[test]
fn a_rebuild_and_other_settings_fill_another_generation() {
    let world = World::new();
    write_config(&world, &tables("tenant_ids = { default = 7 }"));
    let server = world.serve();
    turn(&server.client(), "s", "r1", "words");
    wait_until_equal(&world);
    let first = status(&world)["generation"].clone();
    world.ok(&["project", "rebuild", "copy"]);
    let is_replaced = |before: &Value| {
        let generation = status(&world)["generation"].clone();
        generation.is_u64() && generation != *before
    };
    wait_until("a generation was built", || is_replaced(&first));
    wait_until_equal(&world);
    let generations = "SELECT count(*) FROM projection_generation";
    assert_eq!(query(&world, generations), [["1"]]);
    let retried = world.ok(&["project", "retry", "copy"]);
    assert_eq!(retried, "copy: there are no dead letters\n");
    for command in ["retry", "rebuild", "verify"] {
        let unknown = world.run(&["project", command, "other"]);
        assert_eq!(unknown.code, Some(2), "{unknown:?}");
    }
    server.stop();

    let second = status(&world)["generation"].clone();
    write_config(&world, &tables("tenant_ids = { default = 8 }"));
    let server = world.serve();
    wait_until("a generation was built", || is_replaced(&second));
    wait_until_equal(&world);
    let numbers = "SELECT DISTINCT tenant_id FROM call_messages";
    assert_eq!(query(&world, numbers), [["8"]]);
    server.stop();
}

#[test]
fn each_difference_is_printed_in_both_forms() {
    let world = World::new();
    write_config(&world, &tables(""));
    let server = world.serve();
    for session in ["a", "b"] {
        turn(&server.client(), session, "r1", "words");
    }
    wait_until_equal(&world);
    server.stop();
    let equal = world.json(&["project", "verify", "copy"]);
    assert_eq!(
        (&equal["name"], &equal["sessions"], &equal["differences"]),
        (&json!("copy"), &json!(2), &json!([])),
        "{equal}"
    );
    let generation = status(&world)["generation"].clone();
    let delete = format!("DELETE FROM \"items_g{generation}\"");
    open(&world).unwrap().execute_batch(&delete).unwrap();
    let text = world.run(&["project", "verify", "copy"]);
    assert_eq!(text.code, Some(1), "{text:?}");
    let missing = text
        .stdout
        .matches("missing: tenant default, session ")
        .count();
    assert_eq!(missing, 4, "{text:?}");
    assert!(text.stdout.contains("copy: 4 differences: "), "{text:?}");
    let printed = world.run(&["project", "verify", "copy", "--json"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let found: Value = serde_json::from_str(&printed.stdout).unwrap();
    let differences = found["differences"].as_array().unwrap().iter();
    let sessions: Vec<&str> = differences
        .filter_map(|difference| difference["session_id"].as_str())
        .collect();
    assert_eq!(sessions, ["a", "a", "b", "b"], "{found}");
    assert_eq!(found["lag_commits"], 0, "{found}");
}

#[test]
fn a_locked_file_is_away_and_cleaned_later() {
    let world = World::new();
    write_config(&world, &tables("timeout_ms = 1000\nclean_timeout_ms = 300"));
    let server = world.serve();
    let client = server.client();
    turn(&client, "s", "r1", SECRET);
    wait_until_equal(&world);
    let lock = open(&world).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    turn(&client, "other", "r1", "more");
    wait_until("the failure is noticed", || {
        client.get_body("/readyz")["status"] == "degraded"
    });
    let ready = client.get_body("/readyz");
    let reason = ready["projections"].as_str().unwrap();
    assert!(reason.starts_with("copy: "), "{ready}");
    let receipt = client.delete("/s").is(200);
    assert_eq!(projection_in(&receipt)["status"], "pending", "{receipt}");
    assert_eq!(status(&world)["uncleaned"], 1);
    assert!(all_rows(&world).contains(SECRET));
    drop(lock);
    wait_until_equal(&world);
    assert!(!all_rows(&world).contains(SECRET));
    wait_until("the server reports it", || {
        client.get_body("/readyz")["projections"].is_null()
    });
    server.stop();
}

/// Whether any generation has a session.
fn is_being_filled(world: &World) -> rusqlite::Result<bool> {
    let tables = "SELECT name FROM sqlite_schema WHERE name LIKE 'projected_session_g%'";
    for name in try_query(world, tables)? {
        let count = format!("SELECT count(*) FROM \"{}\"", name[0]);
        if try_query(world, &count)? != [["0"]] {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_server_that_is_killed_while_it_fills_continues() {
    const SESSIONS: usize = 500;
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for number in 0..SESSIONS {
        turn(&client, &format!("s{number}"), "r1", "words");
    }
    server.stop();
    // The claim of the killed process ends soon.
    write_config(&world, &tables("timeout_ms = 1000"));
    let mut server = world.serve();
    wait_until("rows are written", || {
        is_being_filled(&world).unwrap_or(false)
    });
    server.kill();
    let server = world.serve();
    let client = server.client();
    turn(&client, "s0", "r2", "more words");
    client.delete("/s1").is(200);
    wait_until_equal(&world);
    let count = (SESSIONS - 1).to_string();
    assert_eq!(query(&world, "SELECT count(*) FROM sessions"), [[count]]);
    server.stop();
    world.verify();
}

#[test]
fn sessions_are_exported_to_parquet_files() {
    let world = World::new();
    write_config(&world, &tables("channels = [\"final\"]\nenabled = false"));
    let server = world.serve();
    for session in ["a", "b"] {
        turn(&server.client(), session, "r1", "words");
    }
    server.stop();
    let export = ["project", "export", "--format", "parquet"];
    let all = world.json(&[&export[..], &["--to", "all"]].concat());
    assert_eq!(
        (&all["sessions"], &all["rows"]["items"]),
        (&json!(2), &json!(4))
    );
    assert_eq!(
        (&all["left_out"], &all["notice"]),
        (&json!([]), &json!(NOT_ERASED))
    );
    for day in std::fs::read_dir(world.path("all/items")).unwrap() {
        let file = day.unwrap().path().join("part-0.parquet");
        assert!(std::fs::read(file).unwrap().starts_with(b"PAR1"));
    }
    let selected = world.json(&[&export[..], &["copy", "--to", "selected"]].concat());
    assert_eq!(selected["rows"]["items"], 2, "{selected}");
    let nobody = ["--tenant", "nobody", "--to", "nobody"];
    let nobody = world.json(&[&export[..], &nobody].concat());
    assert_eq!(nobody["sessions"], 0, "{nobody}");
    let text = world.ok(&[&export[..], &["--to", "text"]].concat());
    assert!(text.ends_with(&format!("{NOT_ERASED}\n")), "{text}");
    let again = world.run(&[&export[..], &["--to", "all"]].concat());
    assert_eq!(again.code, Some(2), "{again:?}");
}
