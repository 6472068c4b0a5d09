use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use filrouge_engine::ResumeSession;
use filrouge_types::{RequestId, SessionId};
use serde_json::{Value, json};

use super::{Calls, FILLER, Utterance};
use crate::config::{Config, DelayPoint, Store};
use crate::fsm::{HeardUtterance, Route};
use crate::store;
use crate::vapi::{self, ChatRequest};

/// An instance with a store in memory.
async fn instance(configure: impl FnOnce(&mut Config)) -> (tempfile::TempDir, Arc<Calls>) {
    let dir = tempfile::TempDir::with_prefix("voice-agent-").unwrap();
    let mut config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        store: Store::Memory,
        keyring: PathBuf::new(),
        state_dir: dir.path().to_owned(),
        instance: "a".to_owned(),
        tenant: filrouge_types::TenantId::new("1").unwrap(),
        lease_ttl: Duration::from_secs(10),
        lease_wait: Duration::from_secs(2),
        silent_when_busy: false,
        calendar_from: Some("2026-11-24".parse().unwrap()),
        delay: None,
    };
    configure(&mut config);
    let open_store = store::open(&config).await.unwrap();
    (dir, Arc::new(Calls::new(&open_store, config)))
}

fn call() -> SessionId {
    SessionId::new("call").unwrap()
}

/// Sends a server message of the call; returns the status and the JSON of the response.
async fn send(calls: &Arc<Calls>, mut message: Value) -> (u16, Value) {
    message["call"] = json!({ "id": "call", "customer": { "number": "+33698765432" } });
    let body = json!({ "message": message }).to_string();
    let (status, answer) = vapi::server_message(calls, body.as_bytes()).await;
    (status, answer.unwrap_or_default())
}

/// Sends a final transcript; returns the answer.
async fn transcript(calls: &Arc<Calls>, text: &str) -> String {
    let transcript = json!({ "type": "transcript", "role": "user", "transcriptType": "final", "transcript": text });
    let (status, answer) = send(calls, transcript).await;
    assert_eq!(status, 200);
    answer["say"].as_str().unwrap_or_default().to_owned()
}

/// Sends a completion with these messages of the caller; returns the answer.
async fn completion(calls: &Calls, texts: &[&str]) -> String {
    let messages = texts
        .iter()
        .map(|text| json!({ "role": "user", "content": text }));
    let body = json!({ "messages": messages.collect::<Vec<_>>(), "call": { "id": "call" } });
    let request: ChatRequest = serde_json::from_value(body).unwrap();
    let reply = vapi::chat(calls, &request, None).await.unwrap();
    vapi::spoken(&reply)
        .expect("the reply is silent")
        .to_owned()
}

/// Reports the end of the call; returns the status.
async fn end(calls: &Arc<Calls>) -> u16 {
    let ended = json!({ "type": "status-update", "status": "ended", "endedReason": "hung up" });
    send(calls, ended).await.0
}

/// Acquires the lease for an instance that never releases it.
async fn acquire_by_dead_instance(calls: &Calls, ttl_ms: u64) {
    let resume = ResumeSession {
        ttl_ms: Some(ttl_ms),
        ..ResumeSession::new("dead")
    };
    calls
        .engine
        .calls
        .resume(&calls.caller, &call(), resume)
        .await
        .unwrap();
}

async fn status(calls: &Calls) -> Value {
    calls.inspect(&call()).await.unwrap()["session"]["status"].clone()
}

async fn has_ended(calls: &Calls) -> bool {
    let events = calls.inspect(&call()).await.unwrap()["events"].clone();
    events
        .as_array()
        .unwrap()
        .iter()
        .any(|event| event["kind"] == "call_ended")
}

#[tokio::test]
async fn a_transcript_never_silences_completions() {
    let (_dir, calls) = instance(|_| {}).await;
    let welcome = transcript(&calls, "Bonjour.").await;
    assert!(welcome.starts_with("Bonjour, cabinet"), "{welcome}");
    for _ in 0..2 {
        assert_eq!(completion(&calls, &["Bonjour"]).await, welcome);
    }
    assert_eq!(transcript(&calls, "Oui.").await, "");
    let next = completion(&calls, &["Bonjour", "Oui"]).await;
    assert!(next.starts_with("À quel nom"), "{next}");
}

#[tokio::test]
async fn a_completion_gets_the_answer_of_a_transcript_that_ended_the_call() {
    let (_dir, calls) = instance(|_| {}).await;
    let to_transcript = transcript(&calls, "Un conseiller, s'il vous plaît").await;
    let to_completion = completion(&calls, &["un conseiller s'il vous plaît"]).await;
    assert_eq!(to_completion, to_transcript);
    assert!(
        to_completion.starts_with("Je vous passe"),
        "{to_completion}"
    );
    let later = completion(&calls, &["un conseiller s'il vous plaît", "Allô ?"]).await;
    assert!(later.starts_with("Votre demande a déjà"), "{later}");
}

#[tokio::test]
async fn every_transcript_without_a_timestamp_is_heard() {
    let (_dir, calls) = instance(|_| {}).await;
    transcript(&calls, "Bonjour").await;
    transcript(&calls, "Oui").await;
    transcript(&calls, "Jeanne Petit").await;
    transcript(&calls, "Contrôle").await;
    let proposed = transcript(&calls, "Oui").await;
    assert!(proposed.starts_with("Je vous propose"), "{proposed}");
}

