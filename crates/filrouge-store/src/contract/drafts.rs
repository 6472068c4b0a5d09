//! Drafts grow and become items, and the end of a turn keeps their text.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, Failure, Role, Timestamp, Turn, TurnId, TurnStatus};

use super::fixture::{
    Fixture, anyone, body, close, code, finalize, interrupt, item, operator, sid, user,
};
use super::session_writes::erase;
use crate::command::{Append, DraftProgress, Ending, Interrupt, Outcome, PutDraft, Scope, Write};
use crate::draft::{Delta, PieceHead, PieceKind, StreamId, assemble};
use crate::read::DraftUpdate;
use crate::record::{Batch, Entry};

pub fn stream(n: u8) -> StreamId {
    StreamId([n; 8])
}

/// A delta of text for piece `number`, with its head if it is the first.
pub fn delta(number: u64, first: bool, text: &str) -> Delta {
    let head = PieceHead {
        kind: PieceKind::Text,
        role: Role::Assistant,
        channel: Channel::Final,
        call: None,
        agent: None,
        model: Some("m".into()),
    };
    Delta {
        replaces: false,
        number,
        part: 0,
        head: first.then_some(head),
        text: text.to_owned(),
        done: false,
    }
}

pub fn put(
    session: &str,
    turn: TurnId,
    stream: StreamId,
    number: u64,
    deltas: Vec<Delta>,
) -> Write {
    Write::PutDraft(Arc::new(PutDraft {
        session_id: sid(session),
        turn_id: turn,
        stream,
        starts_recording: number == 0,
        writer: "w".into(),
        number,
        deltas,
    }))
}

/// Appends items of a draft and writes the draft's remainder.
pub fn advance(
    session: &str,
    turn: TurnId,
    stream: StreamId,
    number: u64,
    remainder: Option<Vec<Delta>>,
) -> Write {
    let mut new_item = item(Channel::Observation, &format!("item {number}"));
    new_item.item_id = stream.item_id(number);
    Write::Append(Arc::new(Append {
        session_id: sid(session),
        turn_id: turn,
        batch: Batch::pack(vec![new_item.into()], &crate::OsEntropy).unwrap(),
        expected_seq: None,
        progress: Some(DraftProgress {
            stream,
            number,
            has_ended: remainder.is_none(),
            remainder: remainder.unwrap_or_default(),
        }),
    }))
}

/// Ends a turn by its recording.
pub fn recorded(session: &str, turn: TurnId, stream: StreamId, words: &str) -> Write {
    let mut new_item = item(Channel::Final, words);
    new_item.item_id = stream.item_id(99);
    let mut write = close(
        session,
        turn,
        Ending::Recorded(vec![Entry::from(new_item)]),
        body("recorded"),
    );
    write.stream = Some(stream);
    Write::Close(Arc::new(write))
}

/// Interrupts an abandoned recording that had no heartbeat since `before`.
pub fn abandon(session: &str, turn: TurnId, stream: StreamId, before: i64) -> Write {
    Write::Interrupt(Interrupt {
        session_id: sid(session),
        turn_id: turn,
        before: Timestamp::from_micros(before),
        stream: Some(stream),
    })
}

pub(super) async fn start_recording(f: &Fixture, who: &Scope, session: &str) -> Turn {
    let turn = f.start(who, session, "r").await;
    f.write(who, put(session, turn.turn_id, stream(1), 0, Vec::new()))
        .await
        .unwrap();
    turn
}

async fn draft_update(f: &Fixture, last_read: Option<u64>) -> DraftUpdate {
    let last_read: BTreeMap<_, _> = last_read.map(|n| (stream(1), n)).into_iter().collect();
    let drafts = f.ledger.drafts(&anyone(), &sid("s"), last_read).await;
    let [update] = drafts.unwrap().try_into().unwrap();
    update
}

fn texts(update: DraftUpdate) -> Vec<(u64, String)> {
    let pieces = assemble(update.deltas).unwrap();
    pieces.into_iter().map(|p| (p.number, p.text)).collect()
}

pub(super) async fn assert_no_drafts(f: &Fixture, who: &Scope) {
    let drafts = f.ledger.drafts(who, &sid("s"), BTreeMap::new()).await;
    assert_eq!(drafts, Ok(Vec::new()));
    let all = f.ledger.query(|snapshot| snapshot.view.all_drafts()).await;
    assert_eq!(all, Ok(Vec::new()));
}

