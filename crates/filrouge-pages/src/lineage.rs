//! `/ui/sessions/{session_id}/lineage`: the ancestors, siblings and descendants of a session as a drawn tree; the same
//! of a session of another program's history.

mod rails;

use std::iter::once;

use axum::extract::{Path, State};
use filrouge_engine::caller::may;
use filrouge_engine::{Lineage, Relative};
use filrouge_http::extract::SessionAccess;
use filrouge_http::join_task;
use filrouge_http::response::RouteResult;
use filrouge_sources::LibraryError;
use filrouge_sources::library::lineage as foreign;
use filrouge_sources::library::list::Row;
use filrouge_store::WorkSize;
use filrouge_types::{SessionStatus, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use crate::Pages;
use crate::failure::of_library;
use crate::format::time;
use crate::layout::page;
use crate::links::{history_path, session_path};
use crate::visit::Visit;
use crate::words::{Language, LineageWords, StatusWords};

use rails::{LEVELS_MAX, Rail, rails};

/// The route of a lineage.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}/lineage";

/// The route of a lineage in another program's history.
pub(crate) const HISTORY_PATH: &str = "/ui/histories/{source}/{session_id}/lineage";

/// A session in the tree.
struct Node {
    /// The number of steps from the root.
    level: usize,
    session: Linked,
    is_current: bool,
}

/// What the tree shows of a session.
struct Linked {
    id: String,
    address: String,
    title: Option<String>,
    status: Option<SessionStatus>,
    created: Option<Timestamp>,
}

impl From<&Relative> for Linked {
    fn from(session: &Relative) -> Self {
        Self {
            id: session.session_id.to_string(),
            address: session_path(&session.session_id),
            title: session.title.as_deref().map(str::to_owned),
            status: Some(session.status),
            created: Some(session.created_at),
        }
    }
}

impl From<&Row> for Linked {
    fn from(row: &Row) -> Self {
        Self {
            id: row.id.clone(),
            address: history_path(&row.source, &row.id),
            title: row.title.clone(),
            status: None,
            created: Timestamp::from_millis(row.created),
        }
    }
}

/// The relatives of a session.
struct Relatives {
    /// From the root down to the parent.
    ancestors: Vec<Linked>,
    session: Linked,
    siblings: Vec<Linked>,
    /// Each after its parent, with the number of steps down to it.
    descendants: Vec<(usize, Linked)>,
}

/// Shows the lineage of a session.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    // This may read many sessions, so the number of concurrent requests is limited.
    let permit = pages.work_permit(&access.caller, WorkSize::Small).await?;
    let lineage = pages.stats.lineage(&access.caller, &access.session).await?;
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    drop(permit);
    let words = LineageWords::of(visit.language);
    let notes = html! {
        @if lineage.cycle { p.note { (words.cycle) } }
        @if lineage.truncated { p.note { (words.truncated) } }
        @if !lineage.findings.is_empty() { p.note { (words.damaged) " " (lineage.findings.len()) } }
        @if !lineage.gaps.is_empty() { p.note { (words.gap) } }
    };
    let relatives = of_ledger(&lineage, &session.into());
    let forks = lineage.forks.iter().map(Linked::from);
    let content = content(visit.language, &notes, relatives, forks);
    Ok(page(&visit, words.lineage, &content))
}

/// The name of a history in a path.
#[derive(Deserialize)]
pub(crate) struct HistoryName {
    source: String,
}

/// Shows the lineage of a session of another program's history.
pub(crate) async fn show_history(
    State(pages): State<Pages>,
    visit: Visit,
    Path(of): Path<HistoryName>,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    // This reads files, and compares sessions, so the number of concurrent requests is limited.
    let permit = pages.work_permit(&access.caller, WorkSize::Small).await?;
    let (library, id) = (pages.library().clone(), access.session.to_string());
    let read = spawn_blocking(move || (foreign::lineage(&library, &id), permit));
    let (lineage, permit) = join_task(read).await?;
    drop(permit);
    let lineage = lineage.map_err(of_library)?;
    if lineage.session.source != of.source {
        return Err(of_library(LibraryError::NoSession(
            access.session.to_string(),
        )));
    }
    let words = LineageWords::of(visit.language);
    let notes = html! {
        @if lineage.cycle { p.note { (words.cycle) } }
        @if !lineage.gaps.is_empty() { p.note { (words.gap) } }
        @for notice in &lineage.notices { p.note { bdi { (notice) } } }
    };
    let forks = lineage.forked_from.iter().chain(&lineage.forks);
    let forks = forks.map(|fork| Linked::from(&fork.session));
    let content = content(visit.language, &notes, of_history(&lineage), forks);
    Ok(page(&visit, words.lineage, &content))
}

