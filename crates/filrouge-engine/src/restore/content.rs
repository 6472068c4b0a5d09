//! Reads parts for a restored context (docs/context.md has the table).

use std::ops::Range;

use filrouge_types::{ItemBody, JsonText, Members, RawJson, sound_json};

use super::media;
use super::plan::{Args, Content, Provider, ResultContent, Sealed};
use super::sound::{has_lone_surrogates, is_blank, is_blank_token, is_portable};

/// The value of the first of these names that is a member.
fn first<'a>(members: &Members<'a>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| members.get(name))
}

/// The string of the first of these members, as a JSON token that every reader accepts.
fn text_in(members: &Members<'_>, names: &[&str]) -> Option<JsonText> {
    first(members, names).and_then(text)
}

/// The string of the first of these members, without JSON escapes.
pub(super) fn plain(members: &Members<'_>, names: &[&str]) -> Option<String> {
    text_in(members, names).map(|t| t.to_plain())
}

fn is(members: &Members<'_>, name: &str, value: &str) -> bool {
    members.get(name) == Some(value)
}

/// A JSON string as a token that every reader accepts; `None` for another value.
pub(super) fn text(raw: &str) -> Option<JsonText> {
    if !raw.starts_with('"') {
        return None;
    }
    JsonText::from_raw(RawJson::from_checked(sound_json(raw))).ok()
}

/// A JSON value that every reader accepts; `None` if it is nested too deep or has a number out of range.
fn value(raw: &str) -> Option<RawJson> {
    is_portable(raw).then(|| RawJson::from_checked(sound_json(raw)))
}

/// The JSON of a value as a text, for a value that some reader would reject as JSON.
fn json_as_text(raw: &str) -> JsonText {
    JsonText::from_plain(&sound_json(raw))
}

