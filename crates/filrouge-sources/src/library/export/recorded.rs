//! Converts a session to the turns and items of a document. A ledger session already has them. Another program's
//! session is read as `filrouge import` would record it, with three additions: unfinished answers, items whose id an
//! import refuses, and marks where the conversation was compacted or reverted.

use std::path::PathBuf;

use filrouge_engine::{Masked, mask_json, mask_text};
use filrouge_types::{
    Application, Channel, Item, ItemBody, JsonText, ProjectId, RawJson, Recorded, Session,
    SessionId, SessionStatus, TenantId, Timestamp, Turn, TurnId,
};
use serde_json::json;

use crate::library::list::Row;
use crate::library::{Entry, Library, LibraryError, Result, clean, notices};
use crate::turns_of::{ItemDraft, Records, build_turns};
use crate::{Conversation, ForeignTurn, Message, Part, PartKind};

/// The turns and items of a session. `mask` masks anything with the form of a credential.
pub(super) fn read(library: &Library, entry: &Entry, mask: bool) -> Result<Recorded> {
    let mut recorded = match library.recorded(entry)? {
        Some(recorded) => recorded,
        None => record_foreign(entry, library.conversation(entry)?.as_ref())?,
    };
    if mask {
        mask_recorded(&mut recorded);
    }
    Ok(recorded)
}

/// Converts another program's session. Notices about records that were left out become items before the first question.
fn record_foreign(entry: &Entry, conversation: &Conversation) -> Result<Recorded> {
    let row = Row::from_header(&entry.header);
    let id = SessionId::new(&row.id).map_err(|why| LibraryError::Invalid(why.to_string()))?;
    let records = CompleteRecords(conversation);
    let (mut foreign_turns, skipped) = build_turns(entry.header.source, conversation, &records);
    let left_out = notices::of_skipped(&skipped).into_iter();
    let notes = left_out.map(|text| ItemDraft::system_note(&text, row.created).item);
    let mut notes: Vec<ItemBody> = notes.collect();
    if let Some(first) = foreign_turns.first_mut() {
        first.question.splice(0..0, notes.drain(..));
    }
    let mut last_seq = 0;
    let mut new_item = |turn_id, body: ItemBody| {
        last_seq += 1;
        Item {
            seq: last_seq,
            turn_id,
            created_at: body.occurred_at.unwrap_or(timestamp(row.created)),
            redacted: false,
            body,
        }
    };
    let turns: Vec<_> = (1..)
        .zip(foreign_turns)
        .map(|(ordinal, foreign_turn)| turn(&id, ordinal, foreign_turn, &mut new_item))
        .collect();
    // If the session has no turn, the notes become items outside turns.
    let loose = notes.into_iter().map(|note| new_item(None, note)).collect();
    let session = session(id, &row, turns.len() as u64, last_seq);
    Ok(Recorded {
        session,
        turns,
        loose,
    })
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap_or(Timestamp::from_micros(0))
}

fn turn(
    session: &SessionId,
    ordinal: u64,
    foreign_turn: ForeignTurn,
    new_item: &mut impl FnMut(Option<TurnId>, ItemBody) -> Item,
) -> (Turn, Vec<Item>) {
    // A document uses turn ids only as link targets.
    let turn_id = TurnId::from_derived(u128::from(ordinal).to_be_bytes());
    let questions = foreign_turn.question.iter();
    let questions = questions.filter(|item| item.channel == Channel::Question);
    let questions: Vec<_> = questions.filter_map(ItemBody::text).collect();
    let bodies = foreign_turn.question.into_iter().chain(foreign_turn.items);
    let items: Vec<_> = bodies.map(|body| new_item(Some(turn_id), body)).collect();
    let seq = |item: Option<&Item>| item.map_or(0, |item| item.seq);
    let turn = Turn {
        turn_id,
        session_id: session.clone(),
        request_id: foreign_turn.request_id,
        ordinal,
        status: foreign_turn.outcome,
        identity_id: None,
        question_neutral: JsonText::join(&questions),
        question_translated: None,
        answer_neutral: None,
        answer_translated: None,
        answer_translated_is_fallback: false,
        application: Application::default(),
        metadata: foreign_turn.metadata,
        first_seq: seq(items.first()),
        last_seq: seq(items.last()),
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: foreign_turn.created,
        finalized_at: foreign_turn.ended,
        deleted_at: None,
        replayed: false,
        differs: false,
    };
    (turn, items)
}

/// Creates a session record. Only the fields that a document's heading shows are filled in.
fn session(session_id: SessionId, row: &Row, turn_count: u64, last_seq: u64) -> Session {
    let project = row.project_name.as_ref().or(row.project_id.as_ref());
    let parent = row.parent_id.as_ref();
    Session {
        session_id,
        tenant_id: TenantId::default_tenant(),
        identity_id: None,
        parent_session_id: parent.and_then(|id| SessionId::new(id).ok()),
        project_id: project.and_then(|id| ProjectId::new(id).ok()),
        team_id: None,
        title: row.title.as_deref().map(Into::into),
        title_is_derived: false,
        status: match row.archived {
            Some(_) => SessionStatus::Closed,
            None => SessionStatus::Active,
        },
        state: None,
        last_seq,
        turn_count,
        metadata: RawJson::from_checked("{}"),
        created_at: timestamp(row.created),
        updated_at: timestamp(row.updated),
        agents: Vec::new(),
        version: [0; 16],
    }
}

/// Converts a conversation without leaving anything out.
struct CompleteRecords<'a>(&'a Conversation);

impl CompleteRecords<'_> {
    /// Whether `message` is the conversation's message with the index `at`.
    fn is_at(&self, message: &Message, at: usize) -> bool {
        let other_message = self.0.messages.get(at);
        other_message.is_some_and(|other_message| std::ptr::eq(other_message, message))
    }
}

