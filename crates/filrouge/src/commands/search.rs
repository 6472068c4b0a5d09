//! `filrouge search QUERY`

use std::io::{self, Write};
use std::sync::Arc;

use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Excerpt, Hit, Mode, Results, Zone, started_at};
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::index_open::{indexes, update_a_few};
use super::source::{cell, query_and_close, role, say_notices, second};
use crate::cli::Search;
use crate::config::Config;
use crate::config::sources::open_with_ledger;
use crate::exit::Usage;
use crate::moment::Span;
use crate::open::Index;
use crate::output::{first_line, printable, say, show};

pub(super) async fn run(config: &Config, args: Search) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let question = question(&args)?;
    let named = !args.sources.sources.is_empty();
    let opened = open_with_ledger(config, &args.sources.sources, Index::IfExists).await?;
    let indexes = indexes(&config.search.index, &opened.found.sources, false);
    let mut searcher = opened.searcher(config, indexes.as_ref());
    // The embedder is opened only for a search that needs it: loading a model takes longer than most searches.
    if question.mode != Mode::Words || question.similar.is_some() {
        searcher = searcher.with_embedder(config.search.embedder()?);
    }
    let reply = query_and_close(opened, move |_| searcher.search(&question, &|| false)).await?;
    if !named {
        say(searched_places(&reply.places));
    }
    let results = reply.answer;
    show(config.json, &results, |out| write(out, &results))?;
    if !config.json {
        print_notices(&results);
    }
    if let Some(indexes) = indexes {
        update_indexes(indexes).await?;
    }
    Ok(())
}

/// Updates the indexes for the next search, after the answer was printed.
async fn update_indexes(indexes: Arc<Indexes>) -> anyhow::Result<()> {
    if indexes.lacks_one() {
        say("everything was scanned: `filrouge index update` makes searching fast");
    }
    tokio::task::spawn_blocking(move || update_a_few(&indexes)).await?;
    Ok(())
}

fn print_notices(results: &Results) {
    say_notices(&results.notices);
    let (matches, sessions) = (results.total_matches, results.total_sessions);
    let (es, s) = (plural(matches, "es"), plural(sessions, "s"));
    let about = if results.exact { "" } else { "about " };
    match matches {
        0 if sessions > 0 => say(format_args!("{sessions} session{s}, found only by meaning")),
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

/// Lists the searched places when the command names none.
fn searched_places(places: &[String]) -> String {
    if places.is_empty() {
        return "no history exists here; name one with --source".to_owned();
    }
    let places: Vec<_> = places.iter().map(|place| printable(place)).collect();
    format!("searched {}", places.join(", "))
}

fn question(args: &Search) -> Result<Ask, Usage> {
    let (since, until) = (args.since.as_deref(), args.until.as_deref());
    // On later pages, a time such as `7d` is relative to the moment at which the first page was requested.
    let first = args.cursor.as_deref().and_then(started_at);
    let now = first.and_then(Timestamp::from_millis);
    let now = now.unwrap_or_else(|| SystemClock.now());
    let span = Span::read(since, until, now)?;
    Ok(Ask {
        query: if args.similar {
            String::new()
        } else {
            args.query.join(" ")
        },
        similar: args.similar.then(|| args.query.join(" ")),
        mode: args.mode,
        order: args.order,
        zone: Zone::System,
        now: Some(now.as_millis()),
        agent: args.agent.clone(),
        project_id: args.project.clone(),
        tool: args.tool.clone(),
        role: args.role,
        since: span.since.map(Timestamp::as_millis),
        until: span.until.map(Timestamp::as_millis),
        session_id: args.session.clone(),
        limit: args.limit,
        cursor: args.cursor.clone(),
        mask: !args.unmasked,
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
    let author = match (&excerpt.tool, excerpt.role) {
        (Some(tool), _) => tool.clone(),
        (None, Some(by)) => role(by).to_owned(),
        (None, None) => String::new(),
    };
    let message = excerpt.message_id.as_deref().unwrap_or("");
    let head = format!("{author} {} {message}", excerpt.field);
    let text = printable(&excerpt.text).replace(['\n', '\t'], " ");
    format!("{}: {text}", printable(head.trim()))
}
