//! Converts records to messages and parts.
//!
//! | record | becomes |
//! |---|---|
//! | `response_item/message`, user | a message of the user; text that the program injected is synthetic |
//! | `response_item/message`, developer | a message of the program |
//! | `response_item`, anything the model wrote | parts of one message per response |
//! | `response_item/*_output` | the output or error of its call's tool part |
//! | `token_usage_record`, `event_msg/token_count` | tokens of the response before it |
//! | `add_compaction` | a boundary and a message with a compaction part |
//! | `event_msg/error`, `turn_aborted` | the error of the last answer |
//! | any other `event_msg` | nothing: a `response_item` has the same text |
//!
//! If the `response_item`s of a file do not contain the text, the file is read a second time, and its events become the
//! conversation.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Context;
use super::copies::CopyFilter;
use super::usage::Counter;
use crate::jsonl::{LineReader, MessageBuilder, RecordInfo};
use crate::object::{Object, Refusal};
use crate::{Boundary, PartKind, Role, SkipReason, Tokens};

/// The records that contain the text of the conversation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// The text is in `response_item`s.
    #[default]
    Items,
    /// The text is in `item_completed` events.
    Completed,
    /// The text is in events of early versions.
    Events,
}

/// The state of reading a rollout, carried from line to line.
#[derive(Default)]
pub(crate) struct RolloutState {
    /// The id of this session, as opposed to the ids of sessions from which records were copied.
    session_id: Box<str>,
    pub(super) agent: Box<str>,
    pub(super) mode: Mode,
    /// For each [`Mode`], in the order of the variants, whether its records contain text.
    pub(super) modes_with_text: [bool; 3],
    /// Recognizes copied records; `None` until the session's metadata was read.
    pub(super) copy_filter: Option<CopyFilter>,
    /// Whether the session is a fork, according to its header.
    forked: bool,
    counter: Counter,
    pub(super) model: Option<Box<str>>,
    /// The ids that messages and parts have so far.
    used_ids: HashSet<Box<str>>,
    /// The ordinals of the lines that were read, each with the hash of its content.
    read_lines: HashSet<(u64, u64)>,
    /// The hash of the previous line.
    last_line_hash: u64,
    /// The position of the message to which the model's next part is added, if there is one.
    pub(super) open_message: Option<usize>,
    /// The position of the newest answer.
    pub(super) last_answer: Option<usize>,
    /// The position of the newest answer since the user's newest message; `None` if there is none.
    pub(super) current_answer: Option<usize>,
    /// Usage that has not been added to a message yet.
    pending_usage: Tokens,
    /// The ids of calls that an event marked as failed before their output was read.
    pub(super) failed_calls: HashSet<Box<str>>,
    /// The ids of started sessions, by the id of the call that started each.
    pub(super) child_by_call: HashMap<Box<str>, Box<str>>,
    /// The latest time that was read: a record without a time gets it.
    last_time: i64,
}

impl RolloutState {
    pub(super) fn new(context: &Context, mode: Mode) -> Self {
        Self {
            session_id: context.id.clone(),
            agent: context.agent.clone(),
            mode,
            forked: context.forked,
            last_time: context.created,
            ..Self::default()
        }
    }

    /// Whether a line repeats an earlier one: the line before it, or any line with the same ordinal and content.
    fn is_repeated(&mut self, line: &str, ordinal: Option<u64>) -> bool {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let hash = hasher.finish();
        let previous = std::mem::replace(&mut self.last_line_hash, hash);
        previous == hash || ordinal.is_some_and(|ordinal| !self.read_lines.insert((ordinal, hash)))
    }

    /// Returns `id`, or an id made from the line's number if there is none. Adds the number if the id was used before
    /// in the file.
    pub(super) fn unique_id(&mut self, id: Option<Box<str>>, number: u64) -> Box<str> {
        let id = id.unwrap_or_else(|| format!("line-{number}").into());
        if self.used_ids.insert(id.clone()) {
            return id;
        }
        let id: Box<str> = format!("{id}~{number}").into();
        self.used_ids.insert(id.clone());
        id
    }

    /// Whether a record with this turn and time is a copy of another session's record.
    pub(super) fn is_copy(&mut self, turn: Option<&str>, at: i64) -> bool {
        self.copy_filter
            .as_mut()
            .is_some_and(|copy_filter| copy_filter.is_copy(turn, at))
    }