impl Records for CompleteRecords<'_> {
    fn place(&self, message: &Message, _: Option<&Part>) -> PathBuf {
        PathBuf::from(&*message.id)
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn is_open(&self, _: &Message) -> bool {
        false
    }

    /// Adds the data about a tool's result that an import does not record.
    fn complete_part(&self, _: &Message, part: &Part, drafts: &mut [ItemDraft]) {
        let (PartKind::Tool(tool), [_, result]) = (&part.kind, drafts) else {
            return;
        };
        let output = tool.error.as_ref().and(tool.output.as_ref());
        let files = Some(&tool.files).filter(|files| !files.is_empty());
        let additions = [
            ("title", tool.title.as_ref().map(|text| json!(text))),
            ("pruned_at", tool.pruned.map(|ms| json!(timestamp(ms)))),
            ("files", files.map(|files| json!(files))),
            ("output", output.map(|text| json!(text))),
        ];
        let additions = additions.into_iter();
        let additions = additions.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        result.add_members(additions.collect());
    }

    fn complete_message(&self, message: &Message, drafts: &mut Vec<ItemDraft>) {
        if message.parts.is_empty() && message.error.is_none() {
            drafts.clear();
        }
        if let (Some(last), Some(tokens)) = (drafts.last_mut(), message.tokens) {
            let mut usage = json!(tokens);
            if let Some(cost) = message.cost {
                usage["cost"] = json!(cost);
            }
            last.item.usage = Some(RawJson::from_checked(usage.to_string()));
        }
        let mut marks = Vec::new();
        if self.0.boundaries.iter().any(|b| self.is_at(message, b.at)) {
            marks.push(
                "The conversation was compacted: the model no longer saw the messages before this one.",
            );
        }
        if self.0.reverted_at.is_some_and(|at| self.is_at(message, at)) {
            marks.push("The user reverted everything that follows.");
        }
        let marks = marks.into_iter();
        drafts.splice(
            0..0,
            marks.map(|text| ItemDraft::system_note(text, message.created)),
        );
    }
}

/// Masks anything with the form of a credential in everything that a document shows, except ids.
fn mask_recorded(recorded: &mut Recorded) {
    let session = &mut recorded.session;
    let project = session.project_id.as_ref();
    let project = project.and_then(|id| mask_text(id.as_str(), &mut Masked::default()));
    if let Some(project) = project {
        session.project_id = ProjectId::new(&project).ok();
    }
    for label in [&mut session.title, &mut session.team_id, &mut session.state] {
        mask_label(label);
    }
    for (turn, items) in &mut recorded.turns {
        for label in turn.application.labels_mut() {
            mask_label(label);
        }
        let question = turn.question_neutral.as_ref();
        let question = question.and_then(|text| mask_json(text.as_token(), &mut Masked::default()));
        if let Some(question) = question {
            turn.question_neutral = JsonText::from_raw(RawJson::from_checked(question)).ok();
        }
        items.iter_mut().for_each(mask_item);
    }
    recorded.loose.iter_mut().for_each(mask_item);
}

fn mask_item(item: &mut Item) {
    let body = &mut item.body;
    mask_label(&mut body.agent);
    mask_label(&mut body.model);
    for json in std::iter::once(&mut body.parts).chain(&mut body.usage) {
        if let Some(masked) = mask_json(json.as_str(), &mut Masked::default()) {
            *json = RawJson::from_checked(masked);
        }
    }
}

fn mask_label(label: &mut Option<Box<str>>) {
    *label = clean::optional_text(label.as_deref(), true).map(Into::into);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filrouge_types::TurnStatus;

    use super::*;
    use crate::library::samples::{MemorySource, conversation, header, message};
    use crate::{MessageError, Role, Tool, ToolStatus};

    fn library(messages: Vec<Message>) -> Library {
        let source = MemorySource::default();
        source.put(header("s", 1), conversation(messages));
        Library::new(vec![Arc::new(source)], 1 << 20)
    }

    fn recorded(messages: Vec<Message>) -> Recorded {
        let library = library(messages);
        let catalog = library.catalog();
        read(&library, catalog.get("s").unwrap(), false).unwrap()
    }

    #[test]
    fn a_stopped_turn_is_cancelled_not_failed() {
        for (name, expected) in [
            ("MessageAbortedError", TurnStatus::Cancelled),
            ("turn_aborted", TurnStatus::Cancelled),
            ("APIError", TurnStatus::Failed),
        ] {
            let error = MessageError {
                name: name.into(),
                message: "it says so".into(),
                retryable: false,
            };
            let last = Message {
                error: Some(error),
                ..message("m2", Role::Assistant, Vec::new())
            };
            let question = message("m1", Role::User, Vec::new());
            let recorded = recorded(vec![question, last]);
            assert_eq!(recorded.turns[0].0.status, expected, "{name}");
        }
    }

    #[test]
    fn items_that_an_import_refuses_are_in_the_document() {
        let tool = |id: &str| {
            let call = Tool {
                status: ToolStatus::Completed,
                output: Some("done".into()),
                ..Tool::call("c".into(), "ls".into(), "not JSON".into())
            };
            let kind = PartKind::Tool(Box::new(call));
            crate::library::samples::part(id, kind)
        };
        let parts = vec![tool("same"), tool("same"), tool(&"long".repeat(1000))];
        let recorded = recorded(vec![message("m", Role::Assistant, parts)]);
        let items = &recorded.turns[0].1;
        assert_eq!(items.len(), 6);
        assert_eq!(items[0].body.parts.as_str().matches("not JSON").count(), 1);
        let seqs: Vec<_> = items.iter().map(|item| item.seq).collect();
        assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    }
}
