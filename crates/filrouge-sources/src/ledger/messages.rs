//! Converts turns and items to messages.
//!
//! A message is a question, or everything that one agent wrote and did without interruption. A change of role, agent or
//! model begins a new message. In an imported history, the items of one original message become one message again. A
//! replaced turn is left out; only its newest version is shown. The messages are in the ledger's order.

use std::collections::{HashMap, HashSet, VecDeque};

use filrouge_engine::{Origin, usage_tokens};
use filrouge_types::{Channel, Item, ItemBody, Recorded, Role as ItemRole, Session, Turn};
use serde_json::Value;

use super::foreign_fields::{ForeignFields, text};
use super::parts::{self, ConvertedPart};
use super::units::{Units, item_name, loose_unit};
use crate::{Boundary, Conversation, Message, Part, PartKind, Role, TokenRule, Tool, ToolStatus};

/// The conversation of a session.
pub(super) fn conversation(read: Recorded) -> Conversation {
    build(&read).finish(&read.session)
}

/// The messages of a session, or of those of its turns that `read` contains. If `read` contains the entire session,
/// they equal those of [`super::LedgerSource`]. If the units are not interdependent, a unit that is read alone has the
/// same messages too.
pub fn units(read: &Recorded) -> Units {
    let builder = build(read);
    let mut messages = builder.messages.into_iter();
    let mut units: Vec<(u64, Vec<Message>)> = Vec::with_capacity(builder.units.len());
    for (at, (unit, start)) in builder.units.iter().enumerate() {
        let end = builder.units.get(at + 1).map(|(_, start)| *start);
        let count = end.map_or(usize::MAX, |end| end - start);
        units.push((*unit, messages.by_ref().take(count).collect()));
    }
    Units {
        units,
        interdependent: builder.interdependent,
        has_foreign_ids: builder.has_foreign_ids,
    }
}

fn build(read: &Recorded) -> Builder {
    let mut builder = Builder::new(Origin::of(&read.session.metadata).version);
    let mut loose = read.loose.iter().peekable();
    for (turn, items) in &read.turns {
        while let Some(item) = loose.next_if(|item| item.seq < turn.first_seq) {
            builder.add_loose_item(item);
        }
        if turn.replaced_by_turn_id.is_none() {
            builder.add_turn(turn.ordinal, items, message_ids(turn));
            builder.mark_open_turn(turn);
        }
    }
    for item in loose {
        builder.add_loose_item(item);
    }
    builder
}

/// The position of a part: the indexes of message and part.
type PartPosition = (usize, usize);

#[derive(Default)]
struct Builder {
    version: Option<Box<str>>,
    messages: Vec<Message>,
    /// Calls without a result, by call id.
    calls_without_result: HashMap<Box<str>, Vec<PartPosition>>,
    /// [`parts::known_results`] of the current turn.
    known_results: HashSet<Box<str>>,
    /// The turn's calls whose result may be redacted, oldest first.
    open_calls: VecDeque<PartPosition>,
    /// The turn's redacted calls without a result, oldest first.
    redacted_calls: VecDeque<PartPosition>,
    /// The message ids in use, each with the number of its unit: 1 for the first of `units`.
    unit_by_message_id: HashMap<Box<str>, usize>,
    /// The units, each with the index of its first message.
    units: Vec<(u64, usize)>,
    /// [`Units::interdependent`].
    interdependent: bool,
    /// [`Units::has_foreign_ids`].
    has_foreign_ids: bool,
    /// The index of the current unit's first message.
    turn_start: usize,
    /// Whether the current message begins with an item that has foreign fields of the message.
    has_foreign_fields: bool,
    /// The ids that an importer recorded for the turn's remaining messages, in reverse order.
    remaining_ids: Vec<Box<str>>,
}

