//! After bytes of the store's file are changed, every response is correct, or reports the damage.

use std::fs;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::{Client, Response};
use crate::world::{Server, World, copy_tree};
use audit_exports::{assert_rows_name, audit_exports};

mod agents;
mod audit_exports;
mod changes;
mod checkpoints;
mod one_session;
mod random_edits;
mod tables;

const SESSIONS: usize = 6;

/// Records sessions with titles, complete turns and an open turn.
fn record_data(client: &Client) {
    for s in 0..SESSIONS {
        client.post("", &json!({ "session_id": format!("s{s}"), "title": format!("a title to be found {s}") })).wrote(201);
        for n in 0..12 {
            let body = json!({ "request_id": format!("r{n}"), "question_neutral": format!("question {s} {n}"), "answer_neutral": format!("answer {s} {n}"),
                "items": [{ "item_id": format!("i{n}"), "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": "lorem ipsum ".repeat(40) }] }] });
            client.post(&format!("/s{s}/turns"), &body).wrote(201);
        }
        client
            .post(
                &format!("/s{s}/turns"),
                &json!({ "request_id": "open", "question_neutral": "?" }),
            )
            .wrote(201);
    }
}

/// The paths of all compared reads; the first lists all sessions.
fn read_paths() -> Vec<String> {
    let mut paths = vec!["?limit=500".to_owned()];
    for s in 0..SESSIONS {
        for path in [
            "",
            "/items?limit=500",
            "/turns?limit=500",
            "/turns?status=finalized&limit=5",
            "/context",
            "/turns?request_id=r3",
        ] {
            paths.push(format!("/s{s}{path}"));
        }
    }
    paths
}

#[derive(Debug, PartialEq)]
enum Verdict {
    /// The response is the recorded content.
    Correct,
    /// The response is an error that reports the damage, or a list that names the sessions that it lacks.
    Refused,
    /// The response is neither.
    Wrong,
}

/// Compares a response with that of the undamaged store.
fn compare_with_undamaged(response: &Response, undamaged: &Response) -> Verdict {
    if response.status == 200 && response.text == undamaged.text {
        return Verdict::Correct;
    }
    if response.status == 200 && lacks_only_named_sessions(&response.body(), undamaged.body()) {
        return Verdict::Refused;
    }
    let damage_codes = [
        "integrity_error",
        "key_missing",
        "store_unavailable",
        "internal",
    ];
    let code = || {
        response.body()["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    if response.status >= 500 && damage_codes.contains(&code().as_str()) {
        return Verdict::Refused;
    }
    Verdict::Wrong
}

/// Whether a list equals that of the undamaged store, except that it lacks rows of the sessions that it names.
fn lacks_only_named_sessions(list: &Value, undamaged: Value) -> bool {
    let Some(findings) = list["findings"].as_array() else {
        return false;
    };
    let is_named = |row: &&Value| {
        let mut findings = findings.iter();
        findings.any(|finding| finding["session_id"] == row["session_id"])
    };
    let (now, before) = (
        list["data"].as_array().unwrap(),
        undamaged["data"].as_array().unwrap(),
    );
    let others = |rows: &'_ [Value]| -> Vec<Value> {
        let others = rows.iter().filter(|row| !is_named(row));
        others.cloned().collect()
    };
    others(now) == others(before) && now.iter().all(|row| before.contains(row))
}

/// The page size of the store's file.
const PAGE: usize = 4096;

/// Whether a page belongs to an index, by the first byte of its header. Tables without a rowid look the same.
fn is_index(bytes: &[u8], page: usize) -> bool {
    let header = if page == 0 { 100 } else { page * PAGE };
    matches!(bytes[header], 0x02 | 0x0a)
}

/// Changes some bytes, either in index pages or in all others; returns their positions.
fn damage(path: &std::path::Path, rng: &mut StdRng, in_indexes: bool) -> String {
    let mut bytes = fs::read(path).unwrap();
    let pages: Vec<usize> = (0..bytes.len() / PAGE)
        .filter(|page| is_index(&bytes, *page) == in_indexes)
        .filter(|page| {
            bytes[page * PAGE..(page + 1) * PAGE]
                .iter()
                .any(|b| *b != 0)
        })
        .collect();
    let mut positions = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        // Only bytes in use: most of a page may be empty.
        let page = pages[rng.random_range(0..pages.len())] * PAGE;
        let used: Vec<usize> = (page..page + PAGE).filter(|at| bytes[*at] != 0).collect();
        // The page of an empty index has only a few such bytes, and earlier damage may have erased them.
        let Some(at) = used.choose(rng).copied() else {
            continue;
        };
        match rng.random_range(0..3) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at..(at + 16).min(page + PAGE)].fill(0),
            _ => bytes[at] = rng.random(),
        }
        positions.push(at.to_string());
    }
    fs::write(path, bytes).unwrap();
    positions.join(" ")
}

