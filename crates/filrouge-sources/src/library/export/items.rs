//! Messages as the items of a document.

use filrouge_types::{Channel, Item, ItemBody, RawJson, Role, Timestamp, TurnId};
use serde_json::{Value, json};

use super::turns::at;
use crate::library::history::{ShownMessage, ShownPart};
use crate::{Role as Speaker, ToolStatus};

/// Gives items their seqs.
pub(super) struct Writer<'a> {
    seq: u64,
    reverted: bool,
    /// What is to be told before the first message.
    left_out: &'a [String],
}

/// Notes that stand outside of all turns.
pub(super) fn notes(left_out: &[String], when: i64) -> Vec<Item> {
    let seqs = 1..;
    let all = seqs.zip(left_out);
    all.map(|(seq, text)| {
        let part = json!({"type": "text", "text": text});
        item(seq, Role::System, Channel::SystemNote, part, at(when))
    })
    .collect()
}

fn item(seq: u64, role: Role, channel: Channel, part: Value, when: Timestamp) -> Item {
    let parts = RawJson::from_checked(Value::Array(vec![part]).to_string());
    Item {
        seq,
        turn_id: None,
        created_at: when,
        redacted: false,
        body: ItemBody {
            occurred_at: Some(when),
            ..ItemBody::new(role, channel, parts)
        },
    }
}

impl<'a> Writer<'a> {
    /// One that tells first what was left out.
    pub(super) fn of(left_out: &'a [String]) -> Self {
        Self {
            seq: 0,
            reverted: false,
            left_out,
        }
    }

    /// Adds the items of a message; `is_last`: no answer follows it in its turn.
    pub(super) fn message(
        &mut self,
        message: &ShownMessage,
        turn_id: TurnId,
        is_last: bool,
        items: &mut Vec<Item>,
    ) {
        let mut of = Of {
            writer: self,
            message,
            turn_id,
            items,
        };
        of.marks();
        let answer = answer(message).filter(|_| is_last);
        for (n, part) in message.parts.iter().enumerate() {
            of.part(part, answer == Some(n));
        }
        if let Some(error) = &message.error {
            let (code, text) = error.split_once(": ").unwrap_or((error, ""));
            let part = json!({"type": "error", "code": code, "message": text});
            of.add(Role::Assistant, Channel::Error, part, None);
        }
        of.usage();
    }
}

/// The part that is the answer, if it is the last one of its turn: a text with no call behind it.
fn answer(message: &ShownMessage) -> Option<usize> {
    if message.role != Speaker::Assistant || message.summary {
        return None;
    }
    let said = |part: &ShownPart| match part.kind.as_str() {
        "tool" => Some(false),
        "text" => part
            .text
            .as_ref()
            .is_some_and(|t| !t.is_empty())
            .then_some(true),
        _ => None,
    };
    let mut last = message.parts.iter().enumerate().rev();
    let (at, is_text) = last.find_map(|(at, part)| Some((at, said(part)?)))?;
    is_text.then_some(at)
}

/// The items of one message while they are made.
struct Of<'a, 'w> {
    writer: &'a mut Writer<'w>,
    message: &'a ShownMessage,
    turn_id: TurnId,
    items: &'a mut Vec<Item>,
}

impl Of<'_, '_> {
    /// What has become of the conversation right before this message.
    fn marks(&mut self) {
        for one in std::mem::take(&mut self.writer.left_out) {
            self.note(one);
        }
        if self.message.boundary {
            self.note("The conversation was compacted: what stands before was no longer shown to the model.");
        }
        if self.message.reverted && !self.writer.reverted {
            self.writer.reverted = true;
            self.note("The user has taken back what follows.");
        }
    }

    fn note(&mut self, text: &str) {
        let part = json!({"type": "text", "text": text});
        self.add(Role::System, Channel::SystemNote, part, None);
    }

    fn part(&mut self, part: &ShownPart, is_answer: bool) {
        let speaker = match self.message.role {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
            Speaker::System => Role::System,
        };
        let said = self.channel(part.synthetic, is_answer);
        match part.kind.as_str() {
            "text" => self.add(speaker, said, text("text", part), part.start),
            "reasoning" => {
                self.add(
                    Role::Assistant,
                    Channel::Thought,
                    text("reasoning", part),
                    part.start,
                );
            }
            "tool" => self.tool(part),
            "file" => self.add(speaker, said, file(part), part.start),
            "compaction" if part.text.is_some() => {
                self.add(
                    Role::Assistant,
                    Channel::Summary,
                    text("text", part),
                    part.start,
                );
            }
            kind => self.add(
                Role::System,
                Channel::SystemNote,
                other(kind, part),
                part.start,
            ),
        }
    }

