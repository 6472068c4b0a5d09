//! A page ends when it reaches the byte limit, and the next page begins right after it.

use filrouge_types::{Channel, RawJson, Timestamp, TurnStatus};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::fixture::{Fixture, anyone, finalize, item, operator, replacement, sid, start_with};
use super::session_writes::{event, json};
use crate::command::{NewEvent, NewSession, SessionFilter, Write};
use crate::lane::Lanes;
use crate::read::{TurnOrder, TurnQuery, turn_content_len};
use crate::rows::RECORDS_BYTES;

const MIB: usize = 1 << 20;
const LIMITS: [usize; 5] = [1, 2, 3, 7, 500];

/// A JSON object of about this many MiB.
fn object(mib: usize) -> RawJson {
    json(&format!(r#"{{"k":"{}"}}"#, "x".repeat(mib * MIB)))
}

/// Sizes in MiB: most are small, one exceeds a page.
fn sizes(runner: &mut TestRunner) -> Vec<usize> {
    let drawn = proptest::collection::vec(0..5_usize, 8..14).new_tree(runner);
    let mut sizes = drawn.unwrap().current();
    sizes.insert(3, 9);
    sizes
}

/// Checks a page with rows of these sizes: it is not too large, and not too small unless it is the last one.
fn check_page(lens: &[usize], limit: usize, more: bool) {
    let (bytes, last) = (lens.iter().sum::<usize>(), lens.last().copied());
    assert!(lens.len() <= limit);
    assert!(bytes - last.unwrap_or(0) < RECORDS_BYTES, "{lens:?}");
    let full = bytes >= RECORDS_BYTES || lens.len() == limit;
    assert!(full || !more, "{lens:?} of {limit}");
}

pub async fn pages_of_large_sessions_are_bounded(f: &Fixture) {
    let (who, mut runner) = (operator("t"), TestRunner::deterministic());
    let mut names = Vec::new();
    for (n, mib) in sizes(&mut runner).into_iter().enumerate() {
        let new = NewSession {
            title: Some(if n % 3 == 0 { "third" } else { "other" }.into()),
            metadata: object(mib),
            ..NewSession::with_id(sid(&format!("s{n:02}")))
        };
        names.insert(0, new.session_id.clone());
        f.write(&who, Write::CreateSession(new)).await.unwrap();
        f.clock.advance(1);
    }
    let thirds = names.iter().rev().step_by(3).rev().cloned().collect();
    for (title, expected) in [(None, names), (Some("THIRD"), thirds)] {
        for limit in LIMITS {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let filter = SessionFilter {
                    title: title.map(Into::into),
                    ..SessionFilter::default()
                };
                let page = f.ledger.sessions(&who, filter, cursor, limit);
                let (page, next) = page.await.unwrap();
                let lens = page.iter().map(|s| s.metadata.as_str().len() + 5);
                check_page(&lens.collect::<Vec<_>>(), limit, next.is_some());
                assert!(!page.is_empty(), "no page is empty");
                seen.extend(page.into_iter().map(|s| s.session_id));
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{title:?}, {limit} a page");
        }
    }
}

pub async fn pages_of_large_events_are_bounded(f: &Fixture) {
    let (who, mut runner) = (anyone(), TestRunner::deterministic());
    f.create(&who, "s").await.unwrap();
    let mut all = Vec::new();
    for (n, mib) in sizes(&mut runner).into_iter().enumerate() {
        let new = NewEvent {
            at: Some(Timestamp::from_micros(5)),
            detail: Some(object(mib)),
            ..event("s", &format!("k{n:02}"), "kind")
        };
        all.push(f.record(&who, new).await.unwrap().0);
    }
    for limit in LIMITS {
        let (mut seen, mut after) = (Vec::new(), 0);
        loop {
            let page = f.ledger.events(&who, &sid("s"), after, limit).await;
            let (page, next) = page.unwrap();
            let lens = page
                .iter()
                .map(|e| e.detail.as_ref().unwrap().as_str().len() + e.key.as_str().len() + 4);
            check_page(&lens.collect::<Vec<_>>(), limit, next.is_some());
            assert!(!page.is_empty());
            seen.extend(page);
            match next {
                Some(next) => after = next.parse().unwrap(),
                None => break,
            }
        }
        assert!(seen == all, "{limit} a page");
    }
    f.assert_intact().await;
}

/// The bytes per read of events of all sessions by time are bounded.
pub async fn reads_of_large_events_by_time_are_bounded(f: &Fixture) {
    let (who, mut runner) = (anyone(), TestRunner::deterministic());
    let mut all = Vec::new();
    for (n, mib) in sizes(&mut runner).into_iter().enumerate().take(12) {
        let session = if n % 2 == 0 { "s" } else { "t" };
        f.create(&who, session).await.unwrap();
        let new = NewEvent {
            at: Some(Timestamp::from_micros(100 - n as i64)),
            detail: Some(object(mib)),
            ..event(session, &format!("k{n:02}"), "kind")
        };
        all.insert(0, f.record(&who, new).await.unwrap().0);
    }
    for limit in LIMITS {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let span = (Timestamp::from_micros(0), Timestamp::from_micros(101));
            let query = f
                .ledger
                .query(move |snapshot| snapshot.view.events_at(span.0, span.1, after, limit));
            let page = query.await.unwrap();
            let Some((pk, last)) = page.last() else { break };
            after = Some((last.event.at, *pk, last.number));
            let lens: Vec<_> = page.iter().map(|(_, row)| row.content_len()).collect();
            let behind = all.len() > seen.len() + page.len();
            // The page may end with the first row over the limit, or later.
            let before_last: usize = lens[..lens.len() - 1].iter().rev().skip(1).sum();
            assert!(before_last < RECORDS_BYTES, "{lens:?}");
            let full = lens.iter().sum::<usize>() >= RECORDS_BYTES || lens.len() == limit;
            // With several lanes, a page ends with the last event that was read of a lane that may have more.
            let one_lane = f.ledger.lanes() == Lanes::ONE;
            assert!(full || !behind || !one_lane, "{lens:?} of {limit}");
            seen.extend(page.into_iter().map(|(_, row)| row.event));
        }
        assert!(seen == all, "{limit} a page");
    }
}

/// Turns of any size: large contents are in the turn's public record or in items outside it.
async fn large_turns_of(f: &Fixture, session: &str, sizes: &[usize]) {
    let who = anyone();
    for (n, mib) in sizes.iter().enumerate() {
        let request = format!("r{n}");
        let start = start_with(&who, session, &request, "q", None, |event, _| {
            event.metadata = (n % 3 != 1).then(|| object(*mib));
        });
        let turn = f.try_start(&who, start).await.unwrap();
        if n % 3 == 1 {
            let unseen = item(Channel::Observation, &"y".repeat(mib * MIB));
            f.append(&who, &turn, vec![unseen]).await.unwrap();
        }
        // A turn must be closed before it can be replaced.
        if n % 4 != 3 || n % 5 == 4 {
            let words = "z".repeat(if n % 4 == 1 { mib * MIB } else { 1 });
            let close = finalize(session, turn.turn_id, Some(&words));
            f.write_turn(&who, close).await.unwrap();
        }
        if n % 5 == 4 {
            let newer = replacement(&who, session, &format!("new{n}"), turn.turn_id, "w");
            f.write_turn(&who, newer).await.unwrap();
        }
    }
}

async fn walk(f: &Fixture, session: &str, query: &TurnQuery) -> Vec<filrouge_types::Turn> {
    let (who, id) = (anyone(), sid(session));
    let (mut query, mut pages) = (query.clone(), Vec::new());
    loop {
        let page = f.ledger.turns(&who, &id, query.clone());
        let (mut page, next) = page.await.unwrap();
        if query.order == TurnOrder::Newest {
            page.reverse();
        }
        let lens: Vec<usize> = page.iter().map(turn_content_len).collect();
        check_page(&lens, query.limit, next.is_some());
        pages.extend(page);
        match next {
            Some(next) => query.cursor = Some(next),
            None => return pages,
        }
    }
}

pub async fn pages_of_large_turns_are_bounded(f: &Fixture) {
    let mut runner = TestRunner::deterministic();
    for n in 0..2 {
        let session = format!("s{n}");
        large_turns_of(f, &session, &sizes(&mut runner)).await;
        let (who, id) = (anyone(), sid(&session));
        let query = f.ledger.query_session(&who, &id, |snapshot, scope, id| {
            let mut all = Vec::new();
            snapshot.for_each_turn(&snapshot.get(scope, id)?, |turn| {
                all.push(turn);
                Ok(())
            })?;
            Ok(all)
        });
        let all = query.await.unwrap();
        for order in [TurnOrder::Oldest, TurnOrder::Newest] {
            for status in [None, Some(TurnStatus::Finalized)] {
                let shown = all.iter().filter(|t| status.is_none_or(|s| s == t.status));
                let mut expected: Vec<_> = shown.cloned().collect();
                if order == TurnOrder::Newest {
                    expected.retain(|t| t.replaced_by_turn_id.is_none());
                    expected.reverse();
                }
                for limit in LIMITS {
                    let query = TurnQuery {
                        status,
                        order,
                        limit,
                        ..TurnQuery::default()
                    };
                    let found = walk(f, &session, &query).await;
                    assert!(found == expected, "{order:?} {status:?} {limit}");
                }
            }
        }
    }
    f.assert_intact().await;
}
