//! Servers with a hot store, and helpers for sessions in it.

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::limits::until;
use crate::world::{Server, World};

/// A text to look for in stores and logs.
pub(crate) const CANARY: &str = "c4n4ry-w0rds";

/// Starts a server that keeps anonymous sessions only in its hot store, with additional environment variables.
pub(crate) fn ephemeral(world: &World, variables: &[(&str, &str)]) -> Server {
    let environment = [
        &[
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
            ("FILROUGE_DURABLE", "authenticated"),
        ],
        variables,
    ];
    world.serve_with_env(&environment.concat(), &[])
}

/// Like [`ephemeral`], with the hot store in Redis.
pub(crate) fn with_redis(world: &World, redis: &Redis, variables: &[(&str, &str)]) -> Server {
    let url = redis.url();
    // The timeout is long, because Redis and the servers share the machine with other tests.
    let hot = [
        ("FILROUGE_HOT", url.as_str()),
        ("FILROUGE_HOT_TIMEOUT_MS", "5000"),
    ];
    ephemeral(world, &[&hot, variables].concat())
}

/// The body of a complete turn in one request.
pub(crate) fn complete_turn_json(request: &str, question: &str, answer: &str) -> Value {
    json!({ "request_id": request, "question_neutral": question, "answer_neutral": answer })
}

/// The body that starts a turn without an answer.
pub(crate) fn open_turn_json(request: &str, question: &str) -> Value {
    json!({ "request_id": request, "question_neutral": question })
}

/// The path of a turn.
pub(crate) fn turn_path(session: &str, turn: &Value) -> String {
    format!("/{session}/turns/{}", turn["turn_id"].as_str().unwrap())
}

/// Checks the response of a write that is only in the hot store; returns its body.
#[track_caller]
pub(crate) fn check_ephemeral(response: &Response, status: u16) -> Value {
    let body = response.is(status);
    let durability = response.header("filrouge-durability");
    assert_eq!(durability, Some("ephemeral"), "{response:?}");
    body
}

/// The questions and answers of a session, as its caller would send them to a model.
pub(crate) fn pairs(client: &Client, session: &str) -> Vec<(String, String)> {
    let context = client.get_body(&format!("/{session}/context"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = context["messages"].as_array().unwrap().iter();
    messages
        .map(|pair| (text(&pair["question"]), text(&pair["answer"])))
        .collect()
}

/// Everything that Redis stores: names and contents of all keys.
pub(crate) fn redis_content(redis: &Redis) -> String {
    let mut all = String::new();
    for key in redis.cli(&["KEYS", "*"]).lines() {
        all.push_str(key);
        let command: &[&str] = match redis.cli(&["TYPE", key]).trim() {
            "hash" => &["HGETALL", key],
            "zset" => &["ZRANGE", key, "0", "-1"],
            "none" => continue,
            other => panic!("{key} is a {other}"),
        };
        all.push_str(&redis.cli(command));
    }
    all
}

/// Waits until the copies in Redis are up to date.
pub(crate) fn wait_for_copies(client: &Client) {
    until("the copies are up to date", || {
        let waiting = crate::limits::metric(client, "filrouge_hot_steps_waiting");
        waiting == 0.0
    });
}
