//! Finds fields that still have words of redacted items. A redaction erases the contents of items, but not these fields.

use std::collections::HashSet;

use filrouge_engine::{Caller, Engine, PatchSession};
use filrouge_types::{Failure, Item, RawJson, SessionId};

/// The minimum length of a compared word in characters: shorter ones occur everywhere.
const WORD_CHARS_MIN: usize = 4;
/// The number of events per page.
const PAGE_EVENTS: usize = 500;

/// The fields of a session that have words of some of its items.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Whether the title has some. It can be removed.
    pub(super) title: bool,
    /// The names of the other fields.
    others: Vec<String>,
}

impl Leftovers {
    /// Compares the fields of a session with the contents of these items.
    pub(super) async fn find(
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
        let fields = [
            ("state", session.state.as_deref()),
            ("metadata", Some(session.metadata.as_str())),
        ];
        let fields = fields
            .into_iter()
            .filter(|(_, text)| text.is_some_and(has_words));
        found.others.extend(fields.map(|(name, _)| name.to_owned()));
        for item in items {
            let annotations = item.body.annotations();
            let labels = annotations
                .labels
                .map(|(name, label)| (name, label.as_deref()));
            let json =
                |json: &Option<RawJson>| json.as_ref().is_some_and(|json| has_words(json.as_str()));
            let labels = labels
                .into_iter()
                .filter(|(_, text)| text.is_some_and(has_words));
            let objects = annotations
                .objects
                .into_iter()
                .filter(|(_, object)| json(object));
            let names = labels
                .map(|(name, _)| name)
                .chain(objects.map(|(name, _)| name));
            found
                .others
                .extend(names.map(|name| format!("{name} of item {}", item.seq)));
        }
        let mut after = Some(0);
        while let Some(number) = after {
            let (events, next) = engine.events.list(caller, id, number, PAGE_EVENTS).await?;
            let held = |json: &RawJson| has_words(json.as_str());
            let events = events
                .into_iter()
                .filter(|event| event.detail.as_ref().is_some_and(held));
            found
                .others
                .extend(events.map(|event| format!("detail of event {}", event.key.as_str())));
            after = next.and_then(|next| next.parse().ok());
        }
        Ok(found)
    }

    /// The names of the fields.
    pub(super) fn names(&self) -> Vec<&str> {
        let title = self.title.then_some("title").into_iter();
        title
            .chain(self.others.iter().map(String::as_str))
            .collect()
    }

    /// Removes the title.
    pub(super) async fn remove_title(
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
