//! The notation of snapshot files: camelCase JSON, written as version 1.0. Read is any 1.x: members that are not known
//! are passed over, speakers and addressees also in their older form (`roleId`, `roleName`, `roleTitle`), times also as
//! milliseconds. `todos` are not kept (DESIGN §11).

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use filrouge_types::{ItemId, Timestamp};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use super::{Problem, SCHEMA_VERSION, SessionSnapshot};
use crate::message::{Addressee, Cut, Intent, Message, Routing, Speaker, SpeakerKind};
use crate::sessions::first_words;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    schema_version: &'static str,
    team_id: &'a str,
    session_id: &'a str,
    created_at: Timestamp,
    updated_at: Timestamp,
    context: WrittenContext<'a>,
    metadata: WrittenMetadata<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenContext<'a> {
    messages: Messages<'a>,
    team_task: Option<&'a str>,
    timestamp: i64,
    version: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_speaker_id: Option<&'a str>,
    message_count: usize,
    summary: String,
}

struct Messages<'a>(&'a [Arc<Message>]);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for message in self.0 {
            list.serialize_element(&WrittenMessage::from(&**message))?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct WrittenMessage<'a> {
    id: &'a str,
    timestamp: Timestamp,
    speaker: WrittenSpeaker<'a>,
    content: &'a str,
    routing: WrittenRouting<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<Word<Cut>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenSpeaker<'a> {
    id: &'a str,
    name: &'a str,
    display_name: &'a str,
    #[serde(rename = "type")]
    kind: Word<SpeakerKind>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRouting<'a> {
    raw_next_markers: &'a [Box<str>],
    resolved_addressees: Vec<WrittenAddressee<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<Word<Intent>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenAddressee<'a> {
    identifier: &'a str,
    member_id: Option<&'a str>,
    member_name: Option<&'a str>,
}

impl<'a> From<&'a Message> for WrittenMessage<'a> {
    fn from(message: &'a Message) -> Self {
        let (speaker, routing) = (&message.speaker, &message.routing);
        let addressee = |a: &'a Addressee| WrittenAddressee {
            identifier: &a.identifier,
            member_id: a.member_id.as_deref(),
            member_name: a.member_name.as_deref(),
        };
        Self {
            id: &message.id,
            timestamp: message.at,
            speaker: WrittenSpeaker {
                id: &speaker.id,
                name: &speaker.name,
                display_name: &speaker.name,
                kind: Word(speaker.kind),
            },
            content: &message.content,
            routing: WrittenRouting {
                raw_next_markers: &routing.markers,
                resolved_addressees: routing.addressees.iter().map(addressee).collect(),
                parent_message_id: routing.parent.as_deref(),
                intent: routing.intent.map(Word),
            },
            cut: message.cut.map(Word),
        }
    }
}

/// A word of a closed list.
struct Word<T>(T);

macro_rules! words {
    ($of:ident { $($word:literal = $value:ident),+ }) => {
        impl Serialize for Word<$of> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(match self.0 { $($of::$value => $word),+ })
            }
        }

        impl<'de> Deserialize<'de> for Word<$of> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match &*Cow::<str>::deserialize(deserializer)? {
                    $($word => Ok(Self($of::$value)),)+
                    other => Err(de::Error::unknown_variant(other, &[$($word),+])),
                }
            }
        }
    };
}

words!(SpeakerKind { "human" = Human, "ai" = Agent, "system" = System });
words!(Intent { "interrupt" = Interrupt, "reply" = Reply, "extend" = Extend });
words!(Cut { "cancelled" = Cancelled, "failed" = Failed, "interrupted" = Interrupted });

