//! Reads facts about a session from its first messages, because the session's own record lacks them.

use super::neutral_message::agent;
use super::order;
use crate::files::Folder;
use crate::object::Object;

/// The maximum number of messages that are read to find one that names an agent.
const FIRST_MESSAGES_MAX: usize = 4;

/// Session facts read from messages.
#[derive(Default)]
pub(super) struct FirstMessageFacts {
    /// The time of the first message.
    pub(super) created: Option<i64>,
    pub(super) agent: Option<Box<str>>,
    /// The folder in which the session ran.
    pub(super) cwd: Option<Box<str>>,
    /// The main folder of the session's project.
    pub(super) root: Option<Box<str>>,
}

impl FirstMessageFacts {
    fn add_message(&mut self, text: &str) {
        let Ok(object) = Object::parse(text) else {
            return;
        };
        let time = object.field("time").object().unwrap_or_default();
        self.created = self.created.or_else(|| time.millis("created"));
        let path = object.field("path").object().unwrap_or_default();
        self.agent = self.agent.take().or_else(|| agent(&object));
        self.cwd = self.cwd.take().or_else(|| path.boxed("cwd"));
        self.root = self.root.take().or_else(|| path.boxed("root"));
    }
}

/// Reads facts about the session `id`; `messages` contains one folder of messages for each session. Unreadable messages
/// are ignored here, and reported when the session is read.
pub(super) fn read_first(messages: &Folder, id: &str) -> FirstMessageFacts {
    let mut facts = FirstMessageFacts::default();
    let Ok(Some(dir)) = messages.below(id) else {
        return facts;
    };
    let mut ids = dir.ids(&mut Vec::new());
    order::sort_by_id(&mut ids, String::as_str);
    for id in ids.iter().take(FIRST_MESSAGES_MAX) {
        if let Ok(text) = dir.text(id) {
            facts.add_message(&text);
        }
        if facts.agent.is_some() {
            break;
        }
    }
    facts
}
