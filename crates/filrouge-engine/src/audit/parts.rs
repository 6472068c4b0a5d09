//! What the parts of an item tell.

use filrouge_types::{JsonText, Members, RawJson};
use serde_json::value::RawValue;

use super::row::AuditError;

/// One part.
pub(super) struct Part<'a> {
    /// As it was recorded.
    pub(super) raw: &'a str,
    pub(super) told: Told,
    /// Whether what is told is all of it.
    pub(super) whole: bool,
}

/// What a part tells.
pub(super) enum Told {
    Text(JsonText),
    Used(Box<Used>),
    Error(AuditError),
    /// Nothing that the audit has a member for.
    Other,
}

/// A call of a tool, or what the tool answered: the members of a row for it.
#[derive(Default)]
pub(super) struct Used {
    /// Of an answer, that of the call it answers.
    pub(super) tool: Option<JsonText>,
    pub(super) call_id: Option<JsonText>,
    pub(super) args: Option<RawJson>,
    pub(super) is_result: bool,
    pub(super) ok: Option<bool>,
    pub(super) latency_ms: Option<RawJson>,
    pub(super) result: Option<RawJson>,
}

/// The parts of an item, one after the other.
pub(super) fn parts(parts: &RawJson) -> impl Iterator<Item = Part<'_>> {
    let all: Vec<&RawValue> = serde_json::from_str(parts.as_str()).unwrap_or_default();
    all.into_iter().map(|raw| Part::read(raw.get()))
}

impl<'a> Part<'a> {
    fn read(raw: &'a str) -> Self {
        let mut members = Members::of(raw).unwrap_or_default();
        let told = told(&mut members);
        let whole = members.0.is_empty() && !matches!(told, Told::Other);
        Self { raw, told, whole }
    }
}

/// Takes out the members that a row of the audit shows.
fn told(from: &mut Members<'_>) -> Told {
    match from.take("type", |_| true) {
        Some(r#""text""#) => text(from, "text").map_or(Told::Other, Told::Text),
        Some(r#""refusal""#) => text(from, "refusal").map_or(Told::Other, Told::Text),
        // The arguments of one that never became complete are no JSON.
        Some(kind @ (r#""tool_call""# | r#""tool_call_partial""#)) => Told::Used(Box::new(Used {
            tool: text(from, "name"),
            call_id: text(from, "call_id"),
            args: (kind == r#""tool_call""#)
                .then(|| value(from, "args", |_| true))
                .flatten(),
            ..Used::default()
        })),
        Some(r#""tool_result""#) => Told::Used(Box::new(Used {
            call_id: text(from, "call_id"),
            is_result: true,
            ok: flag(from, "ok"),
            latency_ms: value(from, "latency_ms", is_number),
            result: value(from, "content", |_| true),
            ..Used::default()
        })),
        Some(r#""error""#) => Told::Error(AuditError {
            code: text(from, "code"),
            message: text(from, "message"),
            source: text(from, "source"),
            retryable: flag(from, "retryable"),
        }),
        _ => Told::Other,
    }
}

/// Takes a member that is as `fits` wants it, or null.
fn value(from: &mut Members<'_>, name: &str, fits: impl Fn(&str) -> bool) -> Option<RawJson> {
    let raw = from.take(name, |raw| raw == "null" || fits(raw))?;
    (raw != "null").then(|| RawJson::from_checked(raw))
}

fn text(from: &mut Members<'_>, name: &str) -> Option<JsonText> {
    JsonText::from_raw(value(from, name, |raw| raw.starts_with('"'))?).ok()
}

fn flag(from: &mut Members<'_>, name: &str) -> Option<bool> {
    let flag = value(from, name, |raw| raw == "true" || raw == "false")?;
    Some(flag.as_str() == "true")
}

fn is_number(raw: &str) -> bool {
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// Why the model stopped, by an item's metadata.
pub(super) fn finish_reason(metadata: Option<&RawJson>) -> Option<JsonText> {
    let reason = Members::of(metadata?.as_str())?.get("finish_reason")?;
    JsonText::from_raw(RawJson::from_checked(reason)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(part: &str) -> (String, bool) {
        let array = RawJson::parse(&format!("[{part}]")).unwrap();
        let part = parts(&array).next().unwrap();
        let text = |t: &Option<JsonText>| t.as_ref().map_or("-".to_owned(), JsonText::to_plain);
        let json =
            |j: &Option<RawJson>| j.as_ref().map_or("-".to_owned(), |j| j.as_str().to_owned());
        let told = match &part.told {
            Told::Text(said) => format!("text {}", said.to_plain()),
            Told::Used(r) if r.is_result => format!(
                "result {} {:?} {} {}",
                text(&r.call_id),
                r.ok,
                json(&r.latency_ms),
                json(&r.result)
            ),
            Told::Used(c) => format!(
                "call {} {} {}",
                text(&c.tool),
                text(&c.call_id),
                json(&c.args)
            ),
            Told::Error(e) => format!(
                "error {} {} {:?}",
                text(&e.code),
                text(&e.message),
                e.retryable
            ),
            Told::Other => "other".to_owned(),
        };
        (told, part.whole)
    }

    #[test]
    fn known_parts_are_told_and_whatever_is_more_is_noticed() {
        for (part, told, whole) in [
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
            assert_eq!(one(part), (told.to_owned(), whole), "{part}");
        }
    }
}
