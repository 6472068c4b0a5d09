//! What the first messages of a session tell of it, where its own record says nothing.

use super::neutral_message::agent;
use super::order;
use crate::files::Folder;
use crate::object::Object;

/// So many messages are looked at for one that names an agent.
const FIRST_MESSAGES: usize = 4;

/// What messages tell of their session.
#[derive(Default)]
pub(super) struct First {
    pub(super) agent: Option<Box<str>>,
    pub(super) cwd: Option<Box<str>>,
    pub(super) root: Option<Box<str>>,
}

impl First {
    fn learn(&mut self, text: &str) {
        let Ok(object) = Object::parse(text) else {
            return;
        };
        let path = object.at("path").object().unwrap_or_default();
        self.agent = self.agent.take().or_else(|| agent(&object));
        self.cwd = self.cwd.take().or_else(|| path.boxed("cwd"));
        self.root = self.root.take().or_else(|| path.boxed("root"));
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
    for id in ids.iter().take(FIRST_MESSAGES) {
        if let Ok(text) = dir.text(id) {
            first.learn(&text);
        }
        if first.agent.is_some() {
            break;
        }
    }
    first
}
