//! The parts of an item, read as far as they are known.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{Members, string};
use crate::{media, url};

/// One part of an item's content.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// What it is.
    pub(crate) kind: Kind<'a>,
    /// The members that `kind` does not hold, as a JSON object.
    pub(crate) rest: Option<String>,
}

/// What a part is. Texts are decoded; JSON is kept as written.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    /// Words, Markdown by convention.
    Text(String),
    /// A listing.
    Code {
        language: Option<String>,
        text: String,
    },
    /// A picture.
    Image { url: String },
    /// A file that was attached.
    File {
        name: Option<String>,
        media_type: Option<String>,
        url: Option<String>,
    },
    /// A source.
    Link { url: String, title: Option<String> },
    /// A model's reasoning.
    Reasoning(String),
    /// A call of a tool.
    Call {
        call_id: Option<String>,
        name: String,
        args: Option<&'a str>,
    },
    /// What the tool answered.
    Answer {
        call_id: Option<String>,
        ok: Option<bool>,
        latency_ms: Option<&'a str>,
        content: Option<&'a str>,
    },
    /// What went wrong.
    Error {
        code: Option<String>,
        message: Option<String>,
        source: Option<String>,
        retryable: Option<bool>,
    },
    /// The model would not answer.
    Refusal(String),
    /// Which items lost their content.
    Redaction {
        seqs: Vec<(u64, u64)>,
        turn_id: Option<String>,
        by: Option<String>,
        reason: Option<String>,
    },
    /// The turn's new status.
    Status(String),
    /// Anything else, as JSON.
    Other(Cow<'a, str>),
}

/// Reads an item's parts; `json` has no escapes of lone surrogates ([`crate::json::heal`]).
pub(crate) fn parts(json: &str) -> Vec<Part<'_>> {
    let other = |json| Part {
        kind: Kind::Other(Cow::Borrowed(json)),
        rest: None,
    };
    match serde_json::from_str::<Vec<&RawValue>>(json) {
        Ok(list) => list
            .into_iter()
            .map(|raw| known(raw.get()).unwrap_or_else(|| other(raw.get())))
            .collect(),
        Err(_) => vec![other(json)],
    }
}

/// The parts in a tool's answer, when it is a list of parts or a picture rather than any JSON.
pub(crate) fn nested(json: &str) -> Option<Vec<Part<'_>>> {
    if let Some(url) = string(json) {
        let kind = url::picture(&url).map(|p| Kind::Image { url: p.to_owned() })?;
        return Some(vec![Part { kind, rest: None }]);
    }
    let is_image = |p: &Part<'_>| matches!(p.kind, Kind::Image { .. });
    if json.starts_with('{') {
        return known(json).filter(is_image).map(|p| vec![p]);
    }
    let read = parts(json);
    let tool = |p: &Part<'_>| matches!(p.kind, Kind::Call { .. } | Kind::Answer { .. });
    let opaque = |p: &Part<'_>| matches!(p.kind, Kind::Other(_));
    let is_list = json.starts_with('[') && !read.is_empty() && !read.iter().any(tool);
    (is_list && (!read.iter().any(opaque) || read.iter().any(is_image))).then_some(read)
}

/// The members of a part, taken one by one; what stays is the rest.
pub(crate) struct Taking<'a>(pub(crate) Members<'a>);

impl<'a> Taking<'a> {
    /// The value of `name` as JSON, if it is there once and fits.
    pub(crate) fn raw(&mut self, name: &str, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
        let members = &mut self.0.0;
        let mut named = members.iter().enumerate().filter(|(_, (n, _))| n == name);
        let (at, (_, value)) = named.next()?;
        // A name that stands twice has no single meaning: both stay in the rest.
        if named.next().is_some() || !fits(value.get()) {
            return None;
        }
        Some(members.remove(at).1.get())
    }

    /// The text of `name`, if it is one.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.raw(name, |v| v.starts_with('"')).and_then(string)
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        self.raw(name, |v| matches!(v, "true" | "false"))
            .map(|v| v == "true")
    }

    fn number(&mut self, name: &str) -> Option<&'a str> {
        self.raw(name, |v| {
            v.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        })
    }

    fn rest(self) -> Option<String> {
        let members = self.0.0;
        if members.iter().all(|(_, v)| v.get() == "null") {
            return None;
        }
        let member = |(n, v): &(String, &RawValue)| {
            let n = serde_json::Value::from(n.as_str());
            format!("{n}:{}", v.get())
        };
        let list: Vec<String> = members.iter().map(member).collect();
        Some(format!("{{{}}}", list.join(",")))
    }
}

