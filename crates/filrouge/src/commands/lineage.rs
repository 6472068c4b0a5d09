//! `filrouge lineage ID`

use std::io::{self, Write};

use filrouge_engine::{Lineage, Relative};
use filrouge_types::SessionId;

use super::named_session::in_ledger;
use crate::config::Config;
use crate::exit::parse;
use crate::open::{IfMissing, with};
use crate::output::{first_line, print_findings, print_stderr, show};

pub(super) async fn run(config: &Config, id: &str) -> anyhow::Result<()> {
    let id: SessionId = parse(id)?;
    let lineage = with(config, IfMissing::Fail, async |opened, caller| {
        let id = in_ledger(&opened.engine, caller, id).await?;
        Ok(opened.engine.stats.lineage(caller, &id).await?)
    });
    let lineage = lineage.await?;
    show(config.json, &lineage, |out| write(out, &lineage))?;
    if lineage.cycle {
        print_stderr("the parents form a cycle");
    }
    print_findings(&lineage.findings);
    if lineage.truncated {
        print_stderr("there are more relatives than are shown");
    }
    Ok(())
}

fn write(out: &mut impl Write, lineage: &Lineage) -> io::Result<()> {
    let to_line = |session: &Relative| {
        let title = first_line(session.title.as_deref().unwrap_or(""), 60);
        let line = format!("{}  {title}", session.session_id);
        line.trim_end().to_owned()
    };
    let children = lineage.tree();
    let children = children
        .iter()
        .map(|child| (child.depth as usize, to_line(&child.session)));
    RelativesTree {
        gaps: lineage.gaps.iter().map(ToString::to_string).collect(),
        parents: lineage.parents.iter().map(to_line).collect(),
        session: lineage.session_id.to_string(),
        children: children.collect(),
        siblings: lineage.siblings.iter().map(to_line).collect(),
    }
    .write(out)
}

/// Related sessions, one line each.
pub(super) struct RelativesTree {
    /// The sessions that are named as a parent and do not exist.
    pub(super) gaps: Vec<String>,
    /// The ancestors, nearest first.
    pub(super) parents: Vec<String>,
    /// The session itself.
    pub(super) session: String,
    /// The descendants: each child directly after its parent, with its distance in generations from the session.
    pub(super) children: Vec<(usize, String)>,
    pub(super) siblings: Vec<String>,
}

impl RelativesTree {
    /// Writes the root first and indents each further generation. Marks the session itself with `*`.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for gap in &self.gaps {
            writeln!(out, "{gap}  (does not exist)")?;
        }
        let mut depth = self.gaps.len();
        for parent in self.parents.iter().rev() {
            writeln!(out, "{}  {parent}", "  ".repeat(depth))?;
            depth += 1;
        }
        writeln!(out, "{}* {}", "  ".repeat(depth), self.session)?;
        for (generations, child) in &self.children {
            writeln!(out, "{}  {child}", "  ".repeat(depth + generations))?;
        }
        if !self.siblings.is_empty() {
            writeln!(out, "siblings:")?;
        }
        for sibling in &self.siblings {
            writeln!(out, "  {sibling}")?;
        }
        Ok(())
    }
}
