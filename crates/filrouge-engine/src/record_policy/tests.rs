//! Policies that leave items and members of metadata out of the record.

mod members;

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_store::hot::ItemRetention;
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{
    Channel, ErrorCode, FixedClock, Item, ItemBody, JsonText, RawJson, Role, SessionId, TenantId,
    Turn, TurnId,
};

use crate::caller::Caller;
use crate::counters::Tally;
use crate::{
    AppendItems, CancelTurn, Engine, ErrorBody, FailTurn, FinalizeTurn, MetadataPolicy,
    RecordPolicies, Settings, StartTurn,
};

fn engine(settings: Settings) -> Engine {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
    Engine::new(Arc::new(ledger), Arc::new(OsEntropy), clock, settings)
}

/// An engine that records only conversations, except for the tenant `complete`.
fn conversation_engine() -> Engine {
    let complete = (TenantId::new("complete").unwrap(), ItemRetention::All);
    engine(Settings {
        record: RecordPolicies {
            default: ItemRetention::Conversation,
            tenants: BTreeMap::from([complete]),
        },
        ..Settings::default()
    })
}

/// An engine that records only these members of metadata.
fn engine_with_members(names: &[&str]) -> Engine {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    engine(Settings {
        metadata: MetadataPolicy::Only(names),
        ..Settings::default()
    })
}

fn anonymous(tenant: &str) -> Caller {
    Caller::local(TenantId::new(tenant).unwrap(), None)
}

fn session() -> SessionId {
    "s".parse().unwrap()
}

fn start(name: &str) -> StartTurn {
    StartTurn {
        question_neutral: Some(JsonText::from_plain("q")),
        ..StartTurn::new(name.parse().unwrap())
    }
}

fn json(text: &str) -> Option<RawJson> {
    Some(RawJson::parse(text).unwrap())
}

