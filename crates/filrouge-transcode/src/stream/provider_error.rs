//! Converts the errors of providers and compatible servers. The decoders of all stream formats use it.

use filrouge_engine::stream::{StreamError, StreamErrorSource};
use filrouge_types::{JsonText, RawJson};

use super::json::{self, Raw};

json::members! {
    /// The members of providers' errors.
    ErrorMembers { message, msg, detail, kind = "type", code, status, object, error }
}

impl<'a> ErrorMembers<'a> {
    fn message(&self) -> Option<&'a str> {
        [self.message, self.msg, self.detail]
            .into_iter()
            .find_map(|raw| json::non_null(raw).filter(|message| *message != r#""""#))
    }

    /// The words that classify the error, the more specific first. Words that only mean "error" are left out.
    fn words(&self) -> Vec<String> {
        [self.code, self.status, self.kind]
            .into_iter()
            .filter_map(json::decoded_string)
            .filter(|word| !matches!(&**word, "" | "error" | "RUN_ERROR"))
            .collect()
    }
}

/// Codes, in lower case, of errors after which a retry may succeed: rate limits, overload, and failures inside the
/// provider.
const TRANSIENT: [&str; 23] = [
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

/// Parts of the codes of permanent errors. They take precedence over the status: an exhausted quota, for example, has
/// the same status as a rate limit.
const PERMANENT: [&str; 6] = [
    "quota",
    "billing",
    "invalid",
    "auth",
    "permission",
    "policy",
];

/// Converts an error that a provider sent as a JSON object or as a JSON string.
pub(super) fn provider_error(raw: &str) -> StreamError {
    let raw_json = RawJson::parse(raw).ok();
    let Some(members) = json::read_object::<ErrorMembers<'_>>(raw) else {
        return new_error("error", string_or_json(raw), false, raw_json);
    };
    let numbers: Vec<u64> = [members.code, members.status]
        .into_iter()
        .filter_map(number)
        .collect();
    let words = members.words();
    // A word is preferred to a number, even if the number comes first.
    let word = words.iter().find(|w| w.parse::<u64>().is_err());
    let code = match (word.or(words.first()), numbers.first()) {
        (Some(word), _) => word.clone(),
        (None, Some(number)) => number.to_string(),
        (None, None) => "error".to_owned(),
    };
    let without_message = || JsonText::from_plain("the provider reported an error");
    let message = members
        .message()
        .map_or_else(without_message, string_or_json);
    new_error(&code, message, is_retryable(&words, &numbers), raw_json)
}

/// Finds the error in an event that a stream's format does not define, or in the body of a refused request. The error
/// is the member `error` of the object `data`, or else the object itself. `None` if `data` is not an error. `name` is
/// the name of the event.
pub(super) fn error_in(name: &str, data: &str) -> Option<StreamError> {
    let data = data.trim();
    let members = json::read_object::<ErrorMembers<'_>>(data)?;
    let kind = json::string_content(members.kind).unwrap_or(name);
    let is_object = json::string_content(members.object) == Some("error");
    let error = match json::non_null(members.error) {
        Some(error) if matches!(kind, "" | "error") || is_object => error,
        _ if kind == "error" => data,
        None if (kind.is_empty() || is_object) && members.message().is_some() => data,
        _ => return None,
    };
    Some(provider_error(error))
}

/// The error for a response that stopped before its end. `code` is the provider's reason for stopping, and `message`
/// the provider's explanation, if there is one.
pub(super) fn stop_error(code: &str, message: Raw<'_>, retryable: bool) -> StreamError {
    let without_message = || JsonText::from_plain("the provider stopped before the end");
    let message = json::nonempty_string(message).and(message);
    let message = message.map_or_else(without_message, |message| string_or_json(message.get()));
    new_error(code, message, retryable, None)
}

fn new_error(code: &str, message: JsonText, retryable: bool, raw: Option<RawJson>) -> StreamError {
    let code = if code.is_empty() { "error" } else { code };
    StreamError {
        code: code.into(),
        message,
        source: StreamErrorSource::Provider,
        retryable,
        raw,
    }
}

/// The text of a JSON string. Any other value becomes a text that shows its JSON.
fn string_or_json(raw: &str) -> JsonText {
    let token = JsonText::from_raw(RawJson::from_checked(raw));
    token.unwrap_or_else(|_| JsonText::from_plain(raw))
}

/// The number in a JSON number, or in a JSON string that contains only a number.
fn number(raw: Raw<'_>) -> Option<u64> {
    raw?.get().trim_matches('"').parse().ok()
}

fn is_retryable(words: &[String], numbers: &[u64]) -> bool {
    let words = words.iter().map(|word| word.to_ascii_lowercase());
    let words: Vec<String> = words.collect();
    let is_permanent = |word: &String| PERMANENT.iter().any(|part| word.contains(part));
    let is_transient = |word: &String| TRANSIENT.contains(&&**word);
    let is_status = |number: &u64| matches!(number, 408 | 429 | 500..600);
    !words.iter().any(is_permanent)
        && (words.iter().any(is_transient) || numbers.iter().any(is_status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_providers_code_and_whether_to_retry() {
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
                "the provider reported an error",
                true,
            ),
            (
                r#"{"code":"1300","status":429}"#,
                "1300",
                "the provider reported an error",
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
                "the provider reported an error",
                false,
            ),
            (r#""just \"words\"""#, "error", "just \"words\"", false),
            ("7", "error", "7", false),
        ] {
            let error = provider_error(raw);
            let actual = (&*error.code, error.message.to_plain(), error.retryable);
            assert_eq!(actual, (code, message.to_owned(), retryable), "{raw}");
            assert_eq!(
                error.raw.map(|r| r.as_str().to_owned()).as_deref(),
                Some(raw)
            );
        }
    }

    #[test]
    fn other_events_are_not_errors() {
        for (name, data) in [
            ("", r#"{"type":"NEW_EVENT","error":"x","message":"m"}"#),
            ("new_event", r#"{"error":"x"}"#),
            ("", r#"{"type":"response.new","message":"m","code":7}"#),
            ("", r#"{"error":null}"#),
            ("", r#"["error"]"#),
            ("", "<html>"),
        ] {
            assert_eq!(error_in(name, data), None, "{data}");
        }
    }

    #[test]
    fn an_error_that_is_nested_too_deep_is_reported_without_its_json() {
        let deep = format!(
            "{{\"message\":\"m\",\"x\":{}{}}}",
            "[".repeat(200),
            "]".repeat(200)
        );
        let error = provider_error(&deep);
        assert_eq!((error.message.to_plain().as_str(), error.raw), ("m", None));
    }
}
