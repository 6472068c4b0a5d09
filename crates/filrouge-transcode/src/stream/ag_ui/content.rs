//! Content that arrives complete: results of tools, activities.

use filrouge_engine::stream::Transcript;
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use crate::stream::json::{self, Raw};

/// The channel of content that is shown to the user next to the conversation.
const ACTIVITY: &str = "activity";

json::members! {
    Part { kind = "type", text, source: Option<Source<'a>> }

    Source { kind = "type", value, mime = "mimeType" | "mime_type" }

    #[serde(rename_all = "camelCase")]
    Activity {
        message_id | "message_id", activity_type | "activity_type", name, content, patch, value,
    }
}

/// Records an activity, a change of one, or an event of the application.
pub(super) fn record_activity(kind: &str, data: &str, subagent: Raw<'_>, out: &mut Transcript) {
    let Some(activity) = json::read::<Activity<'_>>(data) else {
        return out.unknown(data);
    };
    let kind = match kind {
        "ACTIVITY_SNAPSHOT" => "activity",
        "ACTIVITY_DELTA" => "activity_delta",
        _ => "custom_event",
    };
    let mut part = format!(r#"[{{"type":"{kind}""#);
    for (name, raw) in [
        ("message_id", activity.message_id),
        ("activity_type", activity.activity_type),
        ("name", activity.name),
        ("content", activity.content),
        ("patch", activity.patch),
        ("value", activity.value),
        ("subagent_run_id", subagent),
    ] {
        if let Some(value) = json::non_null(raw) {
            part.extend([",\"", name, "\":", &json::storable(value)]);
        }
    }
    part.push_str("}]");
    out.add_item(Role::Assistant, Channel::from_word(ACTIVITY), part);
}

/// Records the result of a call, whose id is a JSON string. `error` is present if the tool failed.
pub(super) fn record_result(call_id: &str, content: Raw<'_>, error: Raw<'_>, out: &mut Transcript) {
    let failed = json::non_null(error);
    let nonempty = json::non_null(content).filter(|content| *content != "\"\"" || failed.is_none());
    let content = match (nonempty, failed) {
        (Some(list), _) if list.starts_with('[') => convert_parts(list),
        (Some(other), _) => json::storable(other),
        (None, error) => error.map_or_else(|| "\"\"".to_owned(), json::storable),
    };
    json::add_result(out, call_id, failed.is_none(), &content);
}

/// A list of content parts in the ledger's form; unknown parts stay unchanged.
pub(super) fn convert_parts(list: &str) -> String {
    let Some(list) = json::read::<Vec<&RawValue>>(list) else {
        return json::storable(list);
    };
    let parts: Vec<String> = list
        .iter()
        .map(|raw| convert_part(raw.get()).unwrap_or_else(|| json::storable(raw.get())))
        .collect();
    format!("[{}]", parts.join(","))
}

fn convert_part(raw: &str) -> Option<String> {
    let part = json::read::<Part<'_>>(raw)?;
    let kind = match json::string_content(part.kind)? {
        "text" => {
            let text = json::string_token(part.text)?;
            return Some(format!(r#"{{"type":"text","text":{text}}}"#));
        }
        "image" => "image_url",
        "audio" | "video" | "document" => "file",
        _ => return None,
    };
    let source = part.source?;
    let member = match json::string_content(source.kind)? {
        "data" => "data",
        "url" => "url",
        "file" => "file_id",
        _ => return None,
    };
    let value = json::string_token(source.value)?;
    let mime = json::string_token(source.mime).map(|mime| format!(",\"mime\":{mime}"));
    let mime = mime.unwrap_or_default();
    Some(format!(r#"{{"type":"{kind}","{member}":{value}{mime}}}"#))
}