/// One decoded part.
pub(super) enum ContentPart {
    /// Contents of a message.
    Content(Content),
    /// Reasoning of the agent.
    Reasoning {
        text: Option<JsonText>,
        sealed: Option<Sealed>,
    },
    /// A tool call.
    Call {
        call_id: String,
        name: String,
        args: Args,
        signature: Option<(Provider, JsonText)>,
    },
    /// A tool's result.
    Result {
        call_id: String,
        ok: bool,
        content: ResultContent,
    },
    /// A part that is not for a model; the text is the reason.
    Nothing(&'static str),
}

/// The parts of an item in order; `None` if they are no list of objects. If the only part is a text, it is moved out
/// without a copy, and the item's parts are empty afterwards.
pub(super) fn parts(item: &mut ItemBody) -> Option<Vec<ContentPart>> {
    let list: Vec<Members<'_>> = serde_json::from_str(item.parts.as_str()).ok()?;
    let Some(token) = sole_text(item.parts.as_str(), &list) else {
        let model = item.model.as_deref();
        return Some(list.iter().map(|members| part(members, model)).collect());
    };
    let parts = std::mem::replace(&mut item.parts, RawJson::from_checked(""));
    let text = JsonText::within(parts, token).ok()?;
    Some(vec![ContentPart::Content(Content::Text(text))])
}

/// The range of the text in parts that consist of one text, if it is not blank and every reader accepts it.
fn sole_text(parts: &str, list: &[Members<'_>]) -> Option<Range<usize>> {
    let [members] = list else { return None };
    let token = members.get("text").filter(|t| t.starts_with('"'))?;
    if !is(members, "type", "\"text\"") || has_lone_surrogates(token) || is_blank_token(token) {
        return None;
    }
    // The token is a slice of `parts`.
    let at = token.as_ptr().addr() - parts.as_ptr().addr();
    Some(at..at + token.len())
}

fn part(members: &Members<'_>, model: Option<&str>) -> ContentPart {
    let kind = members.get("type").unwrap_or("").trim_matches('"');
    match kind {
        "reasoning" => reasoning(members, model),
        "tool_call" => call(members, model),
        "tool_result" => result(members),
        "turn_status" | "redaction" => ContentPart::Nothing("bookkeeping"),
        "error" => ContentPart::Nothing("error"),
        "tool_call_partial" => ContentPart::Nothing("incomplete_call"),
        _ => match content(kind, members) {
            Some(Ok(content)) => ContentPart::Content(content),
            Some(Err(reason)) => ContentPart::Nothing(reason),
            None => ContentPart::Nothing("unknown_part"),
        },
    }
}

/// Reads a part with contents; `None` if parts of this type have none. The error is the reason why the part is left
/// out.
fn content(kind: &str, members: &Members<'_>) -> Option<Result<Content, &'static str>> {
    let not_blank = |text: Option<JsonText>| text.filter(|t| !is_blank(t)).ok_or("empty");
    Some(match kind {
        "text" => not_blank(text_in(members, &["text"])).map(Content::Text),
        "refusal" => not_blank(text_in(members, &["refusal", "text"])).map(Content::Refusal),
        "code" => not_blank(code(members)).map(Content::Text),
        "link" => not_blank(link(members)).map(Content::Text),
        "image_url" | "image" | "file" => Ok(media::read(kind, members)),
        _ => return None,
    })
}

/// Code as a fenced block, with a fence longer than any inside.
fn code(members: &Members<'_>) -> Option<JsonText> {
    let code = plain(members, &["code", "text"]).filter(|c| !c.trim().is_empty())?;
    let language = plain(members, &["language"]).unwrap_or_default();
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if code.ends_with('\n') { "" } else { "\n" };
    Some(JsonText::from_plain(&format!(
        "{fence}{language}\n{code}{end}{fence}"
    )))
}

fn link(members: &Members<'_>) -> Option<JsonText> {
    let url = plain(members, &["url"])?;
    let text = match plain(members, &["title", "text"]) {
        Some(title) if !title.trim().is_empty() => format!("[{title}]({url})"),
        _ => url,
    };
    Some(JsonText::from_plain(&text))
}

/// The provider whose model produced a part: the one that the part names, or else the one that the model's name
/// suggests.
fn provider(members: &Members<'_>, model: Option<&str>) -> Option<Provider> {
    let named = plain(members, &["provider"]).unwrap_or_default();
    // Bedrock serves models of several providers.
    let names_provider = !named.is_empty() && !named.to_ascii_lowercase().contains("bedrock");
    let name = if names_provider { &named } else { model? };
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| name.contains(w));
    if has(&["anthropic", "claude"]) {
        Some(Provider::Anthropic)
    } else if has(&["google", "gemini", "vertex"]) {
        Some(Provider::Google)
    } else if has(&["openai", "gpt"]) {
        Some(Provider::Openai)
    } else {
        None
    }
}

fn reasoning(members: &Members<'_>, model: Option<&str>) -> ContentPart {
    let text = text_in(members, &["text", "thinking"]).filter(|t| !is_blank(t));
    let sealed = sealed(members, model);
    if text.is_none() && sealed.is_none() {
        return ContentPart::Nothing("empty");
    }
    ContentPart::Reasoning { text, sealed }
}

fn sealed(members: &Members<'_>, model: Option<&str>) -> Option<Sealed> {
    let own = provider(members, model);
    let seal = |name| text_in(members, &[name]).filter(|seal| !is_blank(seal));
    if let Some(encrypted) = seal("encrypted_content") {
        let summary = members.get("summary").filter(|s| s.starts_with('['));
        let summary = summary.and_then(value);
        return Some(match (seal("id"), own) {
            (Some(id), None | Some(Provider::Openai)) => Sealed::OpenaiItem {
                id,
                summary: summary.unwrap_or_else(|| RawJson::from_checked("[]")),
                encrypted_content: Some(encrypted),
            },
            _ => Sealed::Unknown,
        });
    }
    if let Some(data) = seal("redacted") {
        let by_anthropic = matches!(own, None | Some(Provider::Anthropic));
        return Some(if by_anthropic {
            Sealed::AnthropicRedacted(data)
        } else {
            Sealed::Unknown
        });
    }
    if let Some(signature) = seal("signature") {
        return Some(match own {
            Some(Provider::Anthropic) => Sealed::AnthropicSignature(signature),
            Some(Provider::Google) => Sealed::GoogleSignature(signature),
            _ => Sealed::Unknown,
        });
    }
    None
}

fn call(members: &Members<'_>, model: Option<&str>) -> ContentPart {
    let Some(call_id) = plain(members, &["call_id"]).filter(|id| !id.is_empty()) else {
        return ContentPart::Nothing("malformed_call");
    };
    let signature = text_in(members, &["signature"]).filter(|s| !is_blank(s));
    ContentPart::Call {
        call_id,
        name: plain(members, &["name"]).unwrap_or_default(),
        args: args(members.get("args")),
        signature: signature.and_then(|s| Some((provider(members, model)?, s))),
    }
}

fn args(raw: Option<&str>) -> Args {
    let Some(raw) = raw else {
        return Args::Object(RawJson::from_checked("{}"));
    };
    if let Some(token) = text(raw) {
        return text_args(token);
    }
    match value(raw) {
        Some(json) if json.is_object() => Args::Object(json),
        Some(json) => Args::Value(json),
        None => Args::Text(json_as_text(raw)),
    }
}

/// Arguments as a provider's stream delivers them: the text of a JSON object, if it is one.
fn text_args(token: JsonText) -> Args {
    let plain = token.to_plain();
    if plain.trim().is_empty() {
        return Args::Object(RawJson::from_checked("{}"));
    }
    let json = RawJson::parse(&plain).ok().filter(RawJson::is_object);
    let json = json.and_then(|json| value(json.as_str()));
    json.map_or(Args::Text(token), Args::Object)
}

fn result(members: &Members<'_>) -> ContentPart {
    let Some(call_id) = plain(members, &["call_id"]).filter(|id| !id.is_empty()) else {
        return ContentPart::Nothing("orphan_result");
    };
    ContentPart::Result {
        call_id,
        ok: !is(members, "ok", "false"),
        content: result_content(first(members, &["content", "error"])),
    }
}

fn result_content(raw: Option<&str>) -> ResultContent {
    let Some(raw) = raw else {
        return ResultContent::Contents(Vec::new());
    };
    if let Some(text) = text(raw) {
        let text = (!is_blank(&text)).then_some(Content::Text(text));
        return ResultContent::Contents(text.into_iter().collect());
    }
    if let Some(contents) = contents(raw) {
        return ResultContent::Contents(contents);
    }
    let as_text = || ResultContent::Contents(vec![Content::Text(json_as_text(raw))]);
    value(raw).map_or_else(as_text, ResultContent::Value)
}

/// The contents of a list of parts, without empty ones; `None` if a part in the list is of a type without contents.
fn contents(raw: &str) -> Option<Vec<Content>> {
    let list: Vec<Members<'_>> = serde_json::from_str(raw).ok()?;
    let mut contents = Vec::with_capacity(list.len());
    for members in &list {
        let kind = members.get("type")?.trim_matches('"');
        if let Ok(content) = content(kind, members)? {
            contents.push(content);
        }
    }
    Some(contents)
}
