//! Converts a conversation in the neutral form to turns and items. A program's [`Records`] add the data that the
//! neutral form lacks.
//!
//! | part | role, channel | `parts` |
//! |---|---|---|
//! | text of the user | user, `question` (system, `system_note` when synthetic) | text |
//! | text of the agent | assistant, `observation` (an answer: `final` or `partial`; a summary: `summary`) | text |
//! | text of the program | system, `system_note` | text |
//! | reasoning | assistant, `thought` | reasoning |
//! | tool | assistant, `tool_call` and, once it ended, tool, `tool_result` | tool_call, tool_result |
//! | file | user `question` or assistant `observation` | file |
//! | compaction | system, `summary` with its summary, else `system_note` | text, compaction |
//! | any other | system, `system_note` | the part's original JSON |
//!
//! An item has the id of its part (with `:call` or `:result` appended for the two items of a tool call), so the same
//! input always yields the same items. A message's usage is stored with its last item. A turn begins with what the user
//! typed. Text that the program injected belongs to the current turn; if it precedes all turns, to the first one.

mod items;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use filrouge_types::{Channel, RawJson, RequestId, Timestamp, TurnStatus};

use crate::object::Writer;
use crate::{
    Conversation, ForeignTurn, Header, LoadedSession, Message, Part, PartKind, Role, SkipReason,
    Skipped, Unfinished,
};
use items::Items;
pub(crate) use items::{ItemDraft, latency};

/// The messages of one turn, by index.
#[derive(Default)]
struct TurnMessages {
    /// The id of the turn's question if the question exists but cannot be read. It becomes the id of the turn.
    unreadable_question: Option<Box<str>>,
    /// The message with which the turn begins; `None` if it begins with an answer.
    question: Option<usize>,
    /// Injected messages before the question; only the first turn has some.
    injected_before: Vec<usize>,
    /// All other messages.
    others: Vec<usize>,
}

/// The differences between programs, and the data that items keep in addition to the neutral form.
pub(crate) trait Records {
    /// The file or row of a message, or of one of its parts, as reports name it.
    fn place(&self, message: &Message, part: Option<&Part>) -> PathBuf;

    /// Whether the message is a question that begins a turn.
    fn begins_turn(&self, message: &Message) -> bool {
        is_question(message)
    }

    /// Whether the first turn can begin with this message, which is not a question.
    fn can_begin_first_turn(&self, message: &Message) -> bool {
        message.role == Role::Assistant
    }

    /// The id of the question that the message answers, if that question exists but cannot be read.
    fn unreadable_question<'m>(&self, _: &'m Message) -> Option<&'m str> {
        None
    }

    /// Whether the message is not complete yet; it is then left out and reported.
    fn is_open(&self, message: &Message) -> bool {
        message.completed.is_none()
    }

    /// Whether the agent would have continued after the answer `message`, the last complete one of its turn.
    /// `still_open`: a later answer has begun and is not complete.
    fn has_more(&self, message: &Message, still_open: bool) -> bool {
        let mut parts = message.parts.iter().rev();
        let last_answer =
            parts.find(|part| matches!(part.kind, PartKind::Tool(_) | PartKind::Text { .. }));
        // A message that calls a tool after its last text continues.
        still_open || last_answer.is_some_and(|part| matches!(part.kind, PartKind::Tool(_)))
    }

    /// Whether every part becomes an item, even one that an import would refuse: a part with an invalid or repeated id,
    /// or a part with invalid JSON, which becomes a text.
    fn keeps_all(&self) -> bool {
        false
    }

    /// Adds the program's data to the items of a part.
    fn complete_part(&self, _: &Message, _: &Part, _: &mut [ItemDraft]) {}

    /// Adds the message's own data to its items, which can be changed, added or removed.
    fn complete_message(&self, message: &Message, drafts: &mut Vec<ItemDraft>) {
        items::complete_drafts(message, drafts);
    }
}

/// The records of a program whose data the neutral form contains completely; the path is the session's file.
struct NeutralRecords<'a>(&'a Path);

impl Records for NeutralRecords<'_> {
    fn place(&self, _: &Message, _: Option<&Part>) -> PathBuf {
        self.0.to_owned()
    }
}

