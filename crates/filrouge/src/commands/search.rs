//! `filrouge search QUERY`

use std::io::{self, Write};

use filrouge_search::{Excerpt, Hit, Mode, Results, SearchRequest, Zone, started_at};
use filrouge_sources::LibraryError;
use filrouge_types::{Clock, SystemClock, Timestamp};

use super::named_session::in_library;
use super::source::{
    library_error, print_notices, query_and_close, role_name, show_history, utc_time,
};
use crate::cli::Search;
use crate::config::Config;
use crate::config::sources::open_with_ledger;
use crate::exit::Usage;
use crate::indexes::{indexes, update_if_few_changes};
use crate::moment::Period;
use crate::open::Index;
use crate::output::{first_line, print_stderr};
use crate::similar;

pub(super) async fn run(config: &Config, args: Search) -> anyhow::Result<()> {
    if args.limit == 0 {
        return Err(Usage::new("--limit must be at least 1").into());
    }
    let mut request = request(&args)?;
    let are_sources_named = !args.sources.sources.is_empty();
    let opened = open_with_ledger(config, &args.sources.sources, Index::IfExists).await?;
    let indexes = indexes(config, &opened.found.sources, false);
    let mut searcher = opened.searcher(config, indexes.as_ref());
    // The embedder is opened only for a search that needs it: loading a model takes longer than most searches.
    if request.mode != Mode::Words || request.similar.is_some() {
        let embedder = config.search.embedder()?;
        if request.similar.is_some() {
            let similar = similar::configured(config, embedder.as_ref());
            searcher = searcher.with_similar_turns(similar);
        }
        searcher = searcher.with_embedder(embedder);
    }
    let reply = query_and_close(opened, move |library| -> Result<Results, LibraryError> {
        let session = request.session_id.take();
        request.session_id = session.map(|id| in_library(library, id)).transpose()?;
        searcher.search(&request, &|| false)
    });
    let (results, locations) = reply.await?;
    let results = results.map_err(library_error)?;
    if !are_sources_named {
        print_stderr(searched_locations(&locations));
    }
    show_history(config.json, &results, |out| write(out, &results))?;
    if !config.json {
        print_totals(&results);
    }
    // The indexes are updated for the next search, after the results were printed.
    if let Some(indexes) = indexes {
        if indexes.lacks_index() {
            print_stderr("everything was scanned: `filrouge index update` makes searching fast");
        }
        tokio::task::spawn_blocking(move || update_if_few_changes(&indexes)).await?;
    }
    Ok(())
}

fn print_totals(results: &Results) {
    print_notices(&results.notices);
    print_stderr(results.totals());
    if let Some(cursor) = &results.next_cursor {
        print_stderr(format_args!("there are more: --cursor {cursor}"));
    }
}

/// Lists the searched locations when the command names none.
fn searched_locations(locations: &[String]) -> String {
    if locations.is_empty() {
        return "no history exists here; name one with --source".to_owned();
    }
    format!("searched {}", locations.join(", "))
}

fn request(args: &Search) -> Result<SearchRequest, Usage> {
    let (since, until) = (args.since.as_deref(), args.until.as_deref());
    // On later pages, a time such as `7d` is relative to the moment at which the first page was requested.
    let first_page_at = args.cursor.as_deref().and_then(started_at);
    let now = first_page_at.and_then(Timestamp::from_millis);
    let now = now.unwrap_or_else(|| SystemClock.now());
    let period = Period::parse(since, until, now)?;
    Ok(SearchRequest {
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
        since: period.since.map(Timestamp::as_millis),
        until: period.until.map(Timestamp::as_millis),
        session_id: args.session.clone(),
        limit: args.limit,
        cursor: args.cursor.clone(),
        mask: !args.unmasked,
        ..SearchRequest::default()
    })
}

fn write(out: &mut impl Write, results: &Results) -> io::Result<()> {
    for hit in &results.sessions {
        writeln!(out, "{}", hit_line(hit))?;
        for excerpt in &hit.excerpts {
            writeln!(out, "  {}", excerpt_line(excerpt))?;
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

fn hit_line(hit: &Hit) -> String {
    let row = &hit.session;
    let (source, updated) = (&row.source, utc_time(row.updated));
    let title = first_line(row.title.as_deref().unwrap_or(""), 80);
    first_line(&format!("{}  {source}  {updated}  {title}", row.id), 400)
}

fn excerpt_line(excerpt: &Excerpt) -> String {
    let author = match (&excerpt.tool, excerpt.role) {
        (Some(tool), _) => tool.clone(),
        (None, Some(author)) => role_name(author).to_owned(),
        (None, None) => String::new(),
    };
    let message = excerpt.message_id.as_deref().unwrap_or("");
    let label = format!("{author} {} {message}", excerpt.field);
    let text = excerpt.text.replace(['\n', '\t'], " ");
    format!("{}: {text}", label.trim())
}