    /// Reads a `session_meta` record.
    fn read_meta(&mut self, meta: &Object<'_>, at: i64) {
        let id = meta.boxed("id").unwrap_or_else(|| self.session_id.clone());
        match &mut self.copy_filter {
            // The first `session_meta` describes this session, even if its id is not the one in the file's name.
            None => {
                let created = meta.field("timestamp").time().unwrap_or(at);
                let forked = self.forked || meta.has("forked_from_id");
                self.copy_filter = Some(CopyFilter::new(&id, created, forked));
                self.session_id = id;
            }
            Some(copy_filter) if id != self.session_id => copy_filter.set_has_other_session(),
            Some(_) => {}
        }
    }

    /// Closes the open message: the model's next part begins a new one.
    pub(super) fn close_message(&mut self) {
        self.open_message = None;
    }

    /// Ends the current answer, because a message of the user, or of a program in the user's place, was read.
    pub(super) fn end_answer(&mut self) {
        self.open_message = None;
        self.current_answer = None;
    }

    /// Returns the position of the message to which the model's next part belongs; begins a message if none is open.
    /// Copied and own parts are not in one message.
    pub(super) fn open_or_begin_answer(
        &mut self,
        builder: &mut MessageBuilder,
        record: &RecordInfo,
    ) -> usize {
        let has_same_origin = |index: &usize| {
            builder
                .messages
                .get(*index)
                .is_some_and(|m| m.copied == record.copied)
        };
        if let Some(index) = self.open_message.filter(has_same_origin) {
            return index;
        }
        let index = builder.add_record_message(record, Role::Assistant, Some(self.agent.clone()));
        if let Some(message) = builder.messages.get_mut(index) {
            message.model = self.model.clone();
        }
        (self.open_message, self.current_answer, self.last_answer) =
            (Some(index), Some(index), Some(index));
        index
    }

    /// Adds usage to the open message.
    fn add_usage(&mut self, builder: &mut MessageBuilder, tokens: Option<Tokens>, at: i64) {
        let Some(tokens) = tokens else { return };
        // Usage that is recorded while no message is open belongs to a response without a message, most often a
        // compaction. It is kept in `pending_usage`.
        match self
            .open_message
            .and_then(|index| builder.messages.get_mut(index))
        {
            Some(message) => {
                message.tokens.get_or_insert_default().add(&tokens);
                message.completed = message.completed.max(Some(at));
            }
            None => self.pending_usage.add(&tokens),
        }
    }

    /// Adds the pending usage to a message, if there is one.
    fn add_pending_usage(&mut self, builder: &mut MessageBuilder, index: Option<usize>) {
        if self.pending_usage == Tokens::default() {
            return;
        }
        if let Some(message) = index.and_then(|index| builder.messages.get_mut(index)) {
            message
                .tokens
                .get_or_insert_default()
                .add(&self.pending_usage);
            self.pending_usage = Tokens::default();
        }
    }

    /// Adds a compaction: a message with the summary, and a boundary.
    fn add_compaction(
        &mut self,
        builder: &mut MessageBuilder,
        item: &Object<'_>,
        record: &RecordInfo,
    ) {
        self.end_answer();
        let index = builder.add_record_message(record, Role::System, None);
        if let Some(message) = builder.messages.get_mut(index) {
            message.summary = true;
        }
        let automatic = item.text("trigger").map(|trigger| trigger == "auto");
        let kind = PartKind::Compaction {
            automatic: automatic.unwrap_or(false),
            summary: item.boxed("message"),
        };
        builder.add_part(index, record.id.clone(), record.at, kind);
        let boundary = Boundary {
            at: index,
            created: record.at,
            automatic,
            summary_id: Some(record.id.clone()),
        };
        builder.add_boundary(index, boundary);
        self.add_pending_usage(builder, Some(index));
    }

    fn classify_turn(&mut self, event: &Object<'_>) {
        let (thread, turn) = (event.text("thread_id"), event.text("turn_id"));
        if let Some(copy_filter) = &mut self.copy_filter {
            copy_filter.classify_turn(thread.as_deref(), turn.as_deref());
        }
    }

