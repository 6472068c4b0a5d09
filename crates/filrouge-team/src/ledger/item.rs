//! Converts messages to items of the ledger, and back (DESIGN §3, §11).
//!
//! A message is one item: its id is the item's key, its text the item's text, and its team-specific fields are in the
//! item's metadata under `team`. A message that is still growing is a draft, which has the same fields in a part of
//! type `team_message`: however the draft ends, its item is read as the same message.

use std::borrow::Cow;

use filrouge_engine::utterances::mark_of;
use filrouge_types::{
    Channel, ErrorCode, Failure, Item, ItemBody, ItemId, JsonText, RawJson, Role, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::message_number;
use crate::message::{Cut, Message, Routing, Speaker, SpeakerKind};
use crate::record::AgentError;

/// The type of the part of a draft that describes its message, next to the text.
const MESSAGE_PART: &str = "team_message";
/// The type of the part of an item that sets the team task.
const TASK_PART: &str = "team_task";
/// The type of the part of an item that has no speaker and no text.
const NOTE_PART: &str = "team_note";

/// The metadata of a message's item.
#[derive(Serialize, Deserialize)]
struct Metadata<'a> {
    team: MessageFields<'a>,
}

/// The fields of a message other than its id, text and time.
#[derive(Serialize, Deserialize)]
struct MessageFields<'a> {
    speaker: Cow<'a, Speaker>,
    #[serde(flatten)]
    routing: Cow<'a, Routing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
}

impl<'a> From<&'a Message> for MessageFields<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            speaker: Cow::Borrowed(&message.speaker),
            routing: Cow::Borrowed(&message.routing),
            cut: message.cut,
        }
    }
}

impl MessageFields<'_> {
    fn into_message(self, id: Box<str>, at: Timestamp, content: Box<str>) -> Message {
        Message {
            id,
            at,
            speaker: self.speaker.into_owned(),
            content,
            routing: self.routing.into_owned(),
            cut: self.cut,
        }
    }
}

fn json_failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorCode::Internal, format!("a message as JSON: {error}"))
}

/// The text as a JSON string.
fn json_string(text: &str) -> String {
    JsonText::from_plain(text).as_token().to_owned()
}

/// The key of a message's item.
///
/// # Errors
/// `invalid` for an id that is not a valid item id.
pub(crate) fn item_id_of(message: &Message) -> Result<ItemId, Failure> {
    ItemId::new(&*message.id)
        .map_err(|e| ErrorCode::Invalid.failure(format!("the message id {:?}: {e}", message.id)))
}

/// Writes a message as an item on this channel. `error` is the failure of its agent, if it failed.
///
/// # Errors
/// `invalid` for an id that is not a valid item id.
pub(crate) fn to_item(
    message: &Message,
    channel: Channel,
    error: Option<&AgentError>,
) -> Result<ItemBody, Failure> {
    let mut parts = format!(
        r#"[{{"type":"text","text":{}}}"#,
        json_string(&message.content)
    );
    if let Some(error) = error {
        // The error is in the parts, so that a redaction erases it together with the text.
        parts.push_str(&format!(
            r#",{{"type":"error","code":{},"message":{},"source":"agent","retryable":true}}"#,
            json_string(error.code),
            json_string(&error.detail)
        ));
    }
    parts.push(']');
    let team = MessageFields::from(message);
    let (role, agent) = match message.speaker.kind {
        SpeakerKind::Human => (Role::User, Some(message.speaker.name.clone())),
        SpeakerKind::Agent => (Role::Assistant, Some(message.speaker.name.clone())),
        SpeakerKind::System => (Role::System, None),
    };
    Ok(ItemBody {
        item_id: Some(item_id_of(message)?),
        agent,
        metadata: Some(RawJson::write(&Metadata { team }).map_err(json_failure)?),
        occurred_at: Some(message.at),
        ..ItemBody::new(role, channel, RawJson::from_checked(parts))
    })
}

/// The state of a drafted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DraftState {
    /// More text may follow.
    Growing,
    /// The message has ended.
    Complete,
}

/// The part of a draft that describes its message.
///
/// # Errors
/// Only an internal error.
pub(crate) fn draft_description(message: &Message, state: DraftState) -> Result<RawJson, Failure> {
    let is_complete = state == DraftState::Complete;
    let fields = RawJson::write(&MessageFields::from(message)).map_err(json_failure)?;
    Ok(RawJson::from_checked(format!(
        r#"{{"type":"{MESSAGE_PART}","id":{},"at":"{}","whole":{is_complete},"team":{}}}"#,
        json_string(&message.id),
        message.at,
        fields.as_str()
    )))
}