impl Builder {
    fn new(version: Option<Box<str>>) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Adds the items of a turn as the unit `unit`. `ids` are the ids of its messages, where an importer recorded them.
    fn add_turn(&mut self, unit: u64, items: &[Item], mut ids: Vec<Box<str>>) {
        ids.reverse();
        self.remaining_ids = ids;
        self.turn_start = self.messages.len();
        self.units.push((unit, self.turn_start));
        self.has_foreign_fields = false;
        self.known_results = parts::known_results(items);
        self.open_calls.clear();
        self.redacted_calls.clear();
        for item in items {
            self.add_item(item);
        }
    }

    /// Adds an item outside any turn.
    fn add_loose_item(&mut self, item: &Item) {
        let unit = loose_unit(item.seq);
        self.add_turn(unit, std::slice::from_ref(item), Vec::new());
    }

    /// Adds an item to the current message, or begins a message with it.
    fn add_item(&mut self, item: &Item) {
        let foreign = ForeignFields::read(item);
        match &foreign.message {
            Some(message) => self.begin_foreign_message(item, message),
            None if self.continues_message(item) => {}
            None => self.begin_message(item),
        }
        for (index, piece) in parts::convert_parts(item, &foreign, self.has_foreign_fields)
            .into_iter()
            .enumerate()
        {
            self.add_piece(item, index, piece, &foreign);
        }
        if let Some(message) = self.messages.last_mut() {
            add_fields(message, item, &foreign, self.version.as_deref());
        }
    }

    /// Whether an item continues the current message.
    fn continues_message(&self, item: &Item) -> bool {
        let Some(message) = self.messages[self.turn_start..].last() else {
            return false;
        };
        if self.has_foreign_fields {
            return true;
        }
        let is_compatible = |current: &Option<Box<str>>, new: &Option<Box<str>>| {
            new.is_none() || current.is_none() || current == new
        };
        message.role == message_role(item)
            && message.summary == (item.body.channel == Channel::Summary)
            && is_compatible(&message.agent, &item.body.agent)
            && is_compatible(&message.model, &item.body.model)
    }

    fn begin_message(&mut self, item: &Item) {
        let id = item_name(item);
        // An id `seq-…` could equal the id that is generated for another item, which has none.
        self.has_foreign_ids |= item.body.item_id.is_some() && id.starts_with("seq-");
        let mut message = self.new_message(id, item, message_role(item));
        message.summary = item.body.channel == Channel::Summary;
        self.messages.push(message);
        self.has_foreign_fields = false;
    }

    fn begin_foreign_message(&mut self, item: &Item, fields: &Value) {
        let time = |pointer: &str| fields.pointer(pointer).and_then(Value::as_i64);
        // The foreign fields lack the message's id where its storage keeps it outside the record.
        let recorded_id = self.remaining_ids.pop();
        let id = text(fields, "/id").or(recorded_id);
        let id = id.unwrap_or_else(|| format!("seq-{}", item.seq).into());
        self.has_foreign_ids = true;
        // Some programs do not record the role in the message itself.
        let role = text(fields, "/role").and_then(|role| role.parse().ok());
        let role = role.unwrap_or_else(|| message_role(item));
        let mut message = self.new_message(id, item, role);
        message.created = time("/time/created").unwrap_or(message.created);
        message.completed = time("/time/completed");
        message.parent_id = text(fields, "/parentID");
        message.finish = text(fields, "/finish");
        // In a user's message, the field `summary` is an object.
        message.summary = fields.get("summary") == Some(&Value::Bool(true));
        self.messages.push(message);
        self.has_foreign_fields = true;
    }

    /// Creates a message without parts. Ids of other programs can occur twice; a repeated id gets a suffix, so that
    /// every message has a unique id.
    fn new_message(&mut self, id: Box<str>, item: &Item, role: Role) -> Message {
        let unit_number = self.units.len();
        let id = match self.unit_by_message_id.get(&id) {
            Some(unit) => {
                self.interdependent |= *unit != unit_number;
                format!("{id}~{}", item.seq).into()
            }
            None => id,
        };
        self.unit_by_message_id.insert(id.clone(), unit_number);
        let question = self.messages.get(self.turn_start);
        let question = question.filter(|first| first.role == Role::User && role == Role::Assistant);
        Message {
            seq: Some(item.seq),
            parent_id: question.map(|question| question.id.clone()),
            ..Message::new(id, role, item_time(item))
        }
    }

