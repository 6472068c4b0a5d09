//! Parses the parts of an item; a part of an unknown type is kept as JSON.

use std::borrow::Cow;

use filrouge_types::Members;
use serde_json::value::RawValue;

use crate::json::decode_string;
use crate::{media, url};

/// One part of an item's content.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// The kind, with the members that it interprets.
    pub(crate) kind: Kind<'a>,
    /// The members that `kind` does not contain, as a JSON object.
    pub(crate) other_members: Option<String>,
}

/// The kind of a part. Texts are decoded; JSON is kept as written.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    /// Text, Markdown by convention.
    Text(String),
    /// A listing of code.
    Code {
        language: Option<String>,
        text: String,
    },
    /// A picture.
    Image { url: String },
    /// An attached file.
    File(FilePart),
    /// A link, such as one to a cited page.
    Link { url: String, title: Option<String> },
    /// A model's reasoning.
    Reasoning(String),
    /// A tool call.
    ToolCall(ToolCall<'a>),
    /// A tool result.
    ToolResult(ToolResult<'a>),
    /// An error.
    Error(ErrorPart),
    /// The model's refusal to answer.
    Refusal(String),
    /// A redaction.
    Redaction(RedactionPart),
    /// The turn's new status.
    Status(String),
    /// Any other part, as JSON.
    Other(Cow<'a, str>),
}

/// The members of an attached file.
#[derive(Debug)]
pub(crate) struct FilePart {
    pub(crate) name: Option<String>,
    pub(crate) media_type: Option<String>,
    pub(crate) url: Option<String>,
}

/// The members of a tool call.
#[derive(Debug)]
pub(crate) struct ToolCall<'a> {
    pub(crate) call_id: Option<String>,
    pub(crate) name: String,
    pub(crate) args: Option<&'a str>,
}

/// The members of a tool result.
#[derive(Debug)]
pub(crate) struct ToolResult<'a> {
    pub(crate) call_id: Option<String>,
    pub(crate) ok: Option<bool>,
    pub(crate) latency_ms: Option<&'a str>,
    pub(crate) content: Option<&'a str>,
}

/// The members of an error.
#[derive(Debug)]
pub(crate) struct ErrorPart {
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) retryable: Option<bool>,
}

/// The members of a redaction. `seqs` are the items that lost their content, as ranges of a first and a last seq.
#[derive(Debug)]
pub(crate) struct RedactionPart {
    pub(crate) seqs: Vec<(u64, u64)>,
    pub(crate) turn_id: Option<String>,
    pub(crate) by: Option<String>,
    pub(crate) reason: Option<String>,
}

/// Parses an item's parts. `json` must not contain escapes of lone surrogates
/// ([`filrouge_types::replace_lone_surrogates`] replaces them).
pub(crate) fn parts(json: &str) -> Vec<Part<'_>> {
    let other = |json| Part {
        kind: Kind::Other(Cow::Borrowed(json)),
        other_members: None,
    };
    match serde_json::from_str::<Vec<&RawValue>>(json) {
        Ok(list) => list
            .into_iter()
            .map(|raw| parse_known(raw.get()).unwrap_or_else(|| other(raw.get())))
            .collect(),
        Err(_) => vec![other(json)],
    }
}

/// The parts in the content of a tool result, if the content is a picture or a list of parts; `None` for any other
/// JSON. A list with parts of unknown types counts only if it also has a picture.
pub(crate) fn nested_parts(json: &str) -> Option<Vec<Part<'_>>> {
    if let Some(url) = decode_string(json) {
        let kind = url::picture(&url).map(|p| Kind::Image { url: p.to_owned() })?;
        return Some(vec![Part {
            kind,
            other_members: None,
        }]);
    }
    let is_image = |p: &Part<'_>| matches!(p.kind, Kind::Image { .. });
    if json.starts_with('{') {
        return parse_known(json).filter(is_image).map(|p| vec![p]);
    }
    let parsed = parts(json);
    let is_tool = |p: &Part<'_>| matches!(p.kind, Kind::ToolCall(_) | Kind::ToolResult(_));
    let is_unknown = |p: &Part<'_>| matches!(p.kind, Kind::Other(_));
    let is_list = json.starts_with('[') && !parsed.is_empty() && !parsed.iter().any(is_tool);
    (is_list && (!parsed.iter().any(is_unknown) || parsed.iter().any(is_image))).then_some(parsed)
}