pub async fn drafts_grow_by_deltas(f: &Fixture) {
    let who = anyone();
    let turn = start_recording(f, &who, "s").await;
    let id = turn.turn_id;
    let first = draft_update(f, None).await;
    assert_eq!(
        (first.turn_id, first.stream, &*first.writer),
        (id, stream(1), "w")
    );
    assert_eq!(
        (first.chunk, first.complete, first.deltas.len()),
        (0, true, 0)
    );
    for n in 1..=3_u64 {
        f.clock.advance(10);
        let deltas = vec![delta(0, n == 1, &format!("{n}é "))];
        let outcome = f.write(&who, put("s", id, stream(1), n, deltas)).await;
        assert_eq!(outcome, Ok(Outcome::Drafted));
    }
    let all = draft_update(f, None).await;
    assert_eq!((all.chunk, all.complete), (3, true));
    assert!(all.beat_at > all.begun_at);
    assert_eq!(texts(all), [(0, "1é 2é 3é ".to_owned())]);
    let later = draft_update(f, Some(2)).await;
    assert_eq!((later.chunk, later.complete), (3, false));
    assert_eq!(later.deltas, [delta(0, false, "3é ")]);
    assert_eq!(draft_update(f, Some(3)).await.deltas, []);
    // The draft adds no item, no change and no seq.
    assert_eq!(f.last_seq(&who, "s").await, 1);
    let changes = f.feed(&operator("t"), 50).await;
    assert_eq!(changes.len(), 1);
    // Callers of another tenant do not see it.
    let (other, session) = (operator("u"), sid("s"));
    let drafts = f.ledger.drafts(&other, &session, BTreeMap::new());
    assert_eq!(code(drafts.await), ErrorCode::SessionNotFound);
    f.assert_intact().await;
}

pub async fn repeated_chunks_are_not_added_again(f: &Fixture) {
    let who = anyone();
    let id = start_recording(f, &who, "s").await.turn_id;
    for _ in 0..2 {
        f.write(&who, put("s", id, stream(1), 0, Vec::new()))
            .await
            .unwrap();
        for n in 1..=2 {
            let deltas = vec![delta(0, n == 1, "x")];
            f.write(&who, put("s", id, stream(1), n, deltas))
                .await
                .unwrap();
        }
    }
    assert_eq!(texts(draft_update(f, None).await), [(0, "xx".to_owned())]);
    // A heartbeat without text.
    let before = draft_update(f, None).await;
    f.clock.advance(1_000);
    f.write(&who, put("s", id, stream(1), 2, Vec::new()))
        .await
        .unwrap();
    let after = draft_update(f, None).await;
    assert!(after.beat_at > before.beat_at);
    assert_eq!((after.chunk, after.deltas), (before.chunk, before.deltas));
    f.assert_intact().await;
}

pub async fn a_turn_has_one_recording_at_a_time(f: &Fixture) {
    let who = anyone();
    let id = start_recording(f, &who, "s").await.turn_id;
    let other = |n| put("s", id, stream(2), n, vec![delta(0, true, "x")]);
    assert_eq!(code(f.write(&who, other(0)).await), ErrorCode::StreamOpen);
    assert_eq!(code(f.write(&who, other(1)).await), ErrorCode::StreamLost);
    let foreign = advance("s", id, stream(2), 1, None);
    assert_eq!(code(f.write(&who, foreign).await), ErrorCode::StreamLost);
    let answer = recorded("s", id, stream(2), "a");
    assert_eq!(code(f.write(&who, answer).await), ErrorCode::StreamLost);
    // Others may not finalize a turn during its recording, but may append items.
    for words in [None, Some("answer")] {
        let refused = f.write(&who, finalize("s", id, words)).await;
        assert_eq!(code(refused), ErrorCode::StreamOpen);
    }
    f.write(
        &who,
        super::fixture::append("s", id, vec![item(Channel::Observation, "o")], None),
    )
    .await
    .unwrap();
    f.write(&who, recorded("s", id, stream(1), "a"))
        .await
        .unwrap();
    assert_no_drafts(f, &who).await;
    for late in [
        put("s", id, stream(1), 1, vec![delta(0, true, "x")]),
        put("s", id, stream(3), 0, Vec::new()),
        advance("s", id, stream(1), 7, None),
    ] {
        assert_eq!(code(f.write(&who, late).await), ErrorCode::TurnClosed);
    }
    // A repeated end is a replay.
    let again = f.write_turn(&who, recorded("s", id, stream(1), "a")).await;
    assert!(again.unwrap().replayed);
    f.assert_intact().await;
}

