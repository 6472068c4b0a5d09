//! Lines to messages and parts.
//!
//! | record | becomes |
//! |---|---|
//! | `response_item/message`, user | a message of the user; what the program put in is synthetic |
//! | `response_item/message`, developer | a message of the program |
//! | `response_item`, anything the model wrote | parts of one message a response |
//! | `response_item/*_output` | output or error of the tool part of its call |
//! | `token_usage_record`, `event_msg/token_count` | tokens of the response before it |
//! | `compacted` | a boundary and a message with a compaction part |
//! | `event_msg/error`, `turn_aborted` | the error of the last answer |
//! | any other `event_msg` | nothing: its text stands in a `response_item`, too |
//!
//! A file without such items is read again, and its events are the talk.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Context;
use super::copies::Copies;
use super::usage::Counter;
use crate::jsonl::{Place, Reader, Talk};
use crate::object::{Object, Refusal};
use crate::{Boundary, PartKind, Role, SkipReason, Tokens};

/// Where the talk stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// In `response_item`s.
    Items,
    /// In `item_completed` events.
    Completed,
    /// In events of early versions.
    Events,
}

/// What has to be remembered from line to line.
pub(crate) struct Lines {
    own: Box<str>,
    pub(super) agent: Box<str>,
    pub(super) mode: Mode,
    pub(super) seen: [bool; 3],
    pub(super) copies: Option<Copies>,
    forked: bool,
    counter: Counter,
    pub(super) model: Option<Box<str>>,
    ids: HashSet<Box<str>>,
    /// Lines by their place and content.
    lines: HashSet<(u64, u64)>,
    last_line: u64,
    /// The answer that is being written.
    pub(super) open: Option<usize>,
    pub(super) last_answer: Option<usize>,
    /// The last answer since the user spoke.
    pub(super) answer: Option<usize>,
    /// Usage no answer stands before.
    pending: Tokens,
    /// Calls that have failed, as events told before the output came.
    pub(super) failed: HashSet<Box<str>>,
    /// Sessions by the calls that started them.
    pub(super) children: HashMap<Box<str>, Box<str>>,
    last_time: i64,
}

impl Lines {
    pub(super) fn new(context: &Context, mode: Mode) -> Self {
        Self {
            own: context.id.clone(),
            agent: context.agent.clone(),
            mode,
            seen: [false; 3],
            copies: None,
            forked: context.forked,
            counter: Counter::default(),
            model: None,
            ids: HashSet::new(),
            lines: HashSet::new(),
            last_line: 0,
            open: None,
            last_answer: None,
            answer: None,
            pending: Tokens::default(),
            failed: HashSet::new(),
            children: HashMap::new(),
            last_time: context.created,
        }
    }

    /// Whether a line stands there a second time: at its place with its content, or right behind itself.
    fn is_repeated(&mut self, line: &str, ordinal: Option<u64>) -> bool {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let hash = hasher.finish();
        let before = std::mem::replace(&mut self.last_line, hash);
        before == hash || ordinal.is_some_and(|ordinal| !self.lines.insert((ordinal, hash)))
    }

    /// An id no other message or part of the file has.
    pub(super) fn unique(&mut self, id: Option<Box<str>>, number: u64) -> Box<str> {
        let id = id.unwrap_or_else(|| format!("line-{number}").into());
        if self.ids.insert(id.clone()) {
            return id;
        }
        let id: Box<str> = format!("{id}~{number}").into();
        self.ids.insert(id.clone());
        id
    }

    pub(super) fn is_copy(&mut self, turn: Option<&str>, at: i64) -> bool {
        self.copies
            .as_mut()
            .is_some_and(|copies| copies.is_copy(turn, at))
    }

    fn meta(&mut self, meta: &Object<'_>, at: i64) {
        let id = meta.boxed("id").unwrap_or_else(|| self.own.clone());
        match &mut self.copies {
            // The first one is the session's own, also where the file has another name.
            None => {
                let made = meta.at("timestamp").time().unwrap_or(at);
                let forked = self.forked || meta.has("forked_from_id");
                self.copies = Some(Copies::new(&id, made, forked));
                self.own = id;
            }
            Some(copies) if id != self.own => copies.meet_other(),
            Some(_) => {}
        }
    }

    /// Closes the answer that is being written.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// The user, or the program in its place, has spoken.
    pub(super) fn spoken(&mut self) {
        self.open = None;
        self.answer = None;
    }

    /// The message that what the model wrote belongs to.
    pub(super) fn answer(&mut self, talk: &mut Talk, place: &Place) -> usize {
        let same = |index: &usize| {
            talk.messages
                .get(*index)
                .is_some_and(|m| m.copied == place.copied)
        };
        if let Some(index) = self.open.filter(same) {
            return index;
        }
        let index = talk.begin(place, Role::Assistant, Some(self.agent.clone()));
        if let Some(message) = talk.messages.get_mut(index) {
            message.model = self.model.clone();
        }
        (self.open, self.answer, self.last_answer) = (Some(index), Some(index), Some(index));
        index
    }

    fn usage(&mut self, talk: &mut Talk, tokens: Option<Tokens>, at: i64) {
        let Some(tokens) = tokens else { return };
        // What comes when no answer is open is of a response without a message: of a compaction, most often.
        let answer = if self.open.is_some() { self.open } else { None };
        match answer.and_then(|index| talk.messages.get_mut(index)) {
            Some(message) => {
                message.tokens.get_or_insert_default().add(&tokens);
                message.completed = message.completed.max(Some(at));
            }
            None => self.pending.add(&tokens),
        }
    }