fn of_ledger(lineage: &Lineage, session: &Relative) -> Relatives {
    let below = lineage.tree().into_iter();
    let below = below.map(|below| {
        let depth = usize::try_from(below.depth).unwrap_or(LEVELS_MAX);
        (depth, Linked::from(&below.session))
    });
    Relatives {
        ancestors: lineage.parents.iter().rev().map(Linked::from).collect(),
        session: session.into(),
        siblings: lineage.siblings.iter().map(Linked::from).collect(),
        descendants: below.collect(),
    }
}

fn of_history(lineage: &foreign::Lineage) -> Relatives {
    let linked = |relative: &foreign::Relative| Linked::from(&relative.session);
    let below = lineage.child_sessions.iter();
    Relatives {
        ancestors: lineage.parent_sessions.iter().rev().map(linked).collect(),
        session: Linked::from(&lineage.session),
        siblings: lineage.siblings.iter().map(linked).collect(),
        descendants: below.map(|below| (below.depth, linked(below))).collect(),
    }
}

/// The page's content. `forks` are sessions that began as a copy of the session, or of which it is one.
fn content(
    language: Language,
    notes: &Markup,
    relatives: Relatives,
    forks: impl Iterator<Item = Linked>,
) -> Markup {
    let words = LineageWords::of(language);
    let forks = forks.map(|session| Node {
        level: 0,
        session,
        is_current: false,
    });
    let forks: Vec<Node> = forks.collect();
    let nodes = nodes(relatives);
    let rails = rails(&nodes.iter().map(|node| node.level).collect::<Vec<_>>());
    html! {
        h1 { (words.lineage) }
        (notes)
        ol.lineage {
            @for (node, rails) in nodes.iter().zip(&rails) { (row(language, node, rails)) }
        }
        @if !forks.is_empty() {
            section {
                h2 { (words.forks) }
                ol.lineage { @for fork in &forks { (row(language, fork, &[])) } }
            }
        } @else if nodes.len() == 1 {
            section.empty { h2 { (words.alone) } p { (words.alone_hint) } }
        }
    }
}

fn row(language: Language, node: &Node, rails: &[Rail]) -> Markup {
    let (words, session) = (LineageWords::of(language), &node.session);
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let current = node.is_current.then_some("page");
    html! {
        li class=[node.is_current.then_some("current")] {
            span.rails aria-hidden="true" { @for rail in rails { span class=(rail.class()) {} } }
            span.node {
                span.unseen { (words.level) " " (node.level + 1) ": " }
                a href=(session.address) aria-current=[current] { bdi { (title) } }
                @if node.is_current { " " span.pill { (words.this_session) } }
                @if let Some(status) = session.status { " " span.meta { (StatusWords::name(language, status)) } }
                @if let Some(created) = session.created { " " span.meta { (time(created)) } }
            }
        }
    }
}

/// The tree, each parent directly before its children: the ancestors from the root down, then the siblings and the
/// session itself in the order of creation, with the session's descendants below it.
fn nodes(relatives: Relatives) -> Vec<Node> {
    let level = relatives.ancestors.len();
    let ancestors = relatives.ancestors.into_iter().enumerate();
    let mut nodes: Vec<Node> = ancestors
        .map(|(level, session)| Node {
            level,
            session,
            is_current: false,
        })
        .collect();
    let siblings = relatives.siblings.into_iter().map(|one| (one, false));
    let mut children: Vec<(Linked, bool)> =
        siblings.chain(once((relatives.session, true))).collect();
    children.sort_by(|(a, _), (b, _)| (a.created, &a.id).cmp(&(b.created, &b.id)));
    let mut below = relatives.descendants;
    for (session, is_current) in children {
        nodes.push(Node {
            level,
            session,
            is_current,
        });
        if is_current {
            let below = std::mem::take(&mut below).into_iter();
            nodes.extend(below.map(|(depth, session)| Node {
                level: level + depth,
                session,
                is_current: false,
            }));
        }
    }
    nodes
}
