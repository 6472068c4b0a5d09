//! What the parts of an item tell.

use std::collections::HashMap;

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
    Call(Call),
    Result(CallResult),
    Error(AuditError),
    /// Nothing that the audit has a member for.
    Other,
}

/// A call of a tool.
pub(super) struct Call {
    pub(super) tool: Option<JsonText>,
    pub(super) call_id: Option<JsonText>,
    pub(super) args: Option<RawJson>,
}

/// A tool's answer.
pub(super) struct CallResult {
    pub(super) call_id: Option<JsonText>,
    pub(super) ok: Option<bool>,
    pub(super) latency_ms: Option<RawJson>,
    pub(super) content: Option<RawJson>,
}

/// The parts of an item, one after the other.
pub(super) fn parts(parts: &RawJson) -> impl Iterator<Item = Part<'_>> {
    let all: Vec<&RawValue> = serde_json::from_str(parts.as_str()).unwrap_or_default();
    all.into_iter().map(|raw| Part::read(raw.get()))
}

impl<'a> Part<'a> {
    fn read(raw: &'a str) -> Self {
        let Some(mut members) = Untold::of(raw) else {
            return Self {
                raw,
                told: Told::Other,
                whole: false,
            };
        };
        let told = members.tell();
        let whole = members.found.is_empty() && !members.twice && !matches!(told, Told::Other);
        Self { raw, told, whole }
    }
}

/// The members of a part that are not yet told; of one that stands twice the last, as most JSON readers have it.
struct Untold<'a> {
    found: HashMap<String, &'a str>,
    /// Whether one stands twice.
    twice: bool,
}

impl<'a> Untold<'a> {
    fn of(raw: &'a str) -> Option<Self> {
        let (mut found, mut twice) = (HashMap::new(), false);
        for (name, value) in Members::of(raw)?.0 {
            let name: String = serde_json::from_str(name).ok()?;
            twice |= found.insert(name, value).is_some();
        }
        Some(Self { found, twice })
    }

    /// Takes out the members that are told.
    fn tell(&mut self) -> Told {
        match self.found.remove("type") {
            Some(r#""text""#) => self.words("text"),
            Some(r#""refusal""#) => self.words("refusal"),
            Some(r#""tool_call""#) => Told::Call(self.call()),
            // Its arguments are no JSON: the call never became complete.
            Some(r#""tool_call_partial""#) => Told::Call(Call {
                args: None,
                ..self.call_name()
            }),
            Some(r#""tool_result""#) => Told::Result(CallResult {
                call_id: self.text("call_id"),
                ok: self.flag("ok"),
                latency_ms: self.number("latency_ms"),
                content: self.value("content"),
            }),
            Some(r#""error""#) => Told::Error(AuditError {
                code: self.text("code"),
                message: self.text("message"),
                source: self.text("source"),
                retryable: self.flag("retryable"),
            }),
            _ => Told::Other,
        }
    }

    fn words(&mut self, member: &str) -> Told {
        self.text(member).map_or(Told::Other, Told::Text)
    }

    fn call_name(&mut self) -> Call {
        Call {
            tool: self.text("name"),
            call_id: self.text("call_id"),
            args: None,
        }
    }

    fn call(&mut self) -> Call {
        Call {
            args: self.value("args"),
            ..self.call_name()
        }
    }

    /// Takes a member that is as `fits` wants it, or null.
    fn take(&mut self, member: &str, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
        let raw = self.found.get(member).copied()?;
        if raw != "null" && !fits(raw) {
            return None;
        }
        self.found.remove(member);
        Some(raw).filter(|raw| *raw != "null")
    }

    fn value(&mut self, member: &str) -> Option<RawJson> {
        self.take(member, |_| true).map(RawJson::from_checked)
    }

    fn text(&mut self, member: &str) -> Option<JsonText> {
        let raw = self.take(member, |raw| raw.starts_with('"'))?;
        JsonText::from_raw(RawJson::from_checked(raw)).ok()
    }

    fn number(&mut self, member: &str) -> Option<RawJson> {
        self.take(member, is_number).map(RawJson::from_checked)
    }

    fn flag(&mut self, member: &str) -> Option<bool> {
        self.take(member, |raw| raw == "true" || raw == "false")
            .map(|raw| raw == "true")
    }
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
#[allow(clippy::unwrap_used, clippy::expect_used)]
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
            Told::Call(c) => format!(
                "call {} {} {}",
                text(&c.tool),
                text(&c.call_id),
                json(&c.args)
            ),
            Told::Result(r) => format!(
                "result {} {:?} {} {}",
                text(&r.call_id),
                r.ok,
                json(&r.latency_ms),
                json(&r.content)
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
            (r#"{"\ud800":1,"type":"text","text":"a"}"#, "other", false),
        ] {
            assert_eq!(one(part), (told.to_owned(), whole), "{part}");
        }
    }
}