/// Writes a snapshot.
pub(super) fn write(snapshot: &SessionSnapshot, out: impl Write) -> serde_json::Result<()> {
    let messages = &snapshot.messages;
    let first = messages
        .first()
        .map_or_else(Box::default, |m| first_words(m));
    let written = Written {
        schema_version: SCHEMA_VERSION,
        team_id: &snapshot.team_id,
        session_id: &snapshot.session_id,
        created_at: snapshot.created_at,
        updated_at: snapshot.updated_at,
        context: WrittenContext {
            messages: Messages(messages),
            team_task: snapshot.team_task.as_deref(),
            timestamp: snapshot.updated_at.as_millis(),
            version: 1,
        },
        metadata: WrittenMetadata {
            last_speaker_id: messages.last().map(|m| &*m.speaker.id),
            message_count: messages.len(),
            summary: format!("{} messages: {first}", messages.len()),
        },
    };
    serde_json::to_writer(out, &written)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Versioned<'a> {
    #[serde(borrow, default)]
    schema_version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSnapshot {
    team_id: Box<str>,
    session_id: Box<str>,
    created_at: Moment,
    updated_at: Moment,
    context: ReadContext,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadContext {
    messages: Vec<ReadMessage>,
    #[serde(default)]
    team_task: Option<Box<str>>,
}

#[derive(Deserialize)]
struct ReadMessage {
    id: Box<str>,
    timestamp: Moment,
    speaker: ReadSpeaker,
    content: Box<str>,
    #[serde(default)]
    routing: ReadRouting,
    #[serde(default)]
    cut: Option<Word<Cut>>,
}

/// A speaker in its form or the older one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadSpeaker {
    id: Option<Box<str>>,
    name: Option<Box<str>>,
    display_name: Option<Box<str>>,
    role_id: Option<Box<str>>,
    role_name: Option<Box<str>>,
    role_title: Option<Box<str>>,
    #[serde(rename = "type")]
    kind: Word<SpeakerKind>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReadRouting {
    raw_next_markers: Vec<Box<str>>,
    resolved_addressees: Vec<ReadAddressee>,
    parent_message_id: Option<Box<str>>,
    intent: Option<Word<Intent>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadAddressee {
    identifier: Box<str>,
    member_id: Option<Box<str>>,
    member_name: Option<Box<str>>,
    role_id: Option<Box<str>>,
    role_name: Option<Box<str>>,
    role_title: Option<Box<str>>,
}

/// A time as RFC 3339 or in milliseconds.
struct Moment(Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MomentVisitor;

        impl Visitor<'_> for MomentVisitor {
            type Value = Moment;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an RFC 3339 time, or milliseconds since 1970")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                text.parse().map(Moment).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, millis: i64) -> Result<Moment, E> {
                let at = Timestamp::from_millis(millis);
                at.map(Moment)
                    .ok_or_else(|| E::custom("a time out of range"))
            }

            fn visit_u64<E: de::Error>(self, millis: u64) -> Result<Moment, E> {
                let millis = i64::try_from(millis).map_err(E::custom)?;
                self.visit_i64(millis)
            }
        }

        deserializer.deserialize_any(MomentVisitor)
    }
}

impl ReadSpeaker {
    fn speaker(self) -> Option<Speaker> {
        let id = self.id.or(self.role_id)?;
        let shown = self.display_name.or(self.name);
        let older = self.role_title.or(self.role_name);
        Some(Speaker {
            name: shown.or(older).unwrap_or_else(|| id.clone()),
            id,
            kind: self.kind.0,
        })
    }
}

impl ReadMessage {
    fn message(self) -> Result<Message, String> {
        let (id, speaker) = (self.id, self.speaker.speaker());
        if let Err(error) = ItemId::new(&*id) {
            return Err(format!("the message id {id:?}: {error}"));
        }
        let addressee = |a: ReadAddressee| Addressee {
            identifier: a.identifier,
            member_id: a.member_id.or(a.role_id),
            member_name: a.member_name.or(a.role_title).or(a.role_name),
        };
        let routing = self.routing;
        Ok(Message {
            speaker: speaker.ok_or_else(|| format!("message {id:?} has no speaker's id"))?,
            id,
            at: self.timestamp.0,
            content: self.content,
            routing: Routing {
                markers: routing.raw_next_markers,
                addressees: routing
                    .resolved_addressees
                    .into_iter()
                    .map(addressee)
                    .collect(),
                parent: routing.parent_message_id,
                intent: routing.intent.map(|word| word.0),
            },
            cut: self.cut.map(|word| word.0),
        })
    }
}

fn unread(error: &serde_json::Error, otherwise: fn(String) -> Problem) -> Problem {
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
    let version: Versioned<'_> =
        serde_json::from_slice(bytes).map_err(|e| unread(&e, Problem::Foreign))?;
    let Some(version) = version.schema_version else {
        return Err(Problem::Foreign("it has no schemaVersion".to_owned()));
    };
    if version.split('.').next() != Some("1") {
        return Err(Problem::Newer(version.into_owned()));
    }
    let read: ReadSnapshot =
        serde_json::from_slice(bytes).map_err(|e| unread(&e, Problem::Corrupt))?;
    let mut ids = HashSet::new();
    let mut messages = Vec::with_capacity(read.context.messages.len());
    for message in read.context.messages {
        let message = message.message().map_err(Problem::Corrupt)?;
        if !ids.insert(message.id.clone()) {
            let what = format!("two messages are called {:?}", message.id);
            return Err(Problem::Corrupt(what));
        }
        messages.push(Arc::new(message));
    }
    Ok(SessionSnapshot {
        team_id: read.team_id,
        session_id: read.session_id,
        created_at: read.created_at.0,
        updated_at: read.updated_at.0,
        messages,
        team_task: read.context.team_task,
    })
}

#[cfg(test)]
mod tests;
