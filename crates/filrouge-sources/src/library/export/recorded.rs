//! A session as the turns and items of a document. The ledger has its own. Another program's session is read as
//! `filrouge import` would record it, and whole: also answers without an end, what no item can be called, and what has
//! become of the conversation.

use std::path::PathBuf;

use filrouge_engine::{Masked, mask_json, mask_text};
use filrouge_types::{
    Application, Channel, Item, ItemBody, JsonText, ProjectId, RawJson, Recorded, Session,
    SessionId, SessionStatus, TenantId, Timestamp, Turn, TurnId,
};
use serde_json::json;

use crate::library::list::Row;
use crate::library::{Entry, Library, LibraryError, notices};
use crate::turns_of::{Made, Records, turns};
use crate::{Conversation, ForeignTurn, Message, Part, PartKind};

/// The turns and items of a session. `mask` masks what has the form of a credential.
pub(super) fn of(library: &Library, entry: &Entry, mask: bool) -> Result<Recorded, LibraryError> {
    let mut recorded = match library.recorded(entry)? {
        Some(own) => own,
        None => foreign(entry, library.conversation(entry)?.as_ref())?,
    };
    if mask {
        masked(&mut recorded);
    }
    Ok(recorded)
}

fn foreign(entry: &Entry, conversation: &Conversation) -> Result<Recorded, LibraryError> {
    let row = Row::of(&entry.header);
    let id = SessionId::new(&row.id).map_err(|why| LibraryError::Invalid(why.to_string()))?;
    let (mut made, skipped) = turns(entry.header.source, conversation, &Whole(conversation));
    let left_out = notices::of_skipped(&skipped);
    let mut notes: Vec<ItemBody> = left_out
        .iter()
        .map(|text| Made::note(text, row.created).item)
        .collect();
    if let Some(first) = made.first_mut() {
        first.question.splice(0..0, notes.drain(..));
    }
    let mut last_seq = 0;
    let mut number = |turn_id, body: ItemBody| {
        last_seq += 1;
        Item {
            seq: last_seq,
            turn_id,
            created_at: body.occurred_at.unwrap_or(at(row.created)),
            redacted: false,
            body,
        }
    };
    let turns: Vec<_> = (1..)
        .zip(made)
        .map(|(ordinal, one)| turn(&id, ordinal, one, &mut number))
        .collect();
    // Without a turn there is no other place for them.
    let loose = notes.into_iter().map(|note| number(None, note)).collect();
    let session = session(id, &row, turns.len() as u64, last_seq);
    Ok(Recorded {
        session,
        turns,
        loose,
    })
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap_or(Timestamp::from_micros(0))
}

fn turn(
    session: &SessionId,
    ordinal: u64,
    made: ForeignTurn,
    number: &mut impl FnMut(Option<TurnId>, ItemBody) -> Item,
) -> (Turn, Vec<Item>) {
    // Turns of a document need ids only to be linked to.
    let turn_id = TurnId::from_derived(u128::from(ordinal).to_be_bytes());
    let asked = made.question.iter();
    let asked = asked.filter(|item| item.channel == Channel::Question);
    let asked: Vec<_> = asked.filter_map(ItemBody::text).collect();
    let all = made.question.into_iter().chain(made.items);
    let items: Vec<_> = all.map(|body| number(Some(turn_id), body)).collect();
    let seq = |item: Option<&Item>| item.map_or(0, |item| item.seq);
    let turn = Turn {
        turn_id,
        session_id: session.clone(),
        request_id: made.request_id,
        ordinal,
        status: made.outcome,
        identity_id: None,
        question_neutral: JsonText::join(&asked),
        question_translated: None,
        answer_neutral: None,
        answer_translated: None,
        answer_translated_is_fallback: false,
        application: Application::default(),
        metadata: made.metadata,
        first_seq: seq(items.first()),
        last_seq: seq(items.last()),
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: made.created,
        finalized_at: made.ended,
        deleted_at: None,
        replayed: false,
        differs: false,
    };
    (turn, items)
}

/// The session as a document's heading shows it.
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
        status: match row.archived {
            Some(_) => SessionStatus::Closed,
            None => SessionStatus::Active,
        },
        state: None,
        last_seq,
        turn_count,
        metadata: RawJson::from_checked("{}"),
        created_at: at(row.created),
        updated_at: at(row.updated),
        version: [0; 16],
    }
}