/// Converts a session to turns. `path` is the file that reports name.
pub(crate) fn turns_of(header: &Header, conversation: &Conversation, path: &Path) -> LoadedSession {
    let mut foreign_fields = Writer::default();
    foreign_fields.text("generation", header.generation);
    foreign_fields.optional_text("fork_of", header.fork_of.as_deref());
    load_session(
        (header.clone(), foreign_fields),
        conversation,
        &NeutralRecords(path),
    )
}

/// Builds a loaded session from a conversation, and from its header with the program's metadata.
pub(crate) fn load_session(
    (session, foreign_fields): (Header, Writer),
    conversation: &Conversation,
    records: &dyn Records,
) -> LoadedSession {
    let program = session.source;
    let (turns, skipped) = build_turns(program, conversation, records);
    let mut metadata = Writer::default();
    metadata.nested(program, foreign_fields);
    LoadedSession {
        session,
        metadata: RawJson::from_checked(metadata.finish()),
        turns,
        skipped,
    }
}

/// Builds the turns of a conversation, and reports of everything that was left out.
pub(crate) fn build_turns(
    program: &'static str,
    conversation: &Conversation,
    records: &dyn Records,
) -> (Vec<ForeignTurn>, Vec<Skipped>) {
    let mut items = Items {
        program,
        records,
        item_ids: HashSet::new(),
        skipped: conversation.skipped.clone(),
    };
    let messages = &conversation.messages;
    let turn_messages = group_turns(messages, records);
    let newest = turn_messages.len().saturating_sub(1);
    let mut turns = Vec::new();
    for (index, group) in turn_messages.iter().enumerate() {
        turns.extend(build_turn(messages, group, index == newest, &mut items));
    }
    items.skipped.sort();
    (turns, items.skipped)
}

/// Whether the user typed or attached something in the message.
fn is_question(message: &Message) -> bool {
    let typed = |part: &crate::Part| match &part.kind {
        PartKind::Text { synthetic, .. } => !synthetic,
        PartKind::File { .. } => true,
        _ => false,
    };
    message.role == Role::User && !message.summary && message.parts.iter().any(typed)
}

/// Assigns the messages to turns.
fn group_turns(messages: &[Message], records: &dyn Records) -> Vec<TurnMessages> {
    let mut turn_messages: Vec<TurnMessages> = Vec::new();
    let mut before = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let question = records.begins_turn(message).then_some(index);
        let unreadable = records.unreadable_question(message);
        let begins_turn = match turn_messages.last() {
            None => question.is_some() || records.can_begin_first_turn(message),
            Some(group) => {
                question.is_some()
                    || (unreadable.is_some() && unreadable != group.unreadable_question.as_deref())
            }
        };
        if begins_turn {
            turn_messages.push(TurnMessages {
                unreadable_question: unreadable.map(Into::into),
                question,
                injected_before: std::mem::take(&mut before),
                others: question.is_none().then_some(index).into_iter().collect(),
            });
        } else if let Some(group) = turn_messages.last_mut() {
            group.others.push(index);
        } else {
            before.push(index);
        }
    }
    if !before.is_empty() {
        turn_messages.push(TurnMessages {
            injected_before: before,
            ..TurnMessages::default()
        });
    }
    turn_messages
}

