//! Server messages and completions in Vapi's shapes.

use filrouge_testbed::Database;
use serde_json::{Value, json};

use crate::process::{Agent, CALLER, TERMINATED, World, chat};
use crate::script::{SCRIPT, check_whole, said, talk};

/// Sends a server message of a call.
#[track_caller]
fn tell(agent: &Agent, call: &str, mut message: Value) -> Value {
    message["call"] = json!({ "id": call, "customer": { "number": CALLER } });
    let (status, text) = agent.post("/vapi/webhook", &json!({ "message": message }));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

fn transcript(agent: &Agent, call: &str, at: usize, text: &str) -> Value {
    let message = json!({
        "type": "transcript", "role": "user", "transcriptType": "final",
        "timestamp": 1_795_000_000_000_u64 + at as u64, "transcript": text,
    });
    tell(agent, call, message)
}

#[test]
fn transcripts_are_heard_once_each_and_not_beside_completions() {
    let database = Database::new();
    let world = World::new(database.url());
    let a = world.start("a");
    tell(
        &a,
        "call",
        json!({ "type": "status-update", "status": "in-progress" }),
    );
    for (at, (said, answer)) in SCRIPT.iter().enumerate() {
        let partial = json!({ "type": "transcript", "role": "user", "transcriptType": "partial", "transcript": said });
        assert_eq!(tell(&a, "call", partial), json!({}));
        for _ in 0..2 {
            let told = transcript(&a, "call", at, said);
            assert!(told["say"].as_str().unwrap().starts_with(answer), "{told}");
        }
    }
    check_whole(&a, "call");
    talk(&a, "other", 0..=1);
    assert_eq!(transcript(&a, "other", 0, "Oui, d'accord"), json!({}));
    talk(&a, "other", 2..=5);
    check_whole(&a, "other");
}

#[test]
fn tools_are_called_once_for_each_id() {
    let database = Database::new();
    let world = World::new(database.url());
    let a = world.start("a");
    let call = |id: &str, name: &str, parameters: Value| {
        let list = json!([{ "id": id, "name": name, "parameters": parameters }]);
        tell(
            &a,
            "call",
            json!({ "type": "tool-calls", "toolCallList": list }),
        )
    };
    let who = json!({ "name": "Jeanne Petit", "reason": "contrôle", "day": "jeudi" });
    let told = call("t1", "propose_slots", who);
    let text = told["results"][0]["result"].as_str().unwrap();
    assert!(
        text.contains("1, jeudi 26 novembre à 9 heures ; 2, jeudi 3 décembre"),
        "{told}"
    );
    // As OpenAI writes them, and on the other route again.
    let function = json!({ "name": "book_slot", "arguments": "{\"choice\":2}" });
    let list = json!([{ "id": "t2", "type": "function", "function": function }]);
    for _ in 0..2 {
        let told = tell(
            &a,
            "call",
            json!({ "type": "tool-calls", "toolCallList": list }),
        );
        assert_eq!(told["results"][0]["toolCallId"], "t2");
        let text = told["results"][0]["result"].as_str().unwrap();
        assert!(
            text.starts_with("C'est confirmé, Jeanne Petit : jeudi 3 décembre"),
            "{told}"
        );
    }
    let unknown = call("t3", "sing", json!({}));
    assert!(unknown["results"][0]["error"].is_string(), "{unknown}");
    let journal = a.call("call");
    assert_eq!(
        (journal.state(), journal.conversation().len()),
        ("CONFIRMED", 4)
    );
    assert_eq!(journal.known("contact"), CALLER);
}

#[test]
fn a_call_that_has_ended_is_closed_and_stays_so() {
    let database = Database::new();
    let world = World::new(database.url());
    let a = world.start("a");
    talk(&a, "done", 0..=5);
    talk(&a, "left", 0..=4);
    assert!(
        a.hears("human", &["Un conseiller, s'il vous plaît"])
            .starts_with("Je vous passe un conseiller")
    );
    for call in ["done", "left", "human"] {
        let ended = json!({ "type": "status-update", "status": "ended", "endedReason": "customer-ended-call" });
        let report = json!({ "type": "end-of-call-report", "endedReason": "unknown" });
        for message in [&ended, &report, &ended] {
            tell(&a, call, message.clone());
        }
        let journal = a.call(call);
        assert_eq!(
            (journal.status(), journal.events("call_ended")),
            ("closed", 1),
            "{call}"
        );
        assert_eq!(a.hears(call, &["Allô ?", "Allô ?"]), TERMINATED);
    }
    assert_eq!(a.call("left").state(), "WAIT_CONFIRM");
    assert_eq!(a.call("human").events("transferred"), 1);
    assert_eq!(a.get("/agenda").as_object().unwrap().len(), 1);
    assert_eq!(a.count("not_recorded"), 0, "{}", a.log());
}

#[test]
fn without_the_journal_calls_are_in_memory_alone() {
    let world = World::new("postgres://nobody@127.0.0.1:1/none".to_owned());
    let off = [("USE_PG_CALL_JOURNAL", "false")];
    let mut a = world.start_with("a", &off);
    talk(&a, "call", 0..=5);
    check_whole(&a, "call");
    talk(&a, "other", 0..=3);
    a.kill();
    let a = world.start_with("a", &off);
    assert!(a.hears("other", &said(4)).starts_with(SCRIPT[0].1));
}

#[test]
fn what_is_no_webhook_is_refused_and_one_object_is_an_answer_as_well() {
    let database = Database::new();
    let world = World::new(database.url());
    let a = world.start("a");
    let mut body = chat("call", &["Bonjour"]);
    body["stream"] = json!(false);
    let (status, text) = a.post("/chat/completions", &body);
    let told: Value = serde_json::from_str(&text).unwrap();
    let content = told["choices"][0]["message"]["content"].as_str().unwrap();
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
    // The agent speaks first.
    assert!(a.hears("first", &[]).starts_with(SCRIPT[0].1));
    assert!(a.hears("first", &["Oui"]).starts_with(SCRIPT[1].1));
    // What was said over fillers is heard with the next message.
    let answer = a.hears("call", &["Bonjour", "Oui", "Allô ?", "d'accord"]);
    assert!(answer.starts_with(SCRIPT[1].1), "{answer}");
    assert_eq!(a.call("call").conversation()[2], "Oui Allô ? d'accord");
}
