//! Sessions are spread over the store's lanes; lists and the change feed merge the lanes.

use std::collections::{BTreeMap, BTreeSet};

use filrouge_types::{Channel, ErrorCode, SessionId, TenantId, Turn};

use super::fixture::{Fixture, anyone, item, operator, sid, user};
use super::session_writes::{patch, title};
use crate::command::{Scope, SessionFilter};
use crate::lane::{Lane, Lanes};
use crate::ledger::LanePosition;
use crate::read::{ChangeCursor, SessionChange};
use crate::rows::{LogRow, SessionOrder};

/// A session id that belongs to this lane in tenant `t`: the first one of `{prefix}0`, `{prefix}1` and so on.
pub fn session_in(lanes: Lanes, lane: Lane, prefix: &str) -> String {
    let tenant = TenantId::new("t").unwrap();
    let names = (0..).map(|n| format!("{prefix}{n}"));
    let mut names = names.filter(|name| lanes.of_session(&tenant, &sid(name)) == lane);
    names.next().unwrap()
}

/// A position in a lane; the position after all changes of a commit follows every position within it.
fn place(cursor: &ChangeCursor, lane: Lane) -> (u64, usize) {
    let cursor = cursor.lane(lane);
    (cursor.commit_no, cursor.preceding.unwrap_or(usize::MAX))
}

/// Whether `a` is behind `b` in no lane: a reader at `b` has read all that a reader at `a` has read.
pub fn is_at_or_before(lanes: Lanes, a: &ChangeCursor, b: &ChangeCursor) -> bool {
    lanes.iter().all(|lane| place(a, lane) <= place(b, lane))
}

/// The changes of a lane without their cursors, which depend on when the other lanes were read.
fn changes_of(lane: Lane, changes: &[SessionChange]) -> Vec<SessionChange> {
    let changes = changes.iter().filter(|change| change.id.lane == lane);
    let without_cursor = |change: &SessionChange| SessionChange {
        cursor: String::new(),
        ..change.clone()
    };
    changes.map(without_cursor).collect()
}

/// Asserts that two readers have read the same changes, and each lane's in the same order.
pub fn assert_same_changes(lanes: Lanes, a: &[SessionChange], b: &[SessionChange]) {
    let ids: BTreeSet<_> = a.iter().map(|change| change.id).collect();
    assert_eq!(ids.len(), a.len(), "a change was read twice");
    for lane in lanes.iter() {
        let (a, b) = (changes_of(lane, a), changes_of(lane, b));
        assert_eq!(a, b, "lane {lane}");
    }
    if lanes == Lanes::ONE {
        assert_eq!(a, b);
    }
}

/// Creates three sessions in each lane, of which three each have the same time; every other one is `ann`'s. Returns
/// their positions in lists.
async fn create_in_all_lanes(f: &Fixture, prefix: &str) -> BTreeMap<SessionOrder, SessionId> {
    let lanes = f.ledger.lanes();
    let mut created = BTreeMap::new();
    let all = (0..3).flat_map(|round| lanes.iter().map(move |lane| (round, lane)));
    for (n, (round, lane)) in all.enumerate() {
        let id = session_in(lanes, lane, &format!("{prefix}{round}-"));
        let who = [user("ann"), anyone()][n % 2].clone();
        f.create(&who, &id).await.unwrap();
        f.clock.advance(i64::from(n % 3 == 2));
        let session = f.session(&operator("t"), &id).await.unwrap();
        let pk = f.pk(&id).await;
        assert_eq!(lanes.of_pk(pk), lane, "{id}");
        created.insert((session.created_at, pk), sid(&id));
    }
    created
}

/// The ids of all sessions that `who` lists, read by page; `meanwhile` runs after each page.
async fn listed(
    f: &Fixture,
    who: &Scope,
    limit: usize,
    meanwhile: impl AsyncFn(),
) -> Vec<SessionId> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let filter = SessionFilter::default();
        let page = f.ledger.sessions(who, filter, cursor, limit).await;
        let (page, next) = page.unwrap();
        assert!(page.len() <= limit);
        all.extend(page.into_iter().map(|session| session.session_id));
        meanwhile().await;
        match next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

pub async fn sessions_of_all_lanes_are_listed_newest_first(f: &Fixture) {
    let (created, operator) = (create_in_all_lanes(f, "s").await, operator("t"));
    // Newer sessions are not in a list that began before them, whatever their lane.
    f.clock.advance(1);
    let all: Vec<SessionId> = created.values().rev().cloned().collect();
    for limit in [1, 2, 3, 5, all.len(), all.len() + 1] {
        let before = listed(f, &operator, all.len() * 2, async || {}).await;
        let rounds = std::cell::Cell::new(0);
        let found = listed(f, &operator, limit, async || {
            let round = rounds.replace(rounds.get() + 1);
            for id in [&all[0], &all[all.len() - 1]] {
                let change = patch(id.as_str(), title(&format!("{limit} {round}")));
                f.write_session(&operator, change).await.unwrap();
            }
            let new = format!("new{limit}-{round}");
            f.create(&user("bob"), &new).await.unwrap();
            f.clock.advance(1);
        });
        assert_eq!(found.await, before, "{limit} a page");
        assert!(before.ends_with(&all), "{limit} a page");
    }
    let hers: Vec<SessionId> = listed(f, &user("ann"), 2, async || {}).await;
    assert_eq!(hers.len(), all.len().div_ceil(2));
    let rank = |id: &SessionId| all.iter().position(|other| other == id);
    assert!(hers.is_sorted_by_key(rank));
    f.assert_intact().await;
}

