//! Webhooks: one process at a time sends the change feed to a receiver: signed, in order, at least once.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::caller::within_five_seconds;
use crate::changes::{all, assert_lanes_in_order, assert_same, page, position};
use crate::http::Client;
use crate::receiver::{Message, PreparedResponse, Receiver};
use crate::world::World;

/// Two secrets, of which the second is the newer one in a rotation.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const NEW_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Configures one webhook `crm` that sends to `receiver`, with more settings.
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

/// The setting of [`SECRET`], and more settings.
pub(crate) fn with_secret(more: &str) -> String {
    format!("secret = \"{SECRET}\"\n{more}")
}

/// Whether one of the message's signatures is valid for `secret`.
pub(crate) fn is_signed_by(message: &Message, secret: &str) -> bool {
    let key = STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.{}", message.id, message.timestamp, message.body).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    message.signature.split(' ').any(|one| one == expected)
}

pub(crate) fn create_session(client: &Client, id: &str) {
    client.post("", &json!({ "session_id": id })).wrote(201);
}

/// The session of each change.
pub(crate) fn sessions(changes: &[Value]) -> Vec<String> {
    changes
        .iter()
        .map(|c| c["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The webhook as `doctor` shows it.
pub(crate) fn doctor(world: &World) -> Value {
    let command_output = world.run(&["doctor", "webhooks", "--json"]);
    let report: Value = serde_json::from_str(&command_output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {command_output:?}"));
    report["webhooks"][0].clone()
}

/// Checks that the received changes, without repetitions, are those of the feed, in order.
#[track_caller]
pub(crate) fn assert_at_least_once_in_order(client: &Client, changes: &[Value]) {
    let mut seen = BTreeSet::new();
    let first: Vec<&Value> = changes
        .iter()
        .filter(|c| seen.insert(position(c)))
        .collect();
    assert_lanes_in_order(first.iter().copied());
    let feed = all(client);
    assert_same(first, &feed);
}

#[test]
fn changes_are_signed_and_in_order_and_no_secret_is_reported() {
    let world = World::new();
    let receiver = Receiver::start();
    let settings = format!("secret = \"{NEW_SECRET} {SECRET}\"\nfrom = \"beginning\"\nbatch = 7");
    configure(&world, &receiver, &settings);
    let server = world.serve_with_env(
        &[
            ("FILROUGE_LOG", "trace"),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    let client = server.client();
    for n in 0..30 {
        let body = json!({ "request_id": n.to_string(), "question_neutral": "text of the turn", "answer_neutral": "!" });
        client.post("/s/turns", &body).wrote(201);
    }
    let feed = all(&client);
    let messages = receiver.until("all changes arrive", |messages| {
        messages.iter().map(|m| m.changes().len()).sum::<usize>() >= feed.len()
    });
    assert_same(&receiver.changes(), &feed);
    for message in &messages {
        assert!(
            is_signed_by(message, SECRET) && is_signed_by(message, NEW_SECRET),
            "{message:?}"
        );
        assert_eq!(message.signature.split(' ').count(), 2);
        assert_eq!(message.content_type, "application/json");
        let body = message.json();
        assert_eq!(body.as_object().unwrap().len(), 3);
        assert_eq!(body["webhook"], "crm");
        let (later, _) = page(&client, body["next_cursor"].as_str().unwrap(), 500);
        let sent: BTreeSet<_> = message.changes().iter().map(position).collect();
        assert!(later.iter().all(|change| !sent.contains(&position(change))));
        assert!(!message.body.contains("text of the turn") && message.changes().len() <= 7);
    }
    let ids: BTreeSet<_> = messages.iter().map(|m| &m.id).collect();
    assert_eq!(ids.len(), messages.len(), "every message has its own id");
    within_five_seconds("the cursor is saved", || doctor(&world)["lag_commits"] == 0);
    let scrape = client.get("/metrics").text;
    let deliveries = format!(
        "filrouge_webhook_deliveries_total{{webhook=\"crm\",outcome=\"taken\"}} {}",
        messages.len()
    );
    assert!(scrape.contains(&deliveries), "{scrape}");
    let log = {
        server.ask_to_stop();
        server.wait_for_exit()
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
    for hidden in [
        &SECRET[6..],
        &NEW_SECRET[6..],
        "a-secret-path",
        "in-the-query",
    ] {
        assert!(!log.contains(hidden), "{hidden} is in the log");
        assert!(!shown.contains(hidden), "{hidden} is shown: {shown}");
    }
    world.verify();
}

#[test]
fn a_refused_message_is_resent_under_its_id_before_all_others() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret("timeout_ms = 400"));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    receiver.respond_next_with(&[
        PreparedResponse::Status(500),
        PreparedResponse::Silence,
        PreparedResponse::WithHeaders(302, "location: /x\r\n"),
    ]);
    create_session(&client, "first");
    receiver.until("the first message arrives", |messages| !messages.is_empty());
    create_session(&client, "second");
    within_five_seconds("doctor shows the failure", || {
        doctor(&world)["failures"].as_u64() > Some(0)
    });
    let messages = receiver.until("the changes of both sessions arrive", |messages| {
        messages.len() >= 5
    });
    let received: Vec<_> = messages.iter().map(|m| sessions(&m.changes())).collect();
    assert_eq!(
        received,
        [["first"], ["first"], ["first"], ["first"], ["second"]]
    );
    assert!(
        messages[..4]
            .iter()
            .all(|m| m.id == messages[0].id && m.body == messages[0].body)
    );
    assert!(
        messages.iter().all(|m| is_signed_by(m, SECRET)),
        "every attempt is signed with its own timestamp"
    );
    assert_ne!(messages[4].id, messages[0].id);
    within_five_seconds("doctor reports no failure", || {
        let webhook = doctor(&world);
        webhook["failures"] == 0 && webhook["last_error"].is_null() && webhook["lag_commits"] == 0
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
    configure(&world, &receiver, &with_secret(""));
    let server = world.serve();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    receiver.respond_next_with(&[PreparedResponse::WithHeaders(429, "retry-after: 3\r\n")]);
    create_session(&server.client(), "s");
    receiver.until("the refused message arrives", |messages| {
        !messages.is_empty()
    });
    let began = std::time::Instant::now();
    receiver.until("the retry arrives", |messages| messages.len() == 2);
    assert!(
        began.elapsed() > Duration::from_millis(2500),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_killed_server_loses_and_reorders_no_changes() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(
        &world,
        &receiver,
        &with_secret("from = \"beginning\"\nbatch = 3\ntimeout_ms = 500"),
    );
    receiver.respond_otherwise_with(PreparedResponse::Slow(Duration::from_millis(30)));
    for round in 0..4 {
        let server = world.serve();
        let client = server.client();
        let before = receiver.received().len();
        for n in 0..20 {
            create_session(&client, &format!("s-{round}-{n}"));
        }
        receiver.until("some messages arrive", |messages| {
            messages.len() > before + 2
        });
        drop(server); // kill -9
    }
    let server = world.serve();
    let feed = all(&server.client());
    assert_eq!(feed.len(), 80);
    receiver.until("the last change arrives", |messages| {
        let mut received = messages.iter().flat_map(Message::changes);
        received.any(|change| change["id"] == feed[79]["id"])
    });
    assert_at_least_once_in_order(&server.client(), &receiver.changes());
    within_five_seconds("the cursor is saved", || doctor(&world)["lag_commits"] == 0);
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
        &with_secret("from = \"beginning\"\nbatch = 5\nkinds = [\"created\", \"erased\"]"),
    );
    let servers = [world.serve(), world.serve()];
    std::thread::scope(|scope| {
        for (n, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                for m in 0..40 {
                    create_session(&server.client(), &format!("{n}-{m}"));
                }
            });
        }
    });
    let client = servers[0].client();
    client
        .patch("/0-0", &json!({ "title": "a change of another kind" }))
        .wrote(200);
    client.delete("/0-1").is(200);
    receiver.until("the erasure arrives", |messages| {
        messages
            .last()
            .is_some_and(|m| m.changes().iter().any(|c| c["kind"] == "erased"))
    });
    let mut feed = all(&client);
    feed.retain(|c| c["kind"] != "patched");
    assert_lanes_in_order(&receiver.changes());
    assert_same(&receiver.changes(), &feed);
    // The sending server stops; the other one continues at once.
    within_five_seconds("the cursor is saved", || doctor(&world)["lag_commits"] == 0);
    let [one, two] = servers;
    one.stop();
    create_session(&two.client(), "late");
    receiver.until("the change of the late session arrives", |messages| {
        sessions(&messages.last().unwrap().changes()) == ["late"]
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
    configure(
        &world,
        &receiver,
        &with_secret("batch = 1\ntimeout_ms = 500"),
    );
    receiver.respond_otherwise_with(PreparedResponse::Slow(Duration::from_millis(50)));
    let one = world.serve();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    let two = world.serve();
    for n in 0..20 {
        create_session(&two.client(), &n.to_string());
    }
    receiver.until("some messages arrive", |messages| messages.len() > 3);
    drop(one); // kill -9
    receiver.until("the change of the last session arrives", |messages| {
        sessions(&messages.last().unwrap().changes()) == ["19"]
    });
    assert_at_least_once_in_order(&two.client(), &receiver.changes());
}

#[test]
fn webhooks_do_not_write_to_an_idle_store() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret(""));
    let servers = [world.serve(), world.serve()];
    let client = servers[0].client();
    create_session(&client, "s");
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
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

/// The Python example of `docs/changes.md` accepts genuine messages and no others.
#[test]
fn the_documented_example_verifies_messages() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret(""));
    let server = world.serve();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    create_session(&server.client(), "s");
    let message = receiver
        .until("a message arrives", |messages| !messages.is_empty())
        .remove(0);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/changes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page
        .split("```python\n")
        .nth(1)
        .and_then(|b| b.split("```").next())
        .unwrap();
    let verify = |body: &str, timestamp: &str| {
        let headers = json!({ "webhook-id": message.id, "webhook-timestamp": timestamp, "webhook-signature": message.signature });
        let script = format!(
            "{example}\nimport json, sys\nheaders, body, secret = json.loads(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]\nverify(headers, body, secret)\n"
        );
        let mut python = Command::new("python3");
        python.args(["-c", &script, &headers.to_string(), body, SECRET]);
        python.output().expect("python3 runs")
    };
    let genuine = verify(&message.body, &message.timestamp);
    assert!(
        genuine.status.success(),
        "{}",
        String::from_utf8_lossy(&genuine.stderr)
    );
    assert!(
        !verify(&message.body.replace("\"s\"", "\"t\""), &message.timestamp)
            .status
            .success()
    );
    assert!(!verify(&message.body, "1700000000").status.success());
}
