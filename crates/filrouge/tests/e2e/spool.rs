//! Live calls continue while PostgreSQL is down, and afterwards the ledger contains all of it (DESIGN §6, "Ledger
//! down").

use filrouge_testbed::{Cut, Options, Server as Database};
use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::leases::serve_with;
use crate::limits::{metric, until};
use crate::world::World;

/// The expected answers to a webhook's requests.
#[derive(Clone, Copy)]
struct Answers {
    /// The status of each write.
    status: u16,
    source: &'static str,
}

const FLUSHED: Answers = Answers {
    status: 201,
    source: "pg",
};
const SPOOLED: Answers = Answers {
    status: 202,
    source: "spool",
};

/// Runs a webhook of the call `s`: resume, question, an observation, an event, a checkpoint, and the answer,
/// which releases the session.
fn webhook(client: &Client, n: usize, answers: Answers) -> Value {
    let durability = match answers.status {
        202 => "spooled",
        _ => "buffered",
    };
    let client = &client.clone().expecting(durability);
    let resume = json!({"holder": format!("hook-{n}"), "create": true, "wait_ms": 20_000});
    let reply = client.post("/s/resume", &resume);
    assert!([200, 201, 202].contains(&reply.status), "{reply:?}");
    let resumed = reply.body();
    assert_eq!(resumed["source"], answers.source, "{resumed}");
    let fence = &resumed["fence"];
    let start = json!({"request_id": format!("r{n}"), "question_neutral": format!("ask {n}"), "fence": fence});
    let turn = client.post("/s/turns", &start).wrote(answers.status);
    let path = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    let item = text_item(
        &format!("i{n}"),
        "assistant",
        "observation",
        &format!("saw {n}"),
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
    let ended = match answers.status {
        202 => 202,
        _ => 200,
    };
    let end = json!({"answer_neutral": format!("said {n}"), "fence": fence, "release": true});
    let turn = client.post(&format!("{path}/finalize"), &end).wrote(ended);
    assert_eq!(turn["answer_neutral"], format!("said {n}"));
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

fn reported(webhooks: impl IntoIterator<Item = usize>) -> Vec<String> {
    let words = ["ask", "saw", "said"];
    let all = webhooks.into_iter();
    all.flat_map(|n| words.map(|word| format!("{word} {n}")))
        .collect()
}

fn entries(client: &Client) -> u64 {
    let ready = client.get("/readyz").body();
    ready["spool"]["entries"].as_u64().unwrap()
}

#[test]
fn a_call_continues_while_the_database_is_down() {
    let database = Database::start(Options::default());
    let world = World::at(&database.url(&database.database()), "buffered");
    let server = serve_with(&world, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    let client = server.client();
    let first = webhook(&client, 0, FLUSHED);
    database.stop_immediate();
    for n in 1..4 {
        let resumed = webhook(&client, n, SPOOLED);
        let before = format!("S{}", n - 1);
        assert_eq!(resumed["checkpoint"]["label"], before, "{resumed}");
        assert_eq!(resumed["checkpoint"]["state"], json!({"n": n - 1}));
    }
    let ready = client.see("/readyz");
    assert_eq!(ready["status"], "degraded", "{ready}");
    assert!(ready["store"].is_string(), "{ready}");
    assert_eq!(ready["spool"]["sessions"], 1, "{ready}");
    assert!(metric(&client, "filrouge_spool_entries") >= 15.0);
    let other = json!({"holder": "h", "create": true});
    client
        .post("/other/resume", &other)
        .fails(503, "store_unavailable");

    let waits = world.run(&["doctor", "spool"]);
    assert_eq!(waits.code, Some(0), "{waits:?}");
    assert!(
        waits.stdout.contains("queued") && waits.stdout.contains("finalize"),
        "{waits:?}"
    );

    database.restart();
    until("all is drained", || entries(&client) == 0);
    assert_eq!(texts(&client), reported(0..4));
    let last = webhook(&client, 4, FLUSHED);
    assert!(last["fence"].as_u64() > first["fence"].as_u64());
    assert_eq!(last["checkpoint"]["label"], "S3", "{last}");
    assert_eq!(last["checkpoint"]["seq"], 11, "{last}");
    assert_eq!(texts(&client), reported(0..5));
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
        "[CALL_RESUME] source=spool tenant_id=default call_id=s state=S2",
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
fn refused_writes_of_a_holder_that_lost_its_lease_are_reported() {
    let database = Database::start(Options::default());
    let name = database.database();
    let cut = Cut::before(database.tcp());
    let mine = World::at(&cut.url(&name), "buffered");
    let server = serve_with(&mine, &[("FILROUGE_SPOOL_AFTER_MS", "300")]);
    let client = server.client();
    webhook(&client, 0, FLUSHED);
    let theirs = World::at(&database.url(&name), "buffered");
    let keys = theirs.keyring();
    std::fs::create_dir_all(keys.parent().unwrap()).unwrap();
    std::fs::copy(mine.keyring(), keys).unwrap();
    let other = theirs.serve();
    cut.hold();
    cut.cut();
    webhook(&client, 1, SPOOLED);
    webhook(&other.client(), 2, FLUSHED);
    webhook(&client, 3, SPOOLED);
    cut.release();
    until("all is drained", || entries(&client) == 0);
    // Recording an event needs no lease, so the events are accepted.
    assert_eq!(texts(&client), reported([0, 2]));
    let ready = client.see("/readyz");
    assert!(
        ready["spool"]["dead_letters"].as_u64().unwrap() >= 8,
        "{ready}"
    );
    assert_eq!(
        ready["status"], "degraded",
        "dead letters make the status degraded: {ready}"
    );
    let resumed = webhook(&client, 4, FLUSHED);
    assert_eq!(resumed["checkpoint"]["label"], "S2", "{resumed}");
    assert_eq!(texts(&other.client()), reported([0, 2, 4]));
    let doctor = mine.run(&["doctor", "spool", "--show"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("stale_fence"), "{doctor:?}");
    assert!(doctor.stdout.contains("saw 3"), "{doctor:?}");
    assert!(!mine.run(&["doctor", "spool"]).stdout.contains("saw 3"));
    let busy = mine.run(&["doctor", "spool", "--drop", "all"]);
    assert!(
        busy.code == Some(1) && busy.stderr.contains("stop that server"),
        "{busy:?}"
    );
    server.stop();
    mine.ok(&["doctor", "spool", "--drop", "all"]);
    assert_eq!(mine.json(&["doctor", "spool"])["entries"], json!([]));
    other.stop();
    mine.verify();
}

#[test]
fn a_full_spool_is_reported_and_loses_nothing() {
    let database = Database::start(Options::default());
    let world = World::at(&database.url(&database.database()), "buffered");
    let small = [
        ("FILROUGE_SPOOL_AFTER_MS", "300"),
        ("FILROUGE_SPOOL_BYTES", "3000"),
    ];
    let server = serve_with(&world, &small);
    let client = server.client();
    webhook(&client, 0, FLUSHED);
    let fence = client.post("/s/resume", &json!({"holder": "h"})).body()["fence"].clone();
    let start = json!({"request_id": "r1", "question_neutral": "ask 1", "fence": fence});
    let turn = client.post("/s/turns", &start).wrote(201);
    let path = format!("/s/turns/{}/items", turn["turn_id"].as_str().unwrap());
    database.stop_immediate();
    let mut taken = reported([0]);
    taken.push("ask 1".to_owned());
    loop {
        let text = format!("n{}", taken.len());
        let item = text_item(&text, "assistant", "observation", &text);
        let reply = client.post(&path, &json!({"items": [item], "fence": fence}));
        if reply.status != 202 {
            reply.fails(503, "spool_full");
            break;
        }
        taken.push(text);
    }
    assert!(taken.len() > 6 && metric(&client, "filrouge_spool_full_total") >= 1.0);
    database.restart();
    until("all is drained", || entries(&client) == 0);
    assert_eq!(texts(&client), taken);
    server.stop();
    world.verify();
}