/// The item that sets the team task; `None` clears the task.
pub(crate) fn task_item(task: Option<&str>) -> ItemBody {
    let task = task.map_or_else(|| "null".to_owned(), json_string);
    system_note(format!(r#"[{{"type":"{TASK_PART}","task":{task}}}]"#))
}

/// An item without text for people, for a turn or a checkpoint that needs an item. `purpose` is the reason for it.
pub(crate) fn note_item(purpose: &'static str) -> ItemBody {
    system_note(format!(r#"[{{"type":"{NOTE_PART}","note":"{purpose}"}}]"#))
}

fn system_note(parts: String) -> ItemBody {
    let parts = RawJson::from_checked(parts);
    ItemBody::new(Role::System, Channel::SystemNote, parts)
}

/// An item as a team reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedItem {
    /// A message; `from_draft` if its item comes from an unfinished draft.
    Message { message: Message, from_draft: bool },
    /// The team task from this item on; `None`: it is cleared.
    Task(Option<Box<str>>),
    /// A redacted message: its id, or its number if its item comes from a draft.
    Redacted(RedactedId),
    /// An item with text that is not a message of the team.
    Foreign,
    /// An item without text for people.
    NoText,
}

/// The remaining identification of a redacted message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedactedId {
    /// The message's id.
    Id(Box<str>),
    /// The number in its draft's name.
    Number(u64),
}

/// A part, with the fields that are read here.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    task: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    at: Option<Timestamp>,
    #[serde(default)]
    whole: bool,
    #[serde(default, borrow)]
    team: Option<&'a RawValue>,
}

/// Reads an item.
pub(crate) fn parse_item(item: &Item) -> ParsedItem {
    let metadata = item.body.metadata.as_ref();
    let team = metadata.and_then(|m| serde_json::from_str::<Metadata<'_>>(m.as_str()).ok());
    if item.redacted {
        return parse_redacted(item, team.is_some());
    }
    let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(item.body.parts.as_str()) else {
        return classify_other(item);
    };
    if let (Some(metadata), Some(id)) = (team, &item.body.item_id) {
        let at = item.when();
        let message = metadata
            .team
            .into_message(id.as_str().into(), at, item_text(item));
        return ParsedItem::Message {
            message,
            from_draft: false,
        };
    }
    if item.body.channel == Channel::SystemNote
        && let [part] = parts.as_slice()
        && part.kind == TASK_PART
    {
        return ParsedItem::Task(part.task.as_deref().map(Into::into));
    }
    let description = parts.iter().find(|part| part.kind == MESSAGE_PART);
    match description.and_then(described_message) {
        Some(mut message) => {
            message.content = item_text(item);
            ParsedItem::Message {
                message,
                from_draft: true,
            }
        }
        None => classify_other(item),
    }
}

/// Reads a draft's message, without its text, from the part that describes it. The message is cut unless the draft is
/// complete.
fn described_message(part: &Part<'_>) -> Option<Message> {
    let fields: MessageFields<'_> = serde_json::from_str(part.team?.get()).ok()?;
    let mut message = fields.into_message(part.id.as_deref()?.into(), part.at?, "".into());
    if !part.whole {
        message.cut = Some(Cut::Interrupted);
    }
    Some(message)
}

/// The message that a draft shows; `None` if the draft is not a team's.
pub(crate) fn read_draft(description: Option<&RawJson>, text: &str) -> Option<Message> {
    let part: Part<'_> = serde_json::from_str(description?.as_str()).ok()?;
    let mut message = described_message(&part).filter(|_| part.kind == MESSAGE_PART)?;
    message.content = text.into();
    Some(message)
}

fn item_text(item: &Item) -> Box<str> {
    let text = item.body.text();
    text.map_or_else(|| "".into(), |text| text.to_plain().into())
}

/// Reads a redacted item. `is_message` states whether its metadata, which a redaction keeps, describes a message.
fn parse_redacted(item: &Item, is_message: bool) -> ParsedItem {
    match &item.body.item_id {
        Some(id) if is_message => ParsedItem::Redacted(RedactedId::Id(id.as_str().into())),
        Some(id) if item.body.role == Role::Assistant && item.body.channel == Channel::Partial => {
            mark_of(id).map_or(ParsedItem::NoText, |mark| {
                ParsedItem::Redacted(RedactedId::Number(mark.into()))
            })
        }
        _ => ParsedItem::NoText,
    }
}

/// Classifies an item that is not a message: foreign if it has text for people.
fn classify_other(item: &Item) -> ParsedItem {
    let has_text_for_people = matches!(item.body.role, Role::User | Role::Assistant)
        && matches!(
            item.body.channel,
            Channel::Question | Channel::Final | Channel::Partial | Channel::Observation
        );
    match has_text_for_people {
        true => ParsedItem::Foreign,
        false => ParsedItem::NoText,
    }
}

/// The number of a message's id; 0 for an id of another form.
pub(crate) fn number_or_zero(id: &str) -> u64 {
    message_number(id).unwrap_or(0)
}

#[cfg(test)]
mod tests;
