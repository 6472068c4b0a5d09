//! A search is answered as if the caller's sessions were the only ones.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::{Client, Response};
use crate::limits::until;
use crate::search_http::{found, ids, search_by_index, send_search, target, turn};
use crate::world::World;

/// The queries of two users, at least one for each shape of a response.
const QUESTIONS: &[&[(&str, &str)]] = &[
    &[("q", "gate")],
    &[("q", "gate"), ("limit", "1")],
    &[("q", "gate"), ("order", "newest")],
    &[("q", "\"the gate\" -green")],
    &[("q", "gat")],
    &[("q", "a")],
    &[("q", "/g[ae]t\\w/")],
    &[("regex", "gate|green")],
    &[("q", "role:user gate")],
    &[("q", "project:garden gate")],
    &[("q", "bobs")],
    &[("q", "gate -session:bobs-1")],
    &[("session_id", "adas-1")],
    &[("similar", "where is the gate")],
    &[("q", "gate"), ("mode", "both")],
];

/// A response without its time: without `as_of`, and without the query's time in a cursor.
fn without_time(response: &Response) -> String {
    let mut page = response.is(200);
    assert!(page["as_of"].take().is_string(), "{response:?}");
    if let Some(cursor) = page["next_cursor"].as_str() {
        let words: Vec<&str> = cursor.split('.').collect();
        page["next_cursor"] = json!([words[1], words[4..]]);
    }
    page.to_string()
}

fn record_sessions(client: &Client, name: &str, sessions: usize) {
    for n in 0..sessions {
        let session = format!("{name}-{n}");
        let session_json =
            json!({ "session_id": session, "title": "The gate", "project_id": "garden" });
        client.post("", &session_json).wrote(201);
        turn(client, &session, "r", ("Is the gate green?", name));
        turn(client, &session, "q", ("And the gate of stone?", "A gate."));
    }
}

#[test]
fn sessions_of_others_do_not_change_answers() {
    check_answers(&World::new());
}

#[test]
fn sessions_of_others_do_not_change_answers_by_opensearch() {
    if let Some(world) = World::on_opensearch() {
        check_answers(&world);
    }
}

fn check_answers(world: &World) {
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    record_sessions(&ada, "adas", 3);
    search_by_index(&ada, &[("q", "gate")]);
    let before: Vec<String> = QUESTIONS
        .iter()
        .map(|q| without_time(&send_search(&ada, q)))
        .collect();
    assert!(before[0].contains("\"total_sessions\":3"), "{}", before[0]);
    record_sessions(&bob, "bobs", 12);
    record_sessions(&server.client(), "nobodys", 2);
    let gates = |client: &Client| found(client, &[("q", "gate")]).len();
    until("every session is found", || gates(&bob) == 12);
    search_by_index(&ada, &[("q", "gate")]);
    for (question, before) in QUESTIONS.iter().zip(&before) {
        assert_eq!(
            &without_time(&send_search(&ada, question)),
            before,
            "{question:?}"
        );
    }
    // Sessions of others look absent even to a query that names them.
    let of = |text: &str| {
        let query = format!("gate -session:{text}");
        without_time(&send_search(&ada, &[("q", &query)])).replace(text, "ID")
    };
    assert_eq!(of("bobs-1"), of("none-1"));
    for form in ["session_id", "q"] {
        let asked = |id: &str| {
            let value = match form {
                "q" => format!("gate session:{id}"),
                _ => id.to_owned(),
            };
            send_search(&ada, &[(form, &value)])
        };
        let (bobs, absent) = (asked("bobs-1"), asked("none-1"));
        bobs.fails(404, "session_not_found");
        assert_eq!(bobs.text, absent.text);
        let names = |response: &Response| {
            response
                .headers
                .iter()
                .map(|h| h.0.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&bobs), names(&absent));
    }
    // Bob's texts are erased, and that has no visible effect either.
    for n in 0..12 {
        bob.delete(&format!("/bobs-{n}")).is(200);
    }
    search_by_index(&ada, &[("q", "gate")]);
    for (question, before) in QUESTIONS.iter().zip(&before) {
        assert_eq!(
            &without_time(&send_search(&ada, question)),
            before,
            "{question:?}"
        );
    }
    assert_eq!(found(&bob, &[("q", "gate")]), Vec::<String>::new());
    server.stop();
    world.verify();
}

/// The number of a search's statements in the store: the least of several tries, since the server's own work may run in
/// between.
fn statements(client: &Client, pairs: &[(&str, &str)]) -> u64 {
    let reported = || {
        let metrics = client.send_without_body("GET", "/metrics", "").text;
        let line = metrics
            .lines()
            .find_map(|l| l.strip_prefix("filrouge_store_statements_total "));
        line.expect("the counter").parse::<u64>().unwrap()
    };
    let tries = (0..6).map(|_| {
        let before = reported();
        send_search(&client.for_identity("ada"), pairs);
        reported() - before
    });
    tries.min().unwrap()
}

