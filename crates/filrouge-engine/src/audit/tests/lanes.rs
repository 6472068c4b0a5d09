//! The audit of a store with several lanes.

use filrouge_store::{Lane, Lanes};
use filrouge_types::{Channel, ItemBody, Role, TenantId};

use super::{MINUTE, World, item, thought, user};
use crate::audit::{AuditQuery, AuditRow};

/// A world with a store of `lanes` lanes, and the id of a session in each of them.
fn world(lanes: u16) -> (World, Vec<String>) {
    let (lanes, tenant) = (Lanes::new(lanes).unwrap(), TenantId::default_tenant());
    let session_in = |lane: Lane| {
        let mut ids = (0..).map(|n| format!("s{n}"));
        let is_in_lane = |id: &String| lanes.of_session(&tenant, &id.parse().unwrap()) == lane;
        ids.find(is_in_lane).unwrap()
    };
    let sessions = lanes.iter().map(session_in).collect();
    (World::with_lanes(lanes), sessions)
}

/// An item with three calls, which has three rows.
fn calls() -> ItemBody {
    let part = |n| format!(r#"{{"type":"tool_call","call_id":"{n}","name":"t{n}","args":{{}}}}"#);
    let parts = format!("[{},{},{}]", part(0), part(1), part(2));
    item(Role::Assistant, Channel::ToolCall, &parts)
}

/// The seqs and tools of a session's rows, in their order.
fn rows_of(rows: &[AuditRow], session: &str) -> Vec<(u64, Option<String>)> {
    let rows = rows.iter().filter(|row| row.session_id.as_str() == session);
    rows.map(|row| (row.seq.unwrap(), super::plain_text(row.tool.as_ref())))
        .collect()
}

#[tokio::test]
async fn pages_of_any_size_have_the_rows_of_all_lanes_once_and_in_order() {
    let (world, sessions) = world(3);
    for n in 0..15 {
        // At some points the clock is set back.
        let minutes = if n % 5 == 4 { -3 } else { 1 };
        world.clock.advance(minutes * MINUTE);
        let turn = world
            .start(&user("ada"), &sessions[n % 3], &format!("r{n}"))
            .await;
        world.append(&turn, vec![thought("hm"), calls()]).await;
    }
    let rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    for session in &sessions {
        let of_session = AuditQuery {
            session_id: Some(session.parse().unwrap()),
            ..AuditQuery::default()
        };
        let expected = world.rows_at_any_page_size(&of_session).await;
        assert_eq!(expected.len(), 25);
        assert_eq!(rows_of(&rows, session), rows_of(&expected, session));
    }
    assert_eq!(rows.len(), 75);
}

#[tokio::test]
async fn a_page_continues_within_a_change_although_older_ones_have_appeared_in_another_lane() {
    let (world, sessions) = world(2);
    let write = async |session: &str| {
        let turn = world.start(&user("ada"), session, "r").await;
        world.append(&turn, vec![calls()]).await;
    };
    write(&sessions[0]).await;
    let first = world
        .page(AuditQuery {
            limit: 2,
            ..AuditQuery::default()
        })
        .await;
    world.clock.advance(-30 * MINUTE);
    write(&sessions[1]).await;
    let further = AuditQuery {
        cursor: first.next,
        ..AuditQuery::default()
    };
    let tool = |n: u64| Some(format!("t{n}"));
    let expected = [(1, None), (2, tool(0)), (2, tool(1)), (2, tool(2))];
    for limit in [1, 2, 3, 500] {
        let mut rows = first.rows.clone();
        rows.extend(world.read_all(&further, limit).await.0);
        for session in &sessions {
            assert_eq!(rows_of(&rows, session), expected, "{limit} rows per page");
        }
    }
}

#[tokio::test]
async fn rows_end_at_a_commit_of_each_lane() {
    let (world, sessions) = world(2);
    for session in &sessions {
        world.start(&user("ada"), session, "r").await;
    }
    let first = world
        .page(AuditQuery {
            limit: 1,
            ..AuditQuery::default()
        })
        .await;
    // The later commits of one lane are shown before the commits of the other that are included.
    world.clock.advance(-30 * MINUTE);
    for session in &sessions {
        world.start(&user("ada"), session, "later").await;
    }
    let further = AuditQuery {
        cursor: first.next,
        last_commit: Some(first.newest),
        ..AuditQuery::default()
    };
    for limit in [1, 2, 500] {
        let rows = world.read_all(&further, limit).await.0;
        assert!(rows_of(&rows, &sessions[0]).is_empty());
        assert_eq!(rows_of(&rows, &sessions[1]), [(1, None)]);
    }
}
