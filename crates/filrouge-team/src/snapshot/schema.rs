//! The schema of snapshot files: camelCase JSON, written as version 1.0. Every version 1.x is read: unknown members are
//! ignored, speakers and addressees may have their older form (`roleId`, `roleName`, `roleTitle`), times may be
//! milliseconds. `todos` are dropped (DESIGN §11).

use std::collections::HashSet;
use std::io::Write;

use filrouge_types::{ItemId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Problem, SCHEMA_VERSION, SessionSnapshot};
use crate::message::{Addressee, Cut, Intent, Message, Routing, Speaker, SpeakerKind};
use crate::sessions::first_words;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileContent {
    schema_version: Option<Box<str>>,
    team_id: Box<str>,
    session_id: Box<str>,
    created_at: Moment,
    updated_at: Moment,
    context: FileContext,
    #[serde(skip_deserializing)]
    metadata: FileMetadata,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileContext {
    messages: Vec<FileMessage>,
    team_task: Option<Box<str>>,
    #[serde(skip_deserializing)]
    timestamp: i64,
    #[serde(skip_deserializing)]
    version: u8,
}

/// A summary for other programs; it is written and never read.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct FileMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_speaker_id: Option<Box<str>>,
    message_count: usize,
    summary: String,
}

#[derive(Serialize, Deserialize)]
struct FileMessage {
    id: Box<str>,
    timestamp: Moment,
    speaker: FileSpeaker,
    content: Box<str>,
    #[serde(default)]
    routing: FileRouting,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<Cut>,
}

/// A speaker in the file; the older form is read, too.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileSpeaker {
    id: Option<Box<str>>,
    name: Option<Box<str>>,
    display_name: Option<Box<str>>,
    #[serde(flatten, skip_serializing)]
    older: OlderMember,
    #[serde(rename = "type", with = "SpeakerKindName")]
    kind: SpeakerKind,
}

/// The names of the kinds of speakers.
#[derive(Serialize, Deserialize)]
#[serde(remote = "SpeakerKind", rename_all = "snake_case")]
enum SpeakerKindName {
    Human,
    #[serde(rename = "ai")]
    Agent,
    System,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FileRouting {
    raw_next_markers: Vec<Box<str>>,
    resolved_addressees: Vec<FileAddressee>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_message_id: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<Intent>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileAddressee {
    identifier: Box<str>,
    member_id: Option<Box<str>>,
    member_name: Option<Box<str>>,
    #[serde(flatten, skip_serializing)]
    older: OlderMember,
}

/// A member's fields in older files.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct OlderMember {
    role_id: Option<Box<str>>,
    role_name: Option<Box<str>>,
    role_title: Option<Box<str>>,
}

impl OlderMember {
    fn name(self) -> Option<Box<str>> {
        self.role_title.or(self.role_name)
    }
}

/// A time in the file: RFC 3339, or milliseconds since 1970.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Moment {
    At(Timestamp),
    Millis(i64),
}

impl Moment {
    fn timestamp(&self) -> Result<Timestamp, Problem> {
        match self {
            Self::At(at) => Ok(*at),
            Self::Millis(millis) => Timestamp::from_millis(*millis)
                .ok_or_else(|| Problem::Corrupt(format!("{millis}: a time out of range"))),
        }
    }
}

impl From<&Message> for FileMessage {
    fn from(message: &Message) -> Self {
        let (speaker, routing) = (&message.speaker, &message.routing);
        let addressee = |a: &Addressee| FileAddressee {
            identifier: a.identifier.clone(),
            member_id: a.member_id.clone(),
            member_name: a.member_name.clone(),
            older: OlderMember::default(),
        };
        Self {
            id: message.id.clone(),
            timestamp: Moment::At(message.at),
            speaker: FileSpeaker {
                id: Some(speaker.id.clone()),
                name: Some(speaker.name.clone()),
                display_name: Some(speaker.name.clone()),
                older: OlderMember::default(),
                kind: speaker.kind,
            },
            content: message.content.clone(),
            routing: FileRouting {
                raw_next_markers: routing.markers.clone(),
                resolved_addressees: routing.addressees.iter().map(addressee).collect(),
                parent_message_id: routing.parent.clone(),
                intent: routing.intent,
            },
            cut: message.cut,
        }
    }
}

