//! Live calls continue while PostgreSQL is down, and afterwards the ledger contains all their writes (DESIGN §6,
//! "Ledger down").

use filrouge_testbed::{FaultProxy, Options, Server as PostgresServer};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::http::{Client, text_item};
use crate::leases::serve_with;
use crate::limits::{metric, until};
use crate::world::World;

/// The expected responses to the requests of [`run_webhook`].
#[derive(Clone, Copy)]
struct ExpectedResponses {
    /// The status of each write.
    status: u16,
    /// The source that a resume names.
    source: &'static str,
}

const FLUSHED: ExpectedResponses = ExpectedResponses {
    status: 201,
    source: "pg",
};
const SPOOLED: ExpectedResponses = ExpectedResponses {
    status: 202,
    source: "spool",
};

/// Sends the requests of a telephony webhook number `n` in the call `s`: resume, question, observation, event,
/// checkpoint, and the answer, which releases the session.
fn run_webhook(client: &Client, n: usize, answers: ExpectedResponses) -> Value {
    let durability = match answers.status {
        202 => "spooled",
        _ => "buffered",
    };
    let client = &client.clone().expecting_durability(durability);
    let resume = json!({"holder": format!("hook-{n}"), "create": true, "wait_ms": 20_000});
    let response = client.post("/s/resume", &resume);
    assert!([200, 201, 202].contains(&response.status), "{response:?}");
    let resumed = response.body();
    assert_eq!(resumed["source"], answers.source, "{resumed}");
    let fence = &resumed["fence"];
    let start = json!({"request_id": format!("r{n}"), "question_neutral": format!("question {n}"), "fence": fence});
    let turn = client.post("/s/turns", &start).wrote(answers.status);
    let path = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    let item = text_item(
        &format!("i{n}"),
        "assistant",
        "observation",
        &format!("observation {n}"),
    );
    let append = json!({"items": [item], "fence": fence});
    let appended = client
        .post(&format!("{path}/items"), &append)
        .wrote(answers.status);
    let event = json!({"key": format!("e{n}"), "kind": "asked"});
    client.post("/s/events", &event).wrote(answers.status);
    let checkpoint = json!({"label": format!("S{n}"), "state": {"n": n}, "fence": fence});
    let put = client
        .put("/s/checkpoints", &checkpoint)
        .wrote(answers.status);
    if answers.status == 202 {
        assert!(
            turn["first_seq"].is_null() && turn["ordinal"].is_null(),
            "{turn}"
        );
        assert!(appended["first_seq"].is_null() && appended["last_seq"].is_null());
        assert!(put["seq"].is_null(), "{put}");
    }
    let end_status = match answers.status {
        202 => 202,
        _ => 200,
    };
    let end = json!({"answer_neutral": format!("answer {n}"), "fence": fence, "release": true});
    let turn = client
        .post(&format!("{path}/finalize"), &end)
        .wrote(end_status);
    assert_eq!(turn["answer_neutral"], format!("answer {n}"));
    resumed
}

/// The texts in the ledger, in order; checks that seqs are dense.
fn texts(client: &Client) -> Vec<String> {
    let items = client.all("/s/items", 100);
    for (seq, item) in (1..).zip(&items) {
        assert_eq!(item["seq"], seq, "{item}");
    }
    let text = |item: &Value| item["parts"][0]["text"].as_str().unwrap().to_owned();
    items.iter().map(text).collect()
}

/// The texts that these webhooks record, in order.
fn texts_of(webhooks: impl IntoIterator<Item = usize>) -> Vec<String> {
    let kinds = ["question", "observation", "answer"];
    let all = webhooks.into_iter();
    all.flat_map(|n| kinds.map(|kind| format!("{kind} {n}")))
        .collect()
}

/// The number of writes in the spool; the maximum while the server does not report it yet.
fn spool_entries(client: &Client) -> u64 {
    let ready = client.get("/readyz").body();
    ready["spool"]["entries"].as_u64().unwrap_or(u64::MAX)
}