    fn add_piece(
        &mut self,
        item: &Item,
        index: usize,
        piece: ConvertedPart,
        foreign: &ForeignFields,
    ) {
        match piece {
            ConvertedPart::Part(kind) => self.add_part(item, index, kind),
            ConvertedPart::Error(error) => {
                if let Some(message) = self.messages.last_mut() {
                    message.error = Some(error);
                }
            }
            ConvertedPart::Result(result) => self.add_result(item, index, result, foreign),
        }
    }

    fn add_part(&mut self, item: &Item, index: usize, kind: PartKind) {
        let message_index = self.messages.len() - 1;
        let message = &mut self.messages[message_index];
        if let PartKind::Tool(tool) = &kind
            && tool.status == ToolStatus::Running
        {
            let position = (message_index, message.parts.len());
            if item.redacted {
                self.redacted_calls.push_back(position);
            } else {
                let calls = self.calls_without_result.entry(tool.call_id.clone());
                calls.or_default().push(position);
                if !self.known_results.contains(&tool.call_id) {
                    self.open_calls.push_back(position);
                }
            }
        }
        message.parts.push(Part {
            id: part_id(item, index),
            seq: Some(item.seq),
            start: Some(item_time(item)),
            end: None,
            kind,
        });
    }

    /// Takes the oldest call of the turn to which a result can belong if the id of the result or of the call was
    /// redacted.
    fn take_redacted_call(&mut self, is_result_redacted: bool) -> Option<PartPosition> {
        let is_open_first = match (self.open_calls.front(), self.redacted_calls.front()) {
            (Some(open), Some(redacted)) => open < redacted,
            (open, _) => open.is_some(),
        };
        match is_result_redacted && is_open_first {
            true => self.open_calls.pop_front(),
            false => self.redacted_calls.pop_front(),
        }
    }

    /// Adds a result to the newest call that has the result's call id and no result yet, or to a call that fits if one
    /// of the ids was redacted. If there is none, the result becomes a part of its own.
    fn add_result(
        &mut self,
        item: &Item,
        index: usize,
        mut result: Box<Tool>,
        foreign: &ForeignFields,
    ) {
        let calls = self.calls_without_result.get_mut(&result.call_id);
        let call = calls.filter(|_| !item.redacted).and_then(Vec::pop);
        let call = call.or_else(|| self.take_redacted_call(item.redacted));
        self.interdependent |= call.is_none_or(|(message, _)| message < self.turn_start);
        let part =
            call.and_then(|(message, part)| self.messages.get_mut(message)?.parts.get_mut(part));
        let Some(part) = part else {
            foreign.add_changes(&mut result);
            return self.add_part(item, index, PartKind::Tool(result));
        };
        part.end = Some(item_time(item));
        if let PartKind::Tool(call) = &mut part.kind {
            **call = Tool {
                call_id: std::mem::take(&mut call.call_id),
                name: std::mem::take(&mut call.name),
                input: std::mem::take(&mut call.input),
                result: Some(item.seq),
                ..*result
            };
            foreign.add_changes(call);
        }
    }

    /// If the turn is open, marks its last message as incomplete. Does not change messages with foreign fields,
    /// which have recorded times.
    fn mark_open_turn(&mut self, turn: &Turn) {
        if let Some(last) = self.messages[self.turn_start..].last_mut()
            && !turn.status.is_closed()
            && last.role == Role::Assistant
            && !self.has_foreign_fields
        {
            last.completed = None;
        }
    }

    fn finish(self, session: &Session) -> Conversation {
        let reverted = reverted_message_id(session);
        let mut messages = self.messages.iter();
        Conversation {
            boundaries: boundaries(&self.messages),
            reverted_at: reverted.and_then(|id| messages.position(|message| *message.id == *id)),
            messages: self.messages,
            token_rule: TokenRule::Ledger,
            skipped: Vec::new(),
        }
    }
}