impl FileMessage {
    fn into_message(self) -> Result<Message, Problem> {
        let corrupt = |detail: String| Problem::Corrupt(format!("message {:?}: {detail}", self.id));
        ItemId::new(&*self.id).map_err(|e| corrupt(e.to_string()))?;
        let (speaker, routing) = (self.speaker, self.routing);
        let id = speaker.id.or(speaker.older.role_id.clone());
        let id = id.ok_or_else(|| corrupt("its speaker has no id".to_owned()))?;
        let name = speaker.display_name.or(speaker.name);
        let addressee = |a: FileAddressee| Addressee {
            identifier: a.identifier,
            member_id: a.member_id.or(a.older.role_id.clone()),
            member_name: a.member_name.or_else(|| a.older.name()),
        };
        Ok(Message {
            id: self.id,
            at: self.timestamp.timestamp()?,
            speaker: Speaker {
                name: (name.or_else(|| speaker.older.name())).unwrap_or_else(|| id.clone()),
                id,
                kind: speaker.kind,
            },
            content: self.content,
            routing: Routing {
                markers: routing.raw_next_markers,
                addressees: (routing.resolved_addressees.into_iter())
                    .map(addressee)
                    .collect(),
                parent: routing.parent_message_id,
                intent: routing.intent,
            },
            cut: self.cut,
        })
    }
}

/// Writes a snapshot.
pub(super) fn write(snapshot: &SessionSnapshot, out: impl Write) -> serde_json::Result<()> {
    let messages = &snapshot.messages;
    let first = messages.first().map_or_else(Box::default, first_words);
    let content = FileContent {
        schema_version: Some(SCHEMA_VERSION.into()),
        team_id: snapshot.team_id.clone(),
        session_id: snapshot.session_id.clone(),
        created_at: Moment::At(snapshot.created_at),
        updated_at: Moment::At(snapshot.updated_at),
        context: FileContext {
            messages: messages.iter().map(Into::into).collect(),
            team_task: snapshot.team_task.clone(),
            timestamp: snapshot.updated_at.as_millis(),
            version: 1,
        },
        metadata: FileMetadata {
            last_speaker_id: messages.last().map(|m| m.speaker.id.clone()),
            message_count: messages.len(),
            summary: format!("{} messages: {first}", messages.len()),
        },
    };
    serde_json::to_writer(out, &content)
}

/// The version of a file, which is read before its other members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaVersion {
    schema_version: Option<Box<str>>,
}

/// The problem of a file whose JSON cannot be parsed: [`Problem::Cut`] if the JSON ends too early, else the problem
/// that `otherwise` builds from the parser's message.
fn parse_problem(error: &serde_json::Error, otherwise: fn(String) -> Problem) -> Problem {
    match error.is_eof() {
        true => Problem::Cut,
        false => otherwise(error.to_string()),
    }
}

/// Reads a snapshot.
pub(super) fn read(bytes: &[u8]) -> Result<SessionSnapshot, Problem> {
    if bytes.is_empty() {
        return Err(Problem::Cut);
    }
    let version: SchemaVersion =
        serde_json::from_slice(bytes).map_err(|e| parse_problem(&e, Problem::Foreign))?;
    let Some(version) = version.schema_version else {
        return Err(Problem::Foreign("it has no schemaVersion".to_owned()));
    };
    if version.split('.').next() != Some("1") {
        return Err(Problem::Newer(version.into()));
    }
    let content: FileContent =
        serde_json::from_slice(bytes).map_err(|e| parse_problem(&e, Problem::Corrupt))?;
    let mut ids = HashSet::new();
    let mut messages = Vec::with_capacity(content.context.messages.len());
    for message in content.context.messages {
        let message = message.into_message()?;
        if !ids.insert(message.id.clone()) {
            let detail = format!("two messages have the id {:?}", message.id);
            return Err(Problem::Corrupt(detail));
        }
        messages.push(message);
    }
    Ok(SessionSnapshot {
        team_id: content.team_id,
        session_id: content.session_id,
        created_at: content.created_at.timestamp()?,
        updated_at: content.updated_at.timestamp()?,
        messages,
        team_task: content.context.team_task,
    })
}

#[cfg(test)]
mod tests;
