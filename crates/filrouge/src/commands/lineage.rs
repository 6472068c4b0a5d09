//! `filrouge lineage ID`

use std::io::{self, Write};

use filrouge_engine::{Lineage, Relative};
use filrouge_types::SessionId;

use crate::config::Config;
use crate::exit::parsed;
use crate::open::{Need, with};
use crate::output::{first_line, say, show};

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<()> {
    let id: SessionId = parsed(id)?;
    let lineage = with(config, Need::Existing, async |opened, caller| {
        Ok(opened.engine.stats.lineage(caller, &id).await?)
    });
    let lineage = lineage.await?;
    show(config.json, &lineage, |out| write(out, &lineage))?;
    if lineage.cycle {
        say("the parents lead round in a circle");
    }
    if lineage.truncated {
        say("there are more relatives than are shown");
    }
    Ok(())
}

/// The root first, each generation further in; the session itself is marked.
fn write(out: &mut impl Write, lineage: &Lineage) -> io::Result<()> {
    for gap in &lineage.gaps {
        writeln!(out, "{gap}  (not there)")?;
    }
    let mut depth = lineage.gaps.len();
    for parent in lineage.parents.iter().rev() {
        line(out, depth, parent)?;
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
        line(out, depth + generation, child)?;
    }
    if !lineage.siblings.is_empty() {
        writeln!(out, "siblings:")?;
    }
    for sibling in &lineage.siblings {
        line(out, 0, sibling)?;
    }
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

fn line(out: &mut impl Write, depth: usize, session: &Relative) -> io::Result<()> {
    let title = first_line(session.title.as_deref().unwrap_or(""), 60);
    let text = format!(
        "{:indent$}  {}  {title}",
        "",
        session.session_id,
        indent = 2 * depth
    );
    writeln!(out, "{}", text.trim_end())
}