#[tokio::test]
async fn the_end_of_a_call_held_by_a_dead_instance_is_recorded_and_its_slot_released() {
    let ttl = Duration::from_millis(300);
    let (_dir, calls) =
        instance(|config| (config.lease_ttl, config.lease_wait) = (ttl, ttl / 10)).await;
    completion(&calls, &["Bonjour"]).await;
    let slot = calls.calendar.free(&call(), &[], None).await.unwrap()[0];
    assert!(calls.calendar.book(&call(), 1, slot).await.unwrap());
    acquire_by_dead_instance(&calls, 600).await;
    // The event is already recorded, although 503 asks the platform to repeat its message.
    assert_eq!(end(&calls).await, 503);
    assert!(has_ended(&calls).await);
    // At most 60 s.
    for _ in 0..6000 {
        if status(&calls).await == "closed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status(&calls).await, "closed");
    assert_eq!(calls.calendar().await.unwrap(), json!({}));
    assert_eq!(end(&calls).await, 200);
    // The previous holder can no longer book.
    assert!(calls.calendar.book(&call(), 1, slot).await.is_err());
}

#[tokio::test]
async fn a_transferred_call_keeps_no_slot() {
    let (_dir, calls) = instance(|_| {}).await;
    completion(&calls, &["Un conseiller"]).await;
    let slot = calls.calendar.free(&call(), &[], None).await.unwrap()[0];
    // The slot is booked under the newest fence, but the answer is lost.
    assert!(calls.calendar.book(&call(), 1, slot).await.unwrap());
    assert_eq!(end(&calls).await, 200);
    assert_eq!(calls.calendar().await.unwrap(), json!({}));
    assert_eq!(status(&calls).await, "closed");
}

#[tokio::test]
async fn the_end_of_an_unknown_call_is_acknowledged() {
    let (_dir, calls) = instance(|_| {}).await;
    assert_eq!(end(&calls).await, 200);
}

#[tokio::test]
async fn all_attempts_of_a_delivery_use_one_holder_name() {
    let delay = Some((DelayPoint::Turn, Duration::from_millis(400)));
    let ttl = Duration::from_millis(200);
    let (_dir, calls) = instance(|config| (config.delay, config.lease_ttl) = (delay, ttl)).await;
    let heard = HeardUtterance {
        text: String::new(),
        tool: Some(
            serde_json::from_value(json!({ "name": "propose_slots", "parameters": {} })).unwrap(),
        ),
        caller: None,
        route: Route::Tool,
        messages: 0,
    };
    let request = RequestId::new("r").unwrap();
    // Polls the lease until a second attempt has acquired it; collects the holders with their fences.
    let observed_leases = async {
        let mut leases = BTreeSet::new();
        loop {
            if let Ok(lease) = calls.engine.calls.lease(&calls.caller, &call()).await {
                leases.extend(lease.holder.map(|holder| (holder, lease.fence)));
            }
            if leases
                .iter()
                .map(|(_, fence)| fence)
                .collect::<BTreeSet<_>>()
                .len()
                > 1
            {
                return leases;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let words = Utterance::Words("propose_slots".to_owned());
    let (id, time_limit) = (call(), Duration::from_secs(60));
    let reply = calls.answer(&id, &request, &heard, &words);
    let (reply, leases) = tokio::join!(reply, tokio::time::timeout(time_limit, observed_leases));
    assert_eq!(vapi::spoken(&reply), Some(FILLER));
    let holders: BTreeSet<_> = leases
        .unwrap()
        .into_iter()
        .map(|(holder, _)| holder)
        .collect();
    assert_eq!(holders.len(), 1, "{holders:?}");
}

#[tokio::test]
async fn handled_tools_are_answered_although_a_later_one_is_busy() {
    let wait = Duration::from_millis(50);
    let (_dir, calls) =
        instance(|config| (config.silent_when_busy, config.lease_wait) = (true, wait)).await;
    let tools = |ids: &[&str]| {
        let list = ids
            .iter()
            .map(|id| json!({ "id": id, "name": "propose_slots" }));
        json!({ "type": "tool-calls", "toolCallList": list.collect::<Vec<_>>() })
    };
    assert_eq!(send(&calls, tools(&["t1"])).await.0, 200);
    acquire_by_dead_instance(&calls, 60_000).await;
    assert_eq!(send(&calls, tools(&["t2"])).await.0, 204);
    let (status, answer) = send(&calls, tools(&["t1", "t2"])).await;
    assert_eq!(
        (status, answer["results"].as_array().unwrap().len()),
        (200, 1)
    );
    assert_eq!(answer["results"][0]["toolCallId"], "t1");
}

#[tokio::test]
async fn the_booking_of_a_refused_turn_is_released() {
    let delay = Some((DelayPoint::Turn, Duration::from_millis(250)));
    let (_dir, calls) = instance(|config| config.delay = delay).await;
    let tool = |id: &str, name: &str, parameters: Value| {
        let list = json!([{ "id": id, "name": name, "parameters": parameters }]);
        json!({ "type": "tool-calls", "toolCallList": list })
    };
    send(&calls, tool("t1", "propose_slots", json!({}))).await;
    let booking = send(&calls, tool("t2", "book_slot", json!({ "choice": 2 })));
    // Another instance acquires the lease between the booking and the turn, and keeps it.
    let acquire_elsewhere = async {
        while calls.calendar().await.unwrap() == json!({}) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let lease = calls
            .engine
            .calls
            .lease(&calls.caller, &call())
            .await
            .unwrap();
        let holder = lease.holder.unwrap();
        calls.release(&call(), &holder, lease.fence).await;
        acquire_by_dead_instance(&calls, 60_000).await;
    };
    let ((status, answer), ()) = tokio::join!(booking, acquire_elsewhere);
    assert_eq!(
        (status, &answer["results"][0]["result"]),
        (200, &json!(FILLER))
    );
    assert_eq!(calls.calendar().await.unwrap(), json!({}));
}