#[test]
fn damaged_tables_never_yield_wrong_responses() {
    test_random_damage(false);
}

/// A damaged SQLite index may hide rows. `verify` detects this, because it compares indexes with tables.
#[test]
fn damaged_indexes_are_found_by_verify() {
    test_random_damage(true);
}

fn test_random_damage(in_indexes: bool) {
    let seed = u64::from(rand::random::<u32>());
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::on_sqlite();
    let server = world.serve();
    record_data(&server.client());
    let undamaged: Vec<(String, Response)> = read_paths()
        .into_iter()
        .map(|path| (path.clone(), server.client().get(&path)))
        .collect();
    server.stop();
    copy_tree(&world.path("data"), &world.path("good-data"));
    copy_tree(&world.path("state"), &world.path("good-state"));
    let (mut unreadable, mut unopened) = (0, 0);
    for round in 0..40 {
        for part in ["data", "state"] {
            fs::remove_dir_all(world.path(part)).unwrap();
            copy_tree(&world.path(&format!("good-{part}")), &world.path(part));
        }
        let positions = damage(&world.store(), &mut rng, in_indexes);
        let what = format!("seed {seed}, round {round}, bytes {positions}");
        let verified = world.run(&["verify"]);
        let list = world.run(&["sessions", "list", "--json"]);
        if list.code == Some(0) {
            let list: Value = serde_json::from_str(&list.stdout).unwrap();
            let expected = undamaged[0].1.body();
            let same =
                list["data"] == expected["data"] || lacks_only_named_sessions(&list, expected);
            assert!(
                same || in_indexes && verified.code != Some(0),
                "{what}: {list}"
            );
        }
        let doctor = world.run(&["doctor"]);
        if doctor.stdout.contains("FAILED  store") {
            unopened += 1;
            assert_ne!(verified.code, Some(0), "{what}: {verified:?}");
            continue;
        }
        // A server checks more than `doctor` before it answers.
        let server = match world.try_serve() {
            Ok(server) => server,
            Err(log) => {
                unopened += 1;
                assert!(log.contains("error[integrity_error]"), "{what}: {log}");
                assert_ne!(verified.code, Some(0), "{what}: {verified:?}");
                continue;
            }
        };
        let client = server.client();
        let mut incorrect = Vec::new();
        for (path, undamaged_response) in &undamaged {
            let response = client.get(path);
            match compare_with_undamaged(&response, undamaged_response) {
                Verdict::Correct => {}
                Verdict::Wrong if !in_indexes => {
                    panic!("{what}: GET {path} returns wrong content: {response:?}")
                }
                Verdict::Wrong | Verdict::Refused => incorrect.push((path, response)),
            }
        }
        if !incorrect.is_empty() {
            unreadable += 1;
            assert_ne!(
                verified.code,
                Some(0),
                "{what}: verify reports intact, but {incorrect:?}"
            );
        }
        for s in 0..SESSIONS {
            let body =
                json!({ "request_id": "new", "question_neutral": "?", "answer_neutral": "!" });
            let response = client.post(&format!("/s{s}/turns"), &body);
            assert!(
                response.status == 201 || response.status >= 500,
                "{what}: {response:?}"
            );
        }
        server.stop();
    }
    eprintln!("of 40 damaged stores, {unopened} did not open, and {unreadable} failed a read");
    assert!(
        unopened + unreadable > 0,
        "no damage was detected: seed {seed}"
    );
}

