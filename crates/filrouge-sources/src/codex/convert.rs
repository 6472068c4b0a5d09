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

use super::RolloutContext;
use super::copies::CopyFilter;
use super::usage::Counter;
use crate::jsonl::{LineReader, MessageBuilder, RecordInfo};
use crate::object::{Object, Result};
use crate::{Role, SkipReason, Tokens};

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
    pub(super) builder: MessageBuilder,
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
    pub(super) fn new(context: &RolloutContext) -> Self {
        Self {
            session_id: context.id.clone(),
            agent: context.agent.clone(),
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

    /// Returns the id and the time of a record, and whether it is a copy of another session's record. `turn` is the
    /// turn that it names. A record without an id gets one made from the line's number. If the id was used before in
    /// the file, the number is added to it.
    pub(super) fn record_info(
        &mut self,
        id: Option<Box<str>>,
        turn: Option<&str>,
        number: u64,
        at: i64,
    ) -> RecordInfo {
        let filter = self.copy_filter.as_mut();
        let copied = filter.is_some_and(|filter| filter.is_copy(turn, at));
        let mut id = id.unwrap_or_else(|| format!("line-{number}").into());
        if !self.used_ids.insert(id.clone()) {
            id = format!("{id}~{number}").into();
            self.used_ids.insert(id.clone());
        }
        RecordInfo { id, at, copied }
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
            Some(copy_filter) if id != self.session_id => copy_filter.has_other_session = true,
            Some(_) => {}
        }
    }

    /// Ends the current answer, because a message of the user, or of a program in the user's place, was read.
    pub(super) fn end_answer(&mut self) {
        self.open_message = None;
        self.current_answer = None;
    }

    /// Returns the position of the message to which the model's next part belongs; begins a message if none is open.
    /// Copied and own parts are not in one message.
    pub(super) fn open_or_begin_answer(&mut self, record: &RecordInfo) -> usize {
        let messages = &self.builder.messages;
        let has_same_origin = |index: &usize| messages[*index].copied == record.copied;
        if let Some(index) = self.open_message.filter(has_same_origin) {
            return index;
        }
        let agent = Some(self.agent.clone());
        let index = self.builder.add_message(record, Role::Assistant, agent);
        self.builder.messages[index].model = self.model.clone();
        (self.open_message, self.current_answer, self.last_answer) =
            (Some(index), Some(index), Some(index));
        index
    }

    /// Adds usage to the open message.
    fn add_usage(&mut self, tokens: Option<Tokens>, at: i64) {
        let Some(tokens) = tokens else { return };
        // Usage that is recorded while no message is open belongs to a response without a message, most often a
        // compaction. It is kept in `pending_usage`.
        match self.open_message {
            Some(index) => {
                let message = &mut self.builder.messages[index];
                message.tokens.get_or_insert_default().add(&tokens);
                message.completed = message.completed.max(Some(at));
            }
            None => self.pending_usage.add(&tokens),
        }
    }

    /// Adds the pending usage to a message, if there is one.
    fn add_pending_usage(&mut self, index: Option<usize>) {
        if let Some(index) = index
            && self.pending_usage != Tokens::default()
        {
            let tokens = &mut self.builder.messages[index].tokens;
            let pending = std::mem::take(&mut self.pending_usage);
            tokens.get_or_insert_default().add(&pending);
        }
    }

    /// Adds a compaction: a message with the summary, and a boundary.
    fn add_compaction(&mut self, item: &Object<'_>, record: &RecordInfo) {
        self.end_answer();
        let index = self.builder.add_message(record, Role::System, None);
        self.builder.messages[index].summary = true;
        let automatic = item.text("trigger").map(|trigger| trigger == "auto");
        let summary = item.boxed("message");
        self.builder
            .add_compaction(index, record, record.at, automatic, summary);
        self.add_pending_usage(Some(index));
    }

    fn classify_turn(&mut self, event: &Object<'_>) {
        let (thread, turn) = (event.text("thread_id"), event.text("turn_id"));
        if let Some(copy_filter) = &mut self.copy_filter {
            copy_filter.classify_turn(thread.as_deref(), turn.as_deref());
        }
    }

    /// Reads an item of the conversation. `number` is the line's number.
    fn read_item(&mut self, number: u64, at: i64, text: &str) -> Result<()> {
        let item = Object::parse(text)?;
        let passthrough = item.field("internal_chat_message_metadata_passthrough");
        let passthrough = passthrough.object().unwrap_or_default();
        let metadata = item.field("metadata").object().unwrap_or_default();
        let turn = passthrough
            .text("turn_id")
            .or_else(|| metadata.text("turn_id"));
        let record = self.record_info(item.boxed("id"), turn.as_deref(), number, at);
        self.add_item(&item, &passthrough, &record, text);
        Ok(())
    }

    /// Reads the payload of a record of this kind.
    fn read_payload(&mut self, kind: &str, number: u64, at: i64, payload: &str) -> Result<()> {
        match kind {
            "session_meta" => self.read_meta(&Object::parse(payload)?, at),
            "response_item" => return self.read_item(number, at, payload),
            "turn_context" => {
                let context = Object::parse(payload)?;
                self.model = context.boxed("model").or_else(|| self.model.take());
                self.classify_turn(&context);
            }
            "token_usage_record" => {
                let usage = Object::parse(payload)?;
                self.classify_turn(&usage);
                let tokens = self.counter.response_usage(&usage);
                self.add_usage(tokens, at);
                self.open_message = None;
            }
            "compacted" => {
                let item = Object::parse(payload)?;
                let record = self.record_info(None, None, number, at);
                self.add_compaction(&item, &record);
            }
            "event_msg" => {
                let event = Object::parse(payload)?;
                self.classify_turn(&event);
                if event.text("type").as_deref() == Some("token_count") {
                    let tokens = self.counter.running_total_increase(&event);
                    // This event follows the answer to which it belongs; the outputs of the answer's calls may be
                    // between them, and have closed the answer.
                    self.open_message = self.open_message.or(self.current_answer);
                    self.add_usage(tokens, at);
                    self.open_message = None;
                } else {
                    self.read_event(&event, number, at);
                }
            }
            "world_state" => {}
            kind => self.builder.count_unknown(kind),
        }
        Ok(())
    }
}

impl LineReader for RolloutState {
    fn builder(&mut self) -> &mut MessageBuilder {
        &mut self.builder
    }

    fn read_line(&mut self, number: u64, text: &str) -> Result<()> {
        let line = Object::parse(text)?;
        let at = line.field("timestamp").time().unwrap_or(self.last_time);
        self.last_time = self.last_time.max(at);
        if self.is_repeated(text, line.field("ordinal").number()) {
            let detail = "the same record occurs twice";
            return Err((SkipReason::DuplicateId, detail.to_owned()));
        }
        let number = line.field("ordinal").number().unwrap_or(number);
        match (line.text("type"), line.field("payload").json()) {
            (Some(kind), Some(payload)) => self.read_payload(&kind, number, at, payload),
            // In the first versions, a line is an item without an envelope.
            (Some(_), None) => self.read_item(number, at, text),
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

    fn finish(&mut self) -> Option<Self> {
        self.add_pending_usage(self.last_answer);
        let mode = match (self.mode, self.modes_with_text) {
            (Mode::Items, [false, true, _]) => Mode::Completed,
            (Mode::Items, [false, false, true]) => Mode::Events,
            _ => return None,
        };
        Some(Self {
            session_id: std::mem::take(&mut self.session_id),
            agent: std::mem::take(&mut self.agent),
            mode,
            forked: self.forked,
            ..Self::default()
        })
    }
}
