//! `filrouge lineage ID`

use std::io::Write;
use std::process::ExitCode;

use filrouge_engine::{Lineage, Relative};
use filrouge_types::{IdError, SessionId};

use crate::config::Config;
use crate::exit::Usage;
use crate::open::{Need, open, operator};
use crate::output::{document, first_line, say, stdout};

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<ExitCode> {
    let id: SessionId = id.parse().map_err(|e: IdError| Usage::new(e.to_string()))?;
    let opened = open(config, Need::Existing).await?;
    let lineage = opened.engine.stats.lineage(&operator(config), &id).await;
    opened.close().await;
    let lineage = lineage?;
    if config.json {
        document(&lineage)?;
    } else {
        print(&lineage)?;
    }
    if lineage.cycle {
        say("the parents lead round in a circle");
    }
    if lineage.truncated {
        say("there are more relatives than are shown");
    }
    Ok(ExitCode::SUCCESS)
}

/// The root first, each generation further in; the session itself is marked.
fn print(lineage: &Lineage) -> anyhow::Result<()> {
    let mut out = stdout();
    for gap in &lineage.gaps {
        writeln!(out, "{gap}  (not there)")?;
    }
    let mut depth = lineage.gaps.len();
    for parent in lineage.parents.iter().rev() {
        line(&mut out, depth, " ", parent)?;
        depth += 1;
    }
    writeln!(
        out,
        "{:indent$}* {}",
        "",
        lineage.session_id,
        indent = 2 * depth
    )?;
    for (generation, child) in tree(lineage) {
        line(&mut out, depth + generation, " ", child)?;
    }
    if !lineage.siblings.is_empty() {
        writeln!(out, "siblings:")?;
    }
    for sibling in &lineage.siblings {
        line(&mut out, 0, " ", sibling)?;
    }
    out.flush()?;
    Ok(())
}

/// The descendants as a tree: each right below its parent, with its depth.
fn tree(lineage: &Lineage) -> Vec<(usize, &Relative)> {
    let mut shown = Vec::new();
    let mut waiting = vec![(0, &lineage.session_id)];
    while let Some((depth, parent)) = waiting.pop() {
        let children = lineage.descendants.iter().map(|d| &d.session);
        let children = children.filter(|c| c.parent_session_id.as_ref() == Some(parent));
        let at = waiting.len();
        for child in children {
            waiting.insert(at, (depth + 1, &child.session_id));
        }
        if let Some(own) = lineage
            .descendants
            .iter()
            .find(|d| d.session.session_id == *parent)
        {
            shown.push((depth, &own.session));
        }
    }
    shown
}

fn line(out: &mut impl Write, depth: usize, mark: &str, session: &Relative) -> std::io::Result<()> {
    let title = first_line(session.title.as_deref().unwrap_or(""), 60);
    let text = format!(
        "{:indent$}{mark} {}  {title}",
        "",
        session.session_id,
        indent = 2 * depth
    );
    writeln!(out, "{}", text.trim_end())
}
