//! What ends a recording from outside: a killed or stopping server, silence, invalid credentials, limits.

use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::caller::{Caller, key, key_id};
use crate::limits::{metric, until};
use crate::tail_client::Tail;
use crate::upload_client::{
    Upload, answer_end, journal, text, text_chunk, turn, wait_for_draft, wait_for_streams,
};
use crate::world::{Server, World};

/// A heartbeat timeout longer than any test, so that other servers must notice the end of the process itself.
const LONG_TIMEOUT: [(&str, &str); 2] = [
    ("FILROUGE_STREAM_TIMEOUT_S", "600"),
    ("FILROUGE_LISTEN", "127.0.0.1:0"),
];

/// Checks that the session's turn was interrupted with this text.
#[track_caller]
fn assert_interrupted(server: &Server, path: &str, partial: &str) {
    let client = server.client();
    until("the turn is interrupted", || {
        client.get_body(path)["status"] == "interrupted"
    });
    let journal = journal(&client);
    let channels: Vec<&str> = journal.iter().map(|(c, _)| c.as_str()).collect();
    assert_eq!(channels, ["question", "partial", "interrupted"]);
    assert_eq!(journal[1].1, text(partial));
}

/// Starts a turn and its stream, and waits for a draft; returns the path of the turn.
fn start_stream(server: &Server) -> (String, Upload) {
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(server, &path, "");
    upload.send_text("To the left");
    wait_for_draft(server);
    (path, upload)
}

#[test]
fn a_killed_server_leaves_its_turns_interrupted() {
    let world = World::on_sqlite();
    let server = world.serve_with_env(&LONG_TIMEOUT, &[]);
    let (path, _upload) = start_stream(&server);
    drop(server);
    // The rest of the store is intact.
    world.verify();
    let server = world.serve_with_env(&LONG_TIMEOUT, &[]);
    assert_interrupted(&server, &path, "To the left");
    server.stop();
    world.verify();
}

#[test]
fn another_server_on_the_file_interrupts_the_turns_of_a_killed_one() {
    let world = World::on_sqlite();
    let [server, other] = [(); 2].map(|()| world.serve_with_env(&LONG_TIMEOUT, &[]));
    let (path, _upload) = start_stream(&server);
    drop(server);
    assert_interrupted(&other, &path, "To the left");
    other.stop();
    world.verify();
}

#[test]
fn a_stopping_server_lets_a_stream_end_or_interrupts_it() {
    let world = World::new();
    let server = world.serve();
    let (path, mut upload) = start_stream(&server);
    let other = {
        let start = json!({"request_id": "ends", "question_neutral": "?"});
        let turn = server.client().post("/t/turns", &start).wrote(201);
        format!("/t/turns/{}", turn["turn_id"].as_str().unwrap())
    };
    let mut ending = Upload::chat(&server, &other, "");
    ending.send_text("Home");
    wait_for_streams(&server, 2.0);
    server.ask_to_stop();
    let address = server.origin().strip_prefix("http://").unwrap();
    until("the server refuses connections", || {
        TcpStream::connect(address).is_err()
    });
    ending.send(&(text_chunk(".") + &answer_end()));
    assert_eq!(ending.end().wrote(200)["answer_neutral"], "Home.");
    // Text that arrives while the server stops is kept too.
    upload.send_text(" and on");
    assert_eq!(upload.response().wrote(200)["status"], "interrupted");
    let log = server.wait_for_exit();
    assert!(!log.contains("cut off"), "{log}");
    let server = world.serve();
    assert_interrupted(&server, &path, "To the left and on");
    server.stop();
    world.verify();
}

