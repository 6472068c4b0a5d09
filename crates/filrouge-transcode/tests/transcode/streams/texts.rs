//! The texts of recorded streams, without their metadata.

use std::collections::BTreeMap;

use filrouge_engine::stream::{ReadyItem, StreamBlock, StreamPart, Transcript};
use filrouge_store::draft::PieceKind;
use filrouge_types::{JsonText, RawJson};
use serde_json::value::RawValue;

/// The text of each item, by number. For an incomplete item, its text so far.
pub(super) type Texts = BTreeMap<u64, String>;

fn decode_string(inner: &str) -> String {
    let token = RawJson::from_checked(format!("\"{inner}\""));
    JsonText::from_raw(token).unwrap().to_plain()
}

/// The text of a list of parts. A part without text is represented by its JSON.
fn text_of_parts(parts: &str) -> String {
    let parts: Vec<&RawValue> = serde_json::from_str(parts).unwrap();
    let text = |part: &&RawValue| {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(part.get()).unwrap();
        let kind = members.get("type").map_or("", |kind| kind.get());
        let member = match kind {
            "\"text\"" => "text",
            "\"refusal\"" => "refusal",
            "\"reasoning\"" => "text",
            "\"tool_call\"" | "\"tool_call_partial\"" => "args",
            _ => return part.get().to_owned(),
        };
        match members.get(member).map_or("\"\"", |value| value.get()) {
            "{}" => String::new(),
            value if value.starts_with('"') => decode_string(&value[1..value.len() - 1]),
            value => value.to_owned(),
        }
    };
    parts.iter().map(text).collect()
}

/// The text so far of an incomplete item.
fn growing_text(block: &StreamBlock) -> String {
    let text = |part: &StreamPart| match part.kind {
        PieceKind::Complete if part.text.starts_with('[') => text_of_parts(&part.text),
        PieceKind::Complete => part.text.clone(),
        PieceKind::ToolCall => match decode_string(&part.text) {
            args if args.trim() == "{}" => String::new(),
            args => args.trim_start().to_owned(),
        },
        _ => decode_string(&part.text),
    };
    block.parts.iter().map(text).collect()
}

/// The texts of incomplete items.
pub(super) fn blocks(transcript: &Transcript) -> Texts {
    let text = |block: &StreamBlock| (block.number, growing_text(block));
    transcript.blocks().map(text).collect()
}

/// The texts of complete items.
pub(super) fn recorded_texts(ready: &[ReadyItem]) -> Texts {
    let text = |ready: &ReadyItem| Some((ready.number?, text_of_parts(ready.item.parts.as_str())));
    ready.iter().filter_map(text).collect()
}

/// Whether each text is a prefix of the text with the same number.
pub(super) fn is_prefix_of(partial: &Texts, complete: &Texts) -> bool {
    partial.iter().all(|(number, text)| {
        // An incomplete surrogate pair at the end becomes a complete character later.
        let text = text.trim_end_matches('\u{fffd}');
        complete
            .get(number)
            .is_some_and(|complete_text| complete_text.starts_with(text))
    })
}