#[test]
fn a_changed_title_is_detected() {
    let world = World::on_sqlite();
    let server = world.serve();
    record_data(&server.client());
    server.stop();
    let mut bytes = fs::read(world.store()).unwrap();
    let title = b"a title to be found 3";
    let at = bytes
        .windows(title.len())
        .position(|w| w == title)
        .expect("the title is in the file");
    bytes[at..at + 7].copy_from_slice(b"A TITLE");
    fs::write(world.store(), bytes).unwrap();

    let server = world.serve();
    let client = server.client();
    let problem = client.get("/s3").fails(500, "integrity_error");
    assert_eq!(problem["session_id"], "s3");
    client.get("/s3/items").fails(500, "integrity_error");
    let list = client.get_body("");
    assert_eq!(list["data"].as_array().unwrap().len(), SESSIONS - 1);
    assert_eq!(named(&list), ["s3"]);
    client
        .post(
            "/s3/turns",
            &json!({ "request_id": "x", "question_neutral": "?" }),
        )
        .fails(500, "integrity_error");
    assert_eq!(client.get_body("/s2")["title"], "a title to be found 2");
    client
        .post(
            "/s2/turns",
            &json!({ "request_id": "x", "question_neutral": "?" }),
        )
        .wrote(201);
    server.stop();
    let output = world.run(&["verify"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.contains("BROKEN") && output.stdout.contains("\"s3\""),
        "{output:?}"
    );
    assert_eq!(world.run(&["verify", "s2"]).code, Some(0));
    assert_eq!(world.run(&["verify", "s3"]).code, Some(1));
    let json = world.run(&["verify", "--json"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&report["status"], &report["findings"][0]["session_id"]),
        (&json!("broken"), &json!("s3"))
    );
}

/// The sessions of a page's rows, or of its findings, without repetitions.
fn session_ids(page: &Value, member: &str) -> Vec<String> {
    let rows = page[member].as_array().into_iter().flatten();
    let mut ids: Vec<_> = rows
        .map(|row| row["session_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

fn named(page: &Value) -> Vec<String> {
    session_ids(page, "findings")
}

/// Changes rows as somebody with access to the database. `{}` in the statement is the place of the schema.
fn change_rows(world: &World, schema: &str, sql: &str) {
    let sql = sql.replace("{}", schema);
    match schema {
        "" => {
            let store = rusqlite::Connection::open(world.store()).unwrap();
            store.execute_batch(&sql).unwrap();
        }
        _ => {
            let bypass = "SET session_replication_role = replica";
            world.database().sql(&format!("{bypass}; {sql}"));
        }
    }
}

#[test]
fn lists_name_a_damaged_session_and_continue() {
    for (world, schema, records) in [
        (World::on_sqlite(), "", "record_key"),
        (World::on_postgres(), "filrouge.", "record"),
    ] {
        let admin_key = key(&world, &["--role", "admin"]);
        let service_key = key(&world, &["--role", "service"]);
        let admin = |server: &Server| Caller::with_credentials(server, &admin_key);
        let user = |server: &Server, name: &str| {
            Caller::with_credentials(server, &service_key).for_identity(name)
        };
        let pages = ["/api/v1/changes?limit=500", "/api/v1/audit?limit=500"];
        let server = world.serve();
        for (owner, session) in [
            ("ann", "hers"),
            ("ann", "other"),
            ("bob", "his"),
            ("bob", "late"),
        ] {
            let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
            let path = format!("/{session}/turns");
            user(&server, owner).post(&path, &turn).is(201);
        }
        let title = "UPDATE {}session SET title = 'forged' WHERE session_id = 'hers'";
        change_rows(&world, schema, title);
        let check = |server: &Server| {
            let list = admin(server).get("?limit=500").is(200);
            assert_eq!(session_ids(&list, "data"), ["his", "late", "other"]);
            assert_eq!(named(&list), ["hers"]);
            for page in pages {
                let page = admin(server).send("GET", page, None).is(200);
                assert_eq!(session_ids(&page, "data"), ["his", "late", "other"]);
                assert_eq!(named(&page), ["hers"]);
            }
            // One page after the other, each with one session.
            let first = admin(server).get("?limit=1").is(200);
            assert_eq!(session_ids(&first, "data"), ["late"]);
            let next = first["next_cursor"].as_str().unwrap();
            let second = admin(server)
                .get(&format!("?limit=1&cursor={next}"))
                .is(200);
            assert_eq!(session_ids(&second, "data"), ["his"]);
            let list = user(server, "ann").get("").is(200);
            assert_eq!(session_ids(&list, "data"), ["other"]);
            assert_eq!(named(&list), ["hers"]);
            let changes = user(server, "ann").send("GET", pages[0], None).is(200);
            assert_eq!(session_ids(&changes, "data"), ["other"]);
            assert_eq!(named(&changes), ["hers"]);
            // The commit log says that it is not his, and he does not learn its name.
            for target in ["/api/v1/sessions", pages[0]] {
                let list = user(server, "bob").send("GET", target, None).is(200);
                assert_eq!(session_ids(&list, "data"), ["his", "late"]);
                assert!(!list.to_string().contains("hers"), "{list}");
            }
            assert_rows_name(
                &audit_exports(&admin(server)),
                &["his", "late", "other"],
                &["hers"],
            );
        };
        check(&server);
        server.stop();
        let server = world.serve();
        check(&server);
        let items = "DELETE FROM {}RECORDS WHERE session_pk = (SELECT pk FROM {}session WHERE session_id = 'his')";
        change_rows(&world, schema, &items.replace("RECORDS", records));
        let audit = admin(&server).send("GET", pages[1], None).is(200);
        assert_eq!(session_ids(&audit, "data"), ["late", "other"]);
        assert_eq!(named(&audit), ["hers", "his"]);
        let exports = audit_exports(&admin(&server));
        assert_rows_name(&exports, &["late", "other"], &["hers", "his"]);
        for format in ["json", "jsonl", "csv"] {
            let of_session = format!("/api/v1/audit?session_id=hers&format={format}");
            let refused = admin(&server).send("GET", &of_session, None);
            refused.fails(500, "integrity_error");
        }
        server.stop();
        let commands = ["jsonl", "csv", "text"].map(|format| {
            let done = world.run(&["audit", "--format", format]);
            assert_eq!(done.code, Some(0), "{done:?}");
            for session in ["hers", "his"] {
                let notice = format!("session {session:?} is damaged and left out: ");
                assert_eq!(done.stderr.matches(&notice).count(), 1, "{done:?}");
            }
            done.stdout
        });
        let [jsonl, csv, text] = commands;
        assert_rows_name(&[jsonl, csv], &["late", "other"], &["hers", "his"]);
        assert!(text.contains("late:1") && !text.contains("hers"), "{text}");
        let refused = world.run(&["audit", "--session", "hers"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
    }
}

#[test]
fn a_session_deleted_while_the_server_runs_is_named() {
    for (world, schema) in [
        (World::on_sqlite(), ""),
        (World::on_postgres(), "filrouge."),
    ] {
        let admin_key = key(&world, &["--role", "admin"]);
        let service_key = key(&world, &["--role", "service"]);
        let server = world.serve();
        let admin = || Caller::with_credentials(&server, &admin_key);
        let user = |name| Caller::with_credentials(&server, &service_key).for_identity(name);
        for (owner, session) in [("ann", "deleted"), ("bob", "kept")] {
            let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
            user(owner)
                .post(&format!("/{session}/turns"), &turn)
                .is(201);
        }
        let delete = "DELETE FROM {}session WHERE session_id = 'deleted'";
        change_rows(&world, schema, delete);
        // Only the first page has to find the session.
        for target in ["changes", "audit", "sessions", "changes"] {
            let page = format!("/api/v1/{target}?limit=500");
            let page = admin().send("GET", &page, None).is(200);
            assert_eq!(session_ids(&page, "data"), ["kept"], "{target}");
            assert_eq!(named(&page), ["deleted"], "{target}");
        }
        for target in ["/api/v1/sessions", "/api/v1/changes"] {
            let of_owner = user("ann").send("GET", target, None).is(200);
            assert_eq!(named(&of_owner), ["deleted"], "{target}");
            let of_other = user("bob").send("GET", target, None).is(200);
            assert_eq!(session_ids(&of_other, "data"), ["kept"], "{target}");
            assert_eq!(named(&of_other), [""; 0], "{target}");
        }
        server.stop();
    }
}

#[test]
fn a_truncated_or_foreign_file_is_refused() {
    let world = World::on_sqlite();
    let server = world.serve();
    record_data(&server.client());
    server.stop();
    let good = fs::read(world.store()).unwrap();
    for (what, bytes) in [
        ("truncated in a page", good[..good.len() / 2 + 100].to_vec()),
        ("truncated in the header", good[..50].to_vec()),
        (
            "text",
            b"hello, I am a text file of some length, not a database at all".to_vec(),
        ),
        ("zeros", vec![0; 65536]),
    ] {
        fs::write(world.store(), bytes).unwrap();
        let output = world.run(&["verify"]);
        assert!(matches!(output.code, Some(1 | 2)), "{what}: {output:?}");
        assert_eq!(world.run(&["doctor"]).code, Some(1), "{what}");
    }
    fs::write(world.store(), good).unwrap();
    world.verify();
}