/// Removes and returns a member if its value has the expected form. If a name occurs twice, its value is ambiguous,
/// so both members stay in `members`.
pub(crate) fn take_unique<'a>(
    members: &mut Members<'a>,
    name: &str,
    is_expected: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let occurs_once = members.iter().filter(|(other, _)| *other == name).count() == 1;
    occurs_once
        .then(|| members.take(name, is_expected))
        .flatten()
}

/// Removes and returns the member `name` if it is a string.
pub(crate) fn take_text(members: &mut Members<'_>, name: &str) -> Option<String> {
    take_unique(members, name, |v| v.starts_with('"')).and_then(decode_string)
}

fn take_flag(members: &mut Members<'_>, name: &str) -> Option<bool> {
    let flag = take_unique(members, name, |v| matches!(v, "true" | "false"))?;
    Some(flag == "true")
}

/// The remaining members as a JSON object; `None` when all are null.
pub(crate) fn remaining_members(members: &Members<'_>) -> Option<String> {
    if members.iter().all(|(_, v)| v == "null") {
        return None;
    }
    let member = |(n, v)| format!("{}:{v}", serde_json::Value::from(n));
    let list: Vec<String> = members.iter().map(member).collect();
    Some(format!("{{{}}}", list.join(",")))
}

/// Parses a part; `None` unless its type is known and its required members are present.
pub(crate) fn parse_known(json: &str) -> Option<Part<'_>> {
    let mut members = Members::parse(json)?;
    let kind = match take_text(&mut members, "type")?.as_str() {
        "text" => Kind::Text(take_text(&mut members, "text")?),
        "code" => Kind::Code {
            language: take_text(&mut members, "language"),
            text: take_text(&mut members, "code").or_else(|| take_text(&mut members, "text"))?,
        },
        "image_url" | "image" => media::image(&mut members)?,
        "file" => media::file(&mut members),
        "link" => Kind::Link {
            url: take_text(&mut members, "url")?,
            title: take_text(&mut members, "title"),
        },
        "reasoning" => Kind::Reasoning(take_text(&mut members, "text")?),
        "tool_call" => Kind::ToolCall(ToolCall {
            call_id: take_text(&mut members, "call_id"),
            name: take_text(&mut members, "name")?,
            args: take_unique(&mut members, "args", |_| true),
        }),
        "tool_result" => Kind::ToolResult(ToolResult {
            call_id: take_text(&mut members, "call_id"),
            ok: take_flag(&mut members, "ok"),
            latency_ms: take_unique(&mut members, "latency_ms", is_number),
            content: take_unique(&mut members, "content", |json| json != "null")
                .or_else(|| take_unique(&mut members, "error", |json| json != "null"))
                .or_else(|| take_unique(&mut members, "content", |_| true)),
        }),
        "error" => error(&mut members)?,
        "refusal" => Kind::Refusal(
            take_text(&mut members, "refusal").or_else(|| take_text(&mut members, "text"))?,
        ),
        "redaction" => Kind::Redaction(RedactionPart {
            seqs: serde_json::from_str(take_unique(&mut members, "seqs", |_| true)?).ok()?,
            turn_id: take_text(&mut members, "turn_id"),
            by: take_text(&mut members, "by"),
            reason: take_text(&mut members, "reason"),
        }),
        "turn_status" => Kind::Status(take_text(&mut members, "status")?),
        _ => return None,
    };
    Some(Part {
        kind,
        other_members: remaining_members(&members),
    })
}

