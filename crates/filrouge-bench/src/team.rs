//! `team`: a team's session restored and the next prompt built from it, compared with reading and parsing its rows.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use filrouge_team::context::{ContextManager, Restored};
use filrouge_team::ledger::{OpenOptions, open_existing, open_new, read_session};
use filrouge_team::message::{Message, Routing, Speaker, SpeakerKind};
use filrouge_team::prompt::{PromptBuilder, Window};
use filrouge_team::record::{Record, State, Status};
use filrouge_team::sessions::sessions;
use filrouge_team::team::{Command, Member, MemberKind, Team};
use filrouge_types::{SessionId, Timestamp};
use rusqlite::{Connection, params};

use crate::Setup;
use crate::product::Product;
use crate::reads::time_calls;
use crate::report::{Line, Section, Target};
use crate::stats::Series;
use crate::workload::Turns;

/// The size of a message, as agents write them.
const MESSAGE_BYTES: usize = 600;
/// The name and id of the team.
const TEAM: &str = "bench";

fn member(name: &str, kind: MemberKind) -> Member {
    Member {
        id: name.into(),
        name: name.into(),
        role: None,
        kind,
    }
}

fn team() -> Team {
    let agent = Command {
        program: "true".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        folder: None,
        template: None,
        timeout: Duration::from_secs(60),
    };
    Team {
        id: TEAM.into(),
        name: TEAM.into(),
        description: None,
        members: vec![
            member("ann", MemberKind::Human),
            member("coder", MemberKind::Agent(agent)),
        ],
        task: None,
        max_agent_turns: 50,
    }
}

fn message(number: i64, text: &str) -> Message {
    let (name, kind) = match number % 2 {
        1 => ("ann", SpeakerKind::Human),
        _ => ("coder", SpeakerKind::Agent),
    };
    Message {
        id: format!("msg-{number}").into(),
        at: Timestamp::from_micros(1_700_000_000_000_000 + number),
        speaker: Speaker {
            id: name.into(),
            name: name.into(),
            kind,
        },
        content: text.into(),
        routing: Routing {
            parent: (number > 1).then(|| format!("msg-{}", number - 1).into()),
            ..Routing::default()
        },
        cut: None,
    }
}

/// Records a conversation of `count` messages with a hand-over after each answer; returns the session id.
async fn record_conversation(product: &Product, count: usize) -> Result<String> {
    let options = OpenOptions::new("bench");
    let (engine, caller) = (product.engine.clone(), product.caller.clone());
    let opened = open_new(engine, caller, &team(), options).await?;
    let paused = State {
        status: Status::Paused,
        waiting_for: Some("ann".into()),
        team_task: None,
    };
    let mut texts = Turns::new(7);
    for number in 1..=i64::try_from(count)? {
        let message = message(number, &texts.text(MESSAGE_BYTES));
        if message.speaker.kind == SpeakerKind::Human {
            opened.record.write_message(&message).await?;
            continue;
        }
        let speech = opened.record.begin_message(&message).await?;
        speech.end(&message, None).await?;
        opened.record.hand_over(&paused).await?;
    }
    opened.record.close(&paused).await?;
    Ok(opened.record.session_id().to_owned())
}

/// Copies the contents of the items of a session to plain rows.
async fn copy_rows(product: &Product, id: &str, path: &Path) -> Result<Connection> {
    let raw = Connection::open(path)?;
    raw.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE item (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, parts BLOB NOT NULL, metadata BLOB);",
    )?;
    let id = SessionId::new(id)?;
    let mut after = 0;
    loop {
        let page = product
            .engine
            .turns
            .items(&product.caller, &id, after, 1000);
        let (items, next) = page.await?;
        let mut insert = raw.prepare("INSERT INTO item VALUES (?1, ?2, ?3, ?4)")?;
        for item in &items {
            let metadata = item.body.metadata.as_ref().map(|m| m.as_str().as_bytes());
            let at = item.created_at.as_micros();
            let parts = item.body.parts.as_str().as_bytes();
            insert.execute(params![i64::try_from(item.seq)?, at, parts, metadata])?;
        }
        after = items.last().map_or(after, |item| item.seq);
        if next.is_none() {
            break;
        }
    }
    Ok(raw)
}

