//! Reading by page neither skips nor repeats rows while others write.

use filrouge_types::{Channel, ErrorCode, ItemId, ProjectId, SessionStatus, TurnStatus};

use super::fixture::{
    Fixture, anyone, cancel, code, fail, finalize, item, keyed, operator, replacement, sid,
};
use crate::command::{NewSession, SessionFilter, Write};
use crate::read::{TurnOrder, TurnQuery};
use crate::record::Seqs;

fn query(
    order: TurnOrder,
    status: Option<TurnStatus>,
    cursor: Option<String>,
    limit: usize,
) -> TurnQuery {
    TurnQuery {
        status,
        include_redacted: false,
        order,
        cursor,
        limit,
    }
}

pub async fn sessions_are_paged_while_others_write(f: &Fixture) {
    let who = anyone();
    for n in 0..20 {
        f.create(&who, &format!("s{n:02}")).await.unwrap();
        f.clock.advance(1);
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = f
            .ledger
            .sessions(&who, SessionFilter::default(), cursor, 3)
            .await
            .unwrap();
        seen.extend(page.iter().map(|s| s.session_id.to_string()));
        // Writing to old sessions and creating new ones moves no row.
        f.start(&who, "s00", &format!("r{}", seen.len())).await;
        f.create(&who, &format!("new{}", seen.len())).await.unwrap();
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let expected: Vec<String> = (0..20).rev().map(|n| format!("s{n:02}")).collect();
    assert_eq!(seen, expected);
}

/// All ordinals, read by page, with a new turn after each page.
async fn walk(f: &Fixture, order: TurnOrder, status: Option<TurnStatus>, limit: usize) -> Vec<u64> {
    let who = anyone();
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let q = query(order, status, cursor, limit);
        let (page, next) = f.ledger.turns(&who, &sid("s"), q).await.unwrap();
        assert!(page.len() <= limit);
        let page: Vec<u64> = page.iter().map(|t| t.ordinal).collect();
        assert!(page.is_sorted(), "each page is oldest first");
        pages.push(page);
        if pages.len() < 4 {
            let request = format!("{order:?}{status:?}{limit}-{}", pages.len());
            f.complete_turn(&who, "s", &request, "late").await;
        }
        match next {
            Some(next) => cursor = Some(next),
            None if order == TurnOrder::Oldest => return pages.concat(),
            None => {
                pages.reverse();
                return pages.concat();
            }
        }
    }
}

pub async fn turns_are_paged_while_others_write(f: &Fixture) {
    let who = anyone();
    let mut count = 0;
    for n in 0..17 {
        f.complete_turn(&who, "s", &format!("r{n}"), "a").await;
        count += 1;
    }
    for limit in [1, 3, 17] {
        let newest = walk(f, TurnOrder::Newest, None, limit).await;
        assert_eq!(
            newest,
            (1..=count).collect::<Vec<_>>(),
            "newest, {limit} a page"
        );
        count = f.ledger.session(&who, &sid("s")).await.unwrap().turn_count;
        let oldest = walk(f, TurnOrder::Oldest, None, limit).await;
        let now = f.ledger.session(&who, &sid("s")).await.unwrap().turn_count;
        assert_eq!(
            oldest[..count as usize],
            (1..=count).collect::<Vec<_>>(),
            "oldest, {limit} a page"
        );
        assert!(oldest.windows(2).all(|w| w[0] + 1 == w[1]));
        count = now;
    }
}

pub async fn items_are_paged(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    for n in 0..30 {
        let batch = (0..n % 5 + 1).map(|_| item(Channel::Plan, "p")).collect();
        f.append(&who, &turn, batch).await.unwrap();
    }
    let last = f.last_seq(&who, "s").await;
    for after in 0..=last {
        let (page, next) = f.ledger.items(&who, &sid("s"), after, 4).await.unwrap();
        let seqs: Vec<u64> = page.iter().map(|i| i.seq).collect();
        let end = (after + 4).min(last);
        assert_eq!(seqs, (after + 1..=end).collect::<Vec<_>>());
        assert_eq!(next, (end < last).then(|| end.to_string()));
    }
    for after in [last, last + 1, 1 << 40, u64::MAX] {
        let (page, next) = f.ledger.items(&who, &sid("s"), after, 4).await.unwrap();
        assert_eq!((page.len(), next), (0, None), "after {after}");
    }
    f.create(&who, "empty").await.unwrap();
    assert_eq!(
        f.ledger.items(&who, &sid("empty"), 0, 4).await.unwrap(),
        (Vec::new(), None)
    );
}