#[test]
fn sessions_of_others_cost_no_statements() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    record_sessions(&client.for_identity("ada"), "adas", 2);
    let asked: Vec<&[(&str, &str)]> = vec![
        &[("q", "gate")],
        &[("q", "/g[ae]t\\w/")],
        &[("q", "project:garden gate")],
        &[("q", "gate -session:bobs-1")],
        &[("q", "gate session:bobs-1")],
    ];
    found(&client.for_identity("ada"), asked[0]);
    let before: Vec<u64> = asked.iter().map(|q| statements(&client, q)).collect();
    record_sessions(&client.for_identity("bob"), "bobs", 5);
    found(&client.for_identity("ada"), asked[0]);
    let after: Vec<u64> = asked.iter().map(|q| statements(&client, q)).collect();
    assert_eq!(before, after);
    server.stop();
}

#[test]
fn a_caller_who_sees_the_tenant_finds_all_of_it_and_other_tenants_find_nothing() {
    let world = World::new();
    let (service, admin) = (
        key(&world, &["--role", "service"]),
        key(&world, &["--role", "admin"]),
    );
    let server = world.serve();
    let service = Caller::with_credentials(&server, &service);
    let admin = Caller::with_credentials(&server, &admin);
    let turn_json = json!({ "request_id": "r", "question_neutral": "Is the gate green?" });
    for (name, session) in [("ada", "adas"), ("bob", "bobs")] {
        let turn = service
            .for_identity(name)
            .post(&format!("/{session}/turns"), &turn_json);
        turn.wrote(201);
    }
    let of = |caller: &Caller| {
        let page = caller.send("GET", &target(&[("q", "gate")]), None).is(200);
        let mut ids = ids(&page);
        ids.sort();
        ids
    };
    assert_eq!(of(&admin), ["adas", "bobs"]);
    assert_eq!(of(&admin.for_identity("bob")), ["bobs"]);
    assert_eq!(of(&service.for_identity("ada")), ["adas"]);
    assert_eq!(of(&service), Vec::<String>::new());
    let anonymous = Caller::anonymous(&server).send("GET", &target(&[("q", "gate")]), None);
    anonymous.fails(401, "unauthenticated");
    let by_operator = world.json(&["search", "gate", "--source", "ledger"]);
    assert_eq!(by_operator["total_sessions"], 2, "{by_operator}");
    server.stop();

    let world = World::new();
    let (one, other) = (world.serve(), world.serve_with(&["--tenant", "other"]));
    for client in [one.client(), one.client().for_identity("ada")] {
        let session = if found(&client, &[("q", "gate")]).is_empty() {
            "s"
        } else {
            "t"
        };
        turn(
            &client.for_identity("ada"),
            session,
            "r",
            ("the gate", "yes"),
        );
    }
    for client in [other.client(), other.client().for_identity("ada")] {
        assert_eq!(found(&client, &[("q", "gate")]), Vec::<String>::new());
        send_search(&client, &[("session_id", "s")]).fails(404, "session_not_found");
    }
    turn(
        &other.client().for_identity("ada"),
        "s",
        "r",
        ("the other gate", "no"),
    );
    assert_eq!(
        found(&other.client().for_identity("ada"), &[("q", "gate")]),
        ["s"]
    );
    let own = send_search(&one.client().for_identity("ada"), &[("q", "other")]).is(200);
    assert_eq!(own["total_sessions"], 0, "{own}");
    one.stop();
    other.stop();
}

#[test]
fn anonymous_sessions_are_found_until_they_get_an_owner() {
    let world = World::new();
    let server = world.serve();
    let (anonymous, ada) = (server.client(), server.client().for_identity("ada"));
    turn(&anonymous, "open", "r", ("a gate for all", "yes"));
    let secret = ("filrouge-session-token", "0123456789abcdef");
    let body = json!({ "request_id": "r", "question_neutral": "a gate with a lock" });
    anonymous
        .send("POST", "/locked/turns", Some(&body), &[secret])
        .wrote(201);
    let q = |client: &Client, headers: &[(&str, &str)]| {
        let page = client.send("GET", &target(&[("q", "gate")]), None, headers);
        let mut ids = ids(&page.is(200));
        ids.sort();
        ids
    };
    assert_eq!(q(&anonymous, &[]), ["open"]);
    let with = q(&anonymous, &[secret]);
    let listed = anonymous.send("GET", "", None, &[secret]).is(200);
    let mut listed = ids(&listed);
    listed.sort();
    assert_eq!(with, listed, "a search covers exactly the listed sessions");
    assert!(with.contains(&"locked".to_owned()));
    assert_eq!(q(&ada, &[]), Vec::<String>::new());
    // Once the link is answered, the session is hers and no longer anonymous.
    for (session, headers) in [("open", &[][..]), ("locked", &[secret])] {
        let link = json!({ "identity_id": "ada" });
        let linked = anonymous.send("PUT", &format!("/{session}/link"), Some(&link), headers);
        linked.wrote(200);
        assert!(!q(&anonymous, &[secret]).contains(&session.to_owned()));
        assert!(q(&ada, &[]).contains(&session.to_owned()));
    }
    assert_eq!(q(&anonymous, &[secret]), Vec::<String>::new());
    assert_eq!(q(&ada, &[]), ["locked", "open"]);
    let page: Value = send_search(&ada, &[("q", "all")]).is(200);
    assert_eq!(page["data"][0]["excerpts"][0]["place"], "open:1");
    server.stop();
    world.verify();
}