/// Reads and parses all rows, and keeps them; returns their number.
fn parse_rows(raw: &Connection) -> Result<usize> {
    let mut all = raw.prepare_cached("SELECT created_at, parts, metadata FROM item ORDER BY id")?;
    let mut rows = all.query([])?;
    let mut kept: Vec<(i64, serde_json::Value, Option<serde_json::Value>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let parts = serde_json::from_slice(row.get_ref(1)?.as_blob()?)?;
        let metadata = match row.get_ref(2)?.as_blob_or_null()? {
            Some(metadata) => Some(serde_json::from_slice(metadata)?),
            None => None,
        };
        kept.push((row.get(0)?, parts, metadata));
    }
    Ok(black_box(kept).len())
}

/// Builds the next prompt of a restored conversation.
fn build_prompt(restored: Restored, count: usize) -> Result<()> {
    let messages = restored.context.messages.len();
    ensure!(messages == count, "{messages} messages instead of {count}");
    let team = team();
    let restored = ContextManager::from_restored(restored)?;
    let answered = restored.newest(1).first().context("no message")?.id.clone();
    let coder = team.member("coder").context("no coder")?;
    let builder = PromptBuilder::new(&team, Window::default());
    black_box(builder.prompt(&restored, coder, &answered)?);
    Ok(())
}

/// `team`.
pub(crate) async fn team_session(setup: &Setup) -> Result<Section> {
    let count = setup.size(5000, 60);
    let dir = setup.dir()?;
    let product = Product::open(dir.path(), false).await?;
    let id = record_conversation(&product, count).await?;
    let raw = copy_rows(&product, &id, &dir.path().join("raw.db")).await?;
    ensure!(parse_rows(&raw)? >= count, "rows are missing");
    let (caller, bench_team) = (&product.caller, team());

    let mut limit = Series::new("raw, a row per item, parsed");
    let mut restored = Series::new("restored, with the next prompt");
    let mut opened = Series::new("opened and closed, with the next prompt");
    let mut listed = Series::new("sessions listed");
    for _ in 0..setup.pairs {
        let call = || async { parse_rows(&raw).map(drop) };
        limit.legs.push(time_calls(3, call).await?);
        let call = || async {
            let read = read_session(&product.engine, caller, TEAM, &id).await?;
            build_prompt(read, count)
        };
        restored.legs.push(time_calls(3, call).await?);
        let call = || async {
            let (engine, options) = (product.engine.clone(), OpenOptions::new("bench"));
            let opened = open_existing(engine, caller.clone(), &bench_team, &id, options).await?;
            let paused = State {
                status: Status::Paused,
                waiting_for: Some("ann".into()),
                team_task: None,
            };
            opened.record.close(&paused).await?;
            build_prompt(opened.restored, count)
        };
        opened.legs.push(time_calls(3, call).await?);
        let call = || async {
            let found = sessions(&product.engine, caller, TEAM).await?;
            ensure!(
                found.sessions.len() == 1,
                "{} sessions",
                found.sessions.len()
            );
            Ok(())
        };
        listed.legs.push(time_calls(3, call).await?);
    }
    let line =
        |label: &str, series: &Series, target: Target| Line::p50(label, (series, &limit), target);
    let lines = vec![
        line(
            "restored, and the next prompt",
            &restored,
            Target::AtMost(1.5),
        ),
        line(
            "opened and closed (6 commits), and the next prompt",
            &opened,
            Target::Shown,
        ),
        line("the list of sessions", &listed, Target::Shown),
    ];
    let notes = vec![format!(
        "{count} messages of {MESSAGE_BYTES} bytes, each recorded as it is sent, a hand-over after each answer; every item verified; limit: one thread reads the rows, parses the parts and metadata of each to serde_json::Value and keeps all"
    )];
    product.close().await;
    Ok(Section {
        name: "team",
        lines,
        series: vec![restored, opened, listed, limit],
        notes,
        ..Section::default()
    })
}
