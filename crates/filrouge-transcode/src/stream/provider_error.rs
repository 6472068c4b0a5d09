//! Errors as providers, and the many servers that speak like them, tell them: one reading for all formats.

use filrouge_engine::stream::{StreamError, StreamErrorSource};
use filrouge_types::{JsonText, RawJson};

use super::json::{self, Raw};

json::members! {
    /// The members that providers' errors have.
    Told { message, msg, detail, kind = "type", code, status, object, error }
}

impl<'a> Told<'a> {
    fn read(raw: &'a str) -> Option<Self> {
        // A list could pass for an object without names.
        raw.starts_with('{').then(|| json::read(raw)).flatten()
    }

    fn message(&self) -> Option<&'a str> {
        [self.message, self.msg, self.detail]
            .into_iter()
            .find_map(|raw| json::value(raw).filter(|message| *message != r#""""#))
    }

    /// Its words, the more telling first. What only says that it is an error is left out.
    fn words(&self) -> Vec<String> {
        [self.code, self.status, self.kind]
            .into_iter()
            .filter_map(json::plain)
            .filter(|word| !matches!(&**word, "" | "error" | "RUN_ERROR"))
            .collect()
    }
}

/// Codes, in lower case, of what may succeed when it is asked again: limits of rates, load, and failures of the
/// provider's own.
const PASSING: [&str; 23] = [
    "aborted",
    "api_error",
    "bad_gateway",
    "deadline_exceeded",
    "gateway_timeout",
    "internal",
    "internal_error",
    "internal_server_error",
    "overloaded",
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limited",
    "request_timeout",
    "resource_exhausted",
    "server_error",
    "server_overloaded",
    "service_unavailable",
    "timeout",
    "timeout_error",
    "too_many_requests",
    "unavailable",
    "vector_store_timeout",
];

/// Parts of words that tell of an error that is met again whenever the same is asked: a quota that is used up is told
/// with the status of a rate limit.
const FOR_GOOD: [&str; 6] = [
    "quota",
    "billing",
    "invalid",
    "auth",
    "permission",
    "policy",
];

/// The error that a JSON value tells: an object, or a text.
pub(super) fn provider_error(raw: &str) -> StreamError {
    let raw_json = RawJson::parse(raw).ok();
    let Some(told) = Told::read(raw) else {
        return error("error", text(raw), false, raw_json);
    };
    let numbers: Vec<u64> = [told.code, told.status]
        .into_iter()
        .filter_map(number)
        .collect();
    let words = told.words();
    // Digits tell less than any word.
    let word = words.iter().find(|w| w.parse::<u64>().is_err());
    let code = match (word.or(words.first()), numbers.first()) {
        (Some(word), _) => word.clone(),
        (None, Some(number)) => number.to_string(),
        (None, None) => "error".to_owned(),
    };
    let silent = || JsonText::from_plain("the provider told an error");
    let message = told.message().map_or_else(silent, text);
    error(&code, message, is_retryable(&words, &numbers), raw_json)
}

/// The error in an event that is none of the format's own, or in the body of a refused request: in its `error`, or all
/// of it; `None` when it is no error. `name` is the event's.
pub(super) fn told(name: &str, data: &str) -> Option<StreamError> {
    let data = data.trim();
    let told = Told::read(data)?;
    let kind = json::inner(told.kind).unwrap_or(name);
    let is_object = json::inner(told.object) == Some("error");
    let error = match json::value(told.error) {
        Some(error) if matches!(kind, "" | "error") || is_object => error,
        _ if kind == "error" => data,
        None if (kind.is_empty() || is_object) && told.message().is_some() => data,
        _ => return None,
    };
    Some(provider_error(error))
}

/// An error that is told by one word, the reason a response stopped for, and perhaps by a message.
pub(super) fn stopped(code: &str, message: Raw<'_>, retryable: bool) -> StreamError {
    let silent = || JsonText::from_plain("the provider stopped before the end");
    let message = json::some(message).and(message);
    let message = message.map_or_else(silent, |message| text(message.get()));
    error(code, message, retryable, None)
}

fn error(code: &str, message: JsonText, retryable: bool, raw: Option<RawJson>) -> StreamError {
    let code = if code.is_empty() { "error" } else { code };
    StreamError {
        code: code.into(),
        message,
        source: StreamErrorSource::Provider,
        retryable,
        raw,
    }
}

/// A text, or any other value as it is spelled.
fn text(raw: &str) -> JsonText {
    let token = JsonText::from_raw(RawJson::from_checked(raw));
    token.unwrap_or_else(|_| JsonText::from_plain(raw))
}

/// A status as a number, also one that is spelled as text.
fn number(raw: Raw<'_>) -> Option<u64> {
    raw?.get().trim_matches('"').parse().ok()
}

fn is_retryable(words: &[String], numbers: &[u64]) -> bool {
    let words = words.iter().map(|word| word.to_ascii_lowercase());
    let words: Vec<String> = words.collect();
    let is_for_good = |word: &String| FOR_GOOD.iter().any(|part| word.contains(part));
    let passes = |word: &String| PASSING.contains(&&**word);
    let is_status = |number: &u64| matches!(number, 408 | 429 | 500..600);
    !words.iter().any(is_for_good) && (words.iter().any(passes) || numbers.iter().any(is_status))
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
                r#"{"message":"No such model","type":"invalid_request_error","code":null}"#,
                "invalid_request_error",
                "No such model",
                false,
            ),
            (
                r#"{"type":"authentication_error","message":"no"}"#,
                "authentication_error",
                "no",
                false,
            ),
            (r#"{"code":"429","msg":"wait"}"#, "429", "wait", true),
            (
                r#"{"code":408,"message":""}"#,
                "408",
                "the provider told an error",
                true,
            ),
            (
                r#"{"code":"1300","status":429}"#,
                "1300",
                "the provider told an error",
                true,
            ),
            (r#"{"code":600,"msg":"m"}"#, "600", "m", false),
            (r#"{"code":400,"msg":"m"}"#, "400", "m", false),
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
    }

    #[test]
    fn what_is_no_error_is_not_taken_for_one() {
        for (name, data) in [
            ("", r#"{"type":"NEW_EVENT","error":"x","message":"m"}"#),
            ("new_event", r#"{"error":"x"}"#),
            ("", r#"{"type":"response.new","message":"m","code":7}"#),
            ("", r#"{"error":null}"#),
            ("", r#"["error"]"#),
            ("", "<html>"),
        ] {
            assert_eq!(told(name, data), None, "{data}");
        }
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
