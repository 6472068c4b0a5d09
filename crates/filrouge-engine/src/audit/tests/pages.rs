//! Page boundaries, and the rows of redacted and erased content.

use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_store::rows::RECORDS_BYTES;
use filrouge_types::{Channel, ErrorCode, Timestamp};

use super::{MINUTE, START_TIME, World, call, operator, result, thought, user};
use crate::audit::{AuditKind, AuditQuery};

#[tokio::test]
async fn since_and_until_filter_by_commit_time() {
    let world = World::new();
    for n in 0..40 {
        // At one point the clock is set back by half an hour.
        world
            .clock
            .advance(if n == 20 { -30 * MINUTE } else { 5 * MINUTE });
        world
            .start(&user("ada"), &format!("s{}", n % 3), &format!("r{n}"))
            .await;
    }
    let all_rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    assert_eq!(all_rows.len(), 40);
    let at = |minutes: i64| Timestamp::from_micros(START_TIME + minutes * MINUTE);
    let bounds = [
        None,
        Some(0),
        Some(60),
        Some(75),
        Some(80),
        Some(100),
        Some(130),
        Some(900),
    ];
    for since in bounds {
        for until in bounds {
            let (since, until) = (since.map(at), until.map(at));
            let session = "s1".parse().unwrap();
            for session_id in [None, Some(session)] {
                let query = AuditQuery {
                    since,
                    until,
                    session_id: session_id.clone(),
                    ..AuditQuery::default()
                };
                let rows = world.rows_at_any_page_size(&query).await;
                let expected: Vec<_> = all_rows
                    .iter()
                    .filter(|r| session_id.as_ref().is_none_or(|id| r.session_id == *id))
                    .filter(|r| since.is_none_or(|s| s <= r.at) && until.is_none_or(|u| r.at < u))
                    .cloned()
                    .collect();
                assert_eq!(rows, expected, "{since:?} {until:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_cost_of_a_page_is_bounded() {
    let world = World::new();
    let turn = world.start(&user("ada"), "s", "r").await;
    let large = "x".repeat(3 << 20);
    for _ in 0..7 {
        world.append(&turn, vec![thought(&large)]).await;
    }
    let (rows, pages) = world.read_all(&AuditQuery::default(), 500).await;
    assert_eq!(rows.len(), 8);
    // The items have 21 MiB in total. A page ends after the item with which it reaches 8 MiB.
    assert!(pages >= 2, "{pages}");
    let page = world.page(AuditQuery {
        limit: 500,
        ..AuditQuery::default()
    });
    let bytes: usize = page
        .await
        .rows
        .iter()
        .map(|r| r.text.as_ref().map_or(0, |t| t.as_token().len()))
        .sum();
    assert!(bytes < RECORDS_BYTES + large.len() + 1024, "{bytes}");

    // A query without matches returns empty pages, and ends.
    for _ in 0..9 {
        world
            .append(&turn, (0..1000).map(|n| thought(&n.to_string())).collect())
            .await;
    }
    let no_match = AuditQuery {
        tool: Some("none".into()),
        ..AuditQuery::default()
    };
    for query in [
        no_match.clone(),
        AuditQuery {
            session_id: Some("s".parse().unwrap()),
            ..no_match
        },
    ] {
        let (rows, pages) = world.read_all(&query, 50).await;
        assert!(rows.is_empty() && pages >= 4, "{pages}");
    }
}

#[tokio::test]
async fn erased_and_redacted_content_leaves_only_a_row() {
    let world = World::new();
    let turn = world.start(&user("ada"), "s", "secret-1").await;
    world
        .append(&turn, vec![call("c", "secret-tool"), result("c")])
        .await;
    world.start(&user("ada"), "gone", "secret-2").await;
    let (session, seqs) = ("s".parse().unwrap(), vec![(2, 3)]);
    let seqs = Seqs::from_ranges(seqs).unwrap();
    world
        .engine
        .erasure
        .redact(
            &operator(),
            session,
            RedactionTarget::Items(seqs),
            "on request",
        )
        .await
        .unwrap();
    let erased = "gone".parse().unwrap();
    world
        .engine
        .erasure
        .erase(&operator(), erased)
        .await
        .unwrap();
    let rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    let content: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r.session_id.as_str(),
                r.seq,
                r.channel.as_ref().map(Channel::as_str),
                r.redacted,
            )
        })
        .collect();
    assert_eq!(
        content,
        [
            ("s", Some(1), Some("question"), false),
            ("s", Some(2), Some("tool_call"), true),
            ("s", Some(3), Some("tool_result"), true),
            ("s", Some(4), Some("redaction"), false),
            ("gone", None, None, false),
        ]
    );
    for row in &rows[1..3] {
        assert!(row.tool.is_none() && row.args.is_none() && row.result.is_none());
    }
    let detail = rows[3].detail.as_ref().unwrap().as_str();
    assert!(detail.contains(r#""reason":"on request""#), "{detail}");
    assert_eq!(
        rows[4].detail.as_ref().unwrap().as_str(),
        r#"[{"type":"erasure","items":1,"turns":1}]"#
    );
    for (kind, place) in [
        (AuditKind::Said, 0..1),
        (AuditKind::Tool, 1..3),
        (AuditKind::Redaction, 3..4),
        (AuditKind::Erasure, 4..5),
        (AuditKind::Link, 5..5),
    ] {
        let query = AuditQuery {
            kind: Some(kind),
            ..AuditQuery::default()
        };
        let of_kind = world.rows_at_any_page_size(&query).await;
        assert_eq!(of_kind, rows[place], "{kind:?}");
        assert!(of_kind.iter().all(|row| row.kind() == Some(kind)));
    }
    let of_erased = AuditQuery {
        session_id: Some("gone".parse().unwrap()),
        ..AuditQuery::default()
    };
    assert_eq!(world.rows_at_any_page_size(&of_erased).await, rows[4..]);
    let absent = AuditQuery {
        session_id: Some("absent".parse().unwrap()),
        limit: 1,
        ..AuditQuery::default()
    };
    let refused = world
        .engine
        .audit
        .page(&operator(), absent)
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
    for (cursor, session_id) in [("9999", None), ("2", Some("s")), ("1-2-0", Some("s"))] {
        let beyond = AuditQuery {
            cursor: Some(cursor.parse().unwrap()),
            session_id: session_id.map(|id| id.parse().unwrap()),
            limit: 1,
            ..AuditQuery::default()
        };
        let refused = world
            .engine
            .audit
            .page(&operator(), beyond)
            .await
            .unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid, "{cursor}");
    }
}

#[tokio::test]
async fn paging_up_to_a_commit_ends() {
    let world = World::new();
    world.start(&user("ada"), "s", "r0").await;
    world.start(&user("ada"), "s", "r1").await;
    let mut query = AuditQuery {
        limit: 1,
        ..AuditQuery::default()
    };
    let mut row_count = 0;
    loop {
        let page = world.page(query.clone()).await;
        row_count += page.rows.len();
        query.last_commit.get_or_insert(page.newest);
        query.cursor = page.next;
        world
            .start(&user("ada"), "s", &format!("more-{row_count}"))
            .await;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(row_count, 2);
}