#[test]
fn a_call_continues_while_the_database_is_down() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let server = serve_with(&world, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    let client = server.client();
    let first = run_webhook(&client, 0, FLUSHED);
    postgres.stop_immediate();
    for n in 1..4 {
        let resumed = run_webhook(&client, n, SPOOLED);
        let before = format!("S{}", n - 1);
        assert_eq!(resumed["checkpoint"]["label"], before, "{resumed}");
        assert_eq!(resumed["checkpoint"]["state"], json!({"n": n - 1}));
    }
    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded", "{ready}");
    assert!(ready["store"].is_string(), "{ready}");
    assert_eq!(ready["spool"]["sessions"], 1, "{ready}");
    assert!(metric(&client, "filrouge_spool_entries") >= 15.0);
    let other = json!({"holder": "h", "create": true, "known_seq": 1});
    client
        .post("/other/resume", &other)
        .fails(503, "store_unavailable");

    let doctor = world.run(&["doctor", "spool"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(
        doctor.stdout.contains("queued") && doctor.stdout.contains("finalize"),
        "{doctor:?}"
    );

    postgres.restart();
    until("the spool is drained", || spool_entries(&client) == 0);
    assert_eq!(texts(&client), texts_of(0..4));
    let last = run_webhook(&client, 4, FLUSHED);
    assert!(last["fence"].as_u64() > first["fence"].as_u64());
    // Each webhook records three items, and its checkpoint before the third.
    assert_eq!(last["checkpoint"]["label"], "S3", "{last}");
    assert_eq!(last["checkpoint"]["seq"], 11, "{last}");
    assert_eq!(texts(&client), texts_of(0..5));
    let kinds: Vec<_> = client
        .all("/s/events", 100)
        .into_iter()
        .map(|e| e["kind"].clone())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "asked").count(), 5);
    let log = server.log();
    for line in [
        "[CALL_JOURNAL_WARN] pg_down reason=ensure tenant_id=default call_id=s",
        "[CALL_JOURNAL_WARN] pg_down reason=append",
        "[CALL_JOURNAL_WARN] pg_down reason=finalize",
        "[CALL_JOURNAL_WARN] pg_down reason=checkpoint",
        "[CALL_JOURNAL_WARN] pg_down reason=event",
        "[CALL_RESUME] source=spool tenant_id=default call_id=s state=S2 ck_seq=-",
        "[CALL_RESUME] source=spool tenant_id=default call_id=s state=S0 ck_seq=2 last_seq=3",
        "[CALL_RESUME_WARN] pg_down/err=store_unavailable",
        "[CALL_JOURNAL] tenant_id=default call_id=s seq=12 role=agent",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    assert!(!log.contains("panicked"), "{log}");
    server.stop();
    world.verify();
    let doctor = world.run(&["doctor", "spool"]);
    assert_eq!(
        (doctor.code, doctor.stdout.trim()),
        (Some(0), "0 queued, 0 dead")
    );
}

#[test]
fn a_call_begins_while_the_database_is_down() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let mut server = serve_with(&world, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    let mut client = server.client().for_identity("ada");
    postgres.stop_immediate();
    let begun = run_webhook(&client, 0, SPOOLED);
    assert_eq!(begun["created"], true, "{begun}");
    let resumed = run_webhook(&client, 1, SPOOLED);
    assert_eq!(resumed["created"], false, "{resumed}");
    assert_eq!(resumed["checkpoint"]["label"], "S0", "{resumed}");
    let foreign = server.client().for_identity("eve");
    foreign
        .post("/s/resume", &json!({"holder": "h", "create": true}))
        .fails(503, "store_unavailable");
    server.kill();

    postgres.restart();
    server = serve_with(&world, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    client = server.client().for_identity("ada");
    until("the spool is drained", || {
        spool_entries(&server.client()) == 0
    });
    run_webhook(&client, 2, FLUSHED);
    assert_eq!(texts(&client), texts_of(0..3));
    assert_eq!(client.get_body("/s")["identity_id"], "ada");
    server
        .client()
        .for_identity("eve")
        .get("/s")
        .fails(404, "session_not_found");
    let ready = server.client().get_body("/readyz");
    assert_eq!(ready["spool"]["dead_letters"], 0);
    server.stop();
    world.verify();
}

#[test]
fn a_server_starts_while_the_database_is_down() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let settings = [("FILROUGE_SPOOL_AFTER_MS", "300")];
    postgres.stop_immediate();
    let refused = world.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(refused.code, Some(0), "it has never seen the store");
    postgres.restart();
    let server = serve_with(&world, &settings);
    let call = json!({"holder": "h", "create": true});
    server.client().post("/known/resume", &call).wrote(201);
    server.stop();

    postgres.stop_immediate();
    let server = serve_with(&world, &settings);
    let log = server.log();
    assert!(log.contains("starting degraded"), "{log}");
    let client = server.client();
    let ready = client.get_body("/readyz");
    assert_eq!(ready["status"], "degraded", "{ready}");
    assert!(ready["store"].is_string(), "{ready}");
    client.get("").fails(503, "store_unavailable");
    client
        .post("/known/resume", &call)
        .fails(503, "store_unavailable");
    run_webhook(&client, 0, SPOOLED);

    postgres.restart();
    until("the spool is drained", || spool_entries(&client) == 0);
    run_webhook(&client, 1, FLUSHED);
    assert_eq!(texts(&client), texts_of(0..2));
    client.post("/known/resume", &call).wrote(200);
    until("the server is ready", || {
        client.get_body("/readyz")["status"] == "ready"
    });
    server.stop();
    world.verify();
}

#[test]
fn a_server_without_its_database_admits_nobody_if_it_keeps_no_api_keys() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let key = crate::caller::key(&world, &["--role", "service"]);
    world.serve().stop();
    postgres.stop_immediate();
    let settings = [
        ("FILROUGE_LISTEN", "0.0.0.0:0"),
        ("FILROUGE_KEPT_KEYS_S", "0"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    for caller in [
        Caller::anonymous(&server),
        Caller::with_credentials(&server, &key),
    ] {
        caller.get("").fails(503, "store_unavailable");
    }
    postgres.restart();
    let caller = Caller::with_credentials(&server, &key);
    until("the key is known", || caller.get("").status == 200);
    Caller::anonymous(&server)
        .get("")
        .fails(401, "unauthenticated");
    server.stop();
}

#[test]
fn a_server_without_its_database_admits_the_keys_that_it_has_seen() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let [kept, revoked, revoked_later] =
        [0, 1, 2].map(|_| crate::caller::key(&world, &["--role", "service"]));
    let admin = crate::caller::key(&world, &["--role", "admin"]);
    let revoke = |key: &str| world.ok(&["keys", "revoke", crate::caller::key_id(key)]);
    revoke(&revoked);
    world.serve().stop();
    // No server of this machine has seen this.
    revoke(&revoked_later);
    postgres.stop_immediate();
    let settings = [
        ("FILROUGE_LISTEN", "0.0.0.0:0"),
        ("FILROUGE_SPOOL_AFTER_MS", "300"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let caller = |key: &str| Caller::with_credentials(&server, key);
    let call = json!({"holder": "h", "create": true});
    for (session, key) in [("a", &kept), ("b", &revoked_later)] {
        let resumed = caller(key)
            .for_identity("ada")
            .post(&format!("/{session}/resume"), &call);
        assert!([200, 201, 202].contains(&resumed.status), "{resumed:?}");
        caller(key).get("").fails(503, "store_unavailable");
    }
    caller(&revoked).get("").fails(401, "unauthenticated");
    Caller::anonymous(&server)
        .get("")
        .fails(401, "unauthenticated");
    let ready = || caller(&admin).send("GET", "/readyz", None).body();
    assert!(ready()["keys"].is_string(), "{}", ready());
    postgres.restart();
    until("the revocation is known", || {
        caller(&revoked_later).get("").status == 401
    });
    until("the key is known", || caller(&kept).get("").status == 200);
    assert!(ready()["keys"].is_null(), "{}", ready());
    server.stop();
}

#[test]
fn refused_writes_of_a_holder_that_lost_its_lease_become_dead_letters() {
    let postgres = PostgresServer::start(Options::default());
    let name = postgres.database();
    let proxy = FaultProxy::before(postgres.tcp());
    let first = World::at(&proxy.url(&name), "buffered");
    let server = serve_with(&first, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    let client = server.client();
    run_webhook(&client, 0, FLUSHED);
    let second = World::at(&postgres.url(&name), "buffered");
    let keys = second.keyring();
    std::fs::create_dir_all(keys.parent().unwrap()).unwrap();
    std::fs::copy(first.keyring(), keys).unwrap();
    let other = second.serve();
    // The first server loses its connection to the database, the other one does not.
    proxy.hold();
    proxy.cut();
    run_webhook(&client, 1, SPOOLED);
    run_webhook(&other.client(), 2, FLUSHED);
    run_webhook(&client, 3, SPOOLED);
    proxy.release();
    until("the spool is drained", || spool_entries(&client) == 0);
    // Of webhooks 1 and 3, only the events are accepted: recording an event needs no lease.
    assert_eq!(texts(&client), texts_of([0, 2]));
    let ready = client.get_body("/readyz");
    assert!(
        ready["spool"]["dead_letters"].as_u64().unwrap() >= 8,
        "{ready}"
    );
    assert_eq!(
        ready["status"], "degraded",
        "dead letters degrade the status: {ready}"
    );
    let resumed = run_webhook(&client, 4, FLUSHED);
    assert_eq!(resumed["checkpoint"]["label"], "S2", "{resumed}");
    assert_eq!(texts(&other.client()), texts_of([0, 2, 4]));
    let doctor = first.run(&["doctor", "spool", "--show"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("stale_fence"), "{doctor:?}");
    assert!(doctor.stdout.contains("observation 3"), "{doctor:?}");
    assert!(
        !first
            .run(&["doctor", "spool"])
            .stdout
            .contains("observation 3")
    );
    let busy = first.run(&["doctor", "spool", "--drop", "all"]);
    assert!(
        busy.code == Some(1) && busy.stderr.contains("stop that server"),
        "{busy:?}"
    );
    server.stop();
    first.ok(&["doctor", "spool", "--drop", "all"]);
    assert_eq!(first.json(&["doctor", "spool"])["entries"], json!([]));
    other.stop();
    first.verify();
}

#[test]
fn a_full_spool_is_reported_and_loses_nothing() {
    let postgres = PostgresServer::start(Options::default());
    let world = World::at(&postgres.url(&postgres.database()), "buffered");
    let small_spool = [
        ("FILROUGE_SPOOL_AFTER_MS", "300"),
        ("FILROUGE_SPOOL_BYTES", "3000"),
    ];
    let server = serve_with(&world, &small_spool);
    let client = server.client();
    run_webhook(&client, 0, FLUSHED);
    let fence = client.post("/s/resume", &json!({"holder": "h"})).body()["fence"].clone();
    let start = json!({"request_id": "r1", "question_neutral": "question 1", "fence": fence});
    let turn = client.post("/s/turns", &start).wrote(201);
    let path = format!("/s/turns/{}/items", turn["turn_id"].as_str().unwrap());
    postgres.stop_immediate();
    let mut accepted = texts_of([0]);
    accepted.push("question 1".to_owned());
    loop {
        let text = format!("n{}", accepted.len());
        let item = text_item(&text, "assistant", "observation", &text);
        let response = client.post(&path, &json!({"items": [item], "fence": fence}));
        if response.status != 202 {
            response.fails(503, "spool_full");
            break;
        }
        accepted.push(text);
    }
    assert!(accepted.len() > 6 && metric(&client, "filrouge_spool_full_total") >= 1.0);
    postgres.restart();
    until("the spool is drained", || spool_entries(&client) == 0);
    assert_eq!(texts(&client), accepted);
    server.stop();
    world.verify();
}