#[test]
fn silence_ends_a_stream() {
    let world = World::new();
    let settings = [
        ("FILROUGE_LIMITS_STREAM_IDLE_SECONDS", "3"),
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "");
    // The words together take longer than the limit, the time between two of them is shorter.
    for word in ["a ", "b ", "c ", "d"] {
        upload.send_text(word);
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(upload.response().wrote(200)["status"], "failed");
    let journal = journal(&server.client());
    assert_eq!(journal[1].1, text("a b c d"));
    assert_eq!(journal[2].1[0]["code"], "stream_idle");
    server.stop();
    world.verify();
}

#[test]
fn timeouts_of_other_requests_do_not_end_a_stream() {
    let world = World::new();
    let settings = [
        ("FILROUGE_LIMITS_BODY_TIMEOUT_MS", "300"),
        ("FILROUGE_LIMITS_ANSWER_TIMEOUT_MS", "300"),
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "");
    for _ in 0..10 {
        upload.send_text("x");
        std::thread::sleep(Duration::from_millis(200));
    }
    upload.send(&answer_end());
    assert_eq!(upload.end().wrote(200)["answer_neutral"], "xxxxxxxxxx");
    server.stop();
}

#[test]
fn credentials_that_become_invalid_end_their_streams() {
    let world = World::new();
    let streamer = key(&world, &["--role", "service"]);
    let reader = key(&world, &["--role", "service"]);
    let server = world.serve();
    let caller = Caller::with_credentials(&server, &reader);
    let start = json!({"request_id": "r", "question_neutral": "?"});
    let turn = caller.post("/s/turns", &start).wrote(201);
    let path = format!("/s/turns/{}", turn["turn_id"].as_str().unwrap());
    let bearer = format!("Bearer {streamer}");
    let headers = [
        ("content-type", "text/event-stream"),
        ("authorization", bearer.as_str()),
    ];
    let target = format!("{path}/stream?format=openai-chat");
    let bearer = format!("Bearer {reader}");
    let mut tail = Tail::open(server.origin(), "/s/items", &[("authorization", &bearer)]);
    let mut upload = Upload::begin(server.origin(), &target, &headers);
    upload.send_text("To the left");
    assert_eq!(tail.next().unwrap().name, "draft");
    world.ok(&["keys", "revoke", key_id(&streamer)]);
    assert_eq!(upload.response().wrote(200)["status"], "failed");
    let items = caller.get("/s/items").is(200);
    let channels: Vec<_> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| &i["channel"])
        .collect();
    assert_eq!(channels, ["question", "partial", "error"]);
    assert_eq!(items["data"][2]["parts"][0]["code"], "credentials");
    server.stop();
}

#[test]
fn buffered_text_is_limited_and_recorded_text_is_not() {
    let world = World::new();
    let settings = [
        ("FILROUGE_LIMITS_BODY_BYTES", "65536"),
        ("FILROUGE_LIMITS_BODIES_IN_FLIGHT_BYTES", "262144"),
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let client = server.client();
    let piece = "y".repeat(8 << 10);
    // Many tool calls: each is recorded as an item as soon as it is complete.
    let path = turn(&client, "calls");
    let mut upload = Upload::chat(&server, &path, "&finalize=false");
    for n in 0..40 {
        let call = json!([{"index": n, "id": format!("c{n}"), "type": "function",
            "function": {"name": "note", "arguments": json!({"text": piece}).to_string()}}]);
        upload.send(&crate::upload_client::chunk(
            &json!({"tool_calls": call}),
            None,
        ));
    }
    upload.send(
        &(crate::upload_client::chunk(&json!({}), Some("tool_calls")) + crate::upload_client::DONE),
    );
    assert_eq!(upload.end().wrote(200)["status"], "open");
    // One growing text, which is buffered until it is complete.
    let path = turn(&client, "text");
    let mut upload = Upload::chat(&server, &path, "");
    for _ in 0..40 {
        if upload.try_send(&text_chunk(&piece)).is_err() {
            break;
        }
    }
    assert_eq!(upload.response().wrote(200)["status"], "failed");
    let journal = journal(&client);
    assert_eq!(journal.last().unwrap().1[0]["code"], "overloaded");
    assert_eq!(metric(&client, "filrouge_http_bodies_bytes"), 0.0);
    server.stop();
    world.verify();
}

#[test]
fn the_limit_of_streams_per_key_applies_to_recordings() {
    let world = World::new();
    let settings = [
        ("FILROUGE_LIMITS_STREAMS_PER_KEY", "1"),
        ("FILROUGE_LISTEN", "127.0.0.1:0"),
    ];
    let server = world.serve_with_env(&settings, &[]);
    let client = server.client();
    let (one, two) = (turn(&client, "one"), turn(&client, "two"));
    let mut upload = Upload::chat(&server, &one, "");
    upload.send_text("Left");
    wait_for_draft(&server);
    Upload::chat(&server, &two, "")
        .response()
        .fails(429, "rate_limited");
    upload.send(&answer_end());
    upload.end().wrote(200);
    until("the stream's slot is free again", || {
        let mut upload = Upload::chat(&server, &two, "");
        let _ = upload.try_send(&(text_chunk("Right") + &answer_end()));
        upload.end().status == 200
    });
    server.stop();
}