fn is_number(json: &str) -> bool {
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn error(members: &mut Members<'_>) -> Option<Kind<'static>> {
    let (code, message) = (take_text(members, "code"), take_text(members, "message"));
    if code.is_none() && message.is_none() {
        return None;
    }
    Some(Kind::Error(ErrorPart {
        code,
        message,
        source: take_text(members, "source"),
        retryable: take_flag(members, "retryable"),
    }))
}

impl Part<'_> {
    /// The type of an unknown part without text to read; `None` for any other part.
    pub(crate) fn bookkeeping_type(&self) -> Option<String> {
        let Kind::Other(json) = &self.kind else {
            return None;
        };
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let name = value.get("type")?.as_str()?.to_owned();
        (!has_words(&value)).then_some(name)
    }
}

/// Whether JSON contains text for a reader, not only names and numbers: a string of several words, or any text in a
/// member such as `text` or `title`.
fn has_words(value: &serde_json::Value) -> bool {
    const TEXT_MEMBERS: [&str; 6] = ["text", "content", "message", "prompt", "title", "summary"];
    match value {
        serde_json::Value::String(text) => text.trim().contains(char::is_whitespace),
        serde_json::Value::Array(list) => list.iter().any(has_words),
        serde_json::Value::Object(members) => members.iter().any(|(name, value)| {
            let is_text = TEXT_MEMBERS.contains(&name.as_str())
                && value.as_str().is_some_and(|t| !t.is_empty());
            is_text || has_words(value)
        }),
        _ => false,
    }
}

impl FilePart {
    /// The declared media type; `None` if the `data:` address names the same type.
    pub(crate) fn type_unless_in_url(&self) -> Option<&str> {
        let url_type = self.url.as_deref().and_then(url::media_type);
        let declared = self.media_type.as_deref();
        declared.filter(|t| url_type.is_none_or(|(kind, _)| !kind.eq_ignore_ascii_case(t.trim())))
    }

    /// The label: the name, or else the address (for a `data:` address, the type and size).
    pub(crate) fn label(&self) -> String {
        match (&self.name, &self.url) {
            (Some(name), _) if !name.is_empty() => name.clone(),
            (_, Some(address)) => url::label(address),
            _ => "unnamed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Part<'_> {
        parse_known(json).unwrap()
    }

    #[test]
    fn image_parts_are_read_in_every_dialect() {
        for json in [
            r#"{"type":"image_url","url":"u"}"#,
            r#"{"type":"image_url","image_url":"u"}"#,
            r#"{"type":"image_url","image_url":{"url":"u"}}"#,
        ] {
            let part = parse(json);
            assert!(
                matches!(part.kind, Kind::Image { url } if url == "u"),
                "{json}"
            );
            assert_eq!(part.other_members, None);
        }
        let part = parse(r#"{"type":"image_url","image_url":{"url":"u","detail":"low"}}"#);
        assert_eq!(part.other_members.as_deref(), Some(r#"{"detail":"low"}"#));
    }

    #[test]
    fn unknown_parts_are_kept() {
        for json in [
            r#"{"type":"text","text":1}"#,
            r#"{"type":"text","text":"a","text":"b"}"#,
            r#"{"type":"hologram","x":[1e400]}"#,
            r#"{"type":"error"}"#,
            "[]",
            "7",
        ] {
            assert!(parse_known(json).is_none(), "{json}");
        }
        let list = format!("[{},7]", r#"{"type":"text","text":"a"}"#);
        assert!(matches!(parts(&list)[1].kind, Kind::Other(ref t) if t == "7"));
        assert!(matches!(parts("{]")[0].kind, Kind::Other(_)));
        assert_eq!(
            parse(r#"{"type":"text","text":"a","x":1.0,"y":null}"#)
                .other_members
                .as_deref(),
            Some(r#"{"x":1.0,"y":null}"#)
        );
        for (members, shown) in [
            (r#""error":"late""#, Some(r#""late""#)),
            (r#""content":null,"error":"late""#, Some(r#""late""#)),
            (r#""content":null,"error":null"#, Some("null")),
            (r#""content":1,"error":"late""#, Some("1")),
            (r#""ok":true"#, None),
        ] {
            let json = format!(r#"{{"type":"tool_result","call_id":"c",{members}}}"#);
            assert!(
                matches!(parse(&json).kind, Kind::ToolResult(ToolResult { content, .. }) if content == shown),
                "{json}"
            );
        }
        let part = parse(r#"{"type":"tool_result","call_id":"c","ok":"no"}"#);
        assert_eq!(part.other_members.as_deref(), Some(r#"{"ok":"no"}"#));
    }

    #[test]
    fn results_may_be_lists_of_parts() {
        assert!(nested_parts(r#"[{"type":"text","text":"a"}]"#).is_some());
        for json in [
            "[]",
            "[1]",
            r#"{"type":"text","text":"a"}"#,
            r#"[{"type":"x"}]"#,
        ] {
            assert!(nested_parts(json).is_none(), "{json}");
        }
    }
}