/// A part of a known type that has what the type needs.
fn known(json: &str) -> Option<Part<'_>> {
    let mut from = Taking(serde_json::from_str(json).ok()?);
    let kind = match from.text("type")?.as_str() {
        "text" => Kind::Text(from.text("text")?),
        "code" => Kind::Code {
            language: from.text("language"),
            text: from.text("code").or_else(|| from.text("text"))?,
        },
        "image_url" | "image" => media::image(&mut from)?,
        "file" => media::file(&mut from),
        "link" => Kind::Link {
            url: from.text("url")?,
            title: from.text("title"),
        },
        "reasoning" => Kind::Reasoning(from.text("text")?),
        "tool_call" => Kind::Call {
            call_id: from.text("call_id"),
            name: from.text("name")?,
            args: from.raw("args", |_| true),
        },
        "tool_result" => Kind::Answer {
            call_id: from.text("call_id"),
            ok: from.flag("ok"),
            latency_ms: from.number("latency_ms"),
            content: from
                .raw("content", |json| json != "null")
                .or_else(|| from.raw("error", |json| json != "null"))
                .or_else(|| from.raw("content", |_| true)),
        },
        "error" => error(&mut from)?,
        "refusal" => Kind::Refusal(from.text("refusal").or_else(|| from.text("text"))?),
        "redaction" => Kind::Redaction {
            seqs: serde_json::from_str(from.raw("seqs", ranges)?).ok()?,
            turn_id: from.text("turn_id"),
            by: from.text("by"),
            reason: from.text("reason"),
        },
        "turn_status" => Kind::Status(from.text("status")?),
        _ => return None,
    };
    Some(Part {
        kind,
        rest: from.rest(),
    })
}

fn ranges(json: &str) -> bool {
    serde_json::from_str::<Vec<(u64, u64)>>(json).is_ok()
}

fn error(from: &mut Taking<'_>) -> Option<Kind<'static>> {
    let (code, message) = (from.text("code"), from.text("message"));
    if code.is_none() && message.is_none() {
        return None;
    }
    Some(Kind::Error {
        code,
        message,
        source: from.text("source"),
        retryable: from.flag("retryable"),
    })
}

impl Part<'_> {
    /// The type of an unknown part that has nothing to read: no sentence, no text.
    pub(crate) fn bookkeeping(&self) -> Option<String> {
        let Kind::Other(json) = &self.kind else {
            return None;
        };
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let name = value.get("type")?.as_str()?.to_owned();
        (!has_words(&value)).then_some(name)
    }
}

/// Whether JSON holds words for a reader rather than names and numbers.
fn has_words(value: &serde_json::Value) -> bool {
    const TEXTS: [&str; 6] = ["text", "content", "message", "prompt", "title", "summary"];
    match value {
        serde_json::Value::String(text) => text.trim().contains(char::is_whitespace),
        serde_json::Value::Array(list) => list.iter().any(has_words),
        serde_json::Value::Object(members) => members.iter().any(|(name, value)| {
            let is_text =
                TEXTS.contains(&name.as_str()) && value.as_str().is_some_and(|t| !t.is_empty());
            is_text || has_words(value)
        }),
        _ => false,
    }
}

impl Kind<'_> {
    /// A file's media type, unless its address tells the same.
    pub(crate) fn further_type<'t>(
        told: Option<&'t str>,
        address: Option<&str>,
    ) -> Option<&'t str> {
        let own = address.and_then(url::media_type);
        told.filter(|t| own.is_none_or(|(kind, _)| !kind.eq_ignore_ascii_case(t.trim())))
    }

    /// What a file is called: its name, else the last piece of its address.
    pub(crate) fn file_label(name: Option<&str>, address: Option<&str>) -> String {
        match (name, address) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Some(address)) => url::name(address),
            _ => "unnamed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(json: &str) -> Part<'_> {
        known(json).unwrap()
    }

    #[test]
    fn pictures_in_every_dialect() {
        for json in [
            r#"{"type":"image_url","url":"u"}"#,
            r#"{"type":"image_url","image_url":"u"}"#,
            r#"{"type":"image_url","image_url":{"url":"u"}}"#,
        ] {
            let part = one(json);
            assert!(
                matches!(part.kind, Kind::Image { url } if url == "u"),
                "{json}"
            );
            assert_eq!(part.rest, None);
        }
        let part = one(r#"{"type":"image_url","image_url":{"url":"u","detail":"low"}}"#);
        assert_eq!(part.rest.as_deref(), Some(r#"{"detail":"low"}"#));
    }

    #[test]
    fn what_is_not_understood_is_kept() {
        for json in [
            r#"{"type":"text","text":1}"#,
            r#"{"type":"text","text":"a","text":"b"}"#,
            r#"{"type":"hologram","x":[1e400]}"#,
            r#"{"type":"error"}"#,
            "[]",
            "7",
        ] {
            assert!(known(json).is_none(), "{json}");
        }
        let list = format!("[{},7]", r#"{"type":"text","text":"a"}"#);
        assert!(matches!(parts(&list)[1].kind, Kind::Other(ref t) if t == "7"));
        assert!(matches!(parts("{]")[0].kind, Kind::Other(_)));
        assert_eq!(
            one(r#"{"type":"text","text":"a","x":1.0,"y":null}"#)
                .rest
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
                matches!(one(&json).kind, Kind::Answer { content, .. } if content == shown),
                "{json}"
            );
        }
        let part = one(r#"{"type":"tool_result","call_id":"c","ok":"no"}"#);
        assert_eq!(part.rest.as_deref(), Some(r#"{"ok":"no"}"#));
    }

    #[test]
    fn answers_may_be_lists_of_parts() {
        assert!(nested(r#"[{"type":"text","text":"a"}]"#).is_some());
        for json in [
            "[]",
            "[1]",
            r#"{"type":"text","text":"a"}"#,
            r#"[{"type":"x"}]"#,
        ] {
            assert!(nested(json).is_none(), "{json}");
        }
    }
}
