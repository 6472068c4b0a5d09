//! Errors as providers tell them.

use filrouge_engine::stream::{Ended, StreamError, StreamErrorSource};
use filrouge_types::{JsonText, RawJson};

use super::json::{self, Raw};

/// Codes, in lower case, of what may succeed when it is asked again: limits of rates, load, and failures of the
/// provider's own. Numbers are HTTP statuses.
const PASSING: [&str; 24] = [
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
    "408",
];

/// Whether asking again can help after an error of this code.
pub(super) fn passes(code: &str) -> bool {
    let code = code.to_ascii_lowercase();
    let status: Option<u16> = code.parse().ok();
    PASSING.contains(&code.as_str()) || status.is_some_and(|s| s == 429 || (500..600).contains(&s))
}

/// A code: a string, or a number.
pub(super) fn code(raw: Raw<'_>) -> Option<String> {
    let plain = json::plain(raw).filter(|code| !code.is_empty());
    let number = || Some(json::value(raw)?.parse::<u64>().ok()?.to_string());
    plain.or_else(number)
}

/// The end that a provider's error makes; `raw` is the error as it came.
pub(super) fn failed(code: &str, message: Raw<'_>, raw: &str) -> Ended {
    let message = json::token(message).map(RawJson::from_checked);
    let message = message.and_then(|token| JsonText::from_raw(token).ok());
    let silent = || JsonText::from_plain("the provider told an error");
    Ended::Failed(StreamError {
        code: code.into(),
        message: message.unwrap_or_else(silent),
        source: StreamErrorSource::Provider,
        retryable: passes(code),
        raw: RawJson::parse(raw).ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passes_is_worth_another_try() {
        for code in [
            "429",
            "503",
            "UNAVAILABLE",
            "rate_limit_exceeded",
            "server_error",
        ] {
            assert!(passes(code), "{code}");
        }
        for code in [
            "400",
            "401",
            "600",
            "INVALID_ARGUMENT",
            "insufficient_quota",
            "",
        ] {
            assert!(!passes(code), "{code}");
        }
    }
}