/// Builds one turn; `None` if none of its content can be recorded. `newest`: whether it is the last turn of the
/// conversation.
fn build_turn(
    messages: &[Message],
    group: &TurnMessages,
    newest: bool,
    items: &mut Items<'_>,
) -> Option<ForeignTurn> {
    let get = |index: &usize| messages.get(*index);
    let questions = group.injected_before.iter().chain(&group.question);
    let questions: Vec<&Message> = questions.filter_map(get).collect();
    let others: Vec<&Message> = group.others.iter().filter_map(get).collect();
    let records = items.records;
    let (open, complete): (Vec<&Message>, Vec<&Message>) =
        others.iter().partition(|message| records.is_open(message));
    let newest_answer = others.iter().rfind(|m| m.role == Role::Assistant);
    let still_open = newest_answer.is_some_and(|last_answer| records.is_open(last_answer));
    let last_answer = complete
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let has_more = last_answer.is_some_and(|at| records.has_more(complete[at], still_open));
    let outcome = match last_answer.map(|at| &complete[at].error) {
        Some(Some(error)) if !still_open && error.is_stop() => TurnStatus::Cancelled,
        Some(Some(_)) if !still_open => TurnStatus::Failed,
        // In an older turn no further answer will follow, because the user has asked something else since.
        Some(None) if !has_more || !(still_open || newest) => TurnStatus::Finalized,
        _ => TurnStatus::Interrupted,
    };
    let question: Vec<_> = questions
        .iter()
        .flat_map(|m| items.convert_message(m))
        .collect();
    let mut answers: Vec<ItemDraft> = Vec::new();
    let mut unfinished = Unfinished {
        items: Vec::new(),
        omitted: Vec::new(),
        skipped: Vec::new(),
        metadata: turn_metadata(items.program, questions.iter().chain(&others), &[]),
    };
    let last_answer = last_answer.map(|at| complete[at]);
    for message in &others {
        if records.is_open(message) {
            items.convert_unfinished(message, answers.len(), &mut unfinished);
            continue;
        }
        let mut drafts = items.convert_message(message);
        if last_answer.is_some_and(|answer| std::ptr::eq(answer, *message)) {
            mark_answer(&mut drafts, has_more, outcome);
        }
        answers.append(&mut drafts);
    }
    let first = questions.last().or_else(|| others.first())?;
    let request = group.unreadable_question.as_ref().unwrap_or(&first.id);
    let from_time = || RequestId::new(first.created.to_string()).ok();
    let request_id = RequestId::new(&**request).ok();
    let request_id = request_id.or_else(|| from_time().filter(|_| records.keeps_all()))?;
    if question.is_empty() && answers.is_empty() {
        return None;
    }
    let ended = complete.iter().filter_map(|m| m.completed).max();
    let finish =
        |drafts: Vec<ItemDraft>| drafts.into_iter().map(|draft| draft.finish(items.program));
    Some(ForeignTurn {
        request_id,
        question: finish(question).collect(),
        items: finish(answers).collect(),
        outcome,
        created: Timestamp::from_millis(first.created)?,
        ended: ended.and_then(Timestamp::from_millis),
        metadata: turn_metadata(items.program, questions.iter().chain(&complete), &open),
        unfinished: (!open.is_empty()).then(|| Box::new(unfinished)),
    })
}

impl Items<'_> {
    /// Converts a message that is not complete. Its items belong at the position `at` of the turn's items. Reports
    /// that the message is left out.
    fn convert_unfinished(&mut self, message: &Message, at: usize, unfinished: &mut Unfinished) {
        let known = self.skipped.len();
        let mut drafts = self.convert_message(message);
        mark_answer(&mut drafts, false, TurnStatus::Cancelled);
        let items = drafts
            .into_iter()
            .map(|draft| (at, draft.finish(self.program)));
        unfinished.items.extend(items);
        unfinished.skipped.extend(self.skipped.drain(known..));
        let detail = format!("message {:?} is not complete", message.id);
        self.skip(message, None, SkipReason::Incomplete, detail);
        unfinished.omitted.extend(self.skipped.last().cloned());
    }
}

/// Marks the answer of a turn among the items of the turn's last complete message of the agent: its last text gets the
/// channel `final` or `partial`, by the outcome. `more`: whether the agent would have continued; the text is then not
/// the answer.
fn mark_answer(drafts: &mut [ItemDraft], has_more: bool, outcome: TurnStatus) {
    let channel = match outcome {
        TurnStatus::Finalized if !has_more => Channel::Final,
        TurnStatus::Failed | TurnStatus::Cancelled => Channel::Partial,
        _ => return,
    };
    if let Some(last_answer) = drafts.iter_mut().rev().find(|draft| draft.can_answer) {
        last_answer.item.channel = channel;
    }
}

/// The metadata of a turn: the ids of its complete messages and of its open ones.
fn turn_metadata<'m>(
    program: &str,
    complete: impl Iterator<Item = &'m &'m Message>,
    open: &[&Message],
) -> RawJson {
    let list = |ids: Vec<&str>| serde_json::Value::from(ids).to_string();
    let mut foreign_fields = Writer::default();
    foreign_fields.raw(
        "messages",
        &list(complete.map(|message| &*message.id).collect()),
    );
    if !open.is_empty() {
        foreign_fields.raw(
            "incomplete",
            &list(open.iter().map(|message| &*message.id).collect()),
        );
    }
    let mut metadata = Writer::default();
    metadata.nested(program, foreign_fields);
    RawJson::from_checked(metadata.finish())
}
