//! The rows of the audit: their order, filters and contents at every page size.

mod lanes;
mod pages;

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Lanes, OsEntropy};
use filrouge_types::{Channel, FixedClock, ItemBody, JsonText, RawJson, Role, TenantId, Turn};

use super::{AuditPage, AuditQuery, AuditRow};
use crate::caller::Caller;
use crate::{AppendItems, Engine, Settings, StartTurn};

/// An engine with a clock that the test controls.
struct World {
    engine: Engine,
    clock: Arc<FixedClock>,
}

/// The start time of the clock, in microseconds since 1970.
const START_TIME: i64 = 1_700_000_000_000_000;
const MINUTE: i64 = 60_000_000;

fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

fn user(name: &str) -> Caller {
    Caller::local(TenantId::default_tenant(), Some(name.parse().unwrap()))
}

fn item(role: Role, channel: Channel, parts: &str) -> ItemBody {
    ItemBody::new(role, channel, RawJson::parse(parts).unwrap())
}

fn call(id: &str, name: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"tool_call","call_id":"{id}","name":"{name}","args":{{}}}}]"#);
    item(Role::Assistant, Channel::ToolCall, &parts)
}

fn result(id: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"tool_result","call_id":"{id}","ok":true,"content":"x"}}]"#);
    item(Role::Tool, Channel::ToolResult, &parts)
}

fn thought(text: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    item(Role::Assistant, Channel::Thought, &parts)
}

impl World {
    fn new() -> Self {
        Self::with_lanes(Lanes::ONE)
    }

    fn with_lanes(lanes: Lanes) -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(START_TIME));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let ledger = Arc::new(ledger.with_lanes(lanes));
        let engine = Engine::new(
            ledger,
            Arc::new(OsEntropy),
            clock.clone(),
            Settings::default(),
        );
        Self { engine, clock }
    }

    async fn start(&self, caller: &Caller, session: &str, request: &str) -> Turn {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain(request)),
            ..StartTurn::new(request.parse().unwrap())
        };
        let started = self
            .engine
            .turns
            .start(caller, session.parse().unwrap(), start);
        started.await.unwrap().into_value()
    }

    async fn append(&self, turn: &Turn, items: Vec<ItemBody>) {
        let append = AppendItems {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        };
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let caller = operator();
        let appended = self.engine.turns.append(&caller, session, id, append);
        appended.await.unwrap();
    }

    async fn page(&self, query: AuditQuery) -> AuditPage {
        self.engine.audit.page(&operator(), query).await.unwrap()
    }

    /// All rows, read in pages of `limit`, and the number of pages.
    async fn read_all(&self, query: &AuditQuery, limit: usize) -> (Vec<AuditRow>, usize) {
        let mut query = AuditQuery {
            limit,
            ..query.clone()
        };
        let (mut rows, mut pages) = (Vec::new(), 0);
        loop {
            let page = self.page(query.clone()).await;
            assert!(page.rows.len() <= limit);
            pages += 1;
            rows.extend(page.rows);
            let Some(next) = page.next else {
                return (rows, pages);
            };
            // A cursor survives formatting and parsing.
            assert_eq!(next, next.to_string().parse().unwrap());
            query.cursor = Some(next);
        }
    }

    /// The rows, which must be the same at every page size.
    async fn rows_at_any_page_size(&self, query: &AuditQuery) -> Vec<AuditRow> {
        let (rows, _) = self.read_all(query, 500).await;
        for limit in [1, 2, 3, 7, 64] {
            assert_eq!(
                self.read_all(query, limit).await.0,
                rows,
                "{limit} rows per page"
            );
        }
        rows
    }
}

fn plain_text(text: Option<&JsonText>) -> Option<String> {
    text.map(JsonText::to_plain)
}

#[tokio::test]
async fn rows_are_in_commit_order_and_by_seq_within_a_session() {
    let world = World::new();
    let first_turn = world.start(&user("ada"), "s1", "r1").await;
    let second_turn = world.start(&user("bob"), "s2", "r1").await;
    world
        .append(&first_turn, vec![call("c", "search"), call("d", "read")])
        .await;
    world.append(&second_turn, vec![thought("hm")]).await;
    let third_turn = world.start(&user("ada"), "s1", "r2").await;
    // Two turns of a session have a call with the same id; each result belongs to the call of its own turn.
    world.append(&third_turn, vec![call("c", "write")]).await;
    world.append(&first_turn, vec![result("c")]).await;
    world
        .append(&third_turn, vec![result("c"), result("unknown")])
        .await;

    let rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    let content: Vec<_> = rows
        .iter()
        .map(|r| {
            (
                r.session_id.as_str(),
                r.seq.unwrap(),
                plain_text(r.tool.as_ref()),
            )
        })
        .collect();
    let tool = |name: &str| Some(name.to_owned());
    assert_eq!(
        content,
        [
            ("s1", 1, None),
            ("s2", 1, None),
            ("s1", 2, tool("search")),
            ("s1", 3, tool("read")),
            ("s2", 2, None),
            ("s1", 4, None),
            ("s1", 5, tool("write")),
            ("s1", 6, tool("search")),
            ("s1", 7, tool("write")),
            ("s1", 8, None),
        ]
    );
    let of_session = AuditQuery {
        session_id: Some("s1".parse().unwrap()),
        ..AuditQuery::default()
    };
    let session_rows = world.rows_at_any_page_size(&of_session).await;
    let expected: Vec<_> = rows
        .iter()
        .filter(|r| r.session_id.as_str() == "s1")
        .cloned()
        .collect();
    assert_eq!(session_rows, expected);
    assert_eq!(session_rows[6].request_id.as_ref().unwrap().as_str(), "r2");
    assert_eq!(
        session_rows[6].identity_id.as_ref().unwrap().as_str(),
        "ada"
    );

    for (query, expected) in [
        (
            AuditQuery {
                tool: Some("search".into()),
                ..AuditQuery::default()
            },
            vec![("s1", 2), ("s1", 6)],
        ),
        (
            AuditQuery {
                identity_id: Some("bob".parse().unwrap()),
                ..AuditQuery::default()
            },
            vec![("s2", 1), ("s2", 2)],
        ),
        (
            AuditQuery {
                tool: Some("write".into()),
                ..of_session.clone()
            },
            vec![("s1", 5), ("s1", 7)],
        ),
        (
            AuditQuery {
                agent: Some("absent".into()),
                ..AuditQuery::default()
            },
            vec![],
        ),
    ] {
        let rows = world.rows_at_any_page_size(&query).await;
        let content: Vec<_> = rows
            .iter()
            .map(|r| (r.session_id.as_str(), r.seq.unwrap()))
            .collect();
        assert_eq!(content, expected, "{query:?}");
    }
}

