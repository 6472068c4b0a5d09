//! An item of a bundle: the public record, then what its link is made of. There is one way to write it.

use std::fmt::Write;

use filrouge_store::hex::from_hex;
use filrouge_store::record::{ChainedItem, Event, Proof};
use filrouge_types::{Item, ItemBody, RawJson, Timestamp, TurnId, select_members, take_members};
use serde::Deserialize;

/// The members of an item that are not its body.
#[derive(Deserialize)]
struct Around {
    seq: u64,
    turn_id: Option<TurnId>,
    created_at: Timestamp,
    redacted: bool,
    events: Vec<Event>,
    salt: Option<String>,
    commitment: Option<String>,
    redaction_seq: Option<u64>,
    link: String,
}

/// Their names.
const AROUND: [&str; 9] = [
    "seq",
    "turn_id",
    "created_at",
    "redacted",
    "events",
    "salt",
    "commitment",
    "redaction_seq",
    "link",
];

/// Writes an item.
pub(super) fn write(one: &ChainedItem) -> Result<String, serde_json::Error> {
    let mut out = serde_json::to_string(&one.item)?;
    // The members that follow belong to the same object.
    out.pop();
    let events = serde_json::to_string(&one.events)?;
    // Writing to a string does not fail.
    let _ = write!(out, ",\"events\":{events}");
    let _ = match one.proof {
        Proof::Salt(salt) => write!(out, ",\"salt\":\"{}\"", hex::encode(salt)),
        Proof::Erased {
            commitment,
            redaction_seq,
        } => write!(
            out,
            ",\"commitment\":\"{}\",\"redaction_seq\":{redaction_seq}",
            hex::encode(commitment)
        ),
    };
    let _ = write!(out, ",\"link\":\"{}\"}}", hex::encode(one.link));
    Ok(out)
}

/// Reads an item; `Err` tells what is wrong with it.
pub(super) fn read(json: &str) -> Result<ChainedItem, String> {
    let json = RawJson::from_checked(json);
    let (around, _) = select_members(&json, &AROUND.map(str::to_owned));
    let (body, _) = take_members(&json, |name| AROUND.contains(&name));
    let read: Around = serde_json::from_str(around.as_str()).map_err(|e| e.to_string())?;
    let body: ItemBody = serde_json::from_str(body.as_str()).map_err(|e| e.to_string())?;
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
    if read.redacted && body.parts.as_str() != "[]" {
        // Nothing would vouch for it: the commitment is that of what was erased.
        return Err("the item was redacted and has a content".into());
    }
    let is_object = |(_, json): (_, &Option<RawJson>)| json.as_ref().is_none_or(RawJson::is_object);
    if !body.parts.is_array() || !body.around().objects.into_iter().all(is_object) {
        return Err("parts are an array, usage and metadata are objects".into());
    }
    if read.events.iter().any(is_malformed) {
        return Err("an event is malformed".into());
    }
    if read.events.len() > 1 && read.events.iter().any(|e| matches!(e, Event::Redact(_))) {
        return Err("a redaction does nothing else".into());
    }
    Ok(ChainedItem {
        item: Item {
            seq: read.seq,
            turn_id: read.turn_id,
            created_at: read.created_at,
            redacted: read.redacted,
            body,
        },
        events: read.events,
        proof,
        link: from_hex(&read.link).ok_or_else(|| hex("link"))?,
    })
}

fn is_malformed(event: &Event) -> bool {
    let metadata = match event {
        Event::Start(start) => &start.metadata,
        Event::Close(close) if !close.status.is_closed() => return true,
        Event::Close(close) => &close.metadata,
        Event::Interrupt {} | Event::Reopen {} | Event::Redact(_) => &None,
    };
    metadata.as_ref().is_some_and(|json| !json.is_object())
}
