//! `/ui/sessions/{session_id}/lineage`: the ancestors, siblings and descendants of a session as a drawn tree.

use std::iter::once;

use axum::extract::State;
use filrouge_engine::caller::may;
use filrouge_engine::{Lineage, Relative};
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use maud::{Markup, html};

use crate::Pages;
use crate::layout::{page, session_segment};
use crate::sessions::time;
use crate::visit::Visit;
use crate::words::LineageWords;

/// The route of a lineage.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}/lineage";

/// The maximum number of levels that are indented.
const LEVELS_MAX: usize = 16;

/// A session in the tree.
struct Node {
    /// The number of steps from the root.
    level: usize,
    session: Relative,
    is_current: bool,
}

/// What is drawn before a session at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rail {
    /// Nothing.
    Blank,
    /// A line that passes by, to a later session of this level.
    Past,
    /// The branch to the session; further ones follow.
    Branch,
    /// The branch to the last session of its parent.
    Last,
}

impl Rail {
    const fn class(self) -> &'static str {
        match self {
            Self::Blank => "rail",
            Self::Past => "rail past",
            Self::Branch => "rail branch",
            Self::Last => "rail last",
        }
    }
}

/// Shows the lineage of a session.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    // This may read many sessions, so the number of concurrent requests is limited.
    let permit = pages
        .limits()
        .large_response_permit(&access.caller, WorkSize::Small);
    let permit = permit.await?;
    let lineage = pages.stats.lineage(&access.caller, &access.session).await?;
    let session = pages.sessions.get(&access.caller, &access.session).await?;
    drop(permit);
    let words = LineageWords::of(visit.language);
    let nodes = nodes(&lineage, session.into());
    let rails = rails(&nodes.iter().map(|node| node.level).collect::<Vec<_>>());
    let content = html! {
        h1 { (words.lineage) }
        @if lineage.cycle { p.note { (words.cycle) } }
        @if lineage.truncated { p.note { (words.truncated) } }
        @if !lineage.findings.is_empty() { p.note { (words.damaged) " " (lineage.findings.len()) } }
        @if !lineage.gaps.is_empty() { p.note { (words.gap) } }
        ol.lineage {
            @for (node, rails) in nodes.iter().zip(&rails) { (row(words, node, rails)) }
        }
        @if nodes.len() == 1 {
            section.empty { h2 { (words.alone) } p { (words.alone_hint) } }
        }
    };
    Ok(page(&visit, words.lineage, &content))
}

fn row(words: &LineageWords, node: &Node, rails: &[Rail]) -> Markup {
    let session = &node.session;
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let current = node.is_current.then_some("page");
    html! {
        li class=[node.is_current.then_some("current")] {
            span.rails aria-hidden="true" { @for rail in rails { span class=(rail.class()) {} } }
            span.node {
                span.unseen { (words.level) " " (node.level + 1) ": " }
                a href={ "/ui/sessions/" (session_segment(&session.session_id)) } aria-current=[current] { bdi { (title) } }
                @if node.is_current { " " span.pill { (words.this_session) } }
                " " span.meta { (session.status.as_str()) " · " (time(session.created_at)) }
            }
        }
    }
}

/// The tree, each parent directly before its children: the ancestors from the root down, then the siblings and the
/// session itself in the order of creation, with the session's descendants below it.
fn nodes(lineage: &Lineage, session: Relative) -> Vec<Node> {
    let level = lineage.parents.len();
    let ancestors = lineage.parents.iter().rev().enumerate();
    let mut nodes: Vec<Node> = ancestors
        .map(|(level, session)| Node {
            level,
            session: session.clone(),
            is_current: false,
        })
        .collect();
    let age = |session: &Relative| (session.created_at, session.session_id.clone());
    let mut children: Vec<(Relative, bool)> = lineage
        .siblings
        .iter()
        .map(|sibling| (sibling.clone(), false))
        .chain(once((session, true)))
        .collect();
    children.sort_by_key(|(session, _)| age(session));
    for (session, is_current) in children {
        nodes.push(Node {
            level,
            session,
            is_current,
        });
        if is_current {
            nodes.extend(lineage.tree().into_iter().map(|below| Node {
                level: level + usize::try_from(below.depth).unwrap_or(usize::MAX - level),
                session: below.session.clone(),
                is_current: false,
            }));
        }
    }
    nodes
}

/// What is drawn before each session of a tree, given the levels of its sessions, each parent before its children. Levels
/// beyond [`LEVELS_MAX`] are drawn at the last one.
fn rails(levels: &[usize]) -> Vec<Vec<Rail>> {
    // Whether a later session of each level follows before one of a lower level.
    let mut follows: Vec<bool> = Vec::new();
    let mut drawn = Vec::with_capacity(levels.len());
    for level in levels.iter().rev() {
        let level = (*level).min(LEVELS_MAX);
        follows.resize(level + 1, false);
        let passing = (1..level).map(|at| match follows.get(at) {
            Some(true) => Rail::Past,
            _ => Rail::Blank,
        });
        let own = match follows.get(level) {
            Some(true) => Rail::Branch,
            _ => Rail::Last,
        };
        drawn.push(passing.chain((level > 0).then_some(own)).collect());
        if let Some(follows) = follows.get_mut(level) {
            *follows = true;
        }
    }
    drawn.reverse();
    drawn
}

#[cfg(test)]
mod tests {
    use super::Rail::{Blank, Branch, Last, Past};
    use super::*;

    #[test]
    fn lines_lead_from_parents_to_children() {
        // root, a, a1, a2, b, b1
        let drawn = rails(&[0, 1, 2, 2, 1, 2]);
        assert_eq!(
            drawn,
            [
                vec![],
                vec![Branch],
                vec![Past, Branch],
                vec![Past, Last],
                vec![Last],
                vec![Blank, Last],
            ]
        );
        assert_eq!(rails(&[40]).first().map(Vec::len), Some(LEVELS_MAX));
    }
}
