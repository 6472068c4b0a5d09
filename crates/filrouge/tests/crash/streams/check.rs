//! Compares the ledger with what was sent and shown.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::script::Script;
use super::sender::{Ending, Plan, Sent, StreamUpload, content_of};
use super::watcher::Shown;
use crate::http::CrashClient;

/// One stream: its plan, and what its client sent and received.
pub(super) struct SentStream {
    pub(super) plan: Plan,
    pub(super) sent: Sent,
}

/// Reads all items of a session; checks that their seqs are dense and that item ids and call ids are unique.
pub(super) fn ledger_items(client: &CrashClient, session: &str) -> Vec<Value> {
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
            assert!(ids.insert(id.to_owned()), "{session}: duplicate: {item}");
        }
        for part in item["parts"].as_array().expect("parts") {
            if let Some(id) = part["call_id"].as_str() {
                assert!(calls.insert(id.to_owned()), "{session}: duplicate: {item}");
            }
        }
    }
    items
}

/// Returns the items of a turn that were recorded from a stream.
pub(super) fn stream_items<'a>(items: &'a [Value], turn: &str) -> Vec<&'a Value> {
    let is_from_stream = |item: &&Value| {
        item["turn_id"] == turn
            && item["role"] == "assistant"
            && item["item_id"]
                .as_str()
                .is_some_and(|id| id.starts_with("st_"))
    };
    items.iter().filter(is_from_stream).collect()
}

/// Returns the recorded content of a turn's streams.
pub(super) fn recorded(items: &[Value], turn: &str) -> String {
    let stream_items = stream_items(items, turn).into_iter();
    stream_items
        .map(|item| content_of(&item["parts"]))
        .collect()
}

/// Returns the longest delay between sending a word and showing it to a reader.
pub(super) fn longest_draft_delay<'a>(
    streams: &[SentStream],
    shown: impl Iterator<Item = &'a Shown>,
) -> Duration {
    let mut longest = Duration::ZERO;
    for (shown_at, turn, added) in shown.flat_map(|s| &s.additions) {
        let Some(SentStream { plan, sent }) = streams.iter().find(|s| s.plan.turn == *turn) else {
            continue;
        };
        let name = format!("{}.", plan.request);
        let Some(at) = added.rfind(&name) else {
            continue;
        };
        let word = added[at..].split(' ').next().expect("a word");
        // A word that is not shown completely cannot be located.
        let Some(at) = sent.text.find(&format!("{word} ")) else {
            continue;
        };
        let mark = sent.marks.iter().find(|m| m.end > at).expect("a mark");
        longest = longest.max(shown_at.saturating_duration_since(mark.at));
    }
    longest
}

/// The result of one stream.
pub(super) struct StreamOutcome {
    pub(super) status: String,
    /// How long before the kill the first missing piece was sent; `None` if nothing is missing.
    pub(super) missing: Option<Duration>,
}

/// Checks one stream after its server was killed: the record is a prefix of what was sent, and everything that was
/// acknowledged is kept.
pub(super) fn check_stream(
    client: &CrashClient,
    items: &[Value],
    stream: &SentStream,
    killed: Instant,
) -> StreamOutcome {
    let SentStream { plan, sent } = stream;
    let turn = client.get(&plan.path());
    let status = turn["status"].as_str().expect("a status").to_owned();
    let text = recorded(items, &plan.turn);
    assert!(
        sent.text.starts_with(&text),
        "{plan:?}\nsent: {:?}\nrecorded: {text:?}",
        sent.text
    );
    if let Some(answered) = sent.answered_status() {
        assert_eq!(status, answered, "an acknowledged end is lost: {plan:?}");
        if sent.finished {
            assert_eq!(text, sent.text, "{plan:?}");
        }
    }
    if sent.cancelled {
        assert_eq!(status, "cancelled", "{plan:?}");
    }
    let is_possible = match (plan.ending, status.as_str()) {
        (_, "interrupted") => sent.answered_status().is_none(),
        // The ledger contains nothing of the stream, or all of it if the turn waits for the results of calls.
        (_, "open") => text.is_empty() || (sent.finished && text == sent.text),
        (Ending::Finish(_), "finalized") => text == sent.text,
        (Ending::Cancel(_), "cancelled") => true,
        _ => false,
    };
    assert!(
        is_possible,
        "{plan:?}: impossible status {status} with recorded text {text:?}"
    );
    let first_missing = sent.marks.iter().find(|m| m.end > text.len() && m.shown);
    let closed = matches!(status.as_str(), "failed" | "cancelled" | "finalized");
    StreamOutcome {
        status,
        missing: first_missing
            .filter(|_| !closed)
            .map(|mark| killed.saturating_duration_since(mark.at)),
    }
}