pub async fn drafts_become_items(f: &Fixture) {
    let who = anyone();
    let id = start_recording(f, &who, "s").await.turn_id;
    let growing = vec![delta(0, true, "one"), delta(1, true, "two")];
    f.write(&who, put("s", id, stream(1), 1, growing))
        .await
        .unwrap();
    let remainder = vec![delta(1, true, "two and")];
    for replayed in [false, true] {
        let (seq, _, again) = f
            .write_append(
                &who,
                advance("s", id, stream(1), 2, Some(remainder.clone())),
            )
            .await
            .unwrap();
        assert_eq!((seq, again), (2, replayed));
    }
    let drafts = draft_update(f, Some(1)).await;
    assert_eq!((drafts.chunk, drafts.complete), (2, true));
    assert_eq!(texts(drafts), [(1, "two and".to_owned())]);
    f.write(&who, put("s", id, stream(1), 3, vec![delta(1, false, "!")]))
        .await
        .unwrap();
    assert_eq!(
        draft_update(f, Some(2)).await.deltas,
        [delta(1, false, "!")]
    );
    assert_eq!(
        texts(draft_update(f, None).await),
        [(1, "two and!".to_owned())]
    );
    let nothing_left = advance("s", id, stream(1), 4, Some(Vec::new()));
    let more = put("s", id, stream(1), 5, vec![delta(2, true, "three")]);
    for (write, expected) in [(nothing_left, None), (more, Some((2, "three".to_owned())))] {
        f.write(&who, write).await.unwrap();
        assert_eq!(texts(draft_update(f, None).await), Vec::from_iter(expected));
    }
    f.write(&who, advance("s", id, stream(1), 6, None))
        .await
        .unwrap();
    assert_no_drafts(f, &who).await;
    // The turn is open, so another recording may begin.
    f.write(&who, put("s", id, stream(2), 0, Vec::new()))
        .await
        .unwrap();
    let turn = f.write_turn(&who, recorded("s", id, stream(2), "a")).await;
    assert_eq!(turn.unwrap().status, TurnStatus::Finalized);
    f.assert_intact().await;
}

pub async fn drafts_are_heartbeats(f: &Fixture) {
    let who = anyone();
    let id = start_recording(f, &who, "s").await.turn_id;
    let now = || filrouge_types::Clock::now(&*f.clock).as_micros();
    f.clock.advance(1_000);
    f.write(&who, put("s", id, stream(1), 1, vec![delta(0, true, "x")]))
        .await
        .unwrap();
    let alive = now();
    for kept in [
        // The turn was silent for long, but its recording was not.
        interrupt("s", id, alive),
        abandon("s", id, stream(1), alive),
        abandon("s", id, stream(2), i64::MAX),
    ] {
        let outcome = f.write(&who, kept).await;
        assert_eq!(outcome, Ok(Outcome::Interrupted(None)));
    }
    f.clock.advance(1_000);
    let outcome = f.write(&who, abandon("s", id, stream(1), now())).await;
    assert!(matches!(outcome, Ok(Outcome::Interrupted(Some(_)))));
    assert_no_drafts(f, &who).await;
    let late = f.write(&who, put("s", id, stream(1), 2, vec![delta(0, false, "y")]));
    assert_eq!(code(late.await), ErrorCode::TurnClosed);
    // The reopened turn belongs to another recording.
    f.start(&who, "s", "r").await;
    let late = f.write(&who, put("s", id, stream(1), 2, vec![delta(0, false, "y")]));
    assert_eq!(code(late.await), ErrorCode::StreamLost);
    f.assert_intact().await;
}

pub async fn erasure_deletes_drafts(f: &Fixture) {
    let who = user("ann");
    let id = start_recording(f, &who, "s").await.turn_id;
    let deltas = || vec![delta(0, true, "secret words")];
    f.write(&who, put("s", id, stream(1), 1, deltas()))
        .await
        .unwrap();
    f.write(&who, erase("s")).await.unwrap();
    let all = f.ledger.query(|snapshot| snapshot.view.all_drafts()).await;
    assert_eq!(all, Ok(Vec::new()));
    for late in [
        put("s", id, stream(1), 2, deltas()),
        recorded("s", id, stream(1), "a"),
    ] {
        let refused: Result<Outcome, Failure> = f.write(&who, late).await;
        assert_eq!(code(refused), ErrorCode::SessionErased);
    }
    f.assert_intact().await;
}
