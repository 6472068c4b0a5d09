//! Finds fields that still have words of redacted items. A redaction erases the contents of items, but not these fields.

use std::collections::HashSet;

use filrouge_types::{Failure, Item, RawJson, SessionId};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::requests::PatchSession;

/// The minimum length of a compared word in characters: shorter ones occur everywhere.
const WORD_CHARS_MIN: usize = 4;
/// The number of events per page.
const PAGE_EVENTS: usize = 500;

/// The fields of a session that have words of some of its items.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Whether the title has some. It can be removed.
    pub title: bool,
    /// The names of the other fields.
    others: Vec<String>,
}

impl Leftovers {
    /// Compares the fields of a session with the contents of these items.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`, and the ledger's errors.
    pub async fn find(
        engine: &Engine,
        caller: &Caller,
        id: &SessionId,
        items: &[Item],
    ) -> Result<Self, Failure> {
        let mut words = HashSet::new();
        for item in items.iter().filter(|item| !item.redacted) {
            words.extend(words_of(&item.body.display_text()));
        }
        let mut found = Self::default();
        if words.is_empty() {
            return Ok(found);
        }
        let has_words = |text: &str| words_of(text).any(|word| words.contains(&word));
        let session = engine.sessions.get(caller, id).await?;
        found.title = session.title.as_deref().is_some_and(has_words);
        let state = ("state", session.state.as_deref());
        let metadata = ("metadata", Some(session.metadata.as_str()));
        for (name, text) in [state, metadata] {
            if text.is_some_and(has_words) {
                found.others.push(name.to_owned());
            }
        }
        for item in items {
            let annotations = item.body.annotations();
            let labels = annotations.labels.into_iter();
            let labels = labels.map(|(name, label)| (name, label.as_deref()));
            let objects = annotations.objects.into_iter();
            let objects = objects.map(|(name, json)| (name, json.as_ref().map(RawJson::as_str)));
            for (name, text) in labels.chain(objects) {
                if text.is_some_and(has_words) {
                    found.others.push(format!("{name} of item {}", item.seq));
                }
            }
        }
        let mut after = Some(0);
        while let Some(number) = after {
            let (events, next) = engine.events.list(caller, id, number, PAGE_EVENTS).await?;
            for event in events {
                if event.detail.is_some_and(|json| has_words(json.as_str())) {
                    let key = event.key.as_str();
                    found.others.push(format!("detail of event {key}"));
                }
            }
            after = next.and_then(|next| next.parse().ok());
        }
        Ok(found)
    }

    /// The names of the fields.
    pub fn names(&self) -> Vec<&str> {
        let title = self.title.then_some("title").into_iter();
        title
            .chain(self.others.iter().map(String::as_str))
            .collect()
    }

    /// Removes the title.
    ///
    /// # Errors
    /// As [`Sessions::patch`](crate::Sessions::patch).
    pub async fn remove_title(
        &mut self,
        engine: &Engine,
        caller: &Caller,
        id: &SessionId,
    ) -> Result<(), Failure> {
        let patch = PatchSession {
            title: Some(None),
            ..PatchSession::default()
        };
        engine
            .sessions
            .patch(caller, id.clone(), patch, None)
            .await?;
        self.title = false;
        Ok(())
    }
}

/// The words of a text in lower case.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() >= WORD_CHARS_MIN);
    long.map(str::to_lowercase)
}
