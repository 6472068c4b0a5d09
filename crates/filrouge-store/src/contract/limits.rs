//! Limits are clear refusals (DESIGN §8).

use filrouge_types::{Channel, ErrorCode, ItemBody, SessionId, TurnStatus};

use super::fixture::{Fixture, anyone, cancel, code, item, keyed, start_with};
use crate::rules::TURN_ITEMS_MAX;

fn many(n: u64) -> Vec<ItemBody> {
    (0..n).map(|_| item(Channel::Observation, "o")).collect()
}

pub async fn the_items_of_a_turn_are_limited(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, many(TURN_ITEMS_MAX - 2))
        .await
        .unwrap();
    assert_eq!(
        code(f.append(&who, &turn, many(2)).await),
        ErrorCode::LimitExceeded
    );
    f.append(&who, &turn, vec![keyed("last", "x")])
        .await
        .unwrap();
    assert!(
        f.append(&who, &turn, vec![keyed("last", "x")])
            .await
            .unwrap()
            .2,
        "a retry adds nothing"
    );
    assert_eq!(
        code(f.append(&who, &turn, many(1)).await),
        ErrorCode::LimitExceeded
    );
    let done = f.write_turn(&who, cancel("s", turn.turn_id)).await.unwrap();
    assert_eq!(done.status, TurnStatus::Cancelled, "a full turn can end");
    f.assert_intact().await;
}

pub async fn the_items_of_a_complete_turn_are_limited(f: &Fixture) {
    let who = anyone();
    let complete = |n: u64| {
        start_with(&who, "s", "r", "q", Some("a"), |_, items| {
            items.splice(1..1, many(n - 2));
        })
    };
    assert_eq!(
        code(f.try_start(&who, complete(TURN_ITEMS_MAX + 1)).await),
        ErrorCode::LimitExceeded
    );
    let turn = f.try_start(&who, complete(TURN_ITEMS_MAX)).await.unwrap();
    assert_eq!(
        (turn.status, turn.last_seq),
        (TurnStatus::Finalized, TURN_ITEMS_MAX)
    );
}

pub async fn long_ids_are_compared_as_bytes(f: &Fixture) {
    let who = anyone();
    let long = |end: char| {
        format!(
            "{}{end}",
            "é/..🧵 %00'\""
                .repeat(14)
                .chars()
                .take(150)
                .collect::<String>()
        )
    };
    for end in ['a', 'b'] {
        let id = long(end);
        assert!(id.len() <= 256 && SessionId::new(id.clone()).is_ok());
        let turn = f.start(&who, &id, &id).await;
        f.append(&who, &turn, vec![keyed(&id, "x")]).await.unwrap();
        assert_eq!(f.last_seq(&who, &id).await, 2, "ids are never cut");
        assert_eq!(
            f.items(&who, &id, 10).await[1]
                .body
                .item_id
                .as_ref()
                .unwrap()
                .as_str(),
            id
        );
    }
    for id in ["A", "a", "é", "e\u{301}"] {
        f.start(&who, id, "r").await;
        assert_eq!(f.last_seq(&who, id).await, 1, "compared as bytes");
    }
    f.assert_intact().await;
}

pub async fn the_bytes_of_one_read_are_limited(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    f.append(&who, &turn, many(20)).await.unwrap();
    let read = |mut room: usize| {
        let scope = who.clone();
        async move {
            let id = SessionId::new("s").unwrap();
            let query = f
                .ledger
                .query_session(&scope, &id, move |snapshot, scope, id| {
                    let loaded = snapshot.get(scope, id)?;
                    let items =
                        snapshot.items_between(&loaded, 1, loaded.head.last_seq, &mut room)?;
                    Ok((items.len(), room))
                });
            query.await
        }
    };
    assert_eq!(code(read(100).await), ErrorCode::LimitExceeded);
    let (items, left) = read(1 << 20).await.unwrap();
    assert!(items == 21 && left < 1 << 20);
}
