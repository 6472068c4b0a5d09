//! What must be in the journal of what was sent and shown.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::Script;
use super::sender::{Ending, Plan, Sent, Upload, said};
use super::watcher::Shown;
use crate::http::Client;

/// One stream: what was to be sent, and what came of it.
pub(super) struct Played {
    pub(super) plan: Plan,
    pub(super) sent: Sent,
}

/// All items of a session, which stand one behind the other and bear names of their own.
pub(super) fn journal(client: &Client, session: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!(
            "/api/v1/sessions/{session}/items?limit=500{cursor}"
        ));
        items.extend(page["data"].as_array().expect("a page").iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let (mut ids, mut calls) = (HashSet::new(), HashSet::new());
    for (n, item) in items.iter().enumerate() {
        assert_eq!(item["seq"], n + 1, "{session}: {item}");
        if let Some(id) = item["item_id"].as_str() {
            assert!(ids.insert(id.to_owned()), "{session}: doubled: {item}");
        }
        for part in item["parts"].as_array().expect("parts") {
            if let Some(id) = part["call_id"].as_str() {
                assert!(calls.insert(id.to_owned()), "{session}: doubled: {item}");
            }
        }
    }
    items
}

/// The items of a turn that a stream has brought.
pub(super) fn brought<'a>(items: &'a [Value], turn: &str) -> Vec<&'a Value> {
    let of_stream = |item: &&Value| {
        item["turn_id"] == turn
            && item["role"] == "assistant"
            && item["item_id"]
                .as_str()
                .is_some_and(|id| id.starts_with("st_"))
    };
    items.iter().filter(of_stream).collect()
}

/// What the journal has of a turn's streams.
pub(super) fn recorded(items: &[Value], turn: &str) -> String {
    let brought = brought(items, turn).into_iter();
    brought.map(|item| said(&item["parts"])).collect()
}

/// How late the server's drafts were, at the worst, for their readers.
pub(super) fn lateness<'a>(played: &[Played], shown: impl Iterator<Item = &'a Shown>) -> Duration {
    let mut worst = Duration::ZERO;
    for (seen, turn, news) in shown.flat_map(|s| &s.grown) {
        let Some(Played { plan, sent }) = played.iter().find(|p| p.plan.turn == *turn) else {
            continue;
        };
        let name = format!("{}.", plan.request);
        let Some(at) = news.rfind(&name) else {
            continue;
        };
        let word = news[at..].split(' ').next().expect("a word");
        // Half a word says nothing.
        let Some(at) = sent.text.find(&format!("{word} ")) else {
            continue;
        };
        let mark = sent.marks.iter().find(|m| m.end > at).expect("a mark");
        worst = worst.max(seen.saturating_duration_since(mark.at));
    }
    worst
}

/// What became of one stream.
pub(super) struct Outcome {
    pub(super) status: String,
    /// How long before `killed` the first thing was sent that is missing.
    pub(super) missing: Option<Duration>,
}

/// One stream after its server was killed: what is recorded is what was sent up to some moment; everything that was
/// acknowledged stays.
pub(super) fn stream(
    client: &Client,
    items: &[Value],
    played: &Played,
    killed: Instant,
) -> Outcome {
    let Played { plan, sent } = played;
    let turn = client.get(&plan.path());
    let status = turn["status"].as_str().expect("a status").to_owned();
    let text = recorded(items, &plan.turn);
    assert!(
        sent.text.starts_with(&text),
        "{plan:?}\nsent: {:?}\nrecorded: {text:?}",
        sent.text
    );
    if let Some(told) = sent.told() {
        assert_eq!(status, told, "an acknowledged end is lost: {plan:?}");
        if sent.finished {
            assert_eq!(text, sent.text, "{plan:?}");
        }
    }
    if sent.cancelled {
        assert_eq!(status, "cancelled", "{plan:?}");
    }
    let possible = match (plan.ending, status.as_str()) {
        (_, "interrupted") => sent.told().is_none(),
        // Nothing had come to the ledger, or all, and the results of calls are waited for.
        (_, "open") => text.is_empty() || (sent.finished && text == sent.text),
        (Ending::Finish(_), "finalized") => text == sent.text,
        (Ending::Vanish(_), "failed") | (Ending::Cancel(_), "cancelled") => true,
        _ => false,
    };
    assert!(possible, "{plan:?}: {status}\n{text:?}");
    let first = sent.marks.iter().find(|m| m.end > text.len() && m.shown);
    let closed = matches!(status.as_str(), "failed" | "cancelled" | "finalized");
    Outcome {
        status,
        missing: first
            .filter(|_| !closed)
            .map(|mark| killed.saturating_duration_since(mark.at)),
    }
}