/// Writes to some lanes, in an order that changes with `round`; the clock is set back now and then.
async fn write_to_lanes(f: &Fixture, turns: &[Turn], round: usize) {
    for n in 0..turns.len() {
        let turn = &turns[(n * 5 + round) % turns.len()];
        if (n + round).is_multiple_of(3) {
            let items = vec![item(Channel::Plan, "p"); 1 + round % 2];
            f.append(&anyone(), turn, items).await.unwrap();
        }
        f.clock.advance([1, 0, -4, 2][(n + round) % 4]);
    }
    let note = f.ledger.put_note("n", round as u64, Vec::new()).await;
    assert!(note.unwrap());
    f.create(&user("ann"), &format!("new{round}"))
        .await
        .unwrap();
}

/// The first and last seqs of each session's changes continue without a gap.
fn assert_sessions_are_in_order(changes: &[SessionChange]) {
    let mut next = BTreeMap::new();
    for change in changes {
        if let (Some(first), Some(last)) = (change.first_seq, change.last_seq) {
            let expected = next.insert(change.session_id.clone(), last + 1);
            assert_eq!(first, expected.unwrap_or(1), "{}", change.session_id);
        }
    }
}

pub async fn the_feed_misses_and_repeats_nothing_while_lanes_are_written(f: &Fixture) {
    let (lanes, who) = (f.ledger.lanes(), operator("t"));
    let mut turns = Vec::new();
    for lane in lanes.iter() {
        let session = session_in(lanes, lane, "s");
        turns.push(f.start(&anyone(), &session, "r").await);
    }
    let mut readers = [1, 2, 5, 13].map(|limit| (limit, ChangeCursor::default(), Vec::new()));
    for round in 0..24 {
        write_to_lanes(f, &turns, round).await;
        for (limit, after, changes) in &mut readers {
            let page = f.ledger.changes(&who, after.clone(), *limit).await;
            let page = page.unwrap();
            assert!(is_at_or_before(lanes, after, &page.next));
            changes.extend(page.data);
            *after = page.next;
        }
    }
    let all = f.feed(&who, 1000).await;
    assert!(all.iter().any(|change| change.session_id == sid("new23")));
    for (limit, after, mut changes) in readers {
        changes.extend(f.feed_after(&who, &after.to_string(), limit).await);
        assert_same_changes(lanes, &changes, &all);
        assert_sessions_are_in_order(&changes);
    }
    for change in all.iter().step_by(7) {
        assert_eq!(
            change.id.lane,
            lanes.of_session(&who.tenant, &change.session_id)
        );
    }
    f.assert_intact().await;
}

pub async fn a_cursor_of_more_lanes_than_the_store_has_is_refused(f: &Fixture) {
    f.create(&anyone(), "s").await.unwrap();
    let lanes = f.ledger.lanes();
    for (count, last) in [
        (lanes.count(), "1"),
        (lanes.count(), "1.1"),
        (64, "1"),
        (900, "1"),
    ] {
        let text = "0_".repeat(count.into()) + last;
        let refused = match text.parse::<ChangeCursor>() {
            Ok(cursor) => f
                .ledger
                .changes(&operator("t"), cursor, 5)
                .await
                .unwrap_err(),
            Err(refused) => refused,
        };
        assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
        assert!(refused.hint.is_some());
    }
}

pub async fn a_write_commits_in_one_lane(f: &Fixture) {
    let lanes = f.ledger.lanes();
    for lane in lanes.iter() {
        let session = session_in(lanes, lane, "s");
        let before = f.ledger.position();
        f.complete_turn(&anyone(), &session, "r", "a").await;
        assert_only_one_commit(f, &before, lane);
        let before = f.ledger.position();
        let version = u64::from(lane.number());
        assert!(f.ledger.put_note("n", version, vec![1]).await.unwrap());
        assert_only_one_commit(f, &before, Lane::FIRST);
    }
    f.assert_intact().await;
}

/// Asserts that one commit was made since `before`, in this lane.
fn assert_only_one_commit(f: &Fixture, before: &crate::Position, lane: Lane) {
    let now = f.ledger.position();
    for other in f.ledger.lanes().iter() {
        let (before, now) = (before.lane(other), now.lane(other));
        assert_eq!(now.commit_no, before.commit_no + u64::from(other == lane));
        assert_eq!(now.link != before.link, other == lane);
    }
}

pub async fn each_lane_has_a_dense_log_of_its_own_sessions(f: &Fixture) {
    create_in_all_lanes(f, "s").await;
    f.ledger.put_note("n", 0, vec![1]).await.unwrap();
    for lane in f.ledger.lanes().iter() {
        let query = f.ledger.query(move |snapshot| {
            let view = snapshot.view;
            let (all, newest) = (view.log(lane, 0, 1000)?, view.newest_log(lane)?);
            let (after, limited) = (view.log(lane, 1, 1000)?, view.log(lane, 1, 1)?);
            assert_eq!((&after[..], &limited[..]), (&all[1..], &all[1..2]));
            assert_eq!(newest.as_ref(), all.last());
            Ok(all)
        });
        let log = query.await.unwrap();
        let notes = usize::from(lane == Lane::FIRST);
        assert_eq!(log.len(), 3 + notes);
        let newest = LanePosition::of_commit(log.last());
        assert_eq!(f.ledger.position().lane(lane), newest);
        assert_is_a_log_of(f, lane, &log);
    }
}

/// Asserts that the rows are the first of the lane, chained, and about its sessions and notes.
fn assert_is_a_log_of(f: &Fixture, lane: Lane, log: &[LogRow]) {
    let mut previous = None;
    for row in log {
        assert_eq!(row.lane, lane);
        assert_eq!(row.follows(previous, f.ledger.keyring()), Some(true));
        for entry in row.entries().unwrap() {
            assert_eq!(f.ledger.lanes().of_pk(entry.pk), lane, "{entry:?}");
        }
        previous = Some(row);
    }
}
