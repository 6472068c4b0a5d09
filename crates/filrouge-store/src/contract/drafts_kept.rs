//! Every end of a turn keeps the text of its draft.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, TurnId, TurnStatus};

use super::drafts::{abandon, advance, delta, put, recorded, start_recording, stream};
use super::fixture::{Fixture, anyone, body, cancel, close, code, item, sid};
use crate::command::{Ending, Scope, Write};
use crate::draft::PieceKind;
use crate::record::Entry;

async fn end_turn_with_draft(
    f: &Fixture,
    who: &Scope,
    session: &str,
    write: Write,
) -> Vec<(Channel, String)> {
    let id = start_recording(f, who, session).await.turn_id;
    let deltas = vec![delta(0, true, "shown "), delta(1, true, "two")];
    f.write(who, put(session, id, stream(1), 1, deltas))
        .await
        .unwrap();
    f.write(
        who,
        put(session, id, stream(1), 2, vec![delta(0, false, "so far")]),
    )
    .await
    .unwrap();
    let write = match write {
        Write::Close(mut close) => {
            Arc::make_mut(&mut close).turn_id = id;
            Write::Close(close)
        }
        Write::Interrupt(mut interrupt) => {
            interrupt.turn_id = id;
            Write::Interrupt(interrupt)
        }
        other => other,
    };
    f.write(who, write).await.unwrap();
    let items = f.items(who, session, 50).await;
    let left = f.ledger.drafts(who, &sid(session), BTreeMap::new()).await;
    assert_eq!(left, Ok(Vec::new()));
    assert_eq!(items[1].body.item_id, stream(1).item_id(0));
    // The next write of the recording is refused, even one with an existing key.
    let late = advance(session, id, stream(1), 0, None);
    assert_eq!(code(f.write(who, late).await), ErrorCode::TurnClosed);
    f.assert_intact().await;
    let channel_and_text = |i: &filrouge_types::Item| {
        let text = i.body.text().map(|t| t.to_plain());
        (i.body.channel.clone(), text.unwrap_or_default())
    };
    items.iter().skip(1).map(channel_and_text).collect()
}

pub async fn drafts_are_kept_however_the_turn_ends(f: &Fixture) {
    let who = anyone();
    let shown = [
        (Channel::Partial, "shown so far".to_owned()),
        (Channel::Partial, "two".to_owned()),
    ];
    let any = TurnId::from_derived([0; 16]);
    let cancelled = end_turn_with_draft(f, &who, "a", cancel("a", any)).await;
    assert_eq!(cancelled[..2], shown);
    assert_eq!(cancelled[2].0, Channel::Cancelled);
    let entries = vec![item(Channel::Error, "e").into()];
    let failing = close("b", any, Ending::Fail(entries), body("e"));
    let failed = end_turn_with_draft(f, &who, "b", Write::Close(Arc::new(failing))).await;
    assert_eq!(failed[..2], shown);
    assert_eq!(failed[2].0, Channel::Error);
    let interrupted =
        end_turn_with_draft(f, &who, "c", abandon("c", any, stream(1), i64::MAX)).await;
    assert_eq!(interrupted[..2], shown);
    assert_eq!(interrupted[2].0, Channel::Interrupted);
}

pub async fn the_callers_text_may_extend_the_draft(f: &Fixture) {
    let who = anyone();
    let text = |i: &filrouge_types::Item| {
        let text = i.body.text().map(|t| t.to_plain());
        (i.body.item_id.clone(), text.unwrap_or_default())
    };
    let answer = stream(1).item_id(1);
    for (n, (given, kept)) in [
        // The caller's text continues the draft: one complete item.
        (
            "caf\u{e9} so far",
            vec![(answer.clone(), "caf\u{e9} so far")],
        ),
        ("caf\u{e9} ", vec![(answer.clone(), "caf\u{e9} ")]),
        // The caller's text differs or is shorter: both are kept.
        (
            "other",
            vec![(answer.clone(), "caf\u{e9} "), (None, "other")],
        ),
        (
            "caf\u{e9}",
            vec![(answer.clone(), "caf\u{e9} "), (None, "caf\u{e9}")],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let session = format!("s{n}");
        let id = start_recording(f, &who, &session).await.turn_id;
        let mut thought = delta(0, true, "hm");
        if let Some(head) = &mut thought.head {
            (head.kind, head.channel) = (PieceKind::Reasoning, Channel::Thought);
        }
        // The draft spells a character as an escape, the caller does not.
        let grown = vec![thought, delta(1, true, r"caf\u00e9 ")];
        f.write(&who, put(&session, id, stream(1), 1, grown))
            .await
            .unwrap();
        let entries = [item(Channel::Partial, given), item(Channel::Error, "e")];
        let ending = Ending::Fail(entries.into_iter().map(Entry::from).collect());
        let failing = close(&session, id, ending, body("e"));
        f.write(&who, Write::Close(Arc::new(failing)))
            .await
            .unwrap();
        let items = f.items(&who, &session, 50).await;
        assert_eq!(
            (&items[1].body.channel, &items[1].body.item_id),
            (&Channel::Thought, &stream(1).item_id(0))
        );
        let partial: Vec<_> = items
            .iter()
            .filter(|i| i.body.channel == Channel::Partial)
            .collect();
        assert!(partial[0].body.model.as_deref() == Some("m"));
        let kept: Vec<_> = kept.into_iter().map(|(id, t)| (id, t.to_owned())).collect();
        assert_eq!(
            partial.into_iter().map(text).collect::<Vec<_>>(),
            kept,
            "{given}"
        );
        assert_eq!(items.last().unwrap().body.channel, Channel::Error);
        let left = f.ledger.drafts(&who, &sid(&session), BTreeMap::new()).await;
        assert_eq!(left, Ok(Vec::new()));
    }
    f.assert_intact().await;
}

pub async fn a_used_item_key_does_not_keep_a_turn_open(f: &Fixture) {
    let who = anyone();
    for (session, ends) in [
        ("a", cancel("a", TurnId::from_derived([0; 16]))),
        (
            "b",
            abandon("b", TurnId::from_derived([0; 16]), stream(1), i64::MAX),
        ),
        (
            "c",
            recorded("c", TurnId::from_derived([0; 16]), stream(1), "answer"),
        ),
    ] {
        let other = f.start(&who, session, "other").await;
        let id = start_recording(f, &who, session).await.turn_id;
        f.write(
            &who,
            put(session, id, stream(1), 1, vec![delta(0, true, "x")]),
        )
        .await
        .unwrap();
        for number in [0, 99] {
            let mut taken = item(Channel::Observation, "mine");
            taken.item_id = stream(1).item_id(number);
            f.append(&who, &other, vec![taken]).await.unwrap();
        }
        let write = match ends {
            Write::Close(mut close) => {
                Arc::make_mut(&mut close).turn_id = id;
                Write::Close(close)
            }
            Write::Interrupt(mut interrupt) => {
                interrupt.turn_id = id;
                Write::Interrupt(interrupt)
            }
            other => other,
        };
        f.write(&who, write).await.unwrap();
        let turn = f.ledger.turn(&who, &sid(session), id).await.unwrap();
        assert_ne!(turn.status, TurnStatus::Open);
        f.assert_intact().await;
    }
}