/// A conversation of which nothing is left out.
struct Whole<'a>(&'a Conversation);

impl Whole<'_> {
    fn is_at(&self, message: &Message, at: usize) -> bool {
        let there = self.0.messages.get(at);
        there.is_some_and(|there| std::ptr::eq(there, message))
    }
}

impl Records for Whole<'_> {
    fn place(&self, message: &Message, _: Option<&Part>) -> PathBuf {
        PathBuf::from(&*message.id)
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn is_open(&self, _: &Message) -> bool {
        false
    }

    /// What an import notes in addition to a tool's result.
    fn complete_part(&self, _: &Message, part: &Part, made: &mut [Made]) {
        let (PartKind::Tool(tool), [_, result]) = (&part.kind, made) else {
            return;
        };
        let output = tool.error.as_ref().and(tool.output.as_ref());
        let files = Some(&tool.files).filter(|files| !files.is_empty());
        let more = [
            ("title", tool.title.as_ref().map(|text| json!(text))),
            ("pruned_at", tool.pruned.map(|ms| json!(at(ms)))),
            ("files", files.map(|files| json!(files))),
            ("output", output.map(|text| json!(text))),
        ];
        let more = more.into_iter();
        let more = more.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        result.add(more.collect());
    }

    fn complete_message(&self, message: &Message, made: &mut Vec<Made>) {
        if message.parts.is_empty() && message.error.is_none() {
            made.clear();
        }
        if let (Some(last), Some(tokens)) = (made.last_mut(), message.tokens) {
            let mut usage = json!(tokens);
            if let Some(cost) = message.cost {
                usage["cost"] = json!(cost);
            }
            last.item.usage = Some(RawJson::from_checked(usage.to_string()));
        }
        let mut marks = Vec::new();
        if self.0.boundaries.iter().any(|b| self.is_at(message, b.at)) {
            marks.push(
                "The conversation was compacted: what stands before was no longer shown to the model.",
            );
        }
        if self.0.reverted_at.is_some_and(|at| self.is_at(message, at)) {
            marks.push("The user has taken back what follows.");
        }
        let marks = marks.into_iter();
        made.splice(0..0, marks.map(|text| Made::note(text, message.created)));
    }
}

/// Masks what has the form of a credential in all that a document shows, but for ids.
fn masked(recorded: &mut Recorded) {
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
    let masked = label.as_deref();
    let masked = masked.and_then(|text| mask_text(text, &mut Masked::default()));
    if let Some(masked) = masked {
        *label = Some(masked.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filrouge_types::TurnStatus;

    use super::*;
    use crate::library::made::{Made, conversation, header, message};
    use crate::{MessageError, Role, Tool, ToolStatus};

    fn library(messages: Vec<Message>) -> Library {
        let source = Made::default();
        source.put(header("s", 1), conversation(messages));
        Library::new(vec![Arc::new(source)], 1 << 20)
    }

    fn recorded(messages: Vec<Message>) -> Recorded {
        let library = library(messages);
        let catalog = library.catalog();
        of(&library, catalog.get("s").unwrap(), false).unwrap()
    }

    #[test]
    fn who_was_stopped_has_not_failed() {
        for (name, wanted) in [
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
            let asked = message("m1", Role::User, Vec::new());
            let recorded = recorded(vec![asked, last]);
            assert_eq!(recorded.turns[0].0.status, wanted, "{name}");
        }
    }

    #[test]
    fn what_an_import_refuses_stands_in_the_document() {
        let tool = |id: &str| {
            let call = Tool {
                status: ToolStatus::Completed,
                output: Some("done".into()),
                ..Tool::call("c".into(), "ls".into(), "not JSON".into())
            };
            let kind = PartKind::Tool(Box::new(call));
            crate::library::made::part(id, kind)
        };
        let twice = vec![tool("same"), tool("same"), tool(&"long".repeat(1000))];
        let recorded = recorded(vec![message("m", Role::Assistant, twice)]);
        let items = &recorded.turns[0].1;
        assert_eq!(items.len(), 6);
        assert_eq!(items[0].body.parts.as_str().matches("not JSON").count(), 1);
        let seqs: Vec<_> = items.iter().map(|item| item.seq).collect();
        assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    }
}
