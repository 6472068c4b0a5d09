//! The errors of Chat Completions, of Anthropic's Messages and of the many servers that speak like them.

use filrouge_engine::stream::{StreamError, StreamErrorSource};
use filrouge_types::{JsonText, RawJson};
use serde::Deserialize;

use super::failure;
use super::json::{self, Raw};

/// The members that providers' errors have.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    message: Raw<'a>,
    msg: Raw<'a>,
    detail: Raw<'a>,
    #[serde(rename = "type")]
    kind: Raw<'a>,
    code: Raw<'a>,
    status: Raw<'a>,
}

/// Parts of words that tell of an error that is met again whenever the same is asked: a quota that is used up is told
/// with the status of a rate limit.
const FOR_GOOD: &[&str] = &[
    "quota",
    "billing",
    "invalid",
    "auth",
    "permission",
    "policy",
];

/// The error that a JSON value tells: an object, or a text.
pub(super) fn provider_error(raw: &str) -> StreamError {
    let told: Option<Told<'_>> = raw.starts_with('{').then(|| json::read(raw)).flatten();
    let raw_json = RawJson::parse(raw).ok();
    let Some(told) = told else {
        let message = match raw_json.clone().map(JsonText::from_raw) {
            Some(Ok(text)) => text,
            _ => JsonText::from_plain(raw),
        };
        return error("error", message, false, raw_json);
    };
    let number = [told.code, told.status].into_iter().find_map(number);
    let words: Vec<String> = [told.code, told.status, told.kind]
        .into_iter()
        .filter_map(json::plain)
        .filter(|word| !word.is_empty() && word != "error")
        .collect();
    // Digits tell less than any word.
    let word = words.iter().find(|w| w.parse::<u32>().is_err());
    let code = match (word.or(words.first()), number) {
        (Some(word), _) => word.clone(),
        (None, Some(number)) => number.to_string(),
        (None, None) => "error".to_owned(),
    };
    let message = [told.message, told.msg, told.detail]
        .into_iter()
        .find_map(json::value)
        .map(text);
    let message = message.unwrap_or_else(|| JsonText::from_plain("the provider told an error"));
    error(&code, message, is_retryable(&words, number), raw_json)
}

/// An error that is told by one word, the reason a response stopped for.
pub(super) fn stopped(code: &str) -> StreamError {
    let message = JsonText::from_plain("the provider stopped before the end");
    error(code, message, true, None)
}

fn error(code: &str, message: JsonText, retryable: bool, raw: Option<RawJson>) -> StreamError {
    StreamError {
        code: code.into(),
        message,
        source: StreamErrorSource::Provider,
        retryable,
        raw,
    }
}

fn text(raw: &str) -> JsonText {
    let token = JsonText::from_raw(RawJson::from_checked(raw));
    token.unwrap_or_else(|_| JsonText::from_plain(raw))
}

/// A status as a number, also one that is spelled as text.
fn number(raw: Raw<'_>) -> Option<u32> {
    raw?.get().trim_matches('"').parse().ok()
}

fn is_retryable(words: &[String], status: Option<u32>) -> bool {
    let is_for_good = |word: &String| {
        let word = word.to_ascii_lowercase();
        FOR_GOOD.iter().any(|part| word.contains(part))
    };
    let passes = words.iter().any(|word| failure::passes(word));
    !words.iter().any(is_for_good)
        && (passes || status.is_some_and(|s| failure::passes(&s.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_providers_have_their_word_and_tell_whether_to_ask_again() {
        for (raw, code, message, retryable) in [
            (
                r#"{"message":"Slow down","type":"requests","param":null,"code":"rate_limit_exceeded"}"#,
                "rate_limit_exceeded",
                "Slow down",
                true,
            ),
            (
                r#"{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}"#,
                "insufficient_quota",
                "You exceeded your current quota",
                false,
            ),
            (
                r#"{"message":"No such model","type":"invalid_request_error","code":null}"#,
                "invalid_request_error",
                "No such model",
                false,
            ),
            (
                r#"{"type":"overloaded_error","message":"Overloaded"}"#,
                "overloaded_error",
                "Overloaded",
                true,
            ),
            (
                r#"{"type":"authentication_error","message":"no"}"#,
                "authentication_error",
                "no",
                false,
            ),
            (
                r#"{"code":502,"message":"Bad gateway","metadata":{}}"#,
                "502",
                "Bad gateway",
                true,
            ),
            (r#"{"code":"429","msg":"wait"}"#, "429", "wait", true),
            (
                r#"{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}"#,
                "RESOURCE_EXHAUSTED",
                "m",
                true,
            ),
            (
                r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#,
                "BadRequestError",
                "bad",
                false,
            ),
            (
                r#"{"message":"m","type":"insufficient_quota","code":429}"#,
                "insufficient_quota",
                "m",
                false,
            ),
            (
                r#"{"message":"m","type":"InternalServerError","code":500}"#,
                "InternalServerError",
                "m",
                true,
            ),
            (
                r#"{"detail":[{"loc":1}]}"#,
                "error",
                r#"[{"loc":1}]"#,
                false,
            ),
            (
                r#"{"type":"error"}"#,
                "error",
                "the provider told an error",
                false,
            ),
            (r#""just \"words\"""#, "error", "just \"words\"", false),
            ("7", "error", "7", false),
        ] {
            let error = provider_error(raw);
            let got = (&*error.code, error.message.to_plain(), error.retryable);
            assert_eq!(got, (code, message.to_owned(), retryable), "{raw}");
            assert_eq!(
                error.raw.map(|r| r.as_str().to_owned()).as_deref(),
                Some(raw)
            );
        }
        assert!(stopped("insufficient_system_resource").retryable);
    }

    #[test]
    fn an_error_that_is_nested_too_deep_is_told_without_its_json() {
        let deep = format!(
            "{{\"message\":\"m\",\"x\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        let error = provider_error(&deep);
        assert_eq!((error.message.to_plain().as_str(), error.raw), ("m", None));
    }
}
