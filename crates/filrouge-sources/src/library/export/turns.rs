//! A conversation as turns: a message of the user, and every message up to the next one.

use filrouge_types::{
    Channel, Item, JsonText, ProjectId, RawJson, RequestId, Role, Session, SessionId,
    SessionStatus, TenantId, Timestamp, Turn, TurnId, TurnStatus,
};

use super::items::Writer;
use crate::library::LibraryError;
use crate::library::history::{ShownMessage, View};
use crate::library::list::Row;
use crate::{Message, PartKind, Role as Speaker, ToolStatus};

/// The turns with their items. Items have seqs from 1.
/// The first one begins with what was left out.
pub(super) fn of(
    view: &View<'_>,
    row: &Row,
    left_out: &[String],
) -> Result<Vec<(Turn, Vec<Item>)>, LibraryError> {
    let id = session_id(row)?;
    let mut writer = Writer::of(left_out);
    let mut turns: Vec<(Turn, Vec<Item>)> = Vec::new();
    let messages = &view.conversation.messages;
    let mut first = 0;
    for group in groups(messages) {
        let ordinal = turns.len() as u64 + 1;
        let turn_id = turn_id(ordinal);
        let range = first..first + group.len();
        first = range.end;
        let shown: Vec<ShownMessage> = range.filter_map(|index| view.whole(index)).collect();
        let mut items = Vec::new();
        let last = shown.iter().rposition(|m| m.role == Speaker::Assistant);
        for (n, message) in shown.iter().enumerate() {
            writer.message(message, turn_id, last == Some(n), &mut items);
        }
        let turn = turn(&id, turn_id, ordinal, group, &items)?;
        turns.push((turn, items));
    }
    Ok(turns)
}

/// The session as a document's heading tells it.
pub(super) fn session(row: &Row, turns: &[(Turn, Vec<Item>)]) -> Result<Session, LibraryError> {
    let project = row.project_name.as_ref().or(row.project_id.as_ref());
    let items = turns.iter().map(|(_, items)| items.len() as u64).sum();
    let parent = row
        .parent_id
        .as_ref()
        .and_then(|id| SessionId::new(id).ok());
    Ok(Session {
        session_id: session_id(row)?,
        tenant_id: TenantId::default_tenant(),
        identity_id: None,
        parent_session_id: parent,
        project_id: project.and_then(|id| ProjectId::new(id).ok()),
        team_id: None,
        title: row.title.as_deref().map(Into::into),
        status: match row.archived {
            Some(_) => SessionStatus::Closed,
            None => SessionStatus::Active,
        },
        state: None,
        last_seq: items,
        turn_count: turns.len() as u64,
        metadata: RawJson::from_checked("{}"),
        created_at: at(row.created),
        updated_at: at(row.updated),
        version: [0; 16],
    })
}

fn session_id(row: &Row) -> Result<SessionId, LibraryError> {
    SessionId::new(&row.id).map_err(|why| LibraryError::Invalid(why.to_string()))
}

/// Turns of a document need ids only to be linked to.
fn turn_id(ordinal: u64) -> TurnId {
    TurnId::from_derived(u128::from(ordinal).to_be_bytes())
}

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap_or(Timestamp::from_micros(0))
}

/// Each beginning with a message of the user; the first one also with what is before.
fn groups(messages: &[Message]) -> impl Iterator<Item = &[Message]> {
    messages.chunk_by(|_, next| next.role != Speaker::User)
}

fn turn(
    session: &SessionId,
    turn_id: TurnId,
    ordinal: u64,
    messages: &[Message],
    items: &[Item],
) -> Result<Turn, LibraryError> {
    let first = messages.first();
    let request = RequestId::new(first.map_or("", |m| &*m.id));
    let request = request.or_else(|_| RequestId::new(ordinal.to_string()));
    let ends = messages.iter().filter_map(|m| m.completed).max();
    let seq = |item: Option<&Item>| item.map_or(0, |i| i.seq);
    Ok(Turn {
        turn_id,
        session_id: session.clone(),
        request_id: request.map_err(|why| LibraryError::Invalid(why.to_string()))?,
        ordinal,
        status: status(messages),
        identity_id: None,
        question_neutral: texts(items, &Channel::Question),
        question_translated: None,
        answer_neutral: texts(items, &Channel::Final),
        answer_translated: None,
        answer_translated_is_fallback: false,
        translate_chat: false,
        pipeline_name: None,
        consultant: None,
        repository: None,
        metadata: RawJson::from_checked("{}"),
        first_seq: seq(items.first()),
        last_seq: seq(items.last()),
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: at(first.map_or(0, |m| m.created)),
        finalized_at: ends.map(at),
        deleted_at: None,
        replayed: false,
        differs: false,
    })
}

/// How a turn ended, by its last answer.
fn status(messages: &[Message]) -> TurnStatus {
    let mut newest = messages.iter().rev();
    let Some(last) = newest.find(|m| m.role == Speaker::Assistant) else {
        return TurnStatus::Open;
    };
    let is_running = last.parts.iter().any(|part| match &part.kind {
        PartKind::Tool(tool) => matches!(tool.status, ToolStatus::Pending | ToolStatus::Running),
        _ => false,
    });
    match &last.error {
        Some(error) if error.is_stop() => TurnStatus::Cancelled,
        Some(_) => TurnStatus::Failed,
        None if is_running => TurnStatus::Interrupted,
        None => TurnStatus::Finalized,
    }
}

/// The texts of a channel together.
fn texts(items: &[Item], channel: &Channel) -> Option<JsonText> {
    #[derive(serde::Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Option<std::borrow::Cow<'a, str>>,
    }
    let is_asked = |i: &&Item| i.body.channel == *channel && i.body.role != Role::System;
    let texts = items.iter().filter(is_asked).filter_map(|item| {
        let parts: Vec<Part<'_>> = serde_json::from_str(item.body.parts.as_str()).ok()?;
        parts
            .into_iter()
            .find_map(|part| part.text)
            .map(|text| text.into_owned())
    });
    let all = texts.collect::<Vec<_>>();
    (!all.is_empty()).then(|| JsonText::from_plain(&all.join("\n\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageError;
    use crate::library::made::message;

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
                ..message("m2", Speaker::Assistant, Vec::new())
            };
            let asked = message("m1", Speaker::User, Vec::new());
            assert_eq!(status(&[asked, last]), wanted, "{name}");
        }
    }
}
