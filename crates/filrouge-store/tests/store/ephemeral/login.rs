//! What goes into the ledger at a login: the same turns, as much of them as is kept.

use std::sync::Arc;

use filrouge_store::command::{Adopt, Write};
use filrouge_store::contract::asks::{json, link};
use filrouge_store::contract::differential::{memory, play, steps};
use filrouge_store::contract::drafts::{delta, put, stream};
use filrouge_store::contract::fixture::{
    anyone, cmd, fail, finalize, item, keyed, operator, redact_items, sid, start_with, text,
    translated, user,
};
use filrouge_store::contract::{Fixture, SameEntropy};
use filrouge_store::hot::{Keep, KeepItems};
use filrouge_store::read::TurnQuery;
use filrouge_types::{Channel, ItemBody, Role, Turn};
use proptest::prelude::*;

use crate::ephemeral::store::Store;

async fn turns(f: &Fixture, session: &str) -> Vec<Turn> {
    let query = TurnQuery {
        include_redacted: true,
        limit: 500,
        ..TurnQuery::default()
    };
    let (turns, _) = f
        .ledger
        .turns(&operator("t"), &sid(session), query)
        .await
        .unwrap();
    turns
}

/// A ledger that has taken the session in, twice.
async fn adopted(store: &Store, adopt: &Adopt) -> Fixture {
    let there = memory(store.keyring.clone());
    for n in 0..2 {
        let write = Write::Adopt(Arc::new(adopt.clone()));
        let taken = there
            .ledger
            .write(cmd(&operator("t"), write))
            .await
            .unwrap();
        let first = format!("{taken:?}").contains("created: true");
        assert_eq!(first, n == 0);
    }
    there.intact().await;
    there
}

/// What of a turn does not depend on where its items stand.
fn told(turn: &Turn) -> String {
    let mut turn = turn.clone();
    turn.ordinal = 0;
    (turn.first_seq, turn.last_seq) = (0, 0);
    format!("{turn:?}")
}

/// Whether nothing of what was asked and answered is there.
const fn is_silent(turn: &Turn) -> bool {
    let asked = turn.question_neutral.is_some() || turn.question_translated.is_some();
    let answered = turn.answer_neutral.is_some() || turn.answer_translated.is_some();
    !asked && !answered
}

const fn keep(record: KeepItems) -> Keep {
    Keep {
        metadata: None,
        record,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened, whatever was let go or redacted: every turn that is there comes whole, once, in order, with its
    /// texts and times, however much of its items is kept.
    #[test]
    fn any_history(steps in steps(), bound in 1..6_u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut store = Store::of_turns(bound);
            store.entropy = Arc::new(SameEntropy);
            let f = store.fixture();
            // All in one session; none is erased.
            let steps: Vec<_> = steps.iter().filter(|s| s.0 != 20).map(|s| (s.0, s.1, 0, s.3, s.4)).collect();
            play(&f, &steps, "").await;
            for record in [KeepItems::All, KeepItems::Conversation] {
                let Some((_, adopt)) = store.taken("s0", &keep(record)).await.unwrap() else {
                    continue;
                };
                let again = store.taken("s0", &keep(record)).await.unwrap().unwrap().1;
                prop_assert_eq!(&again.items, &adopt.items);
                let there = adopted(&store, &adopt).await;
                let (here, there) = (turns(&f, "s0").await, turns(&there, "s0").await);
                prop_assert_eq!(here.len(), there.len());
                for (mut here, there) in here.into_iter().zip(there) {
                    // A turn is redacted when all that is kept of it is.
                    if record == KeepItems::Conversation && is_silent(&here) {
                        here.deleted_at = there.deleted_at;
                    }
                    prop_assert_eq!(told(&here), told(&there));
                }
            }
            Ok(())
        })?;
    }
}

