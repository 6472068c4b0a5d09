//! Shared code of commands with `--source`: the library they query, how its errors are reported, and parts of their
//! output.

use std::io;
use std::time::Duration;

use filrouge_sources::{Library, LibraryError, Role};
use filrouge_types::{ErrorCode, Failure, Timestamp};
use serde::Serialize;

use crate::cli::{Sources, program_names};
use crate::config::Config;
use crate::config::sources::{OpenLibrary, open_with_ledger};
use crate::exit::Usage;
use crate::http_form::http_form;
use crate::open::Index;
use crate::output::{print_json, print_stderr, printable, show};

/// The maximum age of the listing that [`query_and_close`] reuses: the one of the query.
const LISTING_AGE_MAX: Duration = Duration::from_secs(60);

/// Queries open histories, and closes them. Returns the result and the queried locations. Histories that exist and
/// cannot be listed are reported on stderr. Fails when the other histories have no session, because an empty result
/// would mislead.
pub(super) async fn query_and_close<T: Send + 'static>(
    mut opened: OpenLibrary,
    query: impl FnOnce(&Library) -> T + Send + 'static,
) -> anyhow::Result<(T, Vec<String>)> {
    let locations = std::mem::take(&mut opened.found.locations);
    for warning in &opened.found.warnings {
        print_stderr(warning);
    }
    let library = opened.library.clone();
    let result = tokio::task::spawn_blocking(move || {
        let result = query(&library);
        let catalog = library.catalog_within(LISTING_AGE_MAX);
        (
            result,
            catalog.unavailable.clone(),
            catalog.entries.is_empty(),
        )
    });
    let result = result.await;
    opened.close().await;
    let (result, unavailable, has_no_session) = result?;
    let reasons: Vec<_> = unavailable.iter().map(|reason| printable(reason)).collect();
    if has_no_session && !reasons.is_empty() {
        anyhow::bail!(
            "none of the requested histories can be read: {}",
            reasons.join("; ")
        );
    }
    for reason in reasons {
        print_stderr(format_args!("not queried: {reason}"));
    }
    Ok((result, locations))
}

/// Queries the histories that `--source` names; without the option, all that exist.
pub(super) async fn query_named<T: Send + 'static>(
    config: &Config,
    sources: &Sources,
    query: impl FnOnce(&Library) -> Result<T, LibraryError> + Send + 'static,
) -> anyhow::Result<T> {
    let opened = open_with_ledger(config, &sources.sources, Index::Unused).await?;
    let (result, _) = query_and_close(opened, query).await?;
    result.map_err(library_error)
}

/// Prints a result about histories: with `json` in the form of the HTTP API, else the text.
pub(super) fn show_history(
    json: bool,
    result: &impl Serialize,
    text: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> anyhow::Result<()> {
    match json {
        true => print_json(&http_form(serde_json::to_value(result)?)),
        false => show(false, result, text),
    }
}

/// Converts an error of the library into one of the command line.
pub(super) fn library_error(error: LibraryError) -> anyhow::Error {
    match error {
        LibraryError::NoSession(_) => Failure::new(ErrorCode::SessionNotFound, error.to_string())
            .with_hint("`filrouge sessions list --source …` lists the sessions")
            .into(),
        LibraryError::Invalid(detail) => Usage::new(detail).into(),
        LibraryError::Unavailable(reason) => reason.into(),
        LibraryError::Unreadable(..) | LibraryError::Cancelled => anyhow::Error::new(error),
    }
}

/// Refuses an option that does not apply to the ledger.
pub(super) fn ledger_option_error(option: &str) -> Usage {
    Usage::new(format!("{option} is for the histories of other programs"))
        .with_hint(format!("name one with --source: {}", program_names()))
}

/// A time in UTC, to the second.
pub(super) fn utc_time(millis: i64) -> String {
    Timestamp::from_millis(millis).map_or_else(|| millis.to_string(), crate::output::utc_time)
}

pub(super) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    }
}

/// Reports the notices of a result, which name its omissions, one line each.
pub(super) fn print_notices(notices: &[String]) {
    for notice in notices {
        print_stderr(notice);
    }
}
