//! What commands with `--source` share: the library they ask, how its refusals are told, and words of its answers.

use std::time::Duration;

use filrouge_sources::{Library, LibraryError, Role};
use filrouge_types::{ErrorCode, Failure, Timestamp};

use crate::cli::{Sources, programs};
use crate::config::Config;
use crate::config::sources::{Everything, everything};
use crate::exit::Usage;
use crate::open::Index;
use crate::output::{first_line, printable, say};

/// What an answer went by is not listed again to tell what could not be.
const ANSWERED: Duration = Duration::from_secs(60);

/// Where was looked, and what was answered.
pub(super) struct Reply<T> {
    pub(super) answer: T,
    pub(super) places: Vec<String>,
}

/// Asks histories that are open. What cannot be read is reported on stderr.
pub(super) async fn ask_in<T: Send + 'static>(
    mut all: Everything,
    question: impl FnOnce(&Library) -> Result<T, LibraryError> + Send + 'static,
) -> anyhow::Result<Reply<T>> {
    let places = std::mem::take(&mut all.found.places);
    for note in &all.found.notes {
        say(note);
    }
    let answer = all.ask(|library| {
        let answer = question(library);
        (answer, unlisted(library))
    });
    let answer = answer.await;
    all.close().await;
    let (answer, unlisted) = answer?;
    unlisted.told()?;
    Ok(Reply {
        answer: answer.map_err(refused)?,
        places,
    })
}

/// Histories that are there and cannot be listed.
pub(super) struct Unlisted {
    why: Vec<String>,
    /// Whether no session is in any other.
    is_all: bool,
}

pub(super) fn unlisted(library: &Library) -> Unlisted {
    let catalog = library.catalog_within(ANSWERED);
    let why = catalog.unavailable.clone();
    let is_all = !why.is_empty() && catalog.entries.is_empty();
    Unlisted { why, is_all }
}

impl Unlisted {
    /// Tells of them on stderr; when nothing else was asked, an empty answer would be none.
    pub(super) fn told(&self) -> anyhow::Result<()> {
        let why: Vec<_> = self.why.iter().map(|why| printable(why)).collect();
        if self.is_all {
            anyhow::bail!("no history that was asked can be read: {}", why.join("; "));
        }
        for why in why {
            say(format_args!("not asked: {why}"));
        }
        Ok(())
    }
}

/// Asks the histories that `--source` names, without it all that are there.
pub(super) async fn ask_named<T: Send + 'static>(
    config: &Config,
    sources: &Sources,
    question: impl FnOnce(&Library) -> Result<T, LibraryError> + Send + 'static,
) -> anyhow::Result<T> {
    let all = everything(config, &sources.sources, Index::Unused).await?;
    Ok(ask_in(all, question).await?.answer)
}

/// A refusal in the words of the command line.
pub(super) fn refused(error: LibraryError) -> anyhow::Error {
    match error {
        LibraryError::NoSession(_) => Failure::new(ErrorCode::SessionNotFound, error.to_string())
            .with_hint("`filrouge sessions list --source …` names the sessions there are")
            .into(),
        LibraryError::Invalid(what) => Usage::new(what).into(),
        LibraryError::Unavailable(why) => why.into(),
        LibraryError::Unreadable(..) | LibraryError::GivenUp => anyhow::Error::new(error),
    }
}

/// Options that say nothing of the ledger's own form.
pub(super) fn for_other_sources(option: &str) -> Usage {
    Usage::new(format!("{option} is for the histories of other programs"))
        .with_hint(format!("name one with --source: {}", programs()))
}

/// A time in UTC, to the second.
pub(super) fn second(millis: i64) -> String {
    Timestamp::from_millis(millis).map_or_else(|| millis.to_string(), crate::output::second)
}

/// A text of a table's cell.
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

/// What was left out, a line each.
pub(super) fn say_notices(notices: &[String]) {
    for notice in notices {
        say(printable(notice));
    }
}