fn item(channel: &str) -> ItemBody {
    let parts = RawJson::from_checked(r#"[{"type":"text","text":"x"}]"#);
    ItemBody::new(Role::Assistant, Channel::from_word(channel), parts)
}

fn items(channels: &[&str]) -> AppendItems {
    AppendItems {
        items: channels.iter().map(|channel| item(channel)).collect(),
        expected_seq: None,
        fence: None,
        release: false,
    }
}

async fn start_turn(engine: &Engine, caller: &Caller, start: StartTurn) -> Turn {
    let turn = engine.turns.start(caller, session(), start).await;
    turn.unwrap().into_value()
}

async fn stored_items(engine: &Engine, caller: &Caller) -> Vec<Item> {
    let items = engine.turns.items(caller, &session(), 0, 100).await;
    items.unwrap().0
}

async fn channels(engine: &Engine, caller: &Caller) -> Vec<String> {
    let items = stored_items(engine, caller).await;
    items
        .iter()
        .map(|i| i.body.channel.as_str().to_owned())
        .collect()
}

fn counts(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected
        .iter()
        .map(|(name, n)| ((*name).to_owned(), *n))
        .collect()
}

#[tokio::test]
async fn only_questions_answers_and_endings_of_a_conversation_are_recorded() {
    let engine = conversation_engine();
    let caller = anonymous("t");
    let mut first = start("r");
    first.items = items(&["thought", "tool_call", "mine"]).items;
    let turn = start_turn(&engine, &caller, first).await;
    let request = items(&["tool_result", "partial", "plan", "error"]);
    let appended = engine
        .turns
        .append(&caller, session(), turn.turn_id, request);
    let appended = appended.await.unwrap();
    assert_eq!(
        (appended.first_seq, appended.last_seq, appended.not_recorded),
        (2, 3, 2)
    );
    let end = FinalizeTurn {
        answer_neutral: Some(JsonText::from_plain("a")),
        ..FinalizeTurn::default()
    };
    let turn = engine
        .turns
        .finalize(&caller, session(), turn.turn_id, end)
        .await
        .unwrap();
    assert_eq!(turn.answer_neutral.as_ref().unwrap().to_plain(), "a");
    assert_eq!(
        channels(&engine, &caller).await,
        ["question", "partial", "error", "final"]
    );
    let expected = ["mine", "plan", "thought", "tool_call", "tool_result"].map(|name| (name, 1));
    assert_eq!(engine.upkeep.counters().items.all(), counts(&expected));
    let report = engine.ledger().verify(None).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_tenant_has_its_own_policy() {
    let engine = conversation_engine();
    let caller = anonymous("complete");
    let turn = start_turn(&engine, &caller, start("r")).await;
    let appended = engine
        .turns
        .append(&caller, session(), turn.turn_id, items(&["thought"]));
    assert_eq!(appended.await.unwrap().not_recorded, 0);
    assert_eq!(channels(&engine, &caller).await, ["question", "thought"]);
    assert!(engine.upkeep.counters().items.all().is_empty());
}

#[tokio::test]
async fn the_ending_of_a_turn_is_recorded() {
    let engine = conversation_engine();
    let caller = anonymous("t");
    let failed = start_turn(&engine, &caller, start("r1")).await;
    let error = FailTurn {
        error: ErrorBody {
            code: "broken".into(),
            message: None,
            retryable: false,
        },
        partial_text: Some(JsonText::from_plain("so far")),
        fence: None,
        release: false,
    };
    engine
        .turns
        .fail(&caller, session(), failed.turn_id, error)
        .await
        .unwrap();
    let cancelled = start_turn(&engine, &caller, start("r2")).await;
    let cancel = engine
        .turns
        .cancel(&caller, session(), cancelled.turn_id, CancelTurn::default());
    cancel.await.unwrap();
    // Without an answer in the request, the turn's final item becomes the answer; filrouge records that as an item.
    let promoted = start_turn(&engine, &caller, start("r3")).await;
    let append = engine
        .turns
        .append(&caller, session(), promoted.turn_id, items(&["final"]));
    append.await.unwrap();
    let end = FinalizeTurn::default();
    engine
        .turns
        .finalize(&caller, session(), promoted.turn_id, end)
        .await
        .unwrap();
    assert_eq!(
        channels(&engine, &caller).await,
        [
            "question",
            "partial",
            "error",
            "question",
            "cancelled",
            "question",
            "final",
            "system_note"
        ]
    );
}

#[tokio::test]
async fn a_batch_without_recorded_items_is_refused_like_a_recorded_one() {
    let engine = conversation_engine();
    let caller = anonymous("t");
    let turn = start_turn(&engine, &caller, start("r")).await;
    let thought = |expected_seq| AppendItems {
        expected_seq,
        ..items(&["thought", "thought"])
    };
    let append = async |caller: &Caller, turn: TurnId, expected: Option<u64>| {
        let appended = engine
            .turns
            .append(caller, session(), turn, thought(expected))
            .await;
        appended.map(crate::Written::into_value)
    };
    let appended = append(&caller, turn.turn_id, Some(1)).await.unwrap();
    assert_eq!(
        (appended.first_seq, appended.last_seq, appended.not_recorded),
        (2, 1, 2)
    );
    let conflict = append(&caller, turn.turn_id, Some(7)).await.unwrap_err();
    assert_eq!(
        (conflict.code, conflict.actual_seq),
        (ErrorCode::SeqConflict, Some(1))
    );
    let unknown = TurnId::from_bytes([9; 16]);
    let unknown = append(&caller, unknown, None).await.unwrap_err();
    assert_eq!(unknown.code, ErrorCode::TurnNotFound);
    let absent = append(&anonymous("u"), turn.turn_id, None)
        .await
        .unwrap_err();
    assert_eq!(absent.code, ErrorCode::SessionNotFound);
    let cancel = engine
        .turns
        .cancel(&caller, session(), turn.turn_id, CancelTurn::default());
    cancel.await.unwrap();
    // The failure is the same as for an item that is recorded.
    let recorded = engine
        .turns
        .append(&caller, session(), turn.turn_id, items(&["partial"]));
    let refused = recorded.await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::TurnClosed);
    assert_eq!(
        append(&caller, turn.turn_id, None).await.unwrap_err(),
        refused
    );
    let with_wrong_seq = AppendItems {
        expected_seq: Some(7),
        ..items(&["partial"])
    };
    let recorded = engine
        .turns
        .append(&caller, session(), turn.turn_id, with_wrong_seq)
        .await;
    let refused = recorded.unwrap_err();
    assert_eq!(
        append(&caller, turn.turn_id, Some(7)).await.unwrap_err(),
        refused
    );
    assert_eq!(
        engine.upkeep.counters().items.all(),
        counts(&[("thought", 2)]),
        "refusals do not count"
    );
}

/// The response to the first attempt was lost, and the turn has ended since. The retry gets the same response.
#[tokio::test]
async fn a_retry_of_a_batch_without_recorded_items_is_a_replay() {
    let engine = conversation_engine();
    let caller = anonymous("t");
    let turn = start_turn(&engine, &caller, start("r")).await;
    let mut batch = items(&["thought", "plan"]);
    for (item, key) in batch.items.iter_mut().zip(["a", "b"]) {
        item.item_id = Some(key.parse().unwrap());
    }
    let append = async |batch: &AppendItems| {
        let appended = engine
            .turns
            .append(&caller, session(), turn.turn_id, batch.clone());
        appended.await
    };
    assert_eq!(append(&batch).await.unwrap().not_recorded, 2);
    let cancel = engine
        .turns
        .cancel(&caller, session(), turn.turn_id, CancelTurn::default());
    cancel.await.unwrap();
    let retried = append(&batch).await.unwrap();
    assert!(retried.replayed && retried.first_seq == retried.last_seq + 1);
    assert_eq!(retried.not_recorded, 2);
    assert_eq!(
        engine.upkeep.counters().items.all(),
        counts(&[("plan", 1), ("thought", 1)])
    );
    // A batch with an expected seq, or with an item without a key, is not a retry.
    let with_expected_seq = AppendItems {
        expected_seq: Some(retried.last_seq),
        ..batch.clone()
    };
    batch.items[1].item_id = None;
    for other in [with_expected_seq, batch] {
        let refused = append(&other).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::TurnClosed);
    }
}