    fn channel(&self, synthetic: bool, is_answer: bool) -> Channel {
        match self.message.role {
            Speaker::System => Channel::SystemNote,
            Speaker::User if synthetic => Channel::SystemNote,
            Speaker::User => Channel::Question,
            Speaker::Assistant if self.message.summary => Channel::Summary,
            Speaker::Assistant if is_answer && self.message.error.is_some() => Channel::Partial,
            Speaker::Assistant if is_answer => Channel::Final,
            Speaker::Assistant => Channel::Observation,
        }
    }

    fn tool(&mut self, part: &ShownPart) {
        let mut call = json!({
            "type": "tool_call",
            "call_id": part.call_id,
            "name": part.tool,
            "args": part.input.as_deref().map(arguments),
        });
        add(
            &mut call,
            "child_session_id",
            part.child_session_id.as_ref(),
        );
        self.add(Role::Assistant, Channel::ToolCall, call, part.start);
        let content = part.error.as_ref().or(part.output.as_ref());
        let is_done = matches!(part.status, Some(ToolStatus::Completed | ToolStatus::Error));
        if !is_done && content.is_none() {
            return;
        }
        let took = part
            .start
            .zip(part.end)
            .map(|(start, end)| end.saturating_sub(start));
        let mut result = json!({
            "type": "tool_result",
            "call_id": part.call_id,
            "ok": part.status == Some(ToolStatus::Completed),
            "content": content,
        });
        add(&mut result, "latency_ms", took.filter(|ms| *ms >= 0));
        add(&mut result, "title", part.title.as_ref());
        add(
            &mut result,
            "pruned_at",
            part.pruned.map(|ms| at(ms).to_string()),
        );
        if !part.files.is_empty() {
            add(&mut result, "files", Some(&part.files));
        }
        if part.error.is_some() {
            add(&mut result, "output", part.output.as_ref());
        }
        self.add(
            Role::Tool,
            Channel::ToolResult,
            result,
            part.end.or(part.start),
        );
    }

    /// Tokens and cost, with the last item.
    fn usage(&mut self) {
        let (tokens, cost) = (self.message.tokens, self.message.cost);
        let last = self.items.last_mut();
        if let (Some(last), Some(mut usage)) = (last, tokens.map(|t| json!(t))) {
            add(&mut usage, "cost", cost);
            last.body.usage = Some(RawJson::from_checked(usage.to_string()));
        }
    }

    fn add(&mut self, role: Role, channel: Channel, part: Value, when: Option<i64>) {
        self.writer.seq += 1;
        let when: Timestamp = at(when.unwrap_or(self.message.created));
        let label = |text: &Option<String>| text.as_deref().map(Into::into);
        let mut item = item(self.writer.seq, role, channel, part, when);
        item.turn_id = Some(self.turn_id);
        item.body.agent = label(&self.message.agent);
        item.body.model = label(&self.message.model);
        self.items.push(item);
    }
}

fn text(kind: &str, part: &ShownPart) -> Value {
    json!({"type": kind, "text": part.text.as_deref().unwrap_or_default()})
}

fn file(part: &ShownPart) -> Value {
    let mut file = json!({"type": "file"});
    add(&mut file, "filename", part.title.as_ref());
    add(&mut file, "mime", part.mime.as_ref());
    add(&mut file, "url", part.files.first());
    file
}

/// A part of another kind as written; without that, what is known of it.
fn other(kind: &str, part: &ShownPart) -> Value {
    let written = part.json.as_deref().map(arguments);
    if let Some(written) = written.filter(|value| value.get("type").is_some()) {
        return written;
    }
    let mut other = json!({"type": kind});
    add(&mut other, "data", part.json.as_deref().map(arguments));
    if !part.files.is_empty() {
        add(&mut other, "files", Some(&part.files));
    }
    other
}

/// JSON as written, or the text if it is none.
fn arguments(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn add(object: &mut Value, name: &str, value: Option<impl serde::Serialize>) {
    if let (Value::Object(members), Some(value)) = (object, value) {
        members.insert(name.to_owned(), json!(value));
    }
}
