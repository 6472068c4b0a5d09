//! The change feed returns every commit once, those of each lane in order, to callers who may see it (DESIGN §10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::{Channel, ErrorCode};
use tokio::task::JoinSet;

use super::fixture::{
    Fixture, anyone, append, cmd, code, interrupt, item, keyed, operator, redact_items, sid, user,
};
use super::lanes::{assert_same_changes, is_at_or_before, session_in};
use super::session_writes::{anyone_with_secret, close_session, event, link, patch, title};
use crate::command::{Scope, Viewer, Write};
use crate::lane::Lane;
use crate::read::{ChangeCursor, ChangeKind, LaneCursor, SessionChange};

fn short(change: &SessionChange) -> (ChangeKind, String, Option<u64>, Option<u64>) {
    let id = change.session_id.to_string();
    (change.kind, id, change.first_seq, change.last_seq)
}

pub async fn each_kind_of_change_is_in_the_feed(f: &Fixture) {
    use ChangeKind::{Created, Erased, Event, Items, Patched};
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    let turn = f.start(&who, "s", "r").await;
    let two = vec![keyed("k", "x"), item(Channel::Plan, "y")];
    f.append(&who, &turn, two.clone()).await.unwrap();
    f.append(&who, &turn, two[..1].to_vec()).await.unwrap();
    f.write_session(&who, patch("s", title("t"))).await.unwrap();
    f.write_session(&who, patch("s", title("t"))).await.unwrap();
    f.record(&who, event("s", "e", "kind")).await.unwrap();
    f.record(&who, event("s", "e", "kind")).await.unwrap();
    f.write(&who, interrupt("s", turn.turn_id, i64::MAX))
        .await
        .unwrap();
    // The time orders the changes of sessions in different lanes.
    f.clock.advance(1);
    f.complete_turn(&who, "w", "r", "a").await;
    f.clock.advance(1);
    f.write_redaction(&who, redact_items("s", &[(2, 2)]))
        .await
        .unwrap();
    f.write_session(&who, close_session("s", None))
        .await
        .unwrap();
    f.ledger.put_note("n", 0, Vec::new()).await.unwrap();
    f.write_session(&who, link("s", "ann")).await.unwrap();
    f.erase(&user("ann"), "s").await.unwrap();
    let s = |kind, first, last| (kind, "s".to_owned(), first, last);
    let expected = [
        s(Created, None, None),
        s(Items, Some(1), Some(1)),
        s(Items, Some(2), Some(3)),
        s(Patched, None, None),
        s(Event, None, None),
        s(Items, Some(4), Some(4)),
        (Created, "w".to_owned(), Some(1), Some(2)),
        s(Items, Some(5), Some(5)),
        s(Items, Some(6), Some(6)),
        s(Items, Some(7), Some(7)),
        s(Erased, None, None),
    ];
    for page in [1, 2, 5, 100] {
        let all = f.feed(&operator("t"), page).await;
        assert_eq!(all.iter().map(short).collect::<Vec<_>>(), expected);
        assert!(all.is_sorted_by_key(|c| c.at));
    }
    f.assert_intact().await;
}

