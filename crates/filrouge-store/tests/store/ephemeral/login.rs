//! A session that the ledger adopts at a login keeps its turns, with the retained items.

use std::sync::Arc;

use filrouge_store::command::{Adopt, Write};
use filrouge_store::contract::differential::{memory, play, steps};
use filrouge_store::contract::drafts::{delta, put, stream};
use filrouge_store::contract::fixture::{
    anyone, cmd, fail, finalize, item, keyed, operator, redact_items, sid, start_with, text,
    translated, user,
};
use filrouge_store::contract::session_writes::{json, link};
use filrouge_store::contract::{Fixture, SameEntropy};
use filrouge_store::hot::{FieldRetention, ItemRetention};
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

/// A ledger that has adopted the session. The adoption is retried; only the first attempt creates it.
async fn adopting_ledger(store: &Store, adopt: &Adopt) -> Fixture {
    let adopter = memory(store.keyring.clone());
    for n in 0..2 {
        let write = Write::Adopt(Arc::new(adopt.clone()));
        let answer = adopter
            .ledger
            .write(cmd(&operator("t"), write))
            .await
            .unwrap();
        let first = format!("{answer:?}").contains("created: true");
        assert_eq!(first, n == 0);
    }
    adopter.assert_intact().await;
    adopter
}

/// The part of a turn that does not depend on the positions of its items.
fn without_positions(turn: &Turn) -> String {
    let mut turn = turn.clone();
    turn.ordinal = 0;
    (turn.first_seq, turn.last_seq) = (0, 0);
    format!("{turn:?}")
}

/// Whether the turn has neither question nor answer.
const fn is_silent(turn: &Turn) -> bool {
    let asked = turn.question_neutral.is_some() || turn.question_translated.is_some();
    let answered = turn.answer_neutral.is_some() || turn.answer_translated.is_some();
    !asked && !answered
}

const fn retention(record: ItemRetention) -> FieldRetention {
    FieldRetention {
        metadata: None,
        record,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any trimming and redaction, and with any retention of items, every remaining turn is adopted completely,
    /// once, in order, with its texts and times.
    #[test]
    fn any_history_is_adopted_completely(steps in steps(), bound in 1..6_u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut store = Store::with_max_turns(bound);
            store.entropy = Arc::new(SameEntropy);
            let f = store.fixture();
            // All writes go to one session, and none of them erases it: kind 20 is an erasure.
            let steps: Vec<_> = steps.iter().filter(|s| s.0 != 20).map(|s| (s.0, s.1, 0, s.3, s.4)).collect();
            play(&f, &steps, "").await;
            for record in [ItemRetention::All, ItemRetention::Conversation] {
                let Some((_, adopt)) = store.extract("s0", &retention(record)).await.unwrap() else {
                    continue;
                };
                let again = store.extract("s0", &retention(record)).await.unwrap().unwrap().1;
                prop_assert_eq!(&again.items, &adopt.items);
                let adopter = adopting_ledger(&store, &adopt).await;
                let (original, adopted) = (turns(&f, "s0").await, turns(&adopter, "s0").await);
                prop_assert_eq!(original.len(), adopted.len());
                for (mut original, adopted) in original.into_iter().zip(adopted) {
                    // A turn counts as redacted when all its retained items are redacted.
                    if record == ItemRetention::Conversation && is_silent(&original) {
                        original.deleted_at = adopted.deleted_at;
                    }
                    prop_assert_eq!(without_positions(&original), without_positions(&adopted));
                }
            }
            Ok(())
        })?;
    }
}

