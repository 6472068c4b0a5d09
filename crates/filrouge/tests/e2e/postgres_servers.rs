//! Several servers on one PostgreSQL database, each on its own machine, show the same data (DESIGN §4).

use std::sync::Barrier;
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::{Caller, key, within_five_seconds};
use crate::changes::{all, assert_same};
use crate::limits::until;
use crate::receiver::{Message, Receiver};
use crate::tail_client::Tail;
use crate::upload_client::{Upload, answer_end, journal, text, text_chunk, turn, wait_for_draft};
use crate::webhooks::{configure, with_secret};
use crate::world::{Server, World};

/// Starts two servers on one database; each has its own machine.
pub(crate) fn two_servers() -> ([World; 2], [Server; 2]) {
    let one = World::on_postgres();
    let first = one.serve();
    let other = one.other_machine();
    let second = other.serve();
    ([one, other], [first, second])
}

/// Calls `request` concurrently, `count` times for each server, with the number of the call; returns the results.
fn concurrently<T: Send>(
    servers: &[Server],
    count: usize,
    request: impl Fn(&Server, usize) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(count * servers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count * servers.len())
            .map(|n| {
                let (barrier, request) = (&barrier, &request);
                scope.spawn(move || {
                    barrier.wait();
                    request(&servers[n % servers.len()], n)
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn concurrent_starts_with_one_request_id_create_one_turn() {
    let (worlds, servers) = two_servers();
    for round in 0..5 {
        let session = format!("/s{round}");
        let responses = concurrently(&servers, 16, |server, n| {
            let body = json!({ "request_id": "r", "question_neutral": format!("{n}?") });
            server.client().post(&format!("{session}/turns"), &body)
        });
        assert_eq!(responses.iter().filter(|r| r.status == 201).count(), 1);
        let first = responses.iter().find(|r| r.status == 201).unwrap().body();
        for response in &responses {
            let turn = response.wrote(response.status);
            assert_eq!(turn["turn_id"], first["turn_id"]);
            assert_eq!(turn["question_neutral"], first["question_neutral"]);
            assert_eq!(turn["replayed"], response.status == 200);
        }
        for server in &servers {
            let client = server.client();
            assert_eq!(client.all(&format!("{session}/turns"), 50).len(), 1);
            assert_eq!(client.all(&format!("{session}/items"), 50).len(), 1);
        }
    }
    worlds[1].verify();
}

#[test]
fn the_first_of_several_answers_wins() {
    let (worlds, servers) = two_servers();
    for round in 0..5 {
        let path = turn(&servers[round % 2].client(), &format!("r{round}"));
        let responses = concurrently(&servers, 6, |server, n| {
            // Two clients send each answer.
            let body = json!({ "answer_neutral": format!("{}!", n / 2) });
            (
                n / 2,
                server.client().post(&format!("{path}/finalize"), &body),
            )
        });
        let won: Vec<usize> = responses
            .iter()
            .filter(|(_, response)| response.status == 200)
            .map(|(answer, _)| *answer)
            .collect();
        assert!(won.len() == 2 && won[0] == won[1], "{won:?}");
        for (_, response) in responses
            .iter()
            .filter(|(_, response)| response.status != 200)
        {
            assert_eq!(response.status, 409, "{response:?}");
        }
        for server in &servers {
            let turn = server.client().get_body(&path);
            assert_eq!(turn["answer_neutral"], format!("{}!", won[0]));
            assert_eq!(turn["status"], "finalized");
        }
    }
    worlds[0].verify();
}

#[test]
fn a_tail_follows_the_writes_of_another_server() {
    let (_worlds, [one, other]) = two_servers();
    let path = turn(&one.client(), "r");
    let item = |n: u64| json!({ "items": [crate::http::text_item(&format!("i{n}"), "assistant", "thought", "t")] });
    for n in 2..=5 {
        one.client()
            .post(&format!("{path}/items"), &item(n))
            .wrote(201);
    }
    let mut tail = Tail::open(other.origin(), "/s/items?after=3", &[]);
    let ids =
        |tail: &mut Tail, n| -> Vec<_> { tail.take(n).iter().map(|e| e.id.unwrap()).collect() };
    assert_eq!(ids(&mut tail, 2), [4, 5]);
    for n in 6..=20 {
        one.client()
            .post(&format!("{path}/items"), &item(n))
            .wrote(201);
        assert_eq!(ids(&mut tail, 1), [n]);
    }
    // A draft that grows at one server is shown at the other.
    let mut upload = Upload::chat(&one, &path, "");
    upload.send_text("To the ");
    let draft = tail.next().unwrap();
    assert_eq!((draft.name.as_str(), draft.id), ("draft", None));
    assert_eq!(draft.json()["text"], "To the ");
    upload.send_text("left");
    let more = tail.next().unwrap().json();
    assert_eq!(
        (&more["text"], &more["offset"]),
        (&json!("left"), &json!(7))
    );
    upload.send(&answer_end());
    upload.end().is(200);
    let end = loop {
        let event = tail.next().unwrap();
        if event.name == "item" {
            break event;
        }
    };
    assert_eq!(
        (end.id, &end.json()["parts"]),
        (Some(21), &text("To the left"))
    );
    // A client that reconnects resumes from its position.
    let mut reconnected = Tail::open(other.origin(), "/s/items", &[("last-event-id", "20")]);
    assert_eq!(ids(&mut reconnected, 1), [21]);
}

#[test]
fn a_stream_whose_server_was_killed_is_ended_by_another() {
    let world = World::on_postgres();
    let short_timeout = [
        ("FILROUGE_STREAM_TIMEOUT_S", "2"),
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ];
    let server = world.serve_with_env(&short_timeout, &[]);
    let other = world.other_machine();
    let other = other.serve_with_env(&short_timeout, &[]);
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the left");
    wait_for_draft(&server);
    // While the stream is recorded, no sweep ends it, however little text arrives.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(other.client().get_body(&path)["status"], "open");
    // The drop sends SIGKILL.
    drop(server);
    until("the turn is interrupted", || {
        other.client().get_body(&path)["status"] == "interrupted"
    });
    let journal = journal(&other.client());
    let channels: Vec<&str> = journal.iter().map(|(c, _)| c.as_str()).collect();
    assert_eq!(channels, ["question", "partial", "interrupted"]);
    assert_eq!(journal[1].1, text("To the left"));
    // A server that starts later adds nothing.
    let later = world.serve();
    assert_eq!(later.client().all("/s/items", 50).len(), 3);
    world.verify();
}

#[test]
fn a_turn_that_fell_silent_is_ended_by_another_server() {
    let (worlds, [one, _]) = two_servers();
    let path = turn(&one.client(), "r");
    drop(one);
    let third = worlds[0].other_machine();
    let impatient = third.serve_with_env(
        &[
            ("FILROUGE_TURN_TIMEOUT_S", "0"),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    until("the turn is interrupted", || {
        impatient.client().get_body(&path)["status"] == "interrupted"
    });
    worlds[1].verify();
}

#[test]
fn servers_that_start_concurrently_create_one_store() {
    let world = World::on_postgres();
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| world.serve())).collect();
        starting.into_iter().map(|s| s.join().unwrap()).collect()
    });
    for (n, server) in servers.iter().enumerate() {
        let body = json!({ "request_id": n.to_string(), "question_neutral": "?" });
        server.client().post("/s/turns", &body).wrote(201);
    }
    for server in &servers {
        assert_eq!(server.client().all("/s/turns", 50).len(), 4);
        assert_eq!(server.client().get_body("/readyz")["status"], "ready");
    }
    world.verify();
}

#[test]
fn keys_of_the_command_line_work_on_all_servers() {
    let (worlds, servers) = two_servers();
    let status = |server: &Server, key: &str| Caller::with_credentials(server, key).get("").status;
    let created = key(&worlds[0], &["--role", "service"]);
    for server in &servers {
        within_five_seconds("every caller needs a key", || {
            Caller::anonymous(server).get("").status == 401 && status(server, &created) == 200
        });
    }
    worlds[1].ok(&["keys", "revoke", crate::caller::key_id(&created)]);
    for server in &servers {
        within_five_seconds("the key is revoked", || status(server, &created) == 401);
    }
}

#[test]
fn a_webhook_of_two_servers_gets_each_change_once() {
    let one = World::on_postgres();
    let receiver = Receiver::start();
    let settings = with_secret("from = \"beginning\"");
    configure(&one, &receiver, &settings);
    let first = one.serve();
    let other = one.other_machine();
    configure(&other, &receiver, &settings);
    let second = other.serve();
    let mut servers = vec![first, second];
    let count =
        |messages: &[Message]| -> usize { messages.iter().map(|m| m.changes().len()).sum() };
    concurrently(&servers, 4, |server, n| {
        for m in 0..10 {
            let body = json!({ "session_id": format!("s{n}-{m}") });
            server.client().post("", &body).wrote(201);
        }
    });
    let feed = all(&servers[1].client());
    receiver.until("all changes arrive", |messages| {
        count(messages) >= feed.len()
    });
    assert_same(&receiver.changes(), &feed);
    assert_same(&all(&servers[0].client()), &feed);
    // The other server takes over when one stops, and nothing is delivered twice.
    for stopped in 0..2 {
        if stopped == 1 {
            servers.remove(0).stop();
        }
        let body = json!({ "session_id": format!("later{stopped}") });
        servers[0].client().post("", &body).wrote(201);
        let feed = all(&servers[0].client());
        receiver.until("the later changes arrive", |messages| {
            count(messages) >= feed.len()
        });
        assert_same(&receiver.changes(), &feed);
    }
}

#[test]
fn both_feeds_report_every_commit_while_both_write() {
    let (worlds, servers) = two_servers();
    let feeds: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let readers: Vec<_> = servers
            .iter()
            .map(|server| {
                scope.spawn(move || {
                    let client = server.client();
                    let (mut rows, mut after) = (Vec::new(), "0".to_owned());
                    while rows.len() < 400 {
                        let path = format!("/api/v1/changes?after={after}&wait=20000&limit=7");
                        let page = client.get_body(&path);
                        rows.extend(page["data"].as_array().unwrap().clone());
                        after = page["next_cursor"].as_str().unwrap().to_owned();
                    }
                    rows
                })
            })
            .collect();
        concurrently(&servers, 4, |server, n| {
            for m in 0..50 {
                let body = json!({ "session_id": format!("s{n}-{m}") });
                server.client().post("", &body).wrote(201);
            }
        });
        readers.into_iter().map(|r| r.join().unwrap()).collect()
    });
    let expected = all(&servers[0].client());
    for feed in feeds {
        assert_same(&feed, &expected);
    }
    worlds[0].verify();
}

#[test]
fn two_servers_record_streams_into_one_session() {
    let (worlds, [one, other]) = two_servers();
    let paths = [turn(&one.client(), "a"), turn(&other.client(), "b")];
    let mut uploads = [
        Upload::chat(&one, &paths[0], ""),
        Upload::chat(&other, &paths[1], ""),
    ];
    for upload in &mut uploads {
        upload.send(&text_chunk("half"));
    }
    for upload in &mut uploads {
        upload.send(&(text_chunk(" and half") + &answer_end()));
    }
    for upload in uploads {
        upload.end().is(200);
    }
    for client in [one.client(), other.client()] {
        for path in &paths {
            client.post(&format!("{path}/finalize"), &json!({})).is(200);
            assert_eq!(client.get_body(path)["answer_neutral"], "half and half");
        }
    }
    worlds[1].verify();
}
