//! The parts of an item, as audit rows show them.

use filrouge_types::{JsonText, Members, RawJson};
use serde_json::value::RawValue;

use super::row::AuditError;

/// One part of an item.
pub(super) struct AuditPart<'a> {
    /// The part as it was recorded.
    pub(super) raw: &'a str,
    pub(super) content: PartContent,
    /// Whether `content` covers the entire part.
    pub(super) is_complete: bool,
}

/// The content of a part.
pub(super) enum PartContent {
    Text(JsonText),
    CallOrResult(Box<CallOrResult>),
    Error(AuditError),
    /// Content for which the audit has no member.
    Other,
}

/// A tool call or a tool result, with the members that a row of the audit shows.
#[derive(Default)]
pub(super) struct CallOrResult {
    /// The called tool. Parsing leaves it empty for a result; the row then gets the tool of the call that it answers.
    pub(super) tool: Option<JsonText>,
    pub(super) call_id: Option<JsonText>,
    pub(super) args: Option<RawJson>,
    pub(super) is_result: bool,
    pub(super) ok: Option<bool>,
    pub(super) latency_ms: Option<RawJson>,
    pub(super) result: Option<RawJson>,
}

/// The parts of an item, in order.
pub(super) fn parts(parts: &RawJson) -> impl Iterator<Item = AuditPart<'_>> {
    let raw_parts: Vec<&RawValue> = serde_json::from_str(parts.as_str()).unwrap_or_default();
    raw_parts.into_iter().map(|raw| AuditPart::parse(raw.get()))
}

impl<'a> AuditPart<'a> {
    fn parse(raw: &'a str) -> Self {
        let mut members = Members::parse(raw).unwrap_or_default();
        let content = take_content(&mut members);
        let is_complete = members.0.is_empty() && !matches!(content, PartContent::Other);
        Self {
            raw,
            content,
            is_complete,
        }
    }
}

/// Reads a part's content. Removes the members that a row of the audit shows; the others remain in `members`.
fn take_content(members: &mut Members<'_>) -> PartContent {
    match members.take("type", |_| true) {
        Some(kind @ (r#""text""# | r#""refusal""#)) => {
            let text = take_text(members, kind.trim_matches('"'));
            text.map_or(PartContent::Other, PartContent::Text)
        }
        // The arguments of an incomplete call are not JSON.
        Some(kind @ (r#""tool_call""# | r#""tool_call_partial""#)) => {
            PartContent::CallOrResult(Box::new(CallOrResult {
                tool: take_text(members, "name"),
                call_id: take_text(members, "call_id"),
                args: (kind == r#""tool_call""#)
                    .then(|| take_value(members, "args", |_| true))
                    .flatten(),
                ..CallOrResult::default()
            }))
        }
        Some(r#""tool_result""#) => PartContent::CallOrResult(Box::new(CallOrResult {
            call_id: take_text(members, "call_id"),
            is_result: true,
            ok: take_bool(members, "ok"),
            latency_ms: take_value(members, "latency_ms", is_number),
            result: take_value(members, "content", |_| true),
            ..CallOrResult::default()
        })),
        Some(r#""error""#) => PartContent::Error(AuditError {
            code: take_text(members, "code"),
            message: take_text(members, "message"),
            source: take_text(members, "source"),
            retryable: take_bool(members, "retryable"),
        }),
        _ => PartContent::Other,
    }
}

/// Removes and returns a member whose value `accepts` approves; `None` for null.
fn take_value(
    members: &mut Members<'_>,
    name: &str,
    accepts: impl Fn(&str) -> bool,
) -> Option<RawJson> {
    let raw = members.take(name, |raw| raw == "null" || accepts(raw))?;
    (raw != "null").then(|| RawJson::from_checked(raw))
}

fn take_text(members: &mut Members<'_>, name: &str) -> Option<JsonText> {
    JsonText::from_raw(take_value(members, name, |raw| raw.starts_with('"'))?).ok()
}

fn take_bool(members: &mut Members<'_>, name: &str) -> Option<bool> {
    let flag = take_value(members, name, |raw| raw == "true" || raw == "false")?;
    Some(flag.as_str() == "true")
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// The reason why the model stopped, from an item's metadata.
pub(super) fn finish_reason(metadata: Option<&RawJson>) -> Option<JsonText> {
    let reason = Members::parse(metadata?.as_str())?.get("finish_reason")?;
    JsonText::from_raw(RawJson::from_checked(reason)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(part: &str) -> (String, bool) {
        let array = RawJson::parse(&format!("[{part}]")).unwrap();
        let part = parts(&array).next().unwrap();
        let text = |t: &Option<JsonText>| t.as_ref().map_or("-".to_owned(), JsonText::to_plain);
        let json =
            |j: &Option<RawJson>| j.as_ref().map_or("-".to_owned(), |j| j.as_str().to_owned());
        let content = match &part.content {
            PartContent::Text(t) => format!("text {}", t.to_plain()),
            PartContent::CallOrResult(r) if r.is_result => format!(
                "result {} {:?} {} {}",
                text(&r.call_id),
                r.ok,
                json(&r.latency_ms),
                json(&r.result)
            ),
            PartContent::CallOrResult(c) => format!(
                "call {} {} {}",
                text(&c.tool),
                text(&c.call_id),
                json(&c.args)
            ),
            PartContent::Error(e) => format!(
                "error {} {} {:?}",
                text(&e.code),
                text(&e.message),
                e.retryable
            ),
            PartContent::Other => "other".to_owned(),
        };
        (content, part.is_complete)
    }

    #[test]
    fn parts_are_read_and_additional_members_are_noticed() {
        for (part, content, is_complete) in [
            (r#"{"type":"text","text":"a"}"#, "text a", true),
            (
                r#"{"type":"text","text":"a","citations":[]}"#,
                "text a",
                false,
            ),
            (r#"{"type":"text","text":"a","text":"b"}"#, "text b", false),
            (r#"{"type":"text","text":5}"#, "other", false),
            (r#"{"type":"text"}"#, "other", false),
            (r#"{"type":"refusal","refusal":"no"}"#, "text no", true),
            (
                r#"{"type":"tool_call","call_id":"c","name":"n","args":{"a": 1}}"#,
                r#"call n c {"a": 1}"#,
                true,
            ),
            (
                r#"{"type":"tool_call","name":7,"args":null}"#,
                "call - - -",
                false,
            ),
            (
                r#"{"type":"tool_call","call_id":"c","name":"n","args":"{","signature":"s"}"#,
                r#"call n c "{""#,
                false,
            ),
            (
                r#"{"type":"tool_call_partial","call_id":"c","name":"n","args":"{\"a"}"#,
                "call n c -",
                false,
            ),
            (
                r#"{"type":"tool_result","call_id":"c","ok":true,"latency_ms":12.5,"content":[1]}"#,
                "result c Some(true) 12.5 [1]",
                true,
            ),
            (
                r#"{"type":"tool_result","call_id":"c","ok":"yes","content":"x"}"#,
                r#"result c None - "x""#,
                false,
            ),
            (
                r#"{"type":"error","code":"e","message":"m","source":"provider","retryable":false}"#,
                "error e m Some(false)",
                true,
            ),
            (r#"{"type":"turn_status","status":"open"}"#, "other", false),
            (r#"{"\ud800":1,"type":"text","text":"a"}"#, "text a", false),
        ] {
            assert_eq!(describe(part), (content.to_owned(), is_complete), "{part}");
        }
    }
}
