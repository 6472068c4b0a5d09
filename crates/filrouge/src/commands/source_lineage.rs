//! `filrouge lineage ID --source …`

use std::io::{self, Write};

use filrouge_sources::library::lineage::{Evidence, Fork, Lineage, Relative, lineage_with_mask};
use filrouge_sources::library::list::Row;

use super::lineage::Family;
use super::source::{query_named, say_notices};
use crate::cli::Sources;
use crate::config::Config;
use crate::output::{first_line, say, show};

pub(super) async fn run(
    config: &Config,
    id: String,
    sources: &Sources,
    mask: bool,
) -> anyhow::Result<()> {
    let lineage = query_named(config, sources, move |library| {
        lineage_with_mask(library, &id, mask)
    })
    .await?;
    show(config.json, &lineage, |out| write(out, &lineage))?;
    if !config.json {
        say_notices(&lineage.notices);
        if lineage.cycle {
            say("the parents form a cycle");
        }
    }
    Ok(())
}

/// Writes the family, and then the forks.
fn write(out: &mut impl Write, lineage: &Lineage) -> io::Result<()> {
    let gaps = lineage.gaps.iter();
    let children = lineage.child_sessions.iter();
    Family {
        gaps: gaps
            .map(|gap| format!("  {}", first_line(gap, 256)))
            .collect(),
        parents: lineage.parent_sessions.iter().map(line).collect(),
        session: named(&lineage.session),
        children: children.map(|child| (child.depth, line(child))).collect(),
        siblings: lineage.siblings.iter().map(line).collect(),
    }
    .write(out)?;
    forks(out, "forked from:", &lineage.forked_from)?;
    forks(out, "forks:", &lineage.forks)
}

fn named(row: &Row) -> String {
    let agent = row
        .agent
        .as_deref()
        .map_or_else(String::new, |agent| format!("  [{agent}]"));
    let title = row.title.as_deref().unwrap_or("");
    let line = format!("{}{agent}  {title}", row.id);
    first_line(line.trim_end(), 200)
}

fn line(relative: &Relative) -> String {
    let call = match (&relative.call_id, &relative.message_id) {
        (Some(call), Some(message)) => format!("  by {call} of {message}"),
        (Some(call), None) => format!("  by {call}"),
        _ => String::new(),
    };
    named(&relative.session) + &first_line(&call, 200)
}

fn forks(out: &mut impl Write, name: &str, forks: &[Fork]) -> io::Result<()> {
    if !forks.is_empty() {
        writeln!(out, "{name}")?;
    }
    for fork in forks {
        let evidence = match fork.evidence {
            Evidence::Recorded => "recorded",
            Evidence::Inferred => "inferred",
        };
        let (session, copied) = (named(&fork.session), fork.copied_messages);
        writeln!(out, "  {session}  ({evidence}, {copied} messages copied)")?;
    }
    Ok(())
}
