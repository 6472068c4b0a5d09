//! Messages as items of the ledger, and back (DESIGN §3, §11).
//!
//! A message is one item: its id is the item's key, its text the item's text, and what makes it a message of a team
//! stands in the item's metadata under `team`. What is still being said is a draft, in which the same stands as a part
//! of type `team_message`: whoever ends the draft, the item that it leaves is read as the message it was.

use std::borrow::Cow;

use filrouge_engine::spoken::mark_of;
use filrouge_types::{
    Channel, ErrorCode, Failure, Item, ItemBody, ItemId, JsonText, RawJson, Role, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::context::message_number;
use crate::message::{Cut, Message, Routing, Speaker, SpeakerKind};
use crate::record::AgentError;

/// The part that a draft has beside its text.
const MESSAGE_PART: &str = "team_message";
/// The part of an item that sets the team task.
const TASK_PART: &str = "team_task";
/// The part of an item that stands where nobody has said anything.
const NOTE_PART: &str = "team_note";

/// Metadata of an item, or what stands in it.
#[derive(Serialize, Deserialize)]
struct Metadata<'a> {
    team: Told<'a>,
}

/// What an item holds of a message beside its key, its text and its time.
#[derive(Serialize, Deserialize)]
struct Told<'a> {
    speaker: Cow<'a, Speaker>,
    #[serde(flatten)]
    routing: Cow<'a, Routing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
}

impl<'a> From<&'a Message> for Told<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            speaker: Cow::Borrowed(&message.speaker),
            routing: Cow::Borrowed(&message.routing),
            cut: message.cut,
        }
    }
}

impl Told<'_> {
    fn message(self, id: Box<str>, at: Timestamp, content: Box<str>) -> Message {
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

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorCode::Internal, format!("a message as JSON: {error}"))
}

fn token(text: &str) -> String {
    JsonText::from_plain(text).as_token().to_owned()
}

/// The key of a message's item.
///
/// # Errors
/// `invalid` for an id that no item can have.
pub(crate) fn key_of(message: &Message) -> Result<ItemId, Failure> {
    ItemId::new(&*message.id).map_err(|e| {
        let what = format!("the message id {:?}: {e}", message.id);
        Failure::new(ErrorCode::Invalid, what)
    })
}