pub async fn items_are_paged_from_the_newest(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    for n in 0..20 {
        let batch = (0..n % 5 + 1).map(|_| item(Channel::Plan, "p")).collect();
        f.append(&who, &turn, batch).await.unwrap();
    }
    let last = f.last_seq(&who, "s").await;
    for before in (0..=last + 1).chain([1 << 40, u64::MAX]) {
        let read = f.ledger.items_before(&who, &sid("s"), before, 4).await;
        let (page, next) = read.unwrap();
        let seqs: Vec<u64> = page.iter().map(|i| i.seq).collect();
        let end = before.min(last + 1).max(1);
        let first = end.saturating_sub(4).max(1);
        assert_eq!(seqs, (first..end).rev().collect::<Vec<_>>());
        assert_eq!(next, (first > 1).then(|| first.to_string()));
    }
    f.create(&who, "empty").await.unwrap();
    let session = sid("empty");
    let empty = f.ledger.items_before(&who, &session, u64::MAX, 4);
    assert_eq!(empty.await.unwrap(), (Vec::new(), None));
}

pub async fn large_items_are_paged_from_the_newest(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    // Twelve of them exceed the limit of a page in bytes.
    let large = "x".repeat(1 << 20);
    for _ in 0..12 {
        let batch = vec![item(Channel::Plan, &large)];
        f.append(&who, &turn, batch).await.unwrap();
    }
    let (mut seqs, mut before) = (Vec::new(), u64::MAX);
    loop {
        let read = f.ledger.items_before(&who, &sid("s"), before, 500).await;
        let (page, next) = read.unwrap();
        seqs.extend(page.iter().map(|i| i.seq));
        match next {
            Some(next) => before = next.parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(seqs, (1..=13).rev().collect::<Vec<_>>());
}

pub async fn items_are_found_by_their_seqs(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    for n in 0..20 {
        let batch = (0..n % 5 + 1).map(|_| item(Channel::Plan, "p")).collect();
        f.append(&who, &turn, batch).await.unwrap();
    }
    let all = f.items(&who, "s", 500).await;
    let last = f.last_seq(&who, "s").await;
    let read = async |ranges: &[(u64, u64)], after: u64| {
        let seqs = Seqs::from_ranges(ranges.iter().copied()).unwrap();
        let (page, next) = f
            .ledger
            .items_at(&who, &sid("s"), seqs.clone(), after)
            .await
            .unwrap();
        assert_eq!(next, None);
        let wanted = all.iter().filter(|i| seqs.contains(i.seq) && i.seq > after);
        assert!(page.iter().eq(wanted), "{ranges:?} after {after}");
        page.len()
    };
    for seq in 1..=last {
        assert_eq!(read(&[(seq, seq)], 0).await, 1);
    }
    assert_eq!(
        read(&[(1, 1), (3, 3), (7, 12), (last, u64::MAX)], 0).await,
        9
    );
    assert_eq!(read(&[(1, 1), (3, 3), (7, 12)], 3).await, 6);
    assert_eq!(read(&[(1, 4)], u64::MAX).await, 0);
    assert_eq!(read(&[(last + 1, u64::MAX)], 0).await, 0);
    assert_eq!(read(&[(2, u64::MAX)], 0).await as u64, last - 1);
    let session = sid("none");
    let absent = f.ledger.items_at(&who, &session, Seqs::default(), 0);
    assert_eq!(code(absent.await), ErrorCode::SessionNotFound);
}

pub async fn large_items_are_found_by_their_seqs(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    // Eight of them reach the limit of a page in bytes.
    let large = "x".repeat(1 << 20);
    for _ in 0..14 {
        let batch = vec![item(Channel::Plan, &large)];
        f.append(&who, &turn, batch).await.unwrap();
    }
    for ranges in [
        vec![(2, 15)],
        (2..=15).step_by(2).map(|seq| (seq, seq)).collect(),
        vec![(1, 4), (6, 15)],
    ] {
        let seqs = Seqs::from_ranges(ranges).unwrap();
        let (mut read, mut after, mut pages) = (Vec::new(), 0, 0);
        loop {
            let session = sid("s");
            let page = f.ledger.items_at(&who, &session, seqs.clone(), after);
            let (page, next) = page.await.unwrap();
            read.extend(page.iter().map(|i| i.seq));
            pages += 1;
            match next {
                Some(next) => after = next.parse().unwrap(),
                None => break,
            }
        }
        assert_eq!(read, seqs.iter().collect::<Vec<_>>());
        assert_eq!(pages > 1, seqs.count() > 7, "{seqs}");
    }
}

pub async fn an_item_is_found_by_its_key(f: &Fixture) {
    let who = anyone();
    for session in ["s", "t"] {
        let turn = f.start(&who, session, "r").await;
        let items = vec![
            keyed("a", session),
            item(Channel::Plan, "p"),
            keyed("b", "x"),
        ];
        f.append(&who, &turn, items).await.unwrap();
    }
    let find = async |session: &str, id: &str| {
        let id = ItemId::new(id).unwrap();
        f.ledger.item_with_id(&who, &sid(session), id).await
    };
    for session in ["s", "t"] {
        let items = f.items(&who, session, 50).await;
        assert_eq!(find(session, "a").await.unwrap().as_ref(), items.get(1));
        assert_eq!(find(session, "b").await.unwrap().as_ref(), items.get(3));
        assert_eq!(find(session, "c").await.unwrap(), None);
    }
    assert_eq!(code(find("none", "a").await), ErrorCode::SessionNotFound);
}

pub async fn the_newest_finalized_turns_are_paged(f: &Fixture) {
    let who = anyone();
    for n in 0..9 {
        let turn = f.start(&who, "s", &format!("r{n}")).await;
        let id = turn.turn_id;
        match n % 3 {
            0 => drop(
                f.write_turn(&who, finalize("s", id, Some("a")))
                    .await
                    .unwrap(),
            ),
            1 => drop(f.write_turn(&who, fail("s", id, "e")).await.unwrap()),
            _ => {}
        }
    }
    let q = query(TurnOrder::Newest, Some(TurnStatus::Finalized), None, 2);
    let (page, next) = f.ledger.turns(&who, &sid("s"), q).await.unwrap();
    assert_eq!(page.iter().map(|t| t.ordinal).collect::<Vec<_>>(), [4, 7]);
    let q = query(TurnOrder::Newest, Some(TurnStatus::Finalized), next, 2);
    let (page, next) = f.ledger.turns(&who, &sid("s"), q).await.unwrap();
    assert_eq!(
        (page.iter().map(|t| t.ordinal).collect::<Vec<_>>(), next),
        (vec![1], None)
    );
}

pub async fn turns_are_filtered_by_status(f: &Fixture) {
    let who = anyone();
    for n in 0..12 {
        let turn = f.start(&who, "s", &format!("r{n}")).await;
        if n % 4 == 0 {
            f.write_turn(&who, cancel("s", turn.turn_id)).await.unwrap();
        }
    }
    for order in [TurnOrder::Oldest, TurnOrder::Newest] {
        for limit in [1, 2, 3, 50] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let q = query(order, Some(TurnStatus::Cancelled), cursor, limit);
                let (page, next) = f.ledger.turns(&who, &sid("s"), q).await.unwrap();
                seen.extend(page.iter().map(|t| t.ordinal));
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            seen.sort_unstable();
            assert_eq!(seen, [1, 5, 9], "{order:?} {limit}");
        }
    }
}

pub async fn invalid_cursors_are_refused(f: &Fixture) {
    let who = anyone();
    for n in 0..4 {
        f.complete_turn(&who, "s", &format!("r{n}"), "a").await;
    }
    let first = f
        .ledger
        .turns(&who, &sid("s"), query(TurnOrder::Oldest, None, None, 1))
        .await
        .unwrap()
        .0;
    f.write_turn(&who, replacement(&who, "s", "new", first[0].turn_id, "w"))
        .await
        .unwrap();
    for text in ["", "x", "-1", "1.5", "99999999999999999999999", "NULL"] {
        for order in [TurnOrder::Oldest, TurnOrder::Newest] {
            let q = query(order, None, Some(text.into()), 2);
            assert_eq!(
                code(f.ledger.turns(&who, &sid("s"), q).await),
                ErrorCode::Invalid
            );
        }
    }
    // A cursor may be a number that no page returned: it is no integrity error.
    for n in [
        0,
        1,
        255,
        256,
        257,
        300,
        511,
        512,
        515,
        1027,
        4000,
        1 << 24,
        1 << 33,
        u64::MAX,
    ] {
        for order in [TurnOrder::Oldest, TurnOrder::Newest] {
            for limit in [0, 1, 2, usize::MAX] {
                let q = query(order, None, Some(n.to_string()), limit);
                f.ledger.turns(&who, &sid("s"), q).await.unwrap();
            }
        }
    }
}

pub async fn invalid_cursors_of_sessions_are_refused(f: &Fixture) {
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    let page = |cursor: &str| {
        let filter = SessionFilter::default();
        let page = f.ledger.sessions(&who, filter, Some(cursor.into()), 2);
        async { page.await.map(|(sessions, _)| sessions.len()) }
    };
    for text in ["", "x", "-1", "1.1", "99999999999999999999999"] {
        assert_eq!(code(page(text).await), ErrorCode::Invalid, "{text:?}");
    }
    // A cursor names a session of the tenant.
    f.create(&operator("another"), "theirs").await.unwrap();
    let pk = f.pk("s").await;
    let (tenant, id) = (operator("another").tenant, sid("theirs"));
    let theirs = f
        .ledger
        .query(move |snapshot| Ok(snapshot.view.session(&tenant, &id, None)?.unwrap().pk));
    let theirs = theirs.await.unwrap();
    for no_session in [0, theirs, pk.max(theirs) + 1000, u64::MAX] {
        let text = no_session.to_string();
        assert_eq!(code(page(&text).await), ErrorCode::Invalid, "{text:?}");
    }
    assert_eq!(page(&pk.to_string()).await, Ok(0));
}

pub async fn sessions_are_filtered(f: &Fixture) {
    let who = anyone();
    let t0 = filrouge_types::Clock::now(&*f.clock);
    for (s, project) in [("a", Some("p")), ("b", None), ("c", Some("q"))] {
        let new = NewSession {
            project_id: project.map(|p| ProjectId::new(p).unwrap()),
            title: Some("title".into()),
            ..NewSession::with_id(sid(s))
        };
        f.write(&who, Write::CreateSession(new)).await.unwrap();
        f.clock.advance(10);
    }
    let at = |n: i64| Some(filrouge_types::Timestamp::from_micros(t0.as_micros() + n));
    let none = SessionFilter::default;
    for (filter, expected) in [
        (
            SessionFilter {
                project_id: ProjectId::new("p").ok(),
                ..none()
            },
            "a",
        ),
        (
            SessionFilter {
                since: at(10),
                ..none()
            },
            "cb",
        ),
        (
            SessionFilter {
                until: at(10),
                ..none()
            },
            "a",
        ),
        (
            SessionFilter {
                since: at(10),
                until: at(20),
                ..none()
            },
            "b",
        ),
        (
            SessionFilter {
                status: Some(SessionStatus::Closed),
                ..none()
            },
            "",
        ),
        (
            SessionFilter {
                status: Some(SessionStatus::Active),
                ..none()
            },
            "cba",
        ),
        (
            SessionFilter {
                identity_id: filrouge_types::IdentityId::new("x").ok(),
                ..none()
            },
            "",
        ),
    ] {
        let (list, _) = f
            .ledger
            .sessions(&who, filter.clone(), None, 10)
            .await
            .unwrap();
        let ids: String = list.iter().map(|s| s.session_id.as_str()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
}
