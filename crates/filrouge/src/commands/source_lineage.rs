//! `filrouge lineage ID --source …`

use std::io::{self, Write};

use filrouge_sources::library::lineage::{Evidence, Fork, Lineage, Relative, shown_as};
use filrouge_sources::library::list::Row;

use super::lineage::Family;
use super::source::{ask_named, say_notices};
use crate::cli::Sources;
use crate::config::Config;
use crate::output::{first_line, say, show};

pub(super) async fn run(
    config: &Config,
    id: String,
    sources: &Sources,
    mask: bool,
) -> anyhow::Result<()> {
    let found = ask_named(config, sources, move |library| shown_as(library, &id, mask)).await?;
    show(config.json, &found, |out| write(out, &found))?;
    if !config.json {
        say_notices(&found.notices);
        if found.cycle {
            say("the parents lead round in a circle");
        }
    }
    Ok(())
}

/// The family, and forks beside it.
fn write(out: &mut impl Write, found: &Lineage) -> io::Result<()> {
    let gaps = found.gaps.iter();
    let children = found.child_sessions.iter();
    Family {
        gaps: gaps
            .map(|gap| format!("  {}", first_line(gap, 256)))
            .collect(),
        parents: found.parent_sessions.iter().map(line).collect(),
        own: named(&found.session),
        children: children.map(|child| (child.depth, line(child))).collect(),
        siblings: found.siblings.iter().map(line).collect(),
    }
    .write(out)?;
    forks(out, "forked from:", &found.forked_from)?;
    forks(out, "forks:", &found.forks)
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