/// A message as an item on this channel; `error` is what its agent failed of.
///
/// # Errors
/// `invalid` for an id that no item can have.
pub(crate) fn item_of(
    message: &Message,
    channel: Channel,
    error: Option<&AgentError>,
) -> Result<ItemBody, Failure> {
    let mut parts = format!(r#"[{{"type":"text","text":{}}}"#, token(&message.content));
    if let Some(error) = error {
        // Among the contents, so that a redaction takes it away with them.
        parts.push_str(&format!(
            r#",{{"type":"error","code":{},"message":{},"source":"agent","retryable":true}}"#,
            token(error.code),
            token(&error.detail)
        ));
    }
    parts.push(']');
    let team = Told::from(message);
    let (role, agent) = match message.speaker.kind {
        SpeakerKind::Human => (Role::User, Some(message.speaker.name.clone())),
        SpeakerKind::Agent => (Role::Assistant, Some(message.speaker.name.clone())),
        SpeakerKind::System => (Role::System, None),
    };
    Ok(ItemBody {
        item_id: Some(key_of(message)?),
        agent,
        metadata: Some(RawJson::write(&Metadata { team }).map_err(unwritable)?),
        occurred_at: Some(message.at),
        ..ItemBody::new(role, channel, RawJson::from_checked(parts))
    })
}

/// What a draft says of the message beside its text. `whole` once it has ended.
///
/// # Errors
/// None but of the program's own.
pub(crate) fn about(message: &Message, whole: bool) -> Result<RawJson, Failure> {
    let told = RawJson::write(&Told::from(message)).map_err(unwritable)?;
    Ok(RawJson::from_checked(format!(
        r#"{{"type":"{MESSAGE_PART}","id":{},"at":"{}","whole":{whole},"team":{}}}"#,
        token(&message.id),
        message.at,
        told.as_str()
    )))
}

/// The item that sets the team task.
pub(crate) fn task_item(task: Option<&str>) -> ItemBody {
    let task = task.map_or_else(|| "null".to_owned(), token);
    let parts = format!(r#"[{{"type":"{TASK_PART}","task":{task}}}]"#);
    ItemBody::new(
        Role::System,
        Channel::SystemNote,
        RawJson::from_checked(parts),
    )
}

/// An item that says nothing: where a turn needs one.
pub(crate) fn note_item(what: &'static str) -> ItemBody {
    let parts = format!(r#"[{{"type":"{NOTE_PART}","note":"{what}"}}]"#);
    ItemBody::new(
        Role::System,
        Channel::SystemNote,
        RawJson::from_checked(parts),
    )
}

/// What an item is to a team.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A message; `from_draft` of one that a draft has left.
    Message { message: Message, from_draft: bool },
    /// The team task from here on.
    Task(Option<Box<str>>),
    /// A message that was redacted: its id, or its number when a draft has left it.
    Redacted(RedactedId),
    /// It says something, and is no message of the team.
    Foreign,
    /// Nothing that anybody has said.
    Nothing,
}

/// What is left of the id of a redacted message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RedactedId {
    /// The id.
    Whole(Box<str>),
    /// The number in its draft's name.
    Number(u64),
}

/// A part, as far as it matters here.
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
pub(crate) fn read(item: &Item) -> Read {
    let metadata = item.body.metadata.as_ref();
    let team = metadata.and_then(|m| serde_json::from_str::<Metadata<'_>>(m.as_str()).ok());
    if item.redacted {
        return redacted(item, team.is_some());
    }
    let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(item.body.parts.as_str()) else {
        return unread(item);
    };
    if let (Some(metadata), Some(id)) = (team, &item.body.item_id) {
        let at = item.when();
        let message = metadata.team.message(id.as_str().into(), at, said(item));
        return Read::Message {
            message,
            from_draft: false,
        };
    }
    if item.body.channel == Channel::SystemNote
        && let [part] = parts.as_slice()
        && part.kind == TASK_PART
    {
        return Read::Task(part.task.as_deref().map(Into::into));
    }
    let about = parts.iter().find(|part| part.kind == MESSAGE_PART);
    match about.and_then(drafted) {
        Some(mut message) => {
            message.content = said(item);
            Read::Message {
                message,
                from_draft: true,
            }
        }
        None => unread(item),
    }
}

/// The message of a draft, as its part tells it; its text stands elsewhere.
fn drafted(part: &Part<'_>) -> Option<Message> {
    let told: Told<'_> = serde_json::from_str(part.team?.get()).ok()?;
    let mut message = told.message(part.id.as_deref()?.into(), part.at?, "".into());
    if !part.whole {
        message.cut = Some(Cut::Interrupted);
    }
    Some(message)
}

/// The message that a draft shows; `None` when it is none of a team.
pub(crate) fn read_draft(about: Option<&RawJson>, text: &str) -> Option<Message> {
    let part: Part<'_> = serde_json::from_str(about?.as_str()).ok()?;
    let mut message = drafted(&part).filter(|_| part.kind == MESSAGE_PART)?;
    message.content = text.into();
    Some(message)
}

fn said(item: &Item) -> Box<str> {
    let text = item.body.text();
    text.map_or_else(|| "".into(), |text| text.to_plain().into())
}

fn redacted(item: &Item, is_message: bool) -> Read {
    match &item.body.item_id {
        Some(id) if is_message => Read::Redacted(RedactedId::Whole(id.as_str().into())),
        Some(id) if item.body.role == Role::Assistant && item.body.channel == Channel::Partial => {
            mark_of(id).map_or(Read::Nothing, |mark| {
                Read::Redacted(RedactedId::Number(mark.into()))
            })
        }
        _ => Read::Nothing,
    }
}

/// An item that is no message: whether it says something all the same.
fn unread(item: &Item) -> Read {
    let says = matches!(item.body.role, Role::User | Role::Assistant)
        && matches!(
            item.body.channel,
            Channel::Question | Channel::Final | Channel::Partial | Channel::Observation
        );
    match says {
        true => Read::Foreign,
        false => Read::Nothing,
    }
}

/// The number of a message's id; 0 for an id of another form.
pub(crate) fn number_of(id: &str) -> u64 {
    message_number(id).unwrap_or(0)
}

#[cfg(test)]
mod tests;
