//! Graceful stops, two servers on one store, a store in memory, and turns that are interrupted.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::limits::{WAIT_LIMIT, metric, until};
use crate::world::World;

#[test]
fn a_stop_keeps_acknowledged_writes() {
    let world = World::new();
    for round in 0..3 {
        let server = world.serve();
        let acknowledged = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (client, acknowledged) = (server.client(), &acknowledged);
                scope.spawn(move || {
                    for n in 0.. {
                        let (session, request) = (format!("w{writer}"), format!("{round}-{n}"));
                        let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "x".repeat(2000) });
                        match client.try_post(&format!("/{session}/turns"), &body.to_string()) {
                            Ok(response) => {
                                response.wrote(201);
                                acknowledged.lock().unwrap().push((session, request));
                            }
                            Err(_) => return,
                        }
                    }
                });
            }
            let count = || acknowledged.lock().unwrap().len();
            until("the writers have begun", || count() > 8);
            std::thread::sleep(Duration::from_millis(100));
            server.ask_to_stop();
        });
        let log = server.wait_for_exit();
        assert!(!log.contains("cut off"), "{log}");
        let acknowledged = acknowledged.into_inner().unwrap();
        let server = world.serve();
        let client = server.client();
        let stored: BTreeSet<(String, String)> = (0..8)
            .flat_map(|w| client.all(&format!("/w{w}/turns"), 500))
            .map(|t| {
                (
                    t["session_id"].as_str().unwrap().to_owned(),
                    t["request_id"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        for turn in &acknowledged {
            assert!(
                stored.contains(turn),
                "{turn:?} was acknowledged, but is not stored"
            );
        }
        assert_eq!(client.get_body("/readyz")["status"], "ready");
        server.stop();
        world.verify();
    }
}

#[test]
fn a_stopping_server_answers_running_requests() {
    let world = World::new();
    let server = world.serve();
    let host = server.origin().strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let body = json!({ "request_id": "r", "question_neutral": "?" }).to_string();
    let (first, second) = body.split_at(10);
    let head = format!(
        "POST /api/v1/sessions/s/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{first}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let client = server.client();
    until("the server reads the body", || {
        metric(&client, "filrouge_http_bodies_bytes") > 0.0
    });
    server.ask_to_stop();
    until("the server stops", || server.log().contains("stopping"));
    std::io::Write::write_all(&mut stream, second.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    server.wait_for_exit();
    world.verify();
}

/// Starts a turn of the shared session, and appends pairs of items to it until `stop`; returns the number of items.
fn write(client: &Client, name: &str, stop: &AtomicBool) -> u64 {
    let body = json!({ "request_id": name, "question_neutral": "?" });
    let turn = client.post("/shared/turns", &body).wrote(201);
    let path = format!("/shared/turns/{}/items", turn["turn_id"].as_str().unwrap());
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let items = json!({ "items": [text_item(&format!("{name}-{n}"), "assistant", "thought", "t"), text_item(&format!("{name}-{n}b"), "tool", "observation", "o")] });
        let appended = client.post(&path, &items).wrote(201);
        assert_eq!(
            appended["last_seq"].as_u64(),
            appended["first_seq"].as_u64().map(|s| s + 1)
        );
        n += 1;
    }
    client
        .post(
            &path.replace("/items", "/finalize"),
            &json!({ "answer_neutral": name }),
        )
        .wrote(200);
    // The question, the pairs, and the answer.
    1 + 2 * n + 1
}

#[test]
fn two_servers_share_one_store() {
    let world = World::new();
    let servers = [world.serve(), world.serve()];
    let stop = AtomicBool::new(false);
    let written: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|n| {
                let (client, stop) = (servers[n % 2].client(), &stop);
                scope.spawn(move || write(&client, &format!("w{n}"), stop))
            })
            .collect();
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for server in &servers {
                    let client = server.client();
                    if client.get("/shared").status == 200 {
                        let items = client.all("/shared/items", 100);
                        assert!(items.iter().zip(1_u64..).all(|(i, seq)| i["seq"] == seq));
                    }
                    let ready = client.get_body("/readyz");
                    assert_eq!(ready["integrity"], Value::Null, "{ready}");
                }
            }
        });
        std::thread::sleep(Duration::from_secs(3));
        world.json(&["sessions", "list"]);
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        writers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    let pages: Vec<Vec<Value>> = servers
        .iter()
        .map(|s| s.client().all("/shared/items", 500))
        .collect();
    assert_eq!(pages[0], pages[1], "both servers show the same list");
    assert_eq!(pages[0].len() as u64, written);
    assert!(
        pages[0].iter().zip(1_u64..).all(|(i, seq)| i["seq"] == seq),
        "the seqs have gaps"
    );
    for server in &servers {
        let client = server.client();
        assert_eq!(
            client.get_body("/readyz"),
            json!({
                "status": "ready", "read_only": null, "integrity": null, "anchor": null, "issuer": null, "keys": null, "projections": null, "hot": null,
                "store": null, "search": null,
                "spool": { "entries": 0, "sessions": 0, "bytes": 0, "bytes_max": 64 << 20, "oldest_s": null, "dead_letters": 0 },
            })
        );
        assert_eq!(client.get_body("/shared/verify")["status"], "intact");
        assert_eq!(client.all("/shared/turns?status=finalized", 50).len(), 4);
    }
    world.verify();
    // A retry on either server is a replay.
    let body = json!({ "request_id": "w0", "question_neutral": "?" });
    for server in &servers {
        assert_eq!(
            server.client().post("/shared/turns", &body).wrote(200)["replayed"],
            true
        );
    }
    let [one, two] = servers;
    one.stop();
    two.client().post("/after/turns", &body).wrote(201);
    two.stop();
    world.verify();
    world.ok(&["doctor"]);
}