#[tokio::test]
async fn the_omissions_of_a_retry_are_not_counted_again() {
    let engine = conversation_engine();
    let caller = anonymous("t");
    let mut request = start("r");
    request.items = items(&["thought"]).items;
    let turn = start_turn(&engine, &caller, request.clone()).await;
    let retried = start_turn(&engine, &caller, request).await;
    assert!(retried.replayed && !retried.differs);
    let mut batch = items(&["plan", "partial"]);
    batch.items[1].item_id = Some("k".parse().unwrap());
    for replayed in [false, true] {
        let appended = engine
            .turns
            .append(&caller, session(), turn.turn_id, batch.clone());
        let appended = appended.await.unwrap();
        assert_eq!((appended.replayed, appended.not_recorded), (replayed, 1));
    }
    assert_eq!(
        engine.upkeep.counters().items.all(),
        counts(&[("plan", 1), ("thought", 1)])
    );
}

#[test]
fn names_beyond_the_limit_are_counted_together_as_other() {
    let tally = Tally::<String>::default();
    for n in 0..100 {
        tally.add_name(&format!("name-{n}"));
    }
    tally.add_name("name-0");
    for invalid in ["", "a b", "é", &"x".repeat(65)] {
        tally.add_name(invalid);
    }
    let counted = tally.all();
    assert_eq!(counted.len(), 65);
    let count_of = |name: &str| counted.iter().find(|(n, _)| n == name).map(|(_, n)| *n);
    assert_eq!(
        (count_of("name-0"), count_of("name-1"), count_of("name-64")),
        (Some(2), Some(1), None)
    );
    assert_eq!(count_of("other"), Some(36 + 4));
}
