//! Encodes an item's fields: all data except the content, in the order that the link covers.

use filrouge_types::{Channel, ItemBody, ItemId, RawJson, Role, Variant};

use super::event::Event;
use crate::codec::{ByteReader, Malformed, WriteBytes};

// The bits of the byte that states which optional fields an item has.
const HAS_ID: u8 = 1;
const HAS_AGENT: u8 = 2;
const HAS_MODEL: u8 = 4;
const HAS_USAGE: u8 = 8;
const HAS_METADATA: u8 = 16;
const HAS_OCCURRED: u8 = 32;
/// All bits that this format defines.
const ALL_BITS: u8 = HAS_ID | HAS_AGENT | HAS_MODEL | HAS_USAGE | HAS_METADATA | HAS_OCCURRED;

/// Encodes all data of an item except the content, in the canonical order that the link covers.
pub(super) fn encode_fields(item: &ItemBody, events: &[Event]) -> Vec<u8> {
    let ItemBody {
        item_id,
        role,
        channel,
        variant,
        parts: _,
        agent,
        model,
        usage,
        metadata,
        occurred_at,
    } = item;
    let mut out = Vec::with_capacity(96);
    out.byte(role.code());
    match channel.code() {
        Some(code) => out.byte(code),
        None => {
            out.byte(u8::MAX);
            out.text(channel.as_str());
        }
    }
    out.byte(variant.code());
    let optional_texts = [
        (HAS_ID, item_id.as_ref().map(ItemId::as_str)),
        (HAS_AGENT, agent.as_deref()),
        (HAS_MODEL, model.as_deref()),
        (HAS_USAGE, usage.as_ref().map(RawJson::as_str)),
        (HAS_METADATA, metadata.as_ref().map(RawJson::as_str)),
    ];
    let mut present = occurred_at.map_or(0, |_| HAS_OCCURRED);
    for (bit, text) in &optional_texts {
        if text.is_some() {
            present |= bit;
        }
    }
    out.byte(present);
    for text in optional_texts.iter().filter_map(|(_, t)| *t) {
        out.text(text);
    }
    if let Some(time) = *occurred_at {
        out.time(time);
    }
    out.number(events.len() as u64);
    for event in events {
        event.write(&mut out);
    }
    out
}

/// Decodes an item's fields and events. The returned item has no parts yet.
pub(super) fn decode_fields(bytes: &[u8]) -> Result<(ItemBody, Vec<Event>), Malformed> {
    let mut r = ByteReader(bytes);
    let role = Role::from_code(r.byte()?).ok_or(Malformed)?;
    let channel = match r.byte()? {
        u8::MAX => Channel::Other(r.text()?.into()),
        code => Channel::from_code(code).ok_or(Malformed)?,
    };
    let variant = Variant::from_code(r.byte()?).ok_or(Malformed)?;
    let present = r.byte()?;
    if present & !ALL_BITS != 0 {
        return Err(Malformed);
    }
    let mut read_text = |bit: u8| -> Result<Option<&str>, Malformed> {
        if present & bit == 0 {
            Ok(None)
        } else {
            r.text().map(Some)
        }
    };
    let item_id = read_text(HAS_ID)?
        .map(ItemId::new)
        .transpose()
        .map_err(|_| Malformed)?;
    let agent = read_text(HAS_AGENT)?.map(Into::into);
    let model = read_text(HAS_MODEL)?.map(Into::into);
    let usage = read_text(HAS_USAGE)?.map(RawJson::from_checked);
    let metadata = read_text(HAS_METADATA)?.map(RawJson::from_checked);
    let occurred_at = if present & HAS_OCCURRED == 0 {
        None
    } else {
        Some(r.time()?)
    };
    let mut events = Vec::new();
    for _ in 0..r.number()? {
        events.push(Event::read(&mut r)?);
    }
    if !r.is_empty() {
        return Err(Malformed);
    }
    let item = ItemBody {
        item_id,
        role,
        channel,
        variant,
        parts: RawJson::from_checked("[]"),
        agent,
        model,
        usage,
        metadata,
        occurred_at,
    };
    Ok((item, events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_refused() {
        let item = ItemBody::new(Role::User, Channel::Question, RawJson::from_checked("[]"));
        let mut bytes = encode_fields(&item, &[]);
        assert!(decode_fields(&bytes).is_ok());
        for unknown in [64, 128] {
            bytes[3] = unknown;
            assert!(decode_fields(&bytes).is_err(), "{unknown}");
        }
    }
}