#[tokio::test]
async fn an_item_has_one_row_per_call_and_its_usage_is_counted_once() {
    let world = World::new();
    let turn = world.start(&user("ada"), "s", "r").await;
    let mut parts = vec![r#"{"type":"text","text":"I look."}"#.to_owned()];
    parts.extend((0..5).map(|n| {
        format!(r#"{{"type":"tool_call","call_id":"{n}","name":"t{n}","args":[{n}],"signature":"s{n}"}}"#)
    }));
    parts.push(r#"{"type":"chart","points":[1,2]}"#.to_owned());
    parts.push(r#"{"type":"text","text":"Then I answer."}"#.to_owned());
    let mut calls = item(
        Role::Assistant,
        Channel::ToolCall,
        &format!("[{}]", parts.join(",")),
    );
    calls.usage = Some(RawJson::parse(r#"{"input_tokens":5}"#).unwrap());
    calls.metadata =
        Some(RawJson::parse(r#"{"finish_reason":"tool_calls","latency_ms":7}"#).unwrap());
    world.append(&turn, vec![calls]).await;
    let rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    assert_eq!(rows.len(), 6);
    let first = &rows[1];
    assert_eq!(
        plain_text(first.text.as_ref()).unwrap(),
        "I look.\nThen I answer."
    );
    assert_eq!(
        plain_text(first.finish_reason.as_ref()).unwrap(),
        "tool_calls"
    );
    // The model's latency is not the tool's.
    assert!(rows[1..].iter().all(|row| row.latency_ms.is_none()));
    let detail = first.detail.as_ref().unwrap().as_str();
    assert_eq!(detail, format!("[{},{}]", parts[6], parts[1]));
    for (n, row) in rows[1..].iter().enumerate() {
        assert_eq!(plain_text(row.tool.as_ref()), Some(format!("t{n}")));
        assert_eq!(row.args.as_ref().unwrap().as_str(), format!("[{n}]"));
        assert_eq!(row.usage.is_some(), n == 0);
    }
    let of_one_tool = AuditQuery {
        tool: Some("t3".into()),
        ..AuditQuery::default()
    };
    let rows = world.rows_at_any_page_size(&of_one_tool).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].text.as_ref(), rows[0].usage.as_ref()),
        (None, None)
    );
}

#[tokio::test]
async fn a_result_is_matched_with_its_call_on_any_page() {
    let world = World::new();
    let turn = world.start(&user("ada"), "s", "r").await;
    let other_turn = world.start(&user("ada"), "s", "r2").await;
    world
        .append(
            &turn,
            vec![call("c", "old"), call("c", "new"), call("far", "gone")],
        )
        .await;
    world
        .append(&other_turn, vec![call("c", "another turn's")])
        .await;
    world
        .append(&turn, (0..900).map(|n| thought(&n.to_string())).collect())
        .await;
    world.append(&turn, vec![result("c")]).await;
    world
        .append(&turn, (0..200).map(|n| thought(&n.to_string())).collect())
        .await;
    world.append(&turn, vec![result("far")]).await;
    let of_tool = |name: &str| AuditQuery {
        tool: Some(name.into()),
        ..AuditQuery::default()
    };
    // A result is matched with the newest call before it, but not with a call more than 1,024 items back.
    for (name, expected) in [("old", 1), ("new", 2), ("gone", 1)] {
        assert_eq!(
            world.rows_at_any_page_size(&of_tool(name)).await.len(),
            expected,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_row_is_one_json_line_with_the_csv_columns() {
    let world = World::new();
    let turn = world.start(&user("ada"), "s", "r").await;
    let parts = "[{\"type\":\"tool_call\",\"call_id\":\"c\",\"name\":\"=cmd\",\r\n \"args\":{\n \"a\": \"x\\ny\"}}]";
    world
        .append(&turn, vec![item(Role::Assistant, Channel::ToolCall, parts)])
        .await;
    let rows = world.rows_at_any_page_size(&AuditQuery::default()).await;
    let line = rows[1].json_line().unwrap();
    assert_eq!(line.matches(['\n', '\r']).count(), 1);
    let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["args"]["a"], "x\ny");
    // The members are in the order of the columns.
    let mut offset = 0;
    for column in AuditRow::COLUMNS {
        let name = format!("\"{column}\":");
        offset += line[offset..].find(&name).expect(column);
    }
    assert_eq!(parsed.as_object().unwrap().len(), AuditRow::COLUMNS.len());
    let csv = rows[1].csv_line().unwrap();
    assert!(
        csv.contains(",'=cmd,c,\"{\n \"\"a\"\": \"\"x\\ny\"\"}\","),
        "{csv}"
    );
}
