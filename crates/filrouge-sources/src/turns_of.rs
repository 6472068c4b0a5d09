//! A conversation in the neutral form as turns and items, for sources whose records need no closer copy.
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
use std::path::Path;

use filrouge_types::{
    Channel, ItemBody, ItemId, ProjectId, RawJson, RequestId, SessionId, Timestamp,
};

use crate::object::Writer;
use crate::{
    Conversation, ForeignSession, ForeignTurn, Header, LoadedSession, Message, Outcome, PartKind,
    Role, SkipReason, Skipped,
};
use items::{Items, Made};

/// The messages of one turn, as indexes.
#[derive(Default)]
struct Group {
    question: Option<usize>,
    /// What the program put in before the question.
    before: Vec<usize>,
    rest: Vec<usize>,
}

/// A session as turns. `path` is what reports name.
pub(crate) fn turns_of(
    header: &Header,
    conversation: &Conversation,
    path: &Path,
) -> Result<LoadedSession, Skipped> {
    let session = session_of(header, path)?;
    let mut items = Items {
        program: header.source,
        path,
        seen: HashSet::new(),
        skipped: conversation.skipped.clone(),
    };
    let messages = &conversation.messages;
    let groups = cut(messages);
    let newest = groups.len().saturating_sub(1);
    let mut turns = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        turns.extend(turn(messages, group, index == newest, &mut items));
    }
    items.skipped.sort();
    Ok(LoadedSession {
        session,
        turns,
        skipped: items.skipped,
    })
}

fn session_of(header: &Header, path: &Path) -> Result<ForeignSession, Skipped> {
    let bad = |why: String| Skipped::new(path, SkipReason::BadName, why);
    let time = |millis: i64| Timestamp::from_millis(millis).unwrap_or(Timestamp::from_micros(0));
    let mut notes = Writer::default();
    notes.text("generation", header.generation);
    if let Some(fork_of) = &header.fork_of {
        notes.text("fork_of", fork_of);
    }
    let mut metadata = Writer::default();
    metadata.nested(header.source, notes);
    Ok(ForeignSession {
        id: SessionId::new(&*header.id).map_err(|e| bad(e.to_string()))?,
        parent_id: header
            .parent_id
            .as_deref()
            .and_then(|id| SessionId::new(id).ok()),
        project_id: header
            .project_id
            .as_deref()
            .and_then(|id| ProjectId::new(id).ok()),
        project_name: header.project_name.clone(),
        worktree: header.worktree.clone(),
        directory: header.directory.clone(),
        title: header.title.clone(),
        agent: header.agent.clone(),
        version: header.version.clone(),
        created: time(header.created),
        updated: time(header.updated),
        archived: header.archived.map(time),
        metadata: RawJson::from_checked(metadata.finish()),
    })
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

fn cut(messages: &[Message]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut before = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let begins = is_question(message) || (groups.is_empty() && message.role == Role::Assistant);
        if begins {
            let question = is_question(message).then_some(index);
            groups.push(Group {
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
    let (done, open): (Vec<&Message>, Vec<&Message>) = rest
        .iter()
        .copied()
        .partition(|message| message.completed.is_some());
    let outcome = outcome(&done, !open.is_empty(), newest);
    let mut question: Vec<Made> = Vec::new();
    for message in &asked {
        question.append(&mut items.of_message(message));
    }
    let mut answers: Vec<Made> = Vec::new();
    let last = done
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    for (index, message) in done.iter().enumerate() {
        let mut made = items.of_message(message);
        if Some(index) == last {
            mark_answer(&mut made, has_more(message), &outcome);
        }
        answers.append(&mut made);
    }
    for message in &open {
        items.skip(
            SkipReason::Incomplete,
            format!("message {:?} is not complete", message.id),
        );
    }
    let first = asked.last().or_else(|| rest.first())?;
    let request = RequestId::new(&*first.id).ok()?;
    if question.is_empty() && answers.is_empty() {
        return None;
    }
    Some(ForeignTurn {
        request_id: request,
        question: finish(question),
        items: finish(answers),
        outcome,
        created: Timestamp::from_millis(first.created)?,
        metadata: metadata(items.program, asked.iter().chain(&done), &open),
    })
}

fn finish(made: Vec<Made>) -> Vec<ItemBody> {
    made.into_iter().map(|made| made.item).collect()
}

/// Whether the agent was to go on: it has called a tool behind its last text.
fn has_more(message: &Message) -> bool {
    let last = message
        .parts
        .iter()
        .rev()
        .find(|part| matches!(part.kind, PartKind::Tool(_) | PartKind::Text { .. }));
    last.is_some_and(|part| matches!(part.kind, PartKind::Tool(_)))
}

fn outcome(done: &[&Message], goes_on: bool, newest: bool) -> Outcome {
    let last = done
        .iter()
        .rev()
        .find(|message| message.role == Role::Assistant);
    let Some(last) = last.filter(|_| !goes_on) else {
        return Outcome::Unanswered;
    };
    match &last.error {
        Some(error) => Outcome::of_error(error.clone()),
        // In an older turn nobody goes on after the tools: the user asked something else.
        None if newest && has_more(last) => Outcome::Unanswered,
        None => Outcome::Finalized,
    }
}

/// Puts the last text of the last answer on the channel that the end of the turn gives it. A text before tools is
/// none: the agent was to go on.
fn mark_answer(made: &mut [Made], more: bool, outcome: &Outcome) {
    let channel = match outcome {
        Outcome::Finalized if !more => Channel::Final,
        Outcome::Failed { .. } | Outcome::Cancelled => Channel::Partial,
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

/// An item id; `None` when the text cannot be one.
fn item_id(text: &str) -> Option<ItemId> {
    ItemId::new(text).ok()
}