/// Everything that a reader was shown is in the journal.
pub(super) fn shown(items: &[Value], shown: &Shown) {
    for item in &shown.items {
        assert!(items.contains(item), "shown, and not there: {item}");
    }
    for ((id, part), text) in &shown.drafts {
        let item = items.iter().find(|i| i["item_id"] == **id);
        let item = item.unwrap_or_else(|| panic!("shown, and not there: {id}: {text:?}"));
        let part = &item["parts"][usize::try_from(*part).expect("a small number")];
        let there = match (&part["text"], &part["args"]) {
            (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
            (_, args) => args.to_string(),
        };
        assert!(
            there.starts_with(text.as_str()),
            "{text:?} is not in {item}"
        );
    }
}

/// Every format can be asked for.
pub(super) fn restores(client: &Client, session: &str) {
    for format in [
        "openai-chat",
        "openai-responses",
        "anthropic",
        "gemini",
        "pairs",
    ] {
        let query = "unanswered=error";
        for path in [
            format!("/api/v1/sessions/{session}/context?format={format}"),
            format!("/api/v1/sessions/{session}/context?format={format}&{query}"),
        ] {
            assert!(client.get(&path)["messages"].is_array(), "{path}");
        }
    }
}

/// The turn is gone on with, if it has not ended; what was there stays as it is.
pub(super) fn again(origin: &str, plan: &Plan, status: &str) {
    let client = Client::new(origin);
    let before = journal(&client, &plan.session);
    let path = format!("/api/v1/sessions/{}/turns", plan.session);
    let turn = client
        .post(&path, &question(&plan.request))
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    assert_eq!(turn.status, 200, "{turn:?}");
    let open = matches!(status, "open" | "interrupted");
    let expected = if open { "open" } else { status };
    assert_eq!(turn.body["status"], expected, "{plan:?}");
    let tag = format!("{}-again", plan.request);
    let mut script = Script::new(plan.format, tag.clone());
    let mut upload = Upload::begin(origin, plan).expect("a connection");
    // A refusal may come before all is sent.
    let _ = upload.send(&script.begin());
    let mut text = String::new();
    for n in 0..3 {
        let mut rng = rand::SeedableRng::seed_from_u64(n);
        let n = usize::try_from(n).expect("a small number");
        for piece in script.next(n, false, &mut rng) {
            let _ = upload.send(&piece.bytes);
            text += &piece.says;
        }
    }
    let _ = upload.send(&script.finish()).and_then(|()| upload.end());
    let reply = upload.reply().expect("an answer");
    if !open {
        assert_eq!(reply.code(), "turn_closed", "{plan:?}: {reply:?}");
        return;
    }
    assert_eq!(reply.status, 200, "{plan:?}: {reply:?}");
    assert_eq!(reply.body["status"], "finalized", "{plan:?}: {reply:?}");
    assert_eq!(reply.body["answer_neutral"], text, "{plan:?}");
    let after = journal(&client, &plan.session);
    assert!(after.starts_with(&before), "{plan:?}");
    let finals = after[before.len()..]
        .iter()
        .filter(|i| i["turn_id"] == plan.turn && i["channel"] == "final");
    let finals: Vec<String> = finals.map(|i| said(&i["parts"])).collect();
    assert_eq!(finals, [text], "{plan:?}");
}

/// The body that starts a turn.
pub(super) fn question(request: &str) -> Value {
    json!({ "request_id": request, "question_neutral": "Which way?" })
}