/// A turn with everything that a conversation leaves out.
async fn full(f: &Fixture) {
    let who = anyone();
    let start = start_with(&who, "s", "r1", "q", None, |event, items| {
        event.metadata = Some(json(r#"{"channel":"web","secret":1,"b":[ 1 ]}"#));
        event.application.translate_chat = true;
        items.push(translated(item(Channel::Question, "Q")));
        items.push(keyed("o", "observed"));
    });
    let turn = f.try_start(&who, start).await.unwrap();
    let call = ItemBody::new(Role::Assistant, Channel::ToolCall, text("call"));
    f.append(&who, &turn, vec![call, item(Channel::Final, "said")])
        .await
        .unwrap();
    // Ends with a note, which carries the close.
    f.turn_of(&who, finalize("s", turn.turn_id, None))
        .await
        .unwrap();
    let failed = f.start(&who, "s", "r2").await;
    f.append(&who, &failed, vec![keyed("o2", "observed")])
        .await
        .unwrap();
    f.turn_of(&who, fail("s", failed.turn_id, "no"))
        .await
        .unwrap();
    let open = f.start(&who, "s", "r3").await;
    let drafted = put(
        "s",
        open.turn_id,
        stream(1),
        0,
        vec![delta(1, true, "text")],
    );
    f.write(&who, drafted).await.unwrap();
    f.redacted(&operator("t"), redact_items("s", &[(3, 4), (9, 9)]))
        .await
        .unwrap();
    f.session_of(&user("ann"), link("s", "ann")).await.unwrap();
}

#[tokio::test]
async fn what_is_kept() {
    let store = Store::roomy();
    let f = store.fixture();
    full(&f).await;
    let channels = |adopt: &Adopt| {
        let channels = adopt.items.iter().map(|i| i.item.body.channel.to_string());
        channels.collect::<Vec<_>>().join(" ")
    };
    let (_, all) = store.taken("s", &Keep::default()).await.unwrap().unwrap();
    let rest = "question partial error question redaction link";
    let rest_all = rest.replacen("question", "question observation", 1);
    let first = "question question observation tool_call final final";
    assert_eq!(channels(&all), format!("{first} {rest_all}"));
    let there = adopted(&store, &all).await;
    assert_eq!(
        there.items(&user("ann"), "s", 50).await,
        f.items(&user("ann"), "s", 50).await
    );
    assert_eq!(
        there.session(&user("ann"), "s").await,
        f.session(&user("ann"), "s").await
    );

    let filter = Keep {
        metadata: Some(vec!["channel".into(), "b".into()]),
        record: KeepItems::Conversation,
    };
    let (_, some) = store.taken("s", &filter).await.unwrap().unwrap();
    assert_eq!(
        channels(&some),
        format!("question question final final {rest}")
    );
    let there = adopted(&store, &some).await;
    let (here, turns) = (turns(&f, "s").await, turns(&there, "s").await);
    assert_eq!(turns[0].metadata.as_str(), r#"{"channel":"web","b":[ 1 ]}"#);
    for (here, there) in here.iter().zip(&turns) {
        let metadata = there.metadata.clone();
        let expected = Turn {
            metadata,
            ..here.clone()
        };
        assert_eq!(told(there), told(&expected));
    }
    // The redaction names what is left of what it named.
    let redaction = some
        .items
        .iter()
        .find(|i| i.item.body.channel == Channel::Redaction)
        .unwrap();
    let parts = redaction.item.body.parts.as_str();
    assert!(
        parts.starts_with(r#"[{"type":"redaction","seqs":[[6,6]],"by":"operator""#),
        "{parts}"
    );
}

/// Another question further down a turn does not become part of what the turn asks.
#[tokio::test]
async fn questions_stay_apart() {
    let (store, who) = (Store::roomy(), anyone());
    let f = store.fixture();
    let turn = f.start(&who, "s", "r").await;
    let more = vec![keyed("o", "x"), translated(item(Channel::Question, "more"))];
    f.append(&who, &turn, more).await.unwrap();
    f.turn_of(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    let (_, adopt) = store
        .taken("s", &keep(KeepItems::Conversation))
        .await
        .unwrap()
        .unwrap();
    let there = adopted(&store, &adopt).await;
    assert_eq!(turns(&there, "s").await, turns(&f, "s").await);
}