/// Runs concurrent writes, so that a ledger with group commit has commits with several changes.
async fn crowd(f: &Fixture) {
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let ledger = f.ledger.clone();
        let who = if n % 2 == 0 { user("ann") } else { anyone() };
        tasks.spawn(async move {
            let session = format!("s{n}");
            let command = super::fixture::start(&who, &session, "r", "q");
            let turn =
                ledger
                    .keyring()
                    .turn_id(&who.tenant, &sid(&session), &command.event.request_id);
            for write in [
                Write::Start(Arc::new(command)),
                append(&session, turn, vec![item(Channel::Plan, "a"); 2], None),
                patch(&session, title("t")),
                append(&session, turn, vec![item(Channel::Plan, "b")], None),
            ] {
                ledger.write(cmd(&who, write)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

pub async fn every_change_is_read_once_at_any_page_size(f: &Fixture) {
    crowd(f).await;
    let operator = operator("t");
    let all = f.feed(&operator, 1000).await;
    assert_eq!(all.len(), 160);
    let mut next = BTreeMap::new();
    for change in &all {
        let (Some(first), Some(last)) = (change.first_seq, change.last_seq) else {
            assert_eq!(change.kind, ChangeKind::Patched);
            continue;
        };
        let expected = next.insert(change.session_id.clone(), last + 1);
        assert_eq!(
            first,
            expected.unwrap_or(1),
            "the changes of a session are in order"
        );
        assert_eq!(change.kind == ChangeKind::Created, first == 1);
    }
    assert!(next.len() == 40 && next.values().all(|n| *n == 5));
    let lanes = f.ledger.lanes();
    let cursors: Vec<ChangeCursor> = all.iter().map(|c| c.cursor.parse().unwrap()).collect();
    let precedes = |a: &ChangeCursor, b: &ChangeCursor| {
        is_at_or_before(lanes, a, b) && !is_at_or_before(lanes, b, a)
    };
    assert!(cursors.is_sorted_by(precedes), "no cursor occurs twice");
    let ids: BTreeSet<_> = all.iter().map(|change| change.id).collect();
    assert_eq!(ids.len(), all.len());
    for page in [1, 2, 3, 7, 159, 160] {
        assert_eq!(f.feed(&operator, page).await, all, "pages of {page}");
    }
    for (behind, change) in all.iter().enumerate().step_by(3) {
        let rest = f.feed_after(&operator, &change.cursor, 13).await;
        assert_eq!(rest, all[behind + 1..], "behind {}", change.cursor);
    }
    for who in [user("ann"), anyone()] {
        let hers: Vec<SessionChange> = f.feed(&who, 1000).await;
        let even = who.viewer.identity().is_some();
        let of = |c: &&SessionChange| {
            let n: u32 = c.session_id.as_str()[1..].parse().unwrap();
            n.is_multiple_of(2) == even
        };
        assert_eq!(hers, all.iter().filter(of).cloned().collect::<Vec<_>>());
        for page in [1, 2, 9] {
            assert_eq!(f.feed(&who, page).await, hers);
        }
        for change in hers.iter().step_by(5) {
            let rest = f.feed_after(&who, &change.cursor, 1).await;
            assert!(
                rest.iter()
                    .all(|c| hers.contains(c) && c.cursor != change.cursor)
            );
        }
    }
    f.assert_intact().await;
}

pub async fn a_concurrent_reader_misses_nothing(f: &Fixture) {
    let reader = {
        let (ledger, who) = (f.ledger.clone(), operator("t"));
        tokio::spawn(async move {
            let (mut all, mut after) = (Vec::new(), ChangeCursor::default());
            let mut commits = ledger.commits();
            while all.len() < 160 {
                let page = ledger.changes(&who, after.clone(), 7).await.unwrap();
                all.extend(page.data);
                after = page.next;
                if !page.more {
                    let _ =
                        tokio::time::timeout(Duration::from_millis(20), commits.changed()).await;
                }
            }
            all
        })
    };
    crowd(f).await;
    let seen = tokio::time::timeout(Duration::from_secs(60), reader).await;
    let (seen, all) = (seen.unwrap().unwrap(), f.feed(&operator("t"), 1000).await);
    assert_same_changes(f.ledger.lanes(), &seen, &all);
}

pub async fn cursors_are_checked_and_resume_the_feed(f: &Fixture) {
    let (who, lanes) = (operator("t"), f.ledger.lanes());
    let beginning = ChangeCursor::default();
    let empty = f.ledger.changes(&who, beginning.clone(), 5).await.unwrap();
    assert_eq!(
        (empty.data.len(), empty.next, empty.more),
        (0, beginning, false)
    );
    // A session in the first lane, and one in the last lane.
    let last = Lane::new(lanes.count() - 1);
    for (lane, prefix) in [(Lane::FIRST, "s"), (last, "t")] {
        let session = session_in(lanes, lane, prefix);
        f.create(&anyone(), &session).await.unwrap();
        f.clock.advance(1);
    }
    let feed = f.feed(&who, 5).await;
    let cursors: Vec<&str> = feed.iter().map(|change| change.cursor.as_str()).collect();
    match lanes.count() {
        1 => assert_eq!(cursors, ["1", "2"]),
        n => assert_eq!(
            cursors,
            ["1", &format!("1{}_1", "_0".repeat(usize::from(n) - 2))]
        ),
    }
    assert_eq!(f.feed_after(&who, "0", 5).await, feed);
    assert_eq!(f.feed_after(&who, cursors[0], 5).await, feed[1..]);
    assert_eq!(f.feed_after(&who, cursors[1], 5).await, []);
    let newest = ChangeCursor::after(&f.ledger.position());
    assert_eq!(newest.to_string(), cursors[1]);
    assert_eq!(newest.commit_count(), 2);
    let end = f.ledger.changes(&who, newest.clone(), 5).await.unwrap();
    assert_eq!((end.next, end.more), (newest, false));
    for lane in lanes.iter() {
        assert_unknown_cursors_are_refused(f, lane).await;
    }
    assert_cursors_are_parsed();
}

/// Asserts that cursors are refused that name a commit or a change which this lane does not have. Each of its commits
/// has one change, so no cursor within it exists.
async fn assert_unknown_cursors_are_refused(f: &Fixture, lane: Lane) {
    let next = f.ledger.position().lane(lane).commit_no + 1;
    for behind in [
        &*next.to_string(),
        "99",
        "18446744073709551615",
        "0.1",
        "1.0",
        "1.1",
        "2.1",
        "3.1",
        "3.0",
        "9.1",
        "18446744073709551615.1",
        "1.18446744073709551615",
    ] {
        let text = "0_".repeat(lane.index()) + behind;
        let cursor = text.parse().unwrap();
        let refused = f.ledger.changes(&operator("t"), cursor, 5).await;
        let refused = refused.expect_err(&text);
        assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
        assert!(refused.hint.is_some());
    }
}

fn assert_cursors_are_parsed() {
    for text in [
        "",
        "x",
        "-1",
        "+1",
        "1.",
        ".1",
        "1.+1",
        "1.2.3",
        "1 ",
        "18446744073709551616",
        "1.x",
        "٣",
        "_",
        "1_",
        "_1",
        "1__1",
        "1_x",
        "1_1.",
        "1_-1",
        "1_ 1",
        "1_18446744073709551616",
    ] {
        let refused = text.parse::<ChangeCursor>();
        assert_eq!(code(refused), ErrorCode::Invalid, "{text:?}");
    }
    for (lane, commit_no, preceding, text) in [
        (0, 0, None, "0"),
        (0, 7, None, "7"),
        (0, 7, Some(3), "7.3"),
        (1, 7, None, "0_7"),
        (3, 7, Some(3), "0_0_0_7.3"),
    ] {
        let (lane, mut cursor) = (Lane::new(lane), ChangeCursor::default());
        let of_lane = LaneCursor {
            commit_no,
            preceding,
        };
        cursor.set(lane, of_lane);
        assert_eq!(cursor.to_string(), text);
        assert_eq!(text.parse(), Ok(cursor.clone()));
        assert_eq!(cursor.commit_count(), commit_no);
        let place = |cursor: &ChangeCursor, lane| {
            let of_lane = cursor.lane(lane);
            (of_lane.commit_no, of_lane.preceding)
        };
        assert_eq!(place(&cursor, lane), (commit_no, preceding));
        assert_eq!(place(&cursor, Lane::new(9)), (0, None));
    }
    let several: ChangeCursor = "1.1_0_22_3.4".parse().unwrap();
    assert_eq!(several.to_string(), "1.1_0_22_3.4");
    assert_eq!(several.commit_count(), 26);
}

pub async fn callers_see_only_their_own_changes(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    let other = Scope::new(operator("u").tenant, Viewer::EndUser(None));
    let anonymous = anyone_with_secret(f, "secret");
    for (who, session) in [
        (&ann, "a"),
        (&anyone(), "n"),
        (&anonymous, "k"),
        (&bob, "b"),
        (&other, "n"),
    ] {
        f.create(who, session).await.unwrap();
        f.clock.advance(1);
    }
    f.write_session(&operator("t"), patch("a", title("t")))
        .await
        .unwrap();
    let visible_sessions = async |who: &Scope| -> Vec<String> {
        let feed = f.feed(who, 1).await;
        feed.iter().map(|c| c.session_id.to_string()).collect()
    };
    assert_eq!(visible_sessions(&ann).await, ["a", "a"]);
    assert_eq!(visible_sessions(&bob).await, ["b"]);
    assert_eq!(visible_sessions(&user("eve")).await, Vec::<String>::new());
    assert_eq!(visible_sessions(&anyone()).await, ["n"]);
    assert_eq!(visible_sessions(&anonymous).await, ["k"]);
    assert_eq!(
        visible_sessions(&anyone_with_secret(f, "another")).await,
        Vec::<String>::new()
    );
    assert_eq!(
        visible_sessions(&operator("t")).await,
        ["a", "n", "k", "b", "a"]
    );
    assert_eq!(visible_sessions(&other).await, ["n"]);
    assert_eq!(visible_sessions(&operator("u")).await, ["n"]);
    assert_eq!(visible_sessions(&operator("v")).await, Vec::<String>::new());
    // A new owner sees all changes of the session since its creation.
    f.write_session(&user("eve"), link("n", "eve"))
        .await
        .unwrap();
    assert_eq!(visible_sessions(&user("eve")).await, ["n", "n"]);
    assert_eq!(visible_sessions(&anyone()).await, Vec::<String>::new());
}

pub async fn pages_without_visible_changes_continue(f: &Fixture) {
    f.create(&anyone(), "n").await.unwrap();
    for n in 0..30 {
        f.create(&user("bob"), &format!("b{n}")).await.unwrap();
        f.ledger.put_note("n", n, Vec::new()).await.unwrap();
    }
    let eve = f
        .ledger
        .changes(&user("eve"), ChangeCursor::default(), 1)
        .await
        .unwrap();
    assert_eq!(
        (eve.data.len(), eve.next.commit_count(), eve.more),
        (0, 61, false)
    );
    f.ledger.put_note("n", 30, Vec::new()).await.unwrap();
    let notes = f.ledger.changes(&operator("t"), eve.next, 1).await.unwrap();
    assert_eq!(
        (notes.data.len(), notes.next.commit_count(), notes.more),
        (0, 62, false)
    );
    f.create(&user("eve"), "e").await.unwrap();
    let found = f.ledger.changes(&user("eve"), notes.next, 1).await.unwrap();
    assert_eq!(
        (found.data.len(), found.next.commit_count(), found.more),
        (1, 63, false)
    );
    assert_eq!(
        f.feed(&operator("t"), 4).await.len(),
        32,
        "the feed does not contain notes"
    );
}

pub async fn commits_are_reported(f: &Fixture) {
    let (mut early, who) = (f.ledger.commits(), anyone());
    assert_eq!(*early.borrow_and_update(), 0);
    let turn = f.start(&who, "s", "r").await;
    assert_eq!(*early.borrow_and_update(), 1);
    assert!(f.start(&who, "s", "r").await.replayed);
    assert!(
        !early.has_changed().unwrap(),
        "a replay publishes no commit"
    );
    let mut late = f.ledger.commits();
    assert_eq!(
        *late.borrow_and_update(),
        1,
        "earlier commits are visible at once"
    );
    let waiting = tokio::spawn(async move {
        late.changed().await.unwrap();
        *late.borrow()
    });
    let more = vec![item(Channel::Plan, "p")];
    f.append(&who, &turn, more).await.unwrap();
    assert_eq!(
        *early.borrow_and_update(),
        f.ledger.position().commit_count()
    );
    let received = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(received.unwrap().unwrap(), 2);
    f.ledger.put_note("n", 0, Vec::new()).await.unwrap();
    f.erase(&who, "s").await.unwrap();
    assert_eq!(*early.borrow(), 4);
}
