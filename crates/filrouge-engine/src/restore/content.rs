//! Decodes the parts of items for a restored context. The table in docs/context.md lists them.

use std::ops::Range;

use filrouge_types::{Channel, ItemBody, JsonText, Members, RawJson, replace_lone_surrogates};

use super::media;
use super::pieces::OpenCall;
use super::plan::{Args, CallResult, Content, Provider, ResultContent, Sealed};
use super::sound::{has_lone_surrogates, is_blank, is_blank_token, is_portable};

/// The value of the first of these names that is a member.
fn first_value<'a>(members: &Members<'a>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| members.get(name))
}

/// The string of the first of these members, as a JSON token that every reader accepts.
fn text_in(members: &Members<'_>, names: &[&str]) -> Option<JsonText> {
    first_value(members, names).and_then(text)
}

/// The string of the first of these members, without JSON escapes.
pub(super) fn plain(members: &Members<'_>, names: &[&str]) -> Option<String> {
    text_in(members, names).map(|t| t.to_plain())
}

fn has_value(members: &Members<'_>, name: &str, value: &str) -> bool {
    members.get(name) == Some(value)
}

/// A JSON string as a token that every reader accepts; `None` for another value.
pub(super) fn text(raw: &str) -> Option<JsonText> {
    if !raw.starts_with('"') {
        return None;
    }
    JsonText::from_raw(RawJson::from_checked(replace_lone_surrogates(raw))).ok()
}

/// A JSON value that every reader accepts; `None` if it is nested too deep or has a number out of range.
fn value(raw: &str) -> Option<RawJson> {
    is_portable(raw).then(|| RawJson::from_checked(replace_lone_surrogates(raw)))
}

/// The JSON of a value as a text: for a value that some readers would reject as JSON.
fn json_as_text(raw: &str) -> JsonText {
    JsonText::from_plain(&replace_lone_surrogates(raw))
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
    Call(Box<OpenCall>),
    /// The id of a call, and its result.
    Result(String, CallResult),
    /// A part that is not given to a model, with the reason.
    Omitted(&'static str),
}

/// Decodes the parts of an item, in order; `None` if they are no list of objects. If the only part is a text, the text
/// is moved out without a copy, and the item's parts are empty afterwards.
pub(super) fn parts(item: &mut ItemBody) -> Option<Vec<ContentPart>> {
    let list: Vec<Members<'_>> = serde_json::from_str(item.parts.as_str()).ok()?;
    let Some(token) = single_text_range(item.parts.as_str(), &list) else {
        return Some(list.iter().map(|members| part(members, item)).collect());
    };
    let parts = std::mem::replace(&mut item.parts, RawJson::from_checked(""));
    let text = JsonText::within(parts, token).ok()?;
    Some(vec![ContentPart::Content(Content::Text(text))])
}

/// The byte range of the text in parts that consist of one text. `None` if the text is blank, or if some readers would
/// reject it.
fn single_text_range(parts: &str, list: &[Members<'_>]) -> Option<Range<usize>> {
    let [members] = list else { return None };
    let token = members.get("text").filter(|t| t.starts_with('"'))?;
    if !has_value(members, "type", "\"text\"")
        || has_lone_surrogates(token)
        || is_blank_token(token)
    {
        return None;
    }
    // The token is a slice of `parts`.
    let start = token.as_ptr().addr() - parts.as_ptr().addr();
    Some(start..start + token.len())
}

fn part(members: &Members<'_>, item: &ItemBody) -> ContentPart {
    let model = item.model.as_deref();
    let kind = members.get("type").unwrap_or("").trim_matches('"');
    match kind {
        "reasoning" => reasoning(members, model),
        "tool_call" => call(members, model),
        "tool_result" => result(members),
        "turn_status" | "redaction" => ContentPart::Omitted("bookkeeping"),
        "error" => ContentPart::Omitted("error"),
        "tool_call_partial" => ContentPart::Omitted("incomplete_call"),
        _ => match content(kind, members) {
            Some(Ok(content)) => ContentPart::Content(content),
            Some(Err(reason)) => ContentPart::Omitted(reason),
            None if matches!(item.channel, Channel::HitlRequest | Channel::HitlResponse) => {
                ContentPart::Content(Content::Text(part_as_text(members)))
            }
            None => ContentPart::Omitted("unknown_part"),
        },
    }
}

/// The JSON of a part as a text.
fn part_as_text(members: &Members<'_>) -> JsonText {
    let members = members.0.iter();
    let members: Vec<String> = members
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    json_as_text(&format!("{{{}}}", members.join(",")))
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

/// Code as a fenced block of Markdown, with a fence that is longer than any run of backticks in the code.
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

/// A link in Markdown.
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
        return ContentPart::Omitted("empty");
    }
    ContentPart::Reasoning { text, sealed }
}

/// The signed or encrypted data of reasoning; [`Sealed::Unknown`] if its provider or format is not recognized.
fn sealed(members: &Members<'_>, model: Option<&str>) -> Option<Sealed> {
    let producer = provider(members, model);
    let sealed_text = |name| text_in(members, &[name]).filter(|text| !is_blank(text));
    if let Some(encrypted) = sealed_text("encrypted_content") {
        let summary = members.get("summary").filter(|s| s.starts_with('['));
        let summary = summary.and_then(value);
        return Some(match (sealed_text("id"), producer) {
            (Some(id), None | Some(Provider::Openai)) => Sealed::OpenaiItem {
                id,
                summary: summary.unwrap_or_else(|| RawJson::from_checked("[]")),
                encrypted_content: Some(encrypted),
            },
            _ => Sealed::Unknown,
        });
    }
    if let Some(data) = sealed_text("redacted") {
        return Some(match producer {
            None | Some(Provider::Anthropic) => Sealed::AnthropicRedacted(data),
            _ => Sealed::Unknown,
        });
    }
    sealed_text("signature").map(|signature| match producer {
        Some(Provider::Anthropic) => Sealed::AnthropicSignature(signature),
        Some(Provider::Google) => Sealed::GoogleSignature(signature),
        _ => Sealed::Unknown,
    })
}

fn call(members: &Members<'_>, model: Option<&str>) -> ContentPart {
    let Some(call_id) = plain(members, &["call_id"]).filter(|id| !id.is_empty()) else {
        return ContentPart::Omitted("malformed_call");
    };
    let signature = text_in(members, &["signature"]).filter(|s| !is_blank(s));
    ContentPart::Call(Box::new(OpenCall {
        call_id,
        name: plain(members, &["name"]).unwrap_or_default(),
        args: args(members.get("args")),
        signature: signature.and_then(|s| Some((provider(members, model)?, s))),
        result: None,
    }))
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

/// Arguments that were recorded as a text, as providers' streams deliver them. The text is parsed if it is a JSON
/// object.
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
        return ContentPart::Omitted("orphan_result");
    };
    let result = CallResult {
        seq: None,
        ok: !has_value(members, "ok", "false"),
        content: result_content(first_value(members, &["content", "error"])),
    };
    ContentPart::Result(call_id, result)
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