    /// Reads an item of the conversation. `number` is the line's number.
    fn read_item(
        &mut self,
        builder: &mut MessageBuilder,
        number: u64,
        at: i64,
        text: &str,
    ) -> Result<(), Refusal> {
        let item = Object::parse(text)?;
        let passthrough = item
            .field("internal_chat_message_metadata_passthrough")
            .object()
            .unwrap_or_default();
        let metadata = item.field("metadata").object().unwrap_or_default();
        let turn = passthrough
            .text("turn_id")
            .or_else(|| metadata.text("turn_id"));
        let copied = self.is_copy(turn.as_deref(), at);
        let id = self.unique_id(item.boxed("id"), number);
        let record = RecordInfo { id, at, copied };
        self.add_item(builder, &item, &passthrough, &record, text);
        Ok(())
    }

    /// Reads the payload of a record of this kind.
    fn read_payload(
        &mut self,
        builder: &mut MessageBuilder,
        kind: &str,
        number: u64,
        at: i64,
        payload: &str,
    ) -> Result<(), Refusal> {
        match kind {
            "session_meta" => self.read_meta(&Object::parse(payload)?, at),
            "response_item" => return self.read_item(builder, number, at, payload),
            "turn_context" => {
                let context = Object::parse(payload)?;
                self.model = context.boxed("model").or_else(|| self.model.take());
                self.classify_turn(&context);
            }
            "token_usage_record" => {
                let usage = Object::parse(payload)?;
                self.classify_turn(&usage);
                let tokens = self.counter.response_usage(&usage);
                self.add_usage(builder, tokens, at);
                self.close_message();
            }
            "compacted" => {
                let item = Object::parse(payload)?;
                let copied = self.is_copy(None, at);
                let id = self.unique_id(None, number);
                self.add_compaction(builder, &item, &RecordInfo { id, at, copied });
            }
            "event_msg" => {
                let event = Object::parse(payload)?;
                self.classify_turn(&event);
                if event.text("type").as_deref() == Some("token_count") {
                    let tokens = self.counter.running_total_increase(&event);
                    // This event follows the answer to which it belongs; the outputs of the answer's calls may be
                    // between them, and have closed the answer.
                    self.open_message = self.open_message.or(self.current_answer);
                    self.add_usage(builder, tokens, at);
                    self.close_message();
                } else {
                    self.read_event(builder, &event, number, at);
                }
            }
            "world_state" => {}
            kind => builder.count_unknown(kind),
        }
        Ok(())
    }
}

impl LineReader for RolloutState {
    fn read_line(
        &mut self,
        builder: &mut MessageBuilder,
        number: u64,
        text: &str,
    ) -> Result<(), Refusal> {
        let line = Object::parse(text)?;
        let at = line.field("timestamp").time().unwrap_or(self.last_time);
        self.last_time = self.last_time.max(at);
        if self.is_repeated(text, line.field("ordinal").number()) {
            let detail = "the same record occurs twice";
            return Err((SkipReason::DuplicateId, detail.to_owned()));
        }
        let number = line.field("ordinal").number().unwrap_or(number);
        match (line.text("type"), line.field("payload").json()) {
            (Some(kind), Some(payload)) => self.read_payload(builder, &kind, number, at, payload),
            // In the first versions, a line is an item without an envelope.
            (Some(_), None) => self.read_item(builder, number, at, text),
            (None, _) if line.has("record_type") => Ok(()),
            (None, _) if line.has("id") => {
                self.read_meta(&Object::parse(text)?, at);
                Ok(())
            }
            (None, _) => {
                let detail = "type is absent or no text";
                Err((SkipReason::BadField, detail.to_owned()))
            }
        }
    }

    fn finish(mut self, builder: &mut MessageBuilder) -> Option<Self> {
        let [items, completed, events] = self.modes_with_text;
        let mode = match self.mode {
            Mode::Items if items => None,
            Mode::Items if completed => Some(Mode::Completed),
            Mode::Items if events => Some(Mode::Events),
            _ => None,
        };
        self.add_pending_usage(builder, self.last_answer);
        let context = Context {
            id: self.session_id,
            agent: self.agent,
            forked: self.forked,
            created: 0,
        };
        mode.map(|mode| Self::new(&context, mode))
    }
}