#[test]
fn commands_write_while_a_server_runs() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .post(
            "/s/turns",
            &json!({ "request_id": "r", "question_neutral": "?" }),
        )
        .wrote(201);
    crate::import::import(&world, &crate::world::fixture("opencode-json"));
    assert_eq!(client.all("", 500).len(), 15);
    client
        .post(
            "/s/turns",
            &json!({ "request_id": "q", "question_neutral": "?" }),
        )
        .wrote(201);
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    server.stop();
    world.verify();
}

#[test]
fn a_server_continues_when_its_stdout_is_closed() {
    let world = World::new();
    let log = world.path("log");
    let mut child = world
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let begin = std::time::Instant::now();
    let address = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if let Some((_, rest)) = text.split_once("address=") {
            break rest.split_whitespace().next().unwrap().to_owned();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None);
    assert_eq!(
        Client::new(&format!("http://{address}")).get_body("/healthz")["status"],
        "ok"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_store_in_memory_serves() {
    let world = World::new();
    let server = world.serve_with(&["--store", "memory:"]);
    let client = server.client();
    let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    assert_eq!(client.post("/s/turns", &body).status, 201);
    assert_eq!(client.post("/s/turns", &body).is(200)["replayed"], true);
    assert_eq!(client.get_body("/s/context")["messages"][0]["answer"], "!");
    assert_eq!(client.get_body("/s/verify")["status"], "intact");
    assert_eq!(client.all("", 50).len(), 1);
    assert_eq!(client.get_body("/readyz")["status"], "ready");
    server.stop();
    for part in ["data", "config", "state"] {
        assert!(!world.path(part).exists(), "{part} was written");
    }
    let restarted = world.serve_with(&["--store", "memory:"]);
    restarted.client().get("/s").fails(404, "session_not_found");
    restarted.stop();
}

#[test]
fn a_silent_turn_is_interrupted_and_can_be_reopened() {
    let world = World::new();
    let config = world.path("c.toml");
    std::fs::write(&config, "turn_timeout_s = 0\n").unwrap();
    let server = world.serve();
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    let turn = server.client().post("/s/turns", &body).wrote(201);
    // A turn that waits for a human is not silent.
    let waiting = json!({ "request_id": "h", "question_neutral": "?", "items": [text_item("h", "assistant", "hitl_request", "ok?")] });
    server.client().post("/s/turns", &waiting).wrote(201);
    server.stop();
    let server = world.serve_with(&["--config", config.to_str().unwrap()]);
    let client = server.client();
    let path = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    let begin = std::time::Instant::now();
    while client.get_body(&path)["status"] != "interrupted" {
        assert!(begin.elapsed() < WAIT_LIMIT, "{}", client.get_body(&path));
        std::thread::sleep(Duration::from_millis(20));
    }
    let items = json!({ "items": [text_item("late", "assistant", "thought", "?")] });
    let problem = client
        .post(&format!("{path}/items"), &items)
        .fails(409, "turn_closed");
    assert!(
        problem["hint"]
            .as_str()
            .unwrap()
            .contains("same request_id")
    );
    client
        .post(
            &format!("{path}/finalize"),
            &json!({ "answer_neutral": "!" }),
        )
        .fails(409, "turn_closed");
    assert_eq!(
        client.get_body("/s/turns?request_id=h")["data"][0]["status"],
        "open",
        "a turn that waits for a human was interrupted"
    );
    server.stop();
    let server = world.serve();
    let reopened = server.client().post("/s/turns", &body).wrote(200);
    assert_eq!(
        (&reopened["status"], &reopened["turn_id"]),
        (&json!("open"), &turn["turn_id"])
    );
    server
        .client()
        .post(&format!("{path}/items"), &items)
        .wrote(201);
    let done = server
        .client()
        .post(
            &format!("{path}/finalize"),
            &json!({ "answer_neutral": "!" }),
        )
        .wrote(200);
    assert_eq!(done["status"], "finalized");
    server.stop();
    world.verify();
}
