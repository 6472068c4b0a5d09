//! Webhooks: the feed is sent to a receiver: signed, in order, at least once, by one process at a time.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::caller::within_five_seconds;
use crate::changes::{all, place};
use crate::http::Client;
use crate::receiver::{Answer, Message, Receiver};
use crate::world::World;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NEWER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Configures one webhook `crm` with further settings.
pub(crate) fn configure(world: &World, receiver: &Receiver, more: &str) {
    let text = format!(
        "[[webhooks]]\nname = \"crm\"\nurl = \"{}\"\n{more}\n",
        receiver.url()
    );
    write_config(world, &text);
}

pub(crate) fn write_config(world: &World, text: &str) {
    let path = world.path("config/filrouge/config.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn secret(more: &str) -> String {
    format!("secret = \"{SECRET}\"\n{more}")
}

pub(crate) fn signed_by(message: &Message, secret: &str) -> bool {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.{}", message.id, message.timestamp, message.body).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    message.signature.split(' ').any(|one| one == expected)
}

pub(crate) fn make(client: &Client, id: &str) {
    client.post("", &json!({ "session_id": id })).wrote(201);
}

pub(crate) fn names(changes: &[Value]) -> Vec<String> {
    changes
        .iter()
        .map(|c| c["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The webhook as `doctor` shows it.
pub(crate) fn doctor(world: &World) -> Value {
    let done = world.run(&["doctor", "webhooks", "--json"]);
    let reported: Value =
        serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    reported["webhooks"][0].clone()
}

/// Checks that the changes, without repetitions, are those of the feed, in order.
#[track_caller]
pub(crate) fn at_least_once_in_order(client: &Client, changes: &[Value]) {
    let mut seen = BTreeSet::new();
    let first: Vec<&Value> = changes.iter().filter(|c| seen.insert(place(c))).collect();
    let feed = all(client);
    assert_eq!(first, feed.iter().collect::<Vec<_>>());
}

#[test]
fn changes_are_signed_and_in_order_and_no_secret_is_reported() {
    let world = World::new();
    let receiver = Receiver::start();
    let more = format!("secret = \"{NEWER} {SECRET}\"\nfrom = \"beginning\"\nbatch = 7");
    configure(&world, &receiver, &more);
    let server = world.serve_where(
        &[
            ("FILROUGE_LOG", "trace"),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    let client = server.client();
    for n in 0..30 {
        let body = json!({ "request_id": n.to_string(), "question_neutral": "what was said", "answer_neutral": "!" });
        client.post("/s/turns", &body).wrote(201);
    }
    let feed = all(&client);
    let got = receiver.until("all changes", |got| {
        got.iter().map(|m| m.changes().len()).sum::<usize>() >= feed.len()
    });
    assert_eq!(receiver.changes(), feed);
    for message in &got {
        assert!(
            signed_by(message, SECRET) && signed_by(message, NEWER),
            "{message:?}"
        );
        assert_eq!(message.signature.split(' ').count(), 2);
        assert_eq!(message.content_type, "application/json");
        let body = message.json();
        assert_eq!(body.as_object().unwrap().len(), 3);
        assert_eq!(body["webhook"], "crm");
        let next = json!({ "cursor": body["next_cursor"] });
        assert!(place(&next) >= place(message.changes().last().unwrap()));
        assert!(!message.body.contains("what was said") && message.changes().len() <= 7);
    }
    let ids: BTreeSet<_> = got.iter().map(|m| &m.id).collect();
    assert_eq!(ids.len(), got.len(), "every message has its own id");
    within_five_seconds("the cursor is kept", || doctor(&world)["lag_commits"] == 0);
    let scrape = client.get("/metrics").text;
    let taken = format!(
        "filrouge_webhook_deliveries_total{{webhook=\"crm\",outcome=\"taken\"}} {}",
        got.len()
    );
    assert!(scrape.contains(&taken), "{scrape}");
    let log = {
        server.ask_to_stop();
        server.ended()
    };
    assert!(log.contains("the webhook begins"), "{log}");
    let shown = [
        "config show",
        "config show --json",
        "doctor",
        "doctor --json",
        "doctor webhooks",
    ]
    .map(|words| world.ok(&words.split(' ').collect::<Vec<_>>()))
    .concat();
    assert!(
        shown.contains("crm") && shown.contains("127.0.0.1"),
        "{shown}"
    );
    for hidden in [&SECRET[6..], &NEWER[6..], "a-secret-path", "in-the-query"] {
        assert!(!log.contains(hidden), "{hidden} is in the log");
        assert!(!shown.contains(hidden), "{hidden} is shown: {shown}");
    }
    world.verify();
}

#[test]
fn a_refused_message_is_resent_under_its_id_before_all_others() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret("timeout_ms = 400"));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    receiver.will(&[
        Answer::Status(500),
        Answer::Silence,
        Answer::With(302, "location: /x\r\n"),
    ]);
    make(&client, "first");
    receiver.until("the first message", |got| !got.is_empty());
    make(&client, "second");
    within_five_seconds("doctor shows the failure", || {
        doctor(&world)["failures"].as_u64() > Some(0)
    });
    let got = receiver.until("both sessions", |got| got.len() >= 5);
    let reported: Vec<_> = got.iter().map(|m| names(&m.changes())).collect();
    assert_eq!(
        reported,
        [["first"], ["first"], ["first"], ["first"], ["second"]]
    );
    assert!(
        got[..4]
            .iter()
            .all(|m| m.id == got[0].id && m.body == got[0].body)
    );
    assert!(
        got.iter().all(|m| signed_by(m, SECRET)),
        "every attempt has its time"
    );
    assert_ne!(got[4].id, got[0].id);
    within_five_seconds("doctor reports no failure", || {
        let reported = doctor(&world);
        reported["failures"] == 0
            && reported["last_error"].is_null()
            && reported["lag_commits"] == 0
    });
    let scrape = client.get("/metrics").text;
    for line in [
        "outcome=\"refused\"} 2",
        "outcome=\"timeout\"} 1",
        "outcome=\"taken\"} 2",
    ] {
        assert!(scrape.contains(line), "{line}\n{scrape}");
    }
}

#[test]
fn a_receivers_retry_after_is_honored() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret(""));
    let server = world.serve();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    receiver.will(&[Answer::With(429, "retry-after: 3\r\n")]);
    make(&server.client(), "s");
    receiver.until("the refusal", |got| !got.is_empty());
    let began = std::time::Instant::now();
    receiver.until("the retry", |got| got.len() == 2);
    assert!(
        began.elapsed() > Duration::from_millis(2500),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn kills_lose_nothing_and_change_no_order() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(
        &world,
        &receiver,
        &secret("from = \"beginning\"\nbatch = 3\ntimeout_ms = 500"),
    );
    receiver.otherwise(Answer::Slow(Duration::from_millis(30)));
    for round in 0..4 {
        let server = world.serve();
        let client = server.client();
        let before = receiver.got().len();
        for n in 0..20 {
            make(&client, &format!("s-{round}-{n}"));
        }
        receiver.until("some messages", |got| got.len() > before + 2);
        drop(server); // kill -9
    }
    let server = world.serve();
    let feed = all(&server.client());
    assert_eq!(feed.len(), 80);
    receiver.until("the last change", |got| {
        got.iter().any(|m| m.changes().last() == feed.last())
    });
    at_least_once_in_order(&server.client(), &receiver.changes());
    within_five_seconds("the cursor is kept", || doctor(&world)["lag_commits"] == 0);
    server.stop();
    world.verify();
}

#[test]
fn two_servers_send_each_change_once() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(
        &world,
        &receiver,
        &secret("from = \"beginning\"\nbatch = 5\nkinds = [\"created\", \"erased\"]"),
    );
    let servers = [world.serve(), world.serve()];
    std::thread::scope(|scope| {
        for (n, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                for m in 0..40 {
                    make(&server.client(), &format!("{n}-{m}"));
                }
            });
        }
    });
    let client = servers[0].client();
    client
        .patch("/0-0", &json!({ "title": "not asked for" }))
        .wrote(200);
    client.delete("/0-1").is(200);
    receiver.until("the erasure", |got| {
        got.last()
            .is_some_and(|m| m.changes().iter().any(|c| c["kind"] == "erased"))
    });
    let mut feed = all(&client);
    feed.retain(|c| c["kind"] != "patched");
    assert_eq!(receiver.changes(), feed, "once, and in order");
    // The sending server stops; the other one continues at once.
    within_five_seconds("the cursor is kept", || doctor(&world)["lag_commits"] == 0);
    let [one, two] = servers;
    one.stop();
    make(&two.client(), "late");
    receiver.until("the late one", |got| {
        names(&got.last().unwrap().changes()) == ["late"]
    });
    assert_eq!(receiver.changes().len(), feed.len() + 1);
    two.stop();
    assert!(
        doctor(&world)["holder"].is_null(),
        "a stopping server releases the webhook"
    );
}

