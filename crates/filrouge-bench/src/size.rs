//! `size`: bytes on disk compared with bytes received, for genuine histories and for synthetic turns.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use filrouge_engine::{CreateSession, ImportedTurn};
use filrouge_sources::{ForeignTurn, LoadedSession, opencode};
use filrouge_types::{ItemBody, ProjectId, RawJson, SessionId};

use crate::Setup;
use crate::product::Product;
use crate::report::{Line, Section, Target};
use crate::workload::{Turns, session_id};

/// The size of a closed store on disk: file, WAL and shared memory.
fn bytes_on_disk(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with("filrouge.db")
        {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

fn length(json: Option<&RawJson>) -> u64 {
    json.map_or(0, |j| j.as_str().len() as u64)
}

/// Content, metadata, usage and keys of an item, without the names of fields.
fn item_bytes(item: &ItemBody) -> u64 {
    let text = |t: Option<&str>| t.map_or(0, |t| t.len() as u64);
    length(Some(&item.parts))
        + length(item.metadata.as_ref())
        + length(item.usage.as_ref())
        + text(item.item_id.as_ref().map(|i| i.as_str()))
        + text(item.agent.as_deref())
        + text(item.model.as_deref())
}

/// All sessions of an OpenCode history, as turns.
fn load_sessions(path: &Path) -> Result<Vec<LoadedSession>> {
    let mut found = Vec::new();
    for source in opencode::open(path)? {
        let listing = source.list()?;
        // Unreadable sessions are covered by the importer's own tests.
        found.extend(listing.headers.iter().flat_map(|h| source.load(&h.id)));
    }
    Ok(found)
}

/// Imports one session under a prefix, as `filrouge import` does; returns the bytes received.
async fn import(product: &Product, prefix: &str, loaded: &LoadedSession) -> Result<u64> {
    let foreign = &loaded.session;
    let id = SessionId::new(format!("{prefix}{}", foreign.id))?;
    let parent = foreign
        .parent_id
        .as_ref()
        .map(|p| SessionId::new(format!("{prefix}{p}")))
        .transpose()?;
    let mut bytes = id.as_str().len() as u64
        + parent.as_ref().map_or(0, |p| p.as_str().len() as u64)
        + foreign.title.as_ref().map_or(0, |t| t.len() as u64)
        + foreign.project_id.as_ref().map_or(0, |p| p.len() as u64)
        + length(Some(&loaded.metadata));
    let request = CreateSession {
        session_id: Some(id.clone()),
        title: foreign.title.clone(),
        project_id: foreign
            .project_id
            .as_ref()
            .map(|id| ProjectId::new(&**id))
            .transpose()?,
        parent_session_id: parent,
        metadata: Some(loaded.metadata.clone()),
        team_id: None,
    };
    product
        .engine
        .sessions
        .create(&product.caller, request)
        .await?;
    for turn in &loaded.turns {
        let ForeignTurn {
            request_id,
            question,
            items,
            outcome,
            metadata,
            ..
        } = turn.clone();
        let items: Vec<ItemBody> = question.into_iter().chain(items).collect();
        bytes += request_id.as_str().len() as u64 + length(Some(&metadata));
        bytes += items.iter().map(item_bytes).sum::<u64>();
        let turn = ImportedTurn {
            request_id,
            items,
            status: outcome,
            metadata: Some(metadata),
        };
        product
            .engine
            .turns
            .record(&product.caller, &id, turn)
            .await?;
    }
    Ok(bytes)
}

/// Imports copies of a genuine history.
async fn genuine(setup: &Setup) -> Result<(Line, String)> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/opencode-json");
    let sessions = load_sessions(&fixture).with_context(|| fixture.display().to_string())?;
    let dir = setup.dir()?;
    let product = Product::open(dir.path(), false).await?;
    let (copies, mut received) = (setup.size(100, 2), 0);
    for copy in 0..copies {
        for session in &sessions {
            received += import(&product, &format!("c{copy:03}-"), session).await?;
        }
    }
    product.close().await;
    let disk = bytes_on_disk(dir.path())?;
    let turns: usize = sessions.iter().map(|s| s.turns.len()).sum();
    let items: usize = sessions
        .iter()
        .flat_map(|s| &s.turns)
        .map(|t| t.question.len() + t.items.len())
        .sum();
    let note = format!(
        "genuine: {} sessions, {turns} turns, {items} items of OpenCode, imported {copies} times",
        sessions.len()
    );
    Ok((
        ratio("genuine OpenCode history", disk, received, setup),
        note,
    ))
}

fn ratio(label: &str, disk: u64, received: u64, setup: &Setup) -> Line {
    let target = if setup.quick {
        Target::Shown
    } else {
        Target::AtMost(1.3)
    };
    let shown = (
        format!("{:.2} MB on disk", disk as f64 / 1e6),
        format!("{:.2} MB received", received as f64 / 1e6),
    );
    Line::pairs(label, &[disk as f64], &[received as f64], target, shown)
}

/// Writes synthetic turns, each session in its turn.
async fn synthetic(setup: &Setup, sessions: usize, turns: usize) -> Result<Line> {
    let dir = setup.dir()?;
    let product = Product::open(dir.path(), false).await?;
    let (mut received, mut texts) = (0, Turns::new(5));
    for _ in 0..turns {
        for n in 0..sessions {
            let text = texts.next_turn();
            received += text.request_id().len() as u64
                + text.parts().iter().map(|p| p.len() as u64).sum::<u64>();
            product
                .engine
                .turns
                .start(&product.caller, session_id(n)?, text.request()?)
                .await?;
        }
    }
    product.close().await;
    let disk = bytes_on_disk(dir.path())?;
    Ok(ratio(
        &format!("synthetic, {sessions} sessions x {turns} turns"),
        disk,
        received,
        setup,
    ))
}

/// `size`.
pub(crate) async fn size(setup: &Setup) -> Result<Section> {
    let (line, note) = genuine(setup).await?;
    let lines = vec![
        line,
        synthetic(setup, 1, setup.size(5000, 50)).await?,
        synthetic(setup, 50, setup.size(100, 2)).await?,
    ];
    let notes = vec![
        note,
        "on disk: the closed store (WAL checkpointed and truncated); received: parts, metadata, usage and keys, without field names; the aim is 0.6".to_owned(),
    ];
    Ok(Section {
        name: "size",
        lines,
        notes,
        ..Section::default()
    })
}
