//! An item of a bundle: the public record, then what its link is made of. There is one way to write it.

use std::fmt::Write;

use filrouge_store::record::{ChainedItem, CloseEvent, Event, Proof, Seqs, StartEvent};
use filrouge_types::{
    Channel, IdentityId, Item, ItemBody, ItemId, RawJson, RequestId, Role, Timestamp, TurnId,
    TurnStatus, Variant,
};
use serde::{Deserialize, Serialize};

use crate::hex::{from_hex, to_hex};

/// All members of an item, in order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemJson {
    seq: u64,
    item_id: Option<ItemId>,
    turn_id: Option<TurnId>,
    role: Role,
    channel: Channel,
    variant: Variant,
    parts: RawJson,
    agent: Option<Box<str>>,
    model: Option<Box<str>>,
    usage: Option<RawJson>,
    metadata: Option<RawJson>,
    occurred_at: Option<Timestamp>,
    created_at: Timestamp,
    redacted: bool,
    events: Vec<EventJson>,
    salt: Option<String>,
    commitment: Option<String>,
    redaction_seq: Option<u64>,
    link: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum EventJson {
    Start(Box<StartJson>),
    Close(Box<CloseJson>),
    Interrupt {},
    Reopen {},
    Redact { seqs: Vec<(u64, u64)> },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartJson {
    request_id: RequestId,
    identity_id: Option<IdentityId>,
    fingerprint: String,
    replaces: Option<TurnId>,
    translate_chat: bool,
    pipeline_name: Option<Box<str>>,
    consultant: Option<Box<str>>,
    repository: Option<Box<str>>,
    metadata: Option<RawJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseJson {
    status: TurnStatus,
    fingerprint: String,
    answer_translated_is_fallback: bool,
    metadata: Option<RawJson>,
}

/// Writes an item.
pub(super) fn write(one: &ChainedItem) -> Result<String, serde_json::Error> {
    let mut out = serde_json::to_string(&one.item)?;
    // The members that follow belong to the same object.
    out.pop();
    let events: Vec<EventJson> = one.events.iter().map(event_json).collect();
    let events = serde_json::to_string(&events)?;
    // Writing to a string does not fail.
    let _ = write!(out, ",\"events\":{events}");
    let _ = match one.proof {
        Proof::Salt(salt) => write!(out, ",\"salt\":\"{}\"", to_hex(&salt)),
        Proof::Erased {
            commitment,
            redaction_seq,
        } => write!(
            out,
            ",\"commitment\":\"{}\",\"redaction_seq\":{redaction_seq}",
            to_hex(&commitment)
        ),
    };
    let _ = write!(out, ",\"link\":\"{}\"}}", to_hex(&one.link));
    Ok(out)
}

/// Reads an item; `Err` tells what is wrong with it.
pub(super) fn read(json: &str) -> Result<ChainedItem, String> {
    let read: ItemJson = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let hex = |what: &str| format!("{what} is not lower-case hexadecimal of the right length");
    let proof = match (&read.salt, &read.commitment, read.redaction_seq) {
        (Some(salt), None, None) if !read.redacted => {
            Proof::Salt(from_hex(salt).ok_or_else(|| hex("salt"))?)
        }
        (None, Some(commitment), Some(redaction_seq)) if read.redacted => Proof::Erased {
            commitment: from_hex(commitment).ok_or_else(|| hex("commitment"))?,
            redaction_seq,
        },
        _ => {
            return Err(
                "an item has a salt, or once redacted a commitment and a redaction_seq".into(),
            );
        }
    };
    if read.redacted && read.parts.as_str() != "[]" {
        // Nothing would vouch for it: the commitment is that of what was erased.
        return Err("the item was redacted and has a content".into());
    }
    let objects = [&read.usage, &read.metadata];
    if !read.parts.is_array() || !objects.into_iter().flatten().all(RawJson::is_object) {
        return Err("parts are an array, usage and metadata are objects".into());
    }
    let mut events = Vec::with_capacity(read.events.len());
    for event in read.events {
        events.push(event_of(event).ok_or("an event is malformed")?);
    }
    if events.len() > 1 && events.iter().any(|e| matches!(e, Event::Redact(_))) {
        return Err("a redaction does nothing else".into());
    }
    Ok(ChainedItem {
        item: Item {
            seq: read.seq,
            turn_id: read.turn_id,
            created_at: read.created_at,
            redacted: read.redacted,
            body: ItemBody {
                item_id: read.item_id,
                role: read.role,
                channel: read.channel,
                variant: read.variant,
                parts: read.parts,
                agent: read.agent,
                model: read.model,
                usage: read.usage,
                metadata: read.metadata,
                occurred_at: read.occurred_at,
            },
        },
        events,
        proof,
        link: from_hex(&read.link).ok_or_else(|| hex("link"))?,
    })
}

fn event_json(event: &Event) -> EventJson {
    match event {
        Event::Start(e) => EventJson::Start(Box::new(StartJson {
            request_id: e.request_id.clone(),
            identity_id: e.identity_id.clone(),
            fingerprint: to_hex(&e.fingerprint),
            replaces: e.replaces,
            translate_chat: e.translate_chat,
            pipeline_name: e.pipeline_name.clone(),
            consultant: e.consultant.clone(),
            repository: e.repository.clone(),
            metadata: e.metadata.clone(),
        })),
        Event::Close(e) => EventJson::Close(Box::new(CloseJson {
            status: e.status,
            fingerprint: to_hex(&e.fingerprint),
            answer_translated_is_fallback: e.fallback,
            metadata: e.metadata.clone(),
        })),
        Event::Interrupt => EventJson::Interrupt {},
        Event::Reopen => EventJson::Reopen {},
        Event::Redact(seqs) => EventJson::Redact {
            seqs: seqs.ranges().collect(),
        },
    }
}

fn event_of(event: EventJson) -> Option<Event> {
    let object = |json: &Option<RawJson>| json.as_ref().is_none_or(RawJson::is_object);
    Some(match event {
        EventJson::Start(e) if !object(&e.metadata) => return None,
        EventJson::Close(e) if !object(&e.metadata) || !e.status.is_closed() => return None,
        EventJson::Redact { seqs } if seqs.is_empty() => return None,
        EventJson::Start(e) => Event::Start(Box::new(StartEvent {
            request_id: e.request_id,
            identity_id: e.identity_id,
            fingerprint: from_hex(&e.fingerprint)?,
            replaces: e.replaces,
            translate_chat: e.translate_chat,
            pipeline_name: e.pipeline_name,
            consultant: e.consultant,
            repository: e.repository,
            metadata: e.metadata,
        })),
        EventJson::Close(e) => Event::Close(Box::new(CloseEvent {
            status: e.status,
            fingerprint: from_hex(&e.fingerprint)?,
            fallback: e.answer_translated_is_fallback,
            metadata: e.metadata,
        })),
        EventJson::Interrupt {} => Event::Interrupt,
        EventJson::Reopen {} => Event::Reopen,
        EventJson::Redact { seqs } => Event::Redact(Seqs::of(seqs)?),
    })
}
