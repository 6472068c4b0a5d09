use std::borrow::Cow;

use filrouge_sources::Role;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, NewDocument, SessionEntry, SessionUpdate, Shard,
};

use super::*;
use crate::ask::Ask;
use crate::fields::Field;
use crate::question::Question;
use crate::rank::Evidence;
use crate::spoken::{Piece, Spoken};
use crate::weigh::Words;

const SESSIONS: usize = 100;
const DOCUMENTS: usize = 8;

fn document(said: String, at: usize) -> NewDocument {
    let piece = Piece {
        field: Field::Text,
        part: None,
        seq: None,
        tool: None,
        at: None,
        text: Cow::Owned(said),
    };
    let spoken = Spoken {
        id: Cow::Owned(format!("m{at}")),
        role: Some(Role::User),
        created: i64::try_from(at).unwrap(),
        seq: None,
        agent: None,
        pieces: vec![piece],
    };
    NewDocument {
        key: spoken.id.clone().into(),
        unit: 0,
        kind: spoken.kind(),
        created: spoken.created,
        digest: 0,
        folded: spoken.folded(),
        body: spoken.encode(),
    }
}

/// What is found of a query where messages say something by their numbers.
fn find(says: impl Fn(usize) -> String, query: &str, most: usize) -> Vec<InSession> {
    let index = MemoryIndex::default();
    for session in 0..SESSIONS {
        let numbers = (0..DOCUMENTS).map(|n| session * DOCUMENTS + n);
        let update = SessionUpdate {
            shard: Shard::default(),
            entry: SessionEntry {
                key: format!("s{session}").into(),
                ..SessionEntry::default()
            },
            coverage: Coverage::Whole,
            documents: numbers.map(|n| document(says(n), n)).collect(),
        };
        index
            .change(None, &[IndexUpdate::Session(update)], None)
            .unwrap();
    }
    let ask = Ask {
        query: query.to_owned(),
        ..Ask::default()
    };
    let question = Question::of(&ask, &|| false).unwrap();
    let filter = question.filter();
    let asked = Asked {
        ask: &ask,
        question: &question,
        filter: &filter,
        words: &Words::of(&question),
        stopped: &|| false,
        now: 0,
        text: "",
        meant: None,
    };
    let look = Look {
        index: &index,
        reach: &Reach::Shard(Shard::default()),
        sessions: None,
        asked: &asked,
        agent: &|_| None,
        most,
    };
    look.find().unwrap()
}

fn looked(sessions: &[InSession]) -> usize {
    let open = sessions.iter().flat_map(InSession::documents);
    let open = open.filter(|(_, holds)| !holds).count();
    SESSIONS * DOCUMENTS - open
}

fn about(sessions: &[InSession]) -> f64 {
    sessions.iter().map(|one| one.about).sum()
}

#[test]
fn a_sample_is_enough_where_it_fills_a_page() {
    let found = find(|n| format!("quince {n}"), "quince", LOOKED_THROUGH);
    let held: usize = found.iter().map(InSession::holding).sum();
    assert_eq!((looked(&found), held), (100, 100));
    // Half of the sessions, those in which something was said last.
    let seen = found.iter().filter(|one| one.holds()).count();
    assert_eq!(seen, 50);
    assert!(found.iter().take(50).all(InSession::holds));
    assert!((about(&found) - 800.0).abs() < 20.0, "{}", about(&found));
    assert!(found.iter().all(|one| !one.evidence.exact));
}

#[test]
fn where_little_holds_it_more_is_looked_through() {
    // One in forty: two or three of the first hundred.
    let says = |n: usize| match n % 40 {
        3 => format!("quince {n}"),
        _ => format!("quince or {n}"),
    };
    let found = find(says, r"/quince \d/", LOOKED_THROUGH);
    let held: usize = found.iter().map(InSession::holding).sum();
    let mut rejected = 0;
    for one in &found {
        rejected += DOCUMENTS - one.documents().count();
    }
    assert_eq!(held + rejected, LOOKED_THROUGH);
    // Fewer than are to be looked through are all looked through.
    let all = find(says, r"/quince \d/", SESSIONS * DOCUMENTS);
    let held: usize = all.iter().map(InSession::holding).sum();
    assert_eq!((held, all.len()), (20, 20));
    assert!(
        all.iter()
            .all(|one| one.evidence.exact && one.evidence.matches == 1)
    );
}

#[test]
fn first_messages_do_not_stand_for_the_others() {
    // The first message of a session never holds it, the others do.
    let says = |n: usize| match n % DOCUMENTS {
        0 => format!("quince or {n}"),
        _ => format!("quince {n}"),
    };
    let found = find(says, r"/quince \d/", LOOKED_THROUGH);
    assert!((about(&found) - 700.0).abs() < 50.0, "{}", about(&found));
}

#[test]
fn what_comes_next_ends_with_everything_and_repeats_nothing() {
    let all: Arc<[DocumentNo]> = (0..20).collect();
    let mut one = InSession::of(1, (all, 3..14));
    let (mut seen, mut room) = (Vec::new(), 2);
    while one.is_open() {
        let next = one.next(room);
        assert!(!next.is_empty() && next.len() <= room);
        for at in next {
            seen.push(at);
            one.look(at, (at != 4).then_some((at != 5).then(Evidence::default)));
        }
        room *= 2;
    }
    assert_eq!(seen.get(..2), Some(&[0, 6][..]));
    seen.sort_unstable();
    assert_eq!(seen, (0..11).collect::<Vec<_>>());
    one.sum_up(&Shares::default());
    let documents: Vec<_> = one.documents().collect();
    // One has gone, and one does not hold it.
    let expected = [3, 4, 5, 6, 9, 10, 11, 12, 13].map(|document| (document, true));
    assert_eq!(documents, expected);
    assert!(one.evidence.exact && one.evidence.matches == 9);
}
