//! Writes and reads an item of a bundle: the members that every response shows, then the inputs of its link. Each item
//! has exactly one valid encoding.

use std::fmt::Write;

use filrouge_store::hex::from_hex;
use filrouge_store::record::{ChainedItem, CommitmentProof, Event};
use filrouge_types::{
    Failure, Item, ItemBody, RawJson, Timestamp, TurnId, select_members, take_members,
};
use serde::Deserialize;

use crate::shared::to_json;

/// The members of an item that are not part of its body.
#[derive(Deserialize)]
struct LedgerMembers {
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

/// The names of the members of [`LedgerMembers`].
const LEDGER_MEMBERS: [&str; 9] = [
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
pub(super) fn write(chained: &ChainedItem) -> Result<String, Failure> {
    let mut out = to_json(&chained.item)?;
    // Removes the closing brace: the members that follow belong to the same object.
    out.pop();
    let events = to_json(&chained.events)?;
    // Writing to a string cannot fail.
    let _ = write!(out, ",\"events\":{events}");
    let _ = match chained.proof {
        CommitmentProof::Salt(salt) => write!(out, ",\"salt\":\"{}\"", hex::encode(salt)),
        CommitmentProof::Erased {
            commitment,
            redaction_seq,
        } => write!(
            out,
            ",\"commitment\":\"{}\",\"redaction_seq\":{redaction_seq}",
            hex::encode(commitment)
        ),
    };
    let _ = write!(out, ",\"link\":\"{}\"}}", hex::encode(chained.link));
    Ok(out)
}

/// Reads an item; the error describes the first problem.
pub(super) fn read(json: &str) -> Result<ChainedItem, String> {
    let json = RawJson::from_checked(json);
    let (ledger_json, _) = select_members(&json, &LEDGER_MEMBERS.map(str::to_owned));
    let (body, _) = take_members(&json, |name| LEDGER_MEMBERS.contains(&name));
    let members: LedgerMembers =
        serde_json::from_str(ledger_json.as_str()).map_err(|e| e.to_string())?;
    let body: ItemBody = serde_json::from_str(body.as_str()).map_err(|e| e.to_string())?;
    let not_hex = |name: &str| format!("{name} is not lower-case hexadecimal of the right length");
    let proof = match (&members.salt, &members.commitment, members.redaction_seq) {
        (Some(salt), None, None) if !members.redacted => {
            CommitmentProof::Salt(from_hex(salt).ok_or_else(|| not_hex("salt"))?)
        }
        (None, Some(commitment), Some(redaction_seq)) if members.redacted => {
            CommitmentProof::Erased {
                commitment: from_hex(commitment).ok_or_else(|| not_hex("commitment"))?,
                redaction_seq,
            }
        }
        _ => {
            return Err(
                "an item must have a salt or, once redacted, a commitment and a redaction_seq"
                    .into(),
            );
        }
    };
    if members.redacted && body.parts.as_str() != "[]" {
        // The chain covers only the commitment of the erased content, so it would not detect that this content is
        // invented.
        return Err("the item is marked as redacted and has a content".into());
    }
    let is_object = |(_, json): (_, &Option<RawJson>)| json.as_ref().is_none_or(RawJson::is_object);
    if !body.parts.is_array() || !body.annotations().objects.into_iter().all(is_object) {
        return Err("parts must be an array, usage and metadata must be objects".into());
    }
    if members.events.iter().any(is_malformed) {
        return Err("an event is malformed".into());
    }
    let redacts = |event: &Event| matches!(event, Event::Redact(_) | Event::Redacted(_));
    let is_redaction = matches!(
        members.events.as_slice(),
        [Event::Redact(_) | Event::Redacted(_)] | [Event::Redact(_), Event::Redacted(_)]
    );
    if !is_redaction && members.events.iter().any(redacts) {
        return Err("an item that redacts must have no other event".into());
    }
    Ok(ChainedItem {
        item: Item {
            seq: members.seq,
            turn_id: members.turn_id,
            created_at: members.created_at,
            redacted: members.redacted,
            body,
        },
        events: members.events,
        proof,
        link: from_hex(&members.link).ok_or_else(|| not_hex("link"))?,
    })
}

fn is_malformed(event: &Event) -> bool {
    let metadata = match event {
        Event::Start(start) => &start.metadata,
        Event::Close(close) if !close.status.is_closed() => return true,
        Event::Close(close) => &close.metadata,
        Event::Interrupt {} | Event::Reopen {} | Event::Redact(_) | Event::Redacted(_) => &None,
    };
    metadata.as_ref().is_some_and(|json| !json.is_object())
}