/// Writes a finalized, a failed and an open turn with items of every kind that [`ItemRetention::Conversation`] drops, a
/// redaction and a link.
async fn write_full_session(f: &Fixture) {
    let who = anyone();
    let start = start_with(&who, "s", "r1", "q", None, |event, items| {
        event.metadata = Some(json(r#"{"channel":"web","secret":1,"b":[ 1 ]}"#));
        event.application.translate_chat = true;
        items.push(translated(item(Channel::Question, "Q")));
        items.push(keyed("o", "observed"));
    });
    let turn = f.try_start(&who, start).await.unwrap();
    let call = ItemBody::new(Role::Assistant, Channel::ToolCall, text("call"));
    f.append(&who, &turn, vec![call, item(Channel::Final, "answered")])
        .await
        .unwrap();
    // The last item is a copy of the answer in place of its translation; it carries the close event.
    f.write_turn(&who, finalize("s", turn.turn_id, None))
        .await
        .unwrap();
    let failed = f.start(&who, "s", "r2").await;
    f.append(&who, &failed, vec![keyed("o2", "observed")])
        .await
        .unwrap();
    f.write_turn(&who, fail("s", failed.turn_id, "no"))
        .await
        .unwrap();
    let open = f.start(&who, "s", "r3").await;
    let draft = put(
        "s",
        open.turn_id,
        stream(1),
        0,
        vec![delta(1, true, "text")],
    );
    f.write(&who, draft).await.unwrap();
    f.write_redaction(&operator("t"), redact_items("s", &[(3, 4), (9, 9)]))
        .await
        .unwrap();
    f.write_session(&user("ann"), link("s", "ann"))
        .await
        .unwrap();
}

#[tokio::test]
async fn only_retained_items_and_metadata_are_adopted() {
    let store = Store::with_large_bounds();
    let f = store.fixture();
    write_full_session(&f).await;
    let channels = |adopt: &Adopt| {
        let channels = adopt.items.iter().map(|i| i.item.body.channel.to_string());
        channels.collect::<Vec<_>>().join(" ")
    };
    let (_, all) = store
        .extract("s", &FieldRetention::default())
        .await
        .unwrap()
        .unwrap();
    let rest = "question partial error question redaction link";
    let rest_all = rest.replacen("question", "question observation", 1);
    let first = "question question observation tool_call final final";
    assert_eq!(channels(&all), format!("{first} {rest_all}"));
    let adopter = adopting_ledger(&store, &all).await;
    assert_eq!(
        adopter.items(&user("ann"), "s", 50).await,
        f.items(&user("ann"), "s", 50).await
    );
    assert_eq!(
        adopter.session(&user("ann"), "s").await,
        f.session(&user("ann"), "s").await
    );

    let filter = FieldRetention {
        metadata: Some(vec!["channel".into(), "b".into()]),
        record: ItemRetention::Conversation,
    };
    let (_, retained) = store.extract("s", &filter).await.unwrap().unwrap();
    assert_eq!(
        channels(&retained),
        format!("question question final final {rest}")
    );
    let adopter = adopting_ledger(&store, &retained).await;
    let (original, adopted) = (turns(&f, "s").await, turns(&adopter, "s").await);
    assert_eq!(
        adopted[0].metadata.as_str(),
        r#"{"channel":"web","b":[ 1 ]}"#
    );
    for (original, adopted) in original.iter().zip(&adopted) {
        let metadata = adopted.metadata.clone();
        let expected = Turn {
            metadata,
            ..original.clone()
        };
        assert_eq!(without_positions(adopted), without_positions(&expected));
    }
    // The adopted redaction names only items that were adopted.
    let redaction = retained
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

#[tokio::test]
async fn a_later_question_is_not_part_of_the_turns_question() {
    let (store, who) = (Store::with_large_bounds(), anyone());
    let f = store.fixture();
    let turn = f.start(&who, "s", "r").await;
    let more = vec![keyed("o", "x"), translated(item(Channel::Question, "more"))];
    f.append(&who, &turn, more).await.unwrap();
    f.write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
    let (_, adopt) = store
        .extract("s", &retention(ItemRetention::Conversation))
        .await
        .unwrap()
        .unwrap();
    let adopter = adopting_ledger(&store, &adopt).await;
    assert_eq!(turns(&adopter, "s").await, turns(&f, "s").await);
}
