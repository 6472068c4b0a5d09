//! Server messages and completions in Vapi's format.

use filrouge_testbed::Database;
use serde_json::{Value, json};

use crate::process::{Agent, CALLER, TERMINATED, TestSetup, chat};
use crate::script::{SCRIPT, check_script, messages, send_messages};

/// Sends a server message of a call; returns the response.
#[track_caller]
fn deliver(agent: &Agent, call: &str, mut message: Value) -> Value {
    message["call"] = json!({ "id": call, "customer": { "number": CALLER } });
    let (status, text) = agent.post("/vapi/webhook", &json!({ "message": message }));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Sends a final transcript, whose timestamp is `number` milliseconds after a base; returns the response.
fn transcript(agent: &Agent, call: &str, number: usize, text: &str) -> Value {
    let message = json!({
        "type": "transcript", "role": "user", "transcriptType": "final",
        "timestamp": 1_795_000_000_000_u64 + number as u64, "transcript": text,
    });
    deliver(agent, call, message)
}

#[test]
fn a_transcript_is_heard_once_and_ignored_after_a_completion() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let a = setup.start("a");
    deliver(
        &a,
        "call",
        json!({ "type": "status-update", "status": "in-progress" }),
    );
    for (number, (text, answer)) in SCRIPT.iter().enumerate() {
        let partial = json!({ "type": "transcript", "role": "user", "transcriptType": "partial", "transcript": text });
        assert_eq!(deliver(&a, "call", partial), json!({}));
        for _ in 0..2 {
            let response = transcript(&a, "call", number, text);
            assert!(
                response["say"].as_str().unwrap().starts_with(answer),
                "{response}"
            );
        }
    }
    check_script(&a, "call");
    send_messages(&a, "other", 0..=1);
    assert_eq!(transcript(&a, "other", 0, "Oui, d'accord"), json!({}));
    send_messages(&a, "other", 2..=5);
    check_script(&a, "other");
}

#[test]
fn tools_are_called_once_for_each_id() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let a = setup.start("a");
    let call = |id: &str, name: &str, parameters: Value| {
        let list = json!([{ "id": id, "name": name, "parameters": parameters }]);
        deliver(
            &a,
            "call",
            json!({ "type": "tool-calls", "toolCallList": list }),
        )
    };
    let parameters = json!({ "name": "Jeanne Petit", "reason": "contrôle", "day": "jeudi" });
    let response = call("t1", "propose_slots", parameters);
    let text = response["results"][0]["result"].as_str().unwrap();
    assert!(
        text.contains("1, jeudi 26 novembre à 9 heures ; 2, jeudi 3 décembre"),
        "{response}"
    );
    // In OpenAI's form, and repeated.
    let function = json!({ "name": "book_slot", "arguments": "{\"choice\":2}" });
    let list = json!([{ "id": "t2", "type": "function", "function": function }]);
    for _ in 0..2 {
        let response = deliver(
            &a,
            "call",
            json!({ "type": "tool-calls", "toolCallList": list }),
        );
        assert_eq!(response["results"][0]["toolCallId"], "t2");
        let text = response["results"][0]["result"].as_str().unwrap();
        assert!(
            text.starts_with("C'est confirmé, Jeanne Petit : jeudi 3 décembre"),
            "{response}"
        );
    }
    let unknown = call("t3", "sing", json!({}));
    assert!(unknown["results"][0]["error"].is_string(), "{unknown}");
    let journal = a.call("call");
    assert_eq!(
        (journal.state(), journal.conversation().len()),
        ("CONFIRMED", 4)
    );
    assert_eq!(journal.checkpoint("contact"), CALLER);
}

#[test]
fn an_ended_call_is_closed_and_stays_closed() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let a = setup.start("a");
    send_messages(&a, "done", 0..=5);
    send_messages(&a, "left", 0..=4);
    assert!(
        a.answer("human", &["Un conseiller, s'il vous plaît"])
            .starts_with("Je vous passe un conseiller")
    );
    for call in ["done", "left", "human"] {
        let ended = json!({ "type": "status-update", "status": "ended", "endedReason": "customer-ended-call" });
        let report = json!({ "type": "end-of-call-report", "endedReason": "unknown" });
        for message in [&ended, &report, &ended] {
            deliver(&a, call, message.clone());
        }
        let journal = a.call(call);
        assert_eq!(
            (journal.status(), journal.events("call_ended")),
            ("closed", 1),
            "{call}"
        );
        assert_eq!(a.answer(call, &["Allô ?", "Allô ?"]), TERMINATED);
    }
    assert_eq!(a.call("left").state(), "WAIT_CONFIRM");
    assert_eq!(a.call("human").events("transferred"), 1);
    assert_eq!(a.get("/agenda").as_object().unwrap().len(), 1);
    assert_eq!(a.count("not_recorded"), 0, "{}", a.log());
}

#[test]
fn without_the_journal_calls_are_only_in_memory() {
    let setup = TestSetup::new("postgres://nobody@127.0.0.1:1/none".to_owned());
    let off = [("USE_PG_CALL_JOURNAL", "false")];
    let mut a = setup.start_with("a", &off);
    send_messages(&a, "call", 0..=5);
    check_script(&a, "call");
    send_messages(&a, "other", 0..=3);
    a.kill();
    let a = setup.start_with("a", &off);
    assert!(a.answer("other", &messages(4)).starts_with(SCRIPT[0].1));
}

#[test]
fn malformed_webhooks_are_refused_and_answers_without_streaming_are_one_object() {
    let database = Database::new();
    let setup = TestSetup::new(database.url());
    let a = setup.start("a");
    let mut body = chat("call", &["Bonjour"]);
    body["stream"] = json!(false);
    let (status, text) = a.post("/chat/completions", &body);
    let response: Value = serde_json::from_str(&text).unwrap();
    let content = response["choices"][0]["message"]["content"]
        .as_str()
        .unwrap();
    assert!(status == 200 && content.starts_with(SCRIPT[0].1), "{text}");
    body["call"] = json!({});
    assert_eq!(a.post("/chat/completions", &body).0, 422);
    assert_eq!(
        a.post(
            "/vapi/webhook",
            &json!({ "message": { "type": "transcript" } })
        )
        .0,
        422
    );
    // The agent speaks first, before any message of the caller.
    assert!(a.answer("first", &[]).starts_with(SCRIPT[0].1));
    assert!(a.answer("first", &["Oui"]).starts_with(SCRIPT[1].1));
    // Messages during fillers are heard together with the next one.
    let answer = a.answer("call", &["Bonjour", "Oui", "Allô ?", "d'accord"]);
    assert!(answer.starts_with(SCRIPT[1].1), "{answer}");
    assert_eq!(a.call("call").conversation()[2], "Oui Allô ? d'accord");
}
