//! `filrouge lineage ID --source …`

use std::io::{self, Write};

use anyhow::Result;
use filrouge_sources::library::lineage::{Evidence, Fork, Lineage, Relative, lineage_with_mask};
use filrouge_sources::library::list::Row;

use super::lineage::RelativesTree;
use super::named_session::in_library;
use super::source::{print_notices, query_named, show_history};
use crate::cli::Sources;
use crate::config::Config;
use crate::output::{first_line, print_stderr};

pub(super) async fn run(config: &Config, id: String, sources: &Sources, mask: bool) -> Result<()> {
    let lineage = query_named(config, sources, move |library| {
        lineage_with_mask(library, &in_library(library, id)?, mask)
    })
    .await?;
    show_history(config.json, &lineage, |out| write(out, &lineage))?;
    if !config.json {
        print_notices(&lineage.notices);
        if lineage.cycle {
            print_stderr("the parents form a cycle");
        }
    }
    Ok(())
}

/// Writes the family, and then the forks.
fn write(out: &mut impl Write, lineage: &Lineage) -> io::Result<()> {
    let gaps = lineage.gaps.iter();
    let children = lineage.child_sessions.iter();
    RelativesTree {
        gaps: gaps
            .map(|gap| format!("  {}", first_line(gap, 256)))
            .collect(),
        parents: lineage.parent_sessions.iter().map(relative_line).collect(),
        session: session_line(&lineage.session),
        children: children
            .map(|child| (child.depth, relative_line(child)))
            .collect(),
        siblings: lineage.siblings.iter().map(relative_line).collect(),
    }
    .write(out)?;
    write_forks(out, "forked from:", &lineage.forked_from)?;
    write_forks(out, "forks:", &lineage.forks)
}

fn session_line(row: &Row) -> String {
    let agent = row
        .agent
        .as_deref()
        .map_or_else(String::new, |agent| format!("  [{agent}]"));
    let title = row.title.as_deref().unwrap_or("");
    let line = format!("{}{agent}  {title}", row.id);
    first_line(line.trim_end(), 200)
}

fn relative_line(relative: &Relative) -> String {
    let call = match (&relative.call_id, &relative.message_id) {
        (Some(call), Some(message)) => format!("  by {call} of {message}"),
        (Some(call), None) => format!("  by {call}"),
        _ => String::new(),
    };
    session_line(&relative.session) + &first_line(&call, 200)
}

fn write_forks(out: &mut impl Write, name: &str, forks: &[Fork]) -> io::Result<()> {
    if !forks.is_empty() {
        writeln!(out, "{name}")?;
    }
    for fork in forks {
        let evidence = match fork.evidence {
            Evidence::Recorded => "recorded",
            Evidence::Inferred => "inferred",
        };
        let (session, copied) = (session_line(&fork.session), fork.copied_messages);
        writeln!(out, "  {session}  ({evidence}, {copied} messages copied)")?;
    }
    Ok(())
}
