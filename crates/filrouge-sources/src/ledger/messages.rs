//! Converts turns and items to messages.
//!
//! A message is a question, or everything that one agent wrote and did without interruption. A change of role, agent or
//! model begins a new message. In an imported history, the items of one original message become one message again. A
//! replaced turn is left out; only its newest version is shown. The messages are in the ledger's order.

use std::collections::HashMap;

use filrouge_engine::{Origin, usage_tokens};
use filrouge_types::{Channel, Item, ItemBody, Recorded, Role as ItemRole, Session, Turn};
use serde_json::Value;

use super::notes::{Noted, Notes};
use super::parts::{self, PartPiece};
use super::rows::millis;
use super::units::{Units, item_name, loose_unit};
use crate::{Boundary, Conversation, Message, Part, PartKind, Role, TokenRule, Tool, ToolStatus};

/// The conversation of a session.
pub(super) fn conversation(read: Recorded) -> Conversation {
    build(&read).finish(&read.session)
}

/// The messages of a session's turns and items, grouped by unit.
pub(super) fn units(read: &Recorded) -> Units {
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
        entangled: builder.entangled,
        foreign: builder.foreign,
    }
}

fn build(read: &Recorded) -> Builder {
    let mut builder = Builder::new(Origin::of(&read.session.metadata).version);
    let mut loose = read.loose.iter().peekable();
    for (turn, items) in &read.turns {
        while let Some(item) = loose.next_if(|item| item.seq < turn.first_seq) {
            builder.loose(item);
        }
        if turn.replaced_by_turn_id.is_none() {
            builder.turn(turn.ordinal, items, message_ids(turn));
            builder.end(turn);
        }
    }
    for item in loose {
        builder.loose(item);
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
    waiting: HashMap<Box<str>, Vec<PartPosition>>,
    /// The message ids in use, each with the number of its unit: 1 for the first of `units`.
    ids: HashMap<Box<str>, usize>,
    /// The units, each with the index of its first message.
    units: Vec<(u64, usize)>,
    /// [`Units::entangled`].
    entangled: bool,
    /// [`Units::foreign`].
    foreign: bool,
    /// The index of the current unit's first message.
    turn_start: usize,
    /// Whether the current message begins with an item that has an importer's notes about the message.
    noted: bool,
    /// The ids that an importer recorded for the turn's remaining messages, in reverse order.
    remaining: Vec<Box<str>>,
}

impl Builder {
    fn new(version: Option<Box<str>>) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Adds the items of a turn. `ids` are the ids of its messages, where an importer recorded them.
    fn turn(&mut self, unit: u64, items: &[Item], mut ids: Vec<Box<str>>) {
        ids.reverse();
        self.remaining = ids;
        self.turn_start = self.messages.len();
        self.units.push((unit, self.turn_start));
        self.noted = false;
        for item in items {
            self.item(item);
        }
    }

    /// Adds an item outside any turn.
    fn loose(&mut self, item: &Item) {
        let unit = loose_unit(item.seq);
        self.turn(unit, std::slice::from_ref(item), Vec::new());
    }

    fn item(&mut self, item: &Item) {
        let notes = Notes::of(item);
        match &notes.message {
            Some(message) => self.begin_noted(item, message),
            None if self.continues_message(item) => {}
            None => self.begin(item),
        }
        for (index, piece) in parts::pieces(item, &notes, self.noted)
            .into_iter()
            .enumerate()
        {
            self.piece(item, index, piece);
        }
        let version = self.version.take();
        if let Some(message) = self.messages.last_mut() {
            add(message, item, &notes, version.as_deref());
        }
        self.version = version;
    }

    /// Whether an item continues the current message.
    fn continues_message(&self, item: &Item) -> bool {
        let messages = self.messages.get(self.turn_start..).unwrap_or_default();
        let Some(message) = messages.last() else {
            return false;
        };
        if self.noted {
            return true;
        }
        let same = |own: &Option<Box<str>>, new: &Option<Box<str>>| {
            new.is_none() || own.is_none() || own == new
        };
        message.role == role(item)
            && message.summary == (item.body.channel == Channel::Summary)
            && same(&message.agent, &item.body.agent)
            && same(&message.model, &item.body.model)
    }

    fn begin(&mut self, item: &Item) {
        let id = item_name(item);
        // Such an id could equal one that is generated for an item without an id.
        self.foreign |= item.body.item_id.is_some() && id.starts_with("seq-");
        let mut message = self.empty(id, item, role(item));
        message.summary = item.body.channel == Channel::Summary;
        self.messages.push(message);
        self.noted = false;
    }

    fn begin_noted(&mut self, item: &Item, message: &Value) {
        let noted = Noted(message);
        // The notes lack the message's id where its storage keeps it outside the record.
        let remaining = self.remaining.pop();
        let id = noted.text("/id").or(remaining);
        let id = id.unwrap_or_else(|| format!("seq-{}", item.seq).into());
        self.foreign = true;
        let mut message = self.empty(id, item, noted.role().unwrap_or_else(|| role(item)));
        message.created = noted.time("/time/created").unwrap_or(message.created);
        message.completed = noted.time("/time/completed");
        message.parent_id = noted.text("/parentID");
        message.finish = noted.text("/finish");
        message.summary = noted.summary();
        self.messages.push(message);
        self.noted = true;
    }

    /// Creates a message without parts. Ids of other programs can occur twice; a repeated id gets a suffix, so that
    /// every message has a unique id.
    fn empty(&mut self, id: Box<str>, item: &Item, role: Role) -> Message {
        let turn_number = self.units.len();
        let id = match self.ids.get(&id) {
            Some(unit) => {
                self.entangled |= *unit != turn_number;
                format!("{id}~{}", item.seq).into()
            }
            None => id,
        };
        self.ids.insert(id.clone(), turn_number);
        let question = self.messages.get(self.turn_start);
        let question = question.filter(|first| first.role == Role::User && role == Role::Assistant);
        Message {
            seq: Some(item.seq),
            parent_id: question.map(|question| question.id.clone()),
            ..Message::new(id, role, at(item))
        }
    }

    fn piece(&mut self, item: &Item, index: usize, piece: PartPiece) {
        match piece {
            PartPiece::Part(kind) => self.push(item, index, kind),
            PartPiece::Error(error) => {
                if let Some(message) = self.messages.last_mut() {
                    message.error = Some(error);
                }
            }
            PartPiece::Result(result) => self.join(item, index, result),
        }
    }

    fn push(&mut self, item: &Item, index: usize, kind: PartKind) {
        let Some(at_message) = self.messages.len().checked_sub(1) else {
            return;
        };
        let message = &mut self.messages[at_message];
        if let PartKind::Tool(tool) = &kind
            && tool.status == ToolStatus::Running
        {
            let position = (at_message, message.parts.len());
            let id = tool.call_id.clone();
            self.waiting.entry(id).or_default().push(position);
        }
        message.parts.push(Part {
            id: part_id(item, index),
            seq: Some(item.seq),
            start: Some(at(item)),
            end: None,
            kind,
        });
    }

    /// Adds a result to the newest call that has the result's call id and no result yet. If there is none, the result
    /// becomes a part of its own.
    fn join(&mut self, item: &Item, index: usize, result: Box<Tool>) {
        let waiting = self.waiting.get_mut(&result.call_id).and_then(Vec::pop);
        self.entangled |= waiting.is_none_or(|(message, _)| message < self.turn_start);
        let part =
            waiting.and_then(|(message, part)| self.messages.get_mut(message)?.parts.get_mut(part));
        let Some(part) = part else {
            return self.push(item, index, PartKind::Tool(result));
        };
        part.end = Some(at(item));
        if let PartKind::Tool(call) = &mut part.kind {
            **call = Tool {
                call_id: std::mem::take(&mut call.call_id),
                name: std::mem::take(&mut call.name),
                input: std::mem::take(&mut call.input),
                result: Some(item.seq),
                ..*result
            };
        }
    }

    /// If the turn is open, marks its last message as incomplete. Does not change messages with an importer's notes,
    /// which have recorded times.
    fn end(&mut self, turn: &Turn) {
        let open = !turn.status.is_closed();
        if let Some(last) = self
            .messages
            .get_mut(self.turn_start..)
            .and_then(<[_]>::last_mut)
            && open
            && last.role == Role::Assistant
            && !self.noted
        {
            last.completed = None;
        }
    }

    fn finish(self, session: &Session) -> Conversation {
        let mut conversation = Conversation {
            boundaries: boundaries(&self.messages),
            messages: self.messages,
            reverted_at: None,
            token_rule: TokenRule::Ledger,
            skipped: Vec::new(),
        };
        let reverted = reverted(session);
        let mut messages = conversation.messages.iter();
        conversation.reverted_at =
            reverted.and_then(|id| messages.position(|message| *message.id == *id));
        conversation
    }
}

/// Adds an item's fields to its message.
fn add(message: &mut Message, item: &Item, notes: &Notes, version: Option<&str>) {
    let ItemBody {
        item_id: _,
        role: _,
        channel,
        variant: _,
        parts: _,
        agent,
        model,
        usage,
        metadata: _,
        occurred_at: _,
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
    // For imported messages, the importer's notes determine the time of completion.
    if *channel != Channel::Question && notes.message.is_none() {
        message.completed = message.completed.max(Some(at(item)));
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

fn at(item: &Item) -> i64 {
    millis(item.when())
}

fn role(item: &Item) -> Role {
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
        more => format!("{id}.{more}").into(),
    }
}

/// The compactions: each summary replaces the messages before it. If the message directly before the summary requested
/// it, as in imported histories, the compaction begins with that message.
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
fn reverted(session: &Session) -> Option<String> {
    let metadata: Value = serde_json::from_str(session.metadata.as_str()).ok()?;
    let id = metadata.pointer("/opencode/revert/messageID")?.as_str()?;
    Some(id.to_owned())
}
