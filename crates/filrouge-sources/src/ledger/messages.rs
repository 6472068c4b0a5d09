//! Turns and items as messages.
//!
//! A message is a question, or what one agent did and said in one go: another speaker, another agent or another model
//! begins a new one. Items of an imported history know the message they were part of, and are put together again by it.
//! Of a turn that was replaced only the newest version is shown. The order is the ledger's.

use std::collections::HashMap;

use filrouge_engine::{Origin, usage_tokens};
use filrouge_types::{Channel, Item, ItemBody, Recorded, Role as ItemRole, Session, Turn};
use serde_json::Value;

use super::notes::{Noted, Notes};
use super::parts::{self, Piece};
use super::rows::millis;
use super::units::{Units, item_name, loose_unit};
use crate::{Boundary, Conversation, Message, Part, PartKind, Role, TokenRule, Tool, ToolStatus};

/// The conversation of a session.
pub(super) fn of(read: Recorded) -> Conversation {
    build(&read).finish(&read.session)
}

/// The messages of what was read of a session, by the unit they belong to.
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

/// Where a part is: message and part.
type Place = (usize, usize);

#[derive(Default)]
struct Builder {
    version: Option<Box<str>>,
    messages: Vec<Message>,
    /// Calls without a result, by their ids.
    waiting: HashMap<Box<str>, Vec<Place>>,
    /// The ids that were given, with the turns' places in `units`.
    ids: HashMap<Box<str>, usize>,
    /// The units, each with the index of its first message.
    units: Vec<(u64, usize)>,
    /// [`Units::entangled`].
    entangled: bool,
    /// [`Units::foreign`].
    foreign: bool,
    /// The first message of the turn.
    turn_start: usize,
    /// Whether the present message was noted by an importer.
    noted: bool,
    /// The ids of the turn's messages that are still to come, the last one first, as an importer noted them.
    coming: Vec<Box<str>>,
}

impl Builder {
    fn new(version: Option<Box<str>>) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// `ids` are those of the turn's messages, where an importer has noted them.
    fn turn(&mut self, unit: u64, items: &[Item], mut ids: Vec<Box<str>>) {
        ids.reverse();
        self.coming = ids;
        self.turn_start = self.messages.len();
        self.units.push((unit, self.turn_start));
        self.noted = false;
        for item in items {
            self.item(item);
        }
    }

    /// An item of no turn.
    fn loose(&mut self, item: &Item) {
        let unit = loose_unit(item.seq);
        self.turn(unit, std::slice::from_ref(item), Vec::new());
    }

    fn item(&mut self, item: &Item) {
        let notes = Notes::of(item);
        match &notes.message {
            Some(message) => self.begin_noted(item, message),
            None if self.goes_on(item) => {}
            None => self.begin(item),
        }
        for (index, piece) in parts::of(item, &notes, self.noted).into_iter().enumerate() {
            self.piece(item, index, piece);
        }
        let version = self.version.take();
        if let Some(message) = self.messages.last_mut() {
            add(message, item, &notes, version.as_deref());
        }
        self.version = version;
    }

    /// Whether an item belongs to the message before it.
    fn goes_on(&self, item: &Item) -> bool {
        let here = self.messages.get(self.turn_start..).unwrap_or_default();
        let Some(message) = here.last() else {
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
        // It could be that of an item without one.
        self.foreign |= item.body.item_id.is_some() && id.starts_with("seq-");
        let mut message = self.empty(id, item, role(item));
        message.summary = item.body.channel == Channel::Summary;
        self.messages.push(message);
        self.noted = false;
    }

    fn begin_noted(&mut self, item: &Item, message: &Value) {
        let noted = Noted(message);
        // A storage that has the id beside the message's record does not repeat it within.
        let coming = self.coming.pop();
        let id = noted.text("/id").or(coming);
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

    /// A message without parts. Foreign ids need not be unique; those of messages here are.
    fn empty(&mut self, id: Box<str>, item: &Item, role: Role) -> Message {
        let here = self.units.len();
        let id = match self.ids.get(&id) {
            Some(unit) => {
                self.entangled |= *unit != here;
                format!("{id}~{}", item.seq).into()
            }
            None => id,
        };
        self.ids.insert(id.clone(), here);
        let question = self.messages.get(self.turn_start);
        let question = question.filter(|first| first.role == Role::User && role == Role::Assistant);
        Message {
            seq: Some(item.seq),
            parent_id: question.map(|question| question.id.clone()),
            ..Message::new(id, role, at(item))
        }
    }

    fn piece(&mut self, item: &Item, index: usize, piece: Piece) {
        match piece {
            Piece::Part(kind) => self.push(item, index, kind),
            Piece::Error(error) => {
                if let Some(message) = self.messages.last_mut() {
                    message.error = Some(error);
                }
            }
            Piece::Result(result) => self.join(item, index, result),
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
            let place = (at_message, message.parts.len());
            let id = tool.call_id.clone();
            self.waiting.entry(id).or_default().push(place);
        }
        message.parts.push(Part {
            id: part_id(item, index),
            seq: Some(item.seq),
            start: Some(at(item)),
            end: None,
            kind,
        });
    }

    /// Puts a result to the newest call of its id that has none; a result without a call stands alone.
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

    /// A turn that goes on has no end yet.
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

/// What an item adds to its message.
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
    // An importer has noted when the message was complete, or that it was not.
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

/// The messages that an imported turn was made of.
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

/// A call and its result are one part, which has the id of the call.
fn part_id(item: &Item, index: usize) -> Box<str> {
    let id = item_name(item);
    let call = id.strip_suffix(":call");
    let id = call.or_else(|| id.strip_suffix(":result")).unwrap_or(&id);
    match index {
        0 => id.into(),
        more => format!("{id}.{more}").into(),
    }
}

/// A summary stands for what is before it; a program's own begins with the message that asked for it.
fn boundaries(messages: &[Message]) -> Vec<Boundary> {
    let begun = |message: &Message| {
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
        let asked = before.and_then(|at| Some((at, begun(messages.get(at)?)?)));
        Boundary {
            at: asked.map_or(index, |(at, _)| at),
            created: summary.created,
            automatic: asked.map(|(_, automatic)| automatic),
            summary_id: Some(summary.id.clone()),
        }
    };
    summaries.map(boundary).collect()
}

/// The first message that the user of an imported history had taken back.
fn reverted(session: &Session) -> Option<String> {
    let metadata: Value = serde_json::from_str(session.metadata.as_str()).ok()?;
    let id = metadata.pointer("/opencode/revert/messageID")?.as_str()?;
    Some(id.to_owned())
}
