//! A conversation in the neutral form as turns and items. What a program's records need beside that is in its [`Records`].
//!
//! | part | role, channel | `parts` |
//! |---|---|---|
//! | text of the user | user, `question` (system, `system_note` when synthetic) | text |
//! | text of the agent | assistant, `observation` (`final` and `partial` are given by the turn, `summary` by a compaction) | text |
//! | text of the program | system, `system_note` | text |
//! | reasoning | assistant, `thought` | reasoning |
//! | tool | assistant, `tool_call` and, once it ended, tool, `tool_result` | tool_call, tool_result |
//! | file | user `question` or assistant `observation` | file |
//! | compaction | system, `summary` with its summary, else `system_note` | text, compaction |
//! | any other | system, `system_note` | the part as written |
//!
//! An item has the id of its part (a tool's two have `:call` and `:result` behind it), so that the same input gives the
//! same items. Usage is with the last item of its message. A turn begins with what the user typed; what the program put
//! in belongs to the turn it stands in, before the first one to that.

mod items;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use filrouge_types::{Channel, RawJson, RequestId, Timestamp, TurnStatus};

use crate::object::Writer;
use crate::{
    Conversation, ForeignTurn, Header, LoadedSession, Message, Part, PartKind, Role, SkipReason,
    Skipped,
};
use items::Items;
pub(crate) use items::{Made, latency};

/// The messages of one turn, as indexes.
#[derive(Default)]
struct Group {
    /// The question that cannot be read; the turn has its id.
    lost: Option<Box<str>>,
    question: Option<usize>,
    /// What the program put in before the question.
    before: Vec<usize>,
    rest: Vec<usize>,
}

/// What differs between programs, and what items hold of a record beside the neutral form.
pub(crate) trait Records {
    /// Where a message or a part of it lies, for reports.
    fn place(&self, message: &Message, part: Option<&Part>) -> PathBuf;

    /// Whether a turn begins with it as its question.
    fn asks(&self, message: &Message) -> bool {
        is_question(message)
    }

    /// Whether the first turn begins with it although it asks nothing.
    fn leads(&self, message: &Message) -> bool {
        message.role == Role::Assistant
    }

    /// The question it answers, where that is there and cannot be read.
    fn lost<'m>(&self, _: &'m Message) -> Option<&'m str> {
        None
    }

    /// Whether it has no end yet.
    fn is_open(&self, message: &Message) -> bool {
        message.completed.is_none()
    }

    /// Whether the agent was to go on behind an answer; `goes_on`: an answer without an end follows.
    fn has_more(&self, message: &Message, goes_on: bool) -> bool {
        goes_on || calls_last(message)
    }

    /// Whether every part becomes an item, also one that a session cannot hold: without ids, and as a text where it is no
    /// JSON.
    fn keeps_all(&self) -> bool {
        false
    }

    /// Completes the items of a part.
    fn complete_part(&self, _: &Message, _: &Part, _: &mut [Made]) {}

    /// Completes the items of a message.
    fn complete_message(&self, message: &Message, made: &mut Vec<Made>) {
        items::complete(message, made);
    }
}

/// Records that the neutral form holds completely; those of one file.
struct Neutral<'a>(&'a Path);

impl Records for Neutral<'_> {
    fn place(&self, _: &Message, _: Option<&Part>) -> PathBuf {
        self.0.to_owned()
    }
}

/// A session as turns. `path` is what reports name.
pub(crate) fn turns_of(header: &Header, conversation: &Conversation, path: &Path) -> LoadedSession {
    let session = (header.clone(), metadata_of(header));
    load(session, conversation, &Neutral(path))
}

/// A session with the turns of its conversation; it comes with its metadata.
pub(crate) fn load(
    (session, notes): (Header, Writer),
    conversation: &Conversation,
    records: &dyn Records,
) -> LoadedSession {
    let program = session.source;
    let (turns, skipped) = turns(program, conversation, records);
    let mut metadata = Writer::default();
    metadata.nested(program, notes);
    LoadedSession {
        session,
        metadata: RawJson::from_checked(metadata.finish()),
        turns,
        skipped,
    }
}

/// The turns of a conversation, and what is in none of them.
pub(crate) fn turns(
    program: &'static str,
    conversation: &Conversation,
    records: &dyn Records,
) -> (Vec<ForeignTurn>, Vec<Skipped>) {
    let mut items = Items {
        program,
        records,
        seen: HashSet::new(),
        skipped: conversation.skipped.clone(),
    };
    let messages = &conversation.messages;
    let groups = cut(messages, records);
    let newest = groups.len().saturating_sub(1);
    let mut turns = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        turns.extend(turn(messages, group, index == newest, &mut items));
    }
    items.skipped.sort();
    (turns, items.skipped)
}

/// What a header says beside what has a place of its own.
fn metadata_of(header: &Header) -> Writer {
    let mut notes = Writer::default();
    notes.text("generation", header.generation);
    if let Some(fork_of) = &header.fork_of {
        notes.text("fork_of", fork_of);
    }
    notes
}

