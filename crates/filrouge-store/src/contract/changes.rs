//! The change feed returns every commit once and in order, to callers who may see it (DESIGN §10).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_types::{Channel, ErrorCode};
use tokio::task::JoinSet;

use super::fixture::{
    Fixture, anyone, append, cmd, code, interrupt, item, keyed, operator, redact_items, sid, user,
};
use super::session_writes::{anyone_with_secret, close_session, event, link, patch, title};
use crate::command::{Scope, Viewer, Write};
use crate::read::{ChangeCursor, ChangeKind, SessionChange};

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
    f.complete_turn(&who, "w", "r", "a").await;
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
    let cursors: Vec<ChangeCursor> = all.iter().map(|c| c.cursor.parse().unwrap()).collect();
    let place = |c: &ChangeCursor| (c.commit_no, c.preceding.unwrap_or(usize::MAX));
    assert!(
        cursors.is_sorted_by(|a, b| place(a) < place(b)),
        "no cursor occurs twice"
    );
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
                let page = ledger.changes(&who, after, 7).await.unwrap();
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
    assert_eq!(seen.unwrap().unwrap(), f.feed(&operator("t"), 1000).await);
}

pub async fn cursors_are_checked_and_resume_the_feed(f: &Fixture) {
    let who = operator("t");
    let empty = f
        .ledger
        .changes(&who, ChangeCursor::default(), 5)
        .await
        .unwrap();
    assert_eq!(
        (empty.data.len(), empty.next, empty.more),
        (0, ChangeCursor::default(), false)
    );
    f.create(&anyone(), "s").await.unwrap();
    f.create(&anyone(), "t").await.unwrap();
    assert_eq!(f.feed_after(&who, "0", 5).await.len(), 2);
    assert_eq!(f.feed_after(&who, "1", 5).await.len(), 1);
    assert_eq!(f.feed_after(&who, "2", 5).await.len(), 0);
    let end = f
        .ledger
        .changes(&who, ChangeCursor::after_commit(2), 5)
        .await
        .unwrap();
    assert_eq!((end.next, end.more), (ChangeCursor::after_commit(2), false));
    // Each of these commits has one change, so no cursor within it exists.
    for behind in [
        "3",
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
        let refused = f.ledger.changes(&who, behind.parse().unwrap(), 5).await;
        let refused = refused.expect_err(behind);
        assert_eq!(refused.code, ErrorCode::Invalid, "{behind}");
        assert!(refused.hint.is_some());
    }
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
    ] {
        let refused = text.parse::<ChangeCursor>();
        assert_eq!(code(refused), ErrorCode::Invalid, "{text:?}");
    }
    for (commit_no, preceding) in [(0, None), (7, None), (7, Some(3))] {
        let cursor = ChangeCursor {
            commit_no,
            preceding,
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}

pub async fn callers_see_only_their_own_changes(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    let other = Scope::new(operator("u").tenant, Viewer::EndUser(None));
    f.create(&ann, "a").await.unwrap();
    f.create(&anyone(), "n").await.unwrap();
    f.create(&anyone_with_secret(f, "secret"), "k")
        .await
        .unwrap();
    f.create(&bob, "b").await.unwrap();
    f.create(&other, "n").await.unwrap();
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
    assert_eq!(
        visible_sessions(&anyone_with_secret(f, "secret")).await,
        ["k"]
    );
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
        (eve.data.len(), eve.next.commit_no, eve.more),
        (0, 61, false)
    );
    f.ledger.put_note("n", 30, Vec::new()).await.unwrap();
    let notes = f.ledger.changes(&operator("t"), eve.next, 1).await.unwrap();
    assert_eq!(
        (notes.data.len(), notes.next.commit_no, notes.more),
        (0, 62, false)
    );
    f.create(&user("eve"), "e").await.unwrap();
    let found = f.ledger.changes(&user("eve"), notes.next, 1).await.unwrap();
    assert_eq!(
        (found.data.len(), found.next.commit_no, found.more),
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
    assert_eq!(*early.borrow_and_update(), f.ledger.position().commit_no);
    let received = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert_eq!(received.unwrap().unwrap(), 2);
    f.ledger.put_note("n", 0, Vec::new()).await.unwrap();
    f.erase(&who, "s").await.unwrap();
    assert_eq!(*early.borrow(), 4);
}
