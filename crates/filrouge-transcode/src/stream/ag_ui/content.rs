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
    Shown {
        message_id | "message_id", activity_type | "activity_type", name, content, patch, value,
    }
}

/// Records an activity, a change of one, or an event of the application.
pub(super) fn activity(kind: &str, data: &str, subagent: Raw<'_>, out: &mut Transcript) {
    let Some(shown) = json::read::<Shown<'_>>(data) else {
        return out.unknown(data);
    };
    let kind = match kind {
        "ACTIVITY_SNAPSHOT" => "activity",
        "ACTIVITY_DELTA" => "activity_delta",
        _ => "custom_event",
    };
    let mut part = format!(r#"[{{"type":"{kind}""#);
    for (name, raw) in [
        ("message_id", shown.message_id),
        ("activity_type", shown.activity_type),
        ("name", shown.name),
        ("content", shown.content),
        ("patch", shown.patch),
        ("value", shown.value),
        ("subagent_run_id", subagent),
    ] {
        if let Some(value) = json::value(raw) {
            part.extend([",\"", name, "\":", &json::kept(value)]);
        }
    }
    part.push_str("}]");
    out.whole(Role::Assistant, Channel::from_word(ACTIVITY), part);
}

/// Records the result of a call, whose id is a JSON string. `error` is present if the tool failed.
pub(super) fn result(call_id: &str, content: Raw<'_>, error: Raw<'_>, out: &mut Transcript) {
    let failed = json::value(error);
    let nonempty = json::value(content).filter(|content| *content != "\"\"" || failed.is_none());
    let content = match (nonempty, failed) {
        (Some(list), _) if list.starts_with('[') => self::parts(list),
        (Some(other), _) => json::kept(other),
        (None, error) => error.map_or_else(|| "\"\"".to_owned(), json::kept),
    };
    let ok = failed.is_none();
    let parts =
        format!(r#"[{{"type":"tool_result","call_id":{call_id},"ok":{ok},"content":{content}}}]"#);
    out.whole(Role::Tool, Channel::ToolResult, parts);
}

/// A list of content parts in the ledger's form; unknown parts stay unchanged.
pub(super) fn parts(list: &str) -> String {
    let Some(list) = json::read::<Vec<&RawValue>>(list) else {
        return json::kept(list);
    };
    let parts: Vec<String> = list
        .iter()
        .map(|raw| part(raw.get()).unwrap_or_else(|| json::kept(raw.get())))
        .collect();
    format!("[{}]", parts.join(","))
}

fn part(raw: &str) -> Option<String> {
    let part = json::read::<Part<'_>>(raw)?;
    let kind = match json::inner(part.kind)? {
        "text" => {
            let text = json::token(part.text)?;
            return Some(format!(r#"{{"type":"text","text":{text}}}"#));
        }
        "image" => "image_url",
        "audio" | "video" | "document" => "file",
        _ => return None,
    };
    let source = part.source?;
    let at = match json::inner(source.kind)? {
        "data" => "data",
        "url" => "url",
        "file" => "file_id",
        _ => return None,
    };
    let value = json::token(source.value)?;
    let mime = json::token(source.mime).map(|mime| format!(",\"mime\":{mime}"));
    let mime = mime.unwrap_or_default();
    Some(format!(r#"{{"type":"{kind}","{at}":{value}{mime}}}"#))
}