#[test]
fn when_the_sending_server_dies_the_other_takes_over() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret("batch = 1\ntimeout_ms = 500"));
    receiver.otherwise(Answer::Slow(Duration::from_millis(50)));
    let one = world.serve();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    let two = world.serve();
    for n in 0..20 {
        make(&two.client(), &n.to_string());
    }
    receiver.until("some messages", |got| got.len() > 3);
    drop(one); // kill -9
    receiver.until("the last", |got| {
        names(&got.last().unwrap().changes()) == ["19"]
    });
    at_least_once_in_order(&two.client(), &receiver.changes());
}

#[test]
fn an_idle_store_gets_no_writes() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret(""));
    let servers = [world.serve(), world.serve()];
    let client = servers[0].client();
    make(&client, "s");
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    std::thread::sleep(Duration::from_secs(1));
    let commit = || {
        let scrape = client.get("/metrics").text;
        let line = scrape
            .lines()
            .find(|l| l.starts_with("filrouge_store_commit "))
            .unwrap();
        line.to_owned()
    };
    let before = commit();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(commit(), before);
}

/// The example in the documents accepts genuine messages and no others.
#[test]
fn the_documents_example_verifies_messages() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret(""));
    let server = world.serve();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    make(&server.client(), "s");
    let message = receiver.until("a message", |got| !got.is_empty()).remove(0);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/changes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page
        .split("```python\n")
        .nth(1)
        .and_then(|b| b.split("```").next())
        .unwrap();
    let run = |body: &str, timestamp: &str| {
        let headers = json!({ "webhook-id": message.id, "webhook-timestamp": timestamp, "webhook-signature": message.signature });
        let script = format!(
            "{example}\nimport json, sys\nheaders, body, secret = json.loads(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]\nverify(headers, body, secret)\n"
        );
        let mut python = Command::new("python3");
        python.args(["-c", &script, &headers.to_string(), body, SECRET]);
        python.output().expect("python3 runs")
    };
    let genuine = run(&message.body, &message.timestamp);
    assert!(
        genuine.status.success(),
        "{}",
        String::from_utf8_lossy(&genuine.stderr)
    );
    assert!(
        !run(&message.body.replace("\"s\"", "\"t\""), &message.timestamp)
            .status
            .success()
    );
    assert!(!run(&message.body, "1700000000").status.success());
}