/// Checks that the ledger contains everything that a reader was shown.
pub(super) fn assert_shown_kept(items: &[Value], shown: &Shown) {
    for item in &shown.items {
        assert!(items.contains(item), "shown, but not in the ledger: {item}");
    }
    for ((id, part), text) in &shown.drafts {
        let item = items.iter().find(|i| i["item_id"] == **id);
        let item = item.unwrap_or_else(|| panic!("shown, but not in the ledger: {id}: {text:?}"));
        let part = &item["parts"][usize::try_from(*part).expect("the number fits into usize")];
        let recorded = match (&part["text"], &part["args"]) {
            (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
            (_, args) => args.to_string(),
        };
        assert!(
            recorded.starts_with(text.as_str()),
            "shown, but not in the ledger: {text:?} of {item}"
        );
    }
}

/// Checks that a context can be restored in every format, without an unanswered call.
pub(super) fn assert_restorable(client: &CrashClient, session: &str) {
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

/// Sends another stream to a turn with `status`. An open or interrupted turn is continued and finalized, and its
/// earlier items do not change; any other turn refuses the stream.
pub(super) fn continue_turn(origin: &str, plan: &Plan, status: &str) {
    let client = CrashClient::new(origin);
    let before = ledger_items(&client, &plan.session);
    let path = format!("/api/v1/sessions/{}/turns", plan.session);
    let turn = client
        .post(&path, &question(&plan.request))
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    assert_eq!(turn.status, 200, "{turn:?}");
    let continues = matches!(status, "open" | "interrupted");
    let expected = if continues { "open" } else { status };
    assert_eq!(turn.body["status"], expected, "{plan:?}");
    let tag = format!("{}-again", plan.request);
    let mut script = Script::new(plan.format, tag.clone());
    let mut upload = StreamUpload::begin(origin, plan).expect("the server accepts a connection");
    // Sending may fail, because a refusal may arrive before everything is sent.
    let _ = upload.send(&script.begin());
    let mut text = String::new();
    for n in 0..3 {
        let mut rng = rand::SeedableRng::seed_from_u64(n);
        let n = usize::try_from(n).expect("the number fits into usize");
        for piece in script.next(n, false, &mut rng) {
            let _ = upload.send(&piece.bytes);
            text += &piece.content;
        }
    }
    let _ = upload.send(&script.finish()).and_then(|()| upload.end());
    let response = upload.response().expect("the server responds");
    if !continues {
        assert_eq!(response.code(), "turn_closed", "{plan:?}: {response:?}");
        return;
    }
    assert_eq!(response.status, 200, "{plan:?}: {response:?}");
    assert_eq!(
        response.body["status"], "finalized",
        "{plan:?}: {response:?}"
    );
    assert_eq!(response.body["answer_neutral"], text, "{plan:?}");
    let after = ledger_items(&client, &plan.session);
    assert!(after.starts_with(&before), "{plan:?}");
    let finals = after[before.len()..]
        .iter()
        .filter(|i| i["turn_id"] == plan.turn && i["channel"] == "final");
    let finals: Vec<String> = finals.map(|i| content_of(&i["parts"])).collect();
    assert_eq!(finals, [text], "{plan:?}");
}

/// Returns the body of a request that starts a turn.
pub(super) fn question(request: &str) -> Value {
    json!({ "request_id": request, "question_neutral": "Which way?" })
}