/// Whether a message is what the user typed or attached.
fn is_question(message: &Message) -> bool {
    let typed = |part: &crate::Part| match &part.kind {
        PartKind::Text { synthetic, .. } => !synthetic,
        PartKind::File { .. } => true,
        _ => false,
    };
    message.role == Role::User && !message.summary && message.parts.iter().any(typed)
}

fn cut(messages: &[Message], records: &dyn Records) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut before = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let question = records.asks(message).then_some(index);
        let lost = records.lost(message);
        let begins = match groups.last() {
            None => question.is_some() || records.leads(message),
            Some(group) => question.is_some() || (lost.is_some() && lost != group.lost.as_deref()),
        };
        if begins {
            groups.push(Group {
                lost: lost.map(Into::into),
                question,
                before: std::mem::take(&mut before),
                rest: question.is_none().then_some(index).into_iter().collect(),
            });
        } else if let Some(group) = groups.last_mut() {
            group.rest.push(index);
        } else {
            before.push(index);
        }
    }
    if !before.is_empty() {
        groups.push(Group {
            before,
            ..Group::default()
        });
    }
    groups
}

/// `None` when nothing of the turn can be copied.
fn turn(
    messages: &[Message],
    group: &Group,
    newest: bool,
    items: &mut Items<'_>,
) -> Option<ForeignTurn> {
    let of = |index: &usize| messages.get(*index);
    let asked: Vec<&Message> = group
        .before
        .iter()
        .chain(&group.question)
        .filter_map(of)
        .collect();
    let rest: Vec<&Message> = group.rest.iter().filter_map(of).collect();
    let records = items.records;
    let (open, done): (Vec<&Message>, Vec<&Message>) =
        rest.iter().partition(|message| records.is_open(message));
    let newest_answer = rest.iter().rfind(|m| m.role == Role::Assistant);
    let goes_on = newest_answer.is_some_and(|last| records.is_open(last));
    let last = done
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let more = last.is_some_and(|at| records.has_more(done[at], goes_on));
    let outcome = match last.map(|at| &done[at].error) {
        Some(Some(error)) if !goes_on && error.is_stop() => TurnStatus::Cancelled,
        Some(Some(_)) if !goes_on => TurnStatus::Failed,
        // In an older turn nobody goes on after the tools: the user asked something else.
        Some(None) if !more || !(goes_on || newest) => TurnStatus::Finalized,
        _ => TurnStatus::Interrupted,
    };
    let question: Vec<_> = asked.iter().flat_map(|m| items.of_message(m)).collect();
    let mut answers: Vec<Made> = Vec::new();
    for (index, message) in done.iter().enumerate() {
        let mut made = items.of_message(message);
        if Some(index) == last {
            mark_answer(&mut made, more, outcome);
        }
        answers.append(&mut made);
    }
    for message in &open {
        let detail = format!("message {:?} is not complete", message.id);
        items.skip(message, None, SkipReason::Incomplete, detail);
    }
    let first = asked.last().or_else(|| rest.first())?;
    let request = group.lost.as_ref().unwrap_or(&first.id);
    let request_id = RequestId::new(&**request);
    let request_id = match records.keeps_all() {
        true => request_id.or_else(|_| RequestId::new(first.created.to_string())),
        false => request_id,
    };
    let request_id = request_id.ok()?;
    if question.is_empty() && answers.is_empty() {
        return None;
    }
    let ended = done.iter().filter_map(|message| message.completed).max();
    let finish = |made: Vec<Made>| made.into_iter().map(|made| made.finish(items.program));
    Some(ForeignTurn {
        request_id,
        question: finish(question).collect(),
        items: finish(answers).collect(),
        outcome,
        created: Timestamp::from_millis(first.created)?,
        ended: ended.and_then(Timestamp::from_millis),
        metadata: metadata(items.program, asked.iter().chain(&done), &open),
    })
}

/// Whether it has called a tool behind its last text.
fn calls_last(message: &Message) -> bool {
    let last = message
        .parts
        .iter()
        .rev()
        .find(|part| matches!(part.kind, PartKind::Tool(_) | PartKind::Text { .. }));
    last.is_some_and(|part| matches!(part.kind, PartKind::Tool(_)))
}

/// Puts the last text of the last answer on the channel that the end of the turn gives it. A text before tools is
/// none: the agent was to go on.
fn mark_answer(made: &mut [Made], more: bool, outcome: TurnStatus) {
    let channel = match outcome {
        TurnStatus::Finalized if !more => Channel::Final,
        TurnStatus::Failed | TurnStatus::Cancelled => Channel::Partial,
        _ => return,
    };
    if let Some(last) = made.iter_mut().rev().find(|made| made.can_answer) {
        last.item.channel = channel;
    }
}

fn metadata<'m>(
    program: &str,
    done: impl Iterator<Item = &'m &'m Message>,
    open: &[&Message],
) -> RawJson {
    let list = |ids: Vec<&str>| serde_json::Value::from(ids).to_string();
    let mut notes = Writer::default();
    notes.raw(
        "messages",
        &list(done.map(|message| &*message.id).collect()),
    );
    if !open.is_empty() {
        notes.raw(
            "incomplete",
            &list(open.iter().map(|message| &*message.id).collect()),
        );
    }
    let mut metadata = Writer::default();
    metadata.nested(program, notes);
    RawJson::from_checked(metadata.finish())
}
