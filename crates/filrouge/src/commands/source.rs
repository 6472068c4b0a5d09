//! Shared code of commands with `--source`: the library they query, how its errors are reported, and parts of their
//! output.

use std::time::Duration;

use filrouge_sources::{Library, LibraryError, Role};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use crate::cli::{Sources, programs};
use crate::config::Config;
use crate::config::sources::{OpenLibrary, open_with_ledger};
use crate::exit::Usage;
use crate::open::Index;
use crate::output::{first_line, printable, say};

/// [`unlisted`] reuses a listing of at most this age: the one that the answer used.
const LISTING_AGE_MAX: Duration = Duration::from_secs(60);

/// The answer, and the places that were queried.
pub(super) struct SourceReply<T> {
    pub(super) answer: T,
    pub(super) places: Vec<String>,
}

/// Queries open histories, and closes them. Histories that cannot be read are reported on stderr.
pub(super) async fn query_and_close<T: Send + 'static>(
    mut opened: OpenLibrary,
    query: impl FnOnce(&Library) -> Result<T, LibraryError> + Send + 'static,
) -> anyhow::Result<SourceReply<T>> {
    let places = std::mem::take(&mut opened.found.places);
    for note in &opened.found.notes {
        say(note);
    }
    let answer = opened.query(|library| {
        let answer = query(library);
        (answer, unlisted(library))
    });
    let answer = answer.await;
    opened.close().await;
    let (answer, unlisted) = answer?;
    unlisted.check()?;
    Ok(SourceReply {
        answer: answer.map_err(library_error)?,
        places,
    })
}

/// Histories that exist and cannot be listed.
pub(super) struct Unlisted {
    reasons: Vec<String>,
    /// Whether there are such histories, and the other histories have no session.
    is_all: bool,
}

/// Finds the histories of the library that exist and cannot be listed.
pub(super) fn unlisted(library: &Library) -> Unlisted {
    let catalog = library.catalog_within(LISTING_AGE_MAX);
    let reasons = catalog.unavailable.clone();
    let is_all = !reasons.is_empty() && catalog.entries.is_empty();
    Unlisted { reasons, is_all }
}

impl Unlisted {
    /// Reports these histories on stderr. Fails when the other histories have no session, because an empty answer would
    /// mislead.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let reasons: Vec<_> = self.reasons.iter().map(|why| printable(why)).collect();
        if self.is_all {
            anyhow::bail!(
                "none of the requested histories can be read: {}",
                reasons.join("; ")
            );
        }
        for why in reasons {
            say(format_args!("not queried: {why}"));
        }
        Ok(())
    }
}

/// Queries the histories that `--source` names; without the option, all that exist.
pub(super) async fn query_named<T: Send + 'static>(
    config: &Config,
    sources: &Sources,
    query: impl FnOnce(&Library) -> Result<T, LibraryError> + Send + 'static,
) -> anyhow::Result<T> {
    let opened = open_with_ledger(config, &sources.sources, Index::Unused).await?;
    Ok(query_and_close(opened, query).await?.answer)
}

/// Converts an error of the library into one of the command line.
pub(super) fn library_error(error: LibraryError) -> anyhow::Error {
    match error {
        LibraryError::NoSession(_) => Failure::new(ErrorCode::SessionNotFound, error.to_string())
            .with_hint("`filrouge sessions list --source …` lists the sessions")
            .into(),
        LibraryError::Invalid(what) => Usage::new(what).into(),
        LibraryError::Unavailable(why) => why.into(),
        LibraryError::Unreadable(..) | LibraryError::Cancelled => anyhow::Error::new(error),
    }
}

/// Refuses an option that does not apply to the ledger.
pub(super) fn not_for_ledger(option: &str) -> Usage {
    Usage::new(format!("{option} is for the histories of other programs"))
        .with_hint(format!("name one with --source: {}", programs()))
}

/// A time in UTC, to the second.
pub(super) fn second(millis: i64) -> String {
    Timestamp::from_millis(millis).map_or_else(|| millis.to_string(), crate::output::second)
}

/// The text of a table's cell.
pub(super) fn cell(text: Option<&str>, max: usize) -> String {
    first_line(text.unwrap_or(""), max)
}

pub(super) const fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    }
}

/// Reports what the answer leaves out, one line each.
pub(super) fn say_notices(notices: &[String]) {
    for notice in notices {
        say(printable(notice));
    }
}
