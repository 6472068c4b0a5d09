//! `filrouge search QUERY`

use std::io::{self, Write};
use std::sync::Arc;

use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Excerpt, Hit, Mode, Results, Zone, begun};
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::index_open::{follow, indexes};
use super::source::{ask_in, cell, role, say_notices, second};
use crate::cli::Search;
use crate::config::Config;
use crate::config::sources::everything;
use crate::exit::Usage;
use crate::moment::Span;
use crate::open::Index;
use crate::output::{first_line, printable, say, show};

pub(super) async fn run(config: &Config, asked: Search) -> anyhow::Result<()> {
    if asked.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let question = question(&asked)?;
    let named = !asked.sources.sources.is_empty();
    let all = everything(config, &asked.sources.sources, Index::IfThere).await?;
    let indexes = indexes(&config.search.index, &all.found.sources, false);
    let mut searcher = all.searcher(config, indexes.as_ref());
    // To ready a model takes longer than most searches.
    if question.mode != Mode::Words || question.similar.is_some() {
        searcher = searcher.with_embedder(config.search.embedder()?);
    }
    let found = ask_in(all, move |_| searcher.search(&question, &|| false)).await?;
    if !named {
        say(looked_in(&found.places));
    }
    let results = found.answer;
    show(config.json, &results, |out| write(out, &results))?;
    if !config.json {
        told(&results);
    }
    if let Some(indexes) = indexes {
        behind(indexes).await?;
    }
    Ok(())
}

/// What is done for the next search, now that this one is answered.
async fn behind(indexes: Arc<Indexes>) -> anyhow::Result<()> {
    if indexes.lacks_one() {
        say("everything was looked through: `filrouge index update` makes searching fast");
    }
    tokio::task::spawn_blocking(move || follow(&indexes)).await?;
    Ok(())
}

fn told(results: &Results) {
    say_notices(&results.notices);
    let (matches, sessions) = (results.total_matches, results.total_sessions);
    let (es, s) = (plural(matches, "es"), plural(sessions, "s"));
    let about = if results.exact { "" } else { "about " };
    match matches {
        0 if sessions > 0 => say(format_args!("{sessions} session{s}, by meaning alone")),
        _ => say(format_args!(
            "{about}{matches} match{es} in {sessions} session{s}"
        )),
    }
    if let Some(cursor) = &results.next_cursor {
        say(format_args!(
            "there are more: --cursor {}",
            printable(cursor)
        ));
    }
}

const fn plural(count: usize, ending: &'static str) -> &'static str {
    if count == 1 { "" } else { ending }
}

/// Nobody has said where to look: then it is told.
fn looked_in(places: &[String]) -> String {
    if places.is_empty() {
        return "there is no history here to look in; --source names one".to_owned();
    }
    let places: Vec<_> = places.iter().map(|place| printable(place)).collect();
    format!("looked in {}", places.join(", "))
}

fn question(asked: &Search) -> Result<Ask, Usage> {
    let (since, until) = (asked.since.as_deref(), asked.until.as_deref());
    // What is counted from now is counted from the first page on.
    let first = asked.cursor.as_deref().and_then(begun);
    let now = first.and_then(Timestamp::from_millis);
    let now = now.unwrap_or_else(|| SystemClock.now());
    let span = Span::read(since, until, now)?;
    Ok(Ask {
        query: if asked.similar {
            String::new()
        } else {
            asked.query.join(" ")
        },
        similar: asked.similar.then(|| asked.query.join(" ")),
        mode: asked.mode,
        order: asked.order,
        zone: Zone::System,
        now: Some(now.as_millis()),
        agent: asked.agent.clone(),
        project_id: asked.project.clone(),
        tool: asked.tool.clone(),
        role: asked.role,
        since: span.since.map(Timestamp::as_millis),
        until: span.until.map(Timestamp::as_millis),
        session_id: asked.session.clone(),
        limit: asked.limit,
        cursor: asked.cursor.clone(),
        mask: !asked.unmasked,
        ..Ask::default()
    })
}

fn write(out: &mut impl Write, results: &Results) -> io::Result<()> {
    for hit in &results.sessions {
        writeln!(out, "{}", head(hit))?;
        for excerpt in &hit.excerpts {
            writeln!(out, "  {}", line(excerpt))?;
        }
        let more = hit.matches.saturating_sub(hit.excerpts.len());
        if more > 0 {
            writeln!(
                out,
                "  … {more} more: filrouge search --session {}",
                first_line(&hit.session.id, 256)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn head(hit: &Hit) -> String {
    let row = &hit.session;
    let (source, updated) = (&row.source, second(row.updated));
    let title = cell(row.title.as_deref(), 80);
    first_line(&format!("{}  {source}  {updated}  {title}", row.id), 400)
}

fn line(excerpt: &Excerpt) -> String {
    let who = match (&excerpt.tool, excerpt.role) {
        (Some(tool), _) => tool.clone(),
        (None, Some(by)) => role(by).to_owned(),
        (None, None) => String::new(),
    };
    let message = excerpt.message_id.as_deref().unwrap_or("");
    let head = format!("{who} {} {message}", excerpt.field);
    let text = printable(&excerpt.text).replace(['\n', '\t'], " ");
    format!("{}: {text}", printable(head.trim()))
}
