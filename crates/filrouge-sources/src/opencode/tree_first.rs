//! What the first messages of a session tell of it, where its own record says nothing.

use std::borrow::Cow;

use serde::Deserialize;

use super::order;
use crate::files::Folder;

/// So many messages are looked at for one that names an agent.
const FIRST_MESSAGES: usize = 4;

/// What messages tell of their session.
#[derive(Default)]
pub(super) struct First {
    pub(super) agent: Option<Box<str>>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) root: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Facts<'a> {
    #[serde(borrow)]
    agent: Option<Cow<'a, str>>,
    mode: Option<Cow<'a, str>>,
    path: Option<Places<'a>>,
}

#[derive(Deserialize)]
struct Places<'a> {
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    root: Option<Cow<'a, str>>,
}

impl First {
    fn learn(&mut self, text: &[u8]) {
        let Ok(facts) = serde_json::from_slice::<Facts<'_>>(text) else {
            return;
        };
        let own = |text: Option<Cow<'_, str>>| text.map(|t| t.into_owned().into());
        self.agent = self.agent.take().or(own(facts.agent.or(facts.mode)));
        if let Some(path) = facts.path {
            self.cwd = self.cwd.take().or(own(path.cwd));
            self.root = self.root.take().or(own(path.root));
        }
    }
}

/// What the first messages tell. One that cannot be read is named when the session is read.
pub(super) fn first(messages: &Folder, id: &str) -> First {
    let mut first = First::default();
    let Ok(Some(dir)) = messages.below(id) else {
        return first;
    };
    let mut ids = dir.ids(&mut Vec::new());
    order::by_id(&mut ids, String::as_str);
    let mut bytes = Vec::new();
    for id in ids.iter().take(FIRST_MESSAGES) {
        if dir.read(id, &mut bytes).is_ok() {
            first.learn(&bytes);
        }
        if first.agent.is_some() {
            break;
        }
    }
    first
}