/// Adds an item's fields to its message.
fn add_fields(message: &mut Message, item: &Item, foreign: &ForeignFields, version: Option<&str>) {
    let ItemBody {
        channel,
        agent,
        model,
        usage,
        ..
    } = &item.body;
    if message.agent.is_none() {
        message.agent.clone_from(agent);
    }
    if message.model.is_none() {
        message.model.clone_from(model);
    }
    if message.role == Role::Assistant && message.finish.is_none() && *channel == Channel::Final {
        message.finish = Some("stop".into());
    }
    // For imported messages, the foreign fields determine the time of completion.
    if *channel != Channel::Question && foreign.message.is_none() {
        message.completed = message.completed.max(Some(item_time(item)));
    }
    let Some(usage) = usage else {
        return;
    };
    let usage: Value = serde_json::from_str(usage.as_str()).unwrap_or_default();
    if let Some(more) = usage_tokens(&usage, version) {
        message.tokens.get_or_insert_default().add(&more);
    }
    if let Some(cost) = usage.get("cost").and_then(Value::as_f64) {
        message.cost = Some(message.cost.unwrap_or(0.0) + cost);
    }
}

/// The ids of the messages from which an import built the turn; empty for a turn that was not imported.
fn message_ids(turn: &Turn) -> Vec<Box<str>> {
    let metadata: Value = serde_json::from_str(turn.metadata.as_str()).unwrap_or_default();
    let programs = ["opencode", "claude_code", "codex"].iter();
    let ids = programs.filter_map(|program| metadata.get(program)?.get("messages")?.as_array());
    let ids = ids.flatten().filter_map(Value::as_str);
    ids.map(Into::into).collect()
}

fn item_time(item: &Item) -> i64 {
    item.when().as_millis()
}

fn message_role(item: &Item) -> Role {
    match (item.body.role, &item.body.channel) {
        (_, Channel::SystemNote) | (ItemRole::System, _) => Role::System,
        (ItemRole::User, _) => Role::User,
        (ItemRole::Assistant | ItemRole::Tool, _) => Role::Assistant,
    }
}

/// The id of a part. A call and its result are one part, with the id of the call.
fn part_id(item: &Item, index: usize) -> Box<str> {
    let id = item_name(item);
    let call = id.strip_suffix(":call");
    let id = call.or_else(|| id.strip_suffix(":result")).unwrap_or(&id);
    match index {
        0 => id.into(),
        index => format!("{id}.{index}").into(),
    }
}

/// The compactions: each summary replaces the messages before it. In imported histories, the message directly before
/// the summary can be the request for the compaction, which then begins with that message.
fn boundaries(messages: &[Message]) -> Vec<Boundary> {
    let request_of = |message: &Message| {
        let automatic = message.parts.iter().find_map(|part| match part.kind {
            PartKind::Compaction {
                automatic,
                summary: None,
            } => Some(automatic),
            _ => None,
        });
        automatic.filter(|_| message.role == Role::User)
    };
    let summaries = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| message.summary);
    let boundary = |(index, summary): (usize, &Message)| {
        let before = index.checked_sub(1);
        let request = before.and_then(|at| Some((at, request_of(messages.get(at)?)?)));
        Boundary {
            at: request.map_or(index, |(at, _)| at),
            created: summary.created,
            automatic: request.map(|(_, automatic)| automatic),
            summary_id: Some(summary.id.clone()),
        }
    };
    summaries.map(boundary).collect()
}

/// The id of the first message that the user of an imported history reverted.
fn reverted_message_id(session: &Session) -> Option<String> {
    let metadata: Value = serde_json::from_str(session.metadata.as_str()).ok()?;
    let id = metadata.pointer("/opencode/revert/messageID")?.as_str()?;
    Some(id.to_owned())
}