    /// Gives usage nobody has taken to a message.
    fn give_pending(&mut self, talk: &mut Talk, index: Option<usize>) {
        if self.pending == Tokens::default() {
            return;
        }
        if let Some(message) = index.and_then(|index| talk.messages.get_mut(index)) {
            message.tokens.get_or_insert_default().add(&self.pending);
            self.pending = Tokens::default();
        }
    }

    fn compacted(&mut self, talk: &mut Talk, item: &Object<'_>, place: &Place) {
        self.spoken();
        let index = talk.begin(place, Role::System, None);
        if let Some(message) = talk.messages.get_mut(index) {
            message.summary = true;
        }
        let automatic = item.text("trigger").map(|trigger| trigger == "auto");
        let kind = PartKind::Compaction {
            automatic: automatic.unwrap_or(false),
            summary: item.boxed("message"),
        };
        talk.part(index, place.id.clone(), place.at, kind);
        let boundary = Boundary {
            at: index,
            created: place.at,
            automatic,
            summary_id: Some(place.id.clone()),
        };
        talk.boundary(index, boundary);
        self.give_pending(talk, Some(index));
    }

    fn learn(&mut self, event: &Object<'_>) {
        let (thread, turn) = (event.text("thread_id"), event.text("turn_id"));
        if let Some(copies) = &mut self.copies {
            copies.learn(thread.as_deref(), turn.as_deref());
        }
    }

    fn item(&mut self, talk: &mut Talk, number: u64, at: i64, text: &str) -> Result<(), Refusal> {
        let item = Object::parse(text)?;
        let passed = item
            .at("internal_chat_message_metadata_passthrough")
            .object()
            .unwrap_or_default();
        let noted = item.at("metadata").object().unwrap_or_default();
        let turn = passed.text("turn_id").or_else(|| noted.text("turn_id"));
        let copied = self.is_copy(turn.as_deref(), at);
        let id = self.unique(item.boxed("id"), number);
        let place = Place { id, at, copied };
        self.take_item(talk, &item, &passed, &place, text);
        Ok(())
    }

    fn payload(
        &mut self,
        talk: &mut Talk,
        kind: &str,
        number: u64,
        at: i64,
        payload: &str,
    ) -> Result<(), Refusal> {
        match kind {
            "session_meta" => self.meta(&Object::parse(payload)?, at),
            "response_item" => return self.item(talk, number, at, payload),
            "turn_context" => {
                let context = Object::parse(payload)?;
                self.model = context.boxed("model").or_else(|| self.model.take());
                self.learn(&context);
            }
            "token_usage_record" => {
                let usage = Object::parse(payload)?;
                self.learn(&usage);
                let tokens = self.counter.response(&usage);
                self.usage(talk, tokens, at);
                self.close();
            }
            "compacted" => {
                let item = Object::parse(payload)?;
                let copied = self.is_copy(None, at);
                let id = self.unique(None, number);
                self.compacted(talk, &item, &Place { id, at, copied });
            }
            "event_msg" => {
                let event = Object::parse(payload)?;
                self.learn(&event);
                if event.text("type").as_deref() == Some("token_count") {
                    let tokens = self.counter.count(&event);
                    // Told after the answer, before or behind what its tools gave.
                    self.open = self.open.or(self.answer);
                    self.usage(talk, tokens, at);
                    self.close();
                } else {
                    self.take_event(talk, &event, number, at);
                }
            }
            "world_state" => {}
            kind => talk.unknown(kind),
        }
        Ok(())
    }
}

impl Reader for Lines {
    fn line(&mut self, talk: &mut Talk, number: u64, text: &str) -> Result<(), Refusal> {
        let line = Object::parse(text)?;
        let at = line.at("timestamp").time().unwrap_or(self.last_time);
        self.last_time = self.last_time.max(at);
        if self.is_repeated(text, line.at("ordinal").number()) {
            let detail = "the same record stands there twice";
            return Err((SkipReason::DuplicateId, detail.to_owned()));
        }
        let place = line.at("ordinal").number().unwrap_or(number);
        match (line.text("type"), line.at("payload").json()) {
            (Some(kind), Some(payload)) => self.payload(talk, &kind, place, at, payload),
            // The first versions wrote items without anything around.
            (Some(_), None) => self.item(talk, place, at, text),
            (None, _) if line.has("record_type") => Ok(()),
            (None, _) if line.has("id") => {
                self.meta(&Object::parse(text)?, at);
                Ok(())
            }
            (None, _) => {
                let detail = "type is absent or no text";
                Err((SkipReason::BadField, detail.to_owned()))
            }
        }
    }

    fn end(mut self, talk: &mut Talk) -> Option<Self> {
        let [items, completed, events] = self.seen;
        let mode = match self.mode {
            Mode::Items if items => None,
            Mode::Items if completed => Some(Mode::Completed),
            Mode::Items if events => Some(Mode::Events),
            _ => None,
        };
        self.give_pending(talk, self.last_answer);
        let context = Context {
            id: self.own,
            agent: self.agent,
            forked: self.forked,
            created: 0,
        };
        mode.map(|mode| Self::new(&context, mode))
    }
}
