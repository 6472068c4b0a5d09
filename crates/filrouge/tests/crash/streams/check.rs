//! Compares the ledger with what was sent and shown.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::Script;
use super::sender::{Ending, Plan, Sent, StreamUpload, content_of};
use super::watcher::Shown;
use crate::http::CrashClient;

/// One stream: its plan, and its result.
pub(super) struct Played {
    pub(super) plan: Plan,
    pub(super) sent: Sent,
}

/// All items of a session; checks that their seqs are dense and their ids unique.
pub(super) fn journal(client: &CrashClient, session: &str) -> Vec<Value> {
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

/// The items of a turn that a stream produced.
pub(super) fn stream_items<'a>(items: &'a [Value], turn: &str) -> Vec<&'a Value> {
    let of_stream = |item: &&Value| {
        item["turn_id"] == turn
            && item["role"] == "assistant"
            && item["item_id"]
                .as_str()
                .is_some_and(|id| id.starts_with("st_"))
    };
    items.iter().filter(of_stream).collect()
}

/// The recorded content of a turn's streams.
pub(super) fn recorded(items: &[Value], turn: &str) -> String {
    let stream_items = stream_items(items, turn).into_iter();
    stream_items
        .map(|item| content_of(&item["parts"]))
        .collect()
}

/// The longest delay between a word that was sent and a draft that showed it to a reader.
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
        // An incomplete word cannot be found.
        let Some(at) = sent.text.find(&format!("{word} ")) else {
            continue;
        };
        let mark = sent.marks.iter().find(|m| m.end > at).expect("a mark");
        worst = worst.max(seen.saturating_duration_since(mark.at));
    }
    worst
}

/// The result of one stream.
pub(super) struct StreamOutcome {
    pub(super) status: String,
    /// How long before `killed` the first missing piece was sent.
    pub(super) missing: Option<Duration>,
}

/// Checks one stream after its server was killed: the record is a prefix of what was sent, and everything that was
/// acknowledged is kept.
pub(super) fn stream(
    client: &CrashClient,
    items: &[Value],
    played: &Played,
    killed: Instant,
) -> StreamOutcome {
    let Played { plan, sent } = played;
    let turn = client.get(&plan.path());
    let status = turn["status"].as_str().expect("a status").to_owned();
    let text = recorded(items, &plan.turn);
    assert!(
        sent.text.starts_with(&text),
        "{plan:?}\nsent: {:?}\nrecorded: {text:?}",
        sent.text
    );
    if let Some(reported) = sent.reported() {
        assert_eq!(status, reported, "an acknowledged end is lost: {plan:?}");
        if sent.finished {
            assert_eq!(text, sent.text, "{plan:?}");
        }
    }
    if sent.cancelled {
        assert_eq!(status, "cancelled", "{plan:?}");
    }
    let possible = match (plan.ending, status.as_str()) {
        (_, "interrupted") => sent.reported().is_none(),
        // The ledger contains nothing of the stream, or all of it while the turn waits for results of calls.
        (_, "open") => text.is_empty() || (sent.finished && text == sent.text),
        (Ending::Finish(_), "finalized") => text == sent.text,
        (Ending::Vanish(_), "failed") | (Ending::Cancel(_), "cancelled") => true,
        _ => false,
    };
    assert!(possible, "{plan:?}: {status}\n{text:?}");
    let first = sent.marks.iter().find(|m| m.end > text.len() && m.shown);
    let closed = matches!(status.as_str(), "failed" | "cancelled" | "finalized");
    StreamOutcome {
        status,
        missing: first
            .filter(|_| !closed)
            .map(|mark| killed.saturating_duration_since(mark.at)),
    }
}

/// Checks that the ledger contains everything that a reader was shown.
pub(super) fn shown(items: &[Value], shown: &Shown) {
    for item in &shown.items {
        assert!(items.contains(item), "shown, but not in the ledger: {item}");
    }
    for ((id, part), text) in &shown.drafts {
        let item = items.iter().find(|i| i["item_id"] == **id);
        let item = item.unwrap_or_else(|| panic!("shown, but not in the ledger: {id}: {text:?}"));
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

/// Checks that a restore succeeds in every format.
pub(super) fn restores(client: &CrashClient, session: &str) {
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

/// Continues the turn if it has not ended; its earlier items must not change.
pub(super) fn again(origin: &str, plan: &Plan, status: &str) {
    let client = CrashClient::new(origin);
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
    let mut upload = StreamUpload::begin(origin, plan).expect("a connection");
    // A refusal may arrive before everything is sent.
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
    let finals: Vec<String> = finals.map(|i| content_of(&i["parts"])).collect();
    assert_eq!(finals, [text], "{plan:?}");
}

/// The body that starts a turn.
pub(super) fn question(request: &str) -> Value {
    json!({ "request_id": request, "question_neutral": "Which way?" })
}
