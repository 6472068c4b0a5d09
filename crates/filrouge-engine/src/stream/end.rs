//! How a stream ends.

use filrouge_types::{JsonText, RawJson};

/// How a response has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With an answer.
    Answered,
    /// With calls, whose results it waits for, or with a pause: it will be gone on with.
    Continues,
    /// By an error, or before its end.
    Failed(StreamError),
    /// By who asked for it.
    Cancelled,
}

filrouge_types::words!(
    /// Who met an error.
    pub enum StreamErrorSource: "source of an error" {
        /// The provider reported it.
        Provider => "provider",
        /// The stream is not what it should be, or ended before its end.
        Stream => "stream",
        /// Who sent the stream is gone.
        Client => "client",
    }
);

/// Codes of what is met again whenever the same stream is recorded by the same caller.
const FOR_GOOD: [&str; 4] = [
    "credentials",
    "limit_exceeded",
    "stream_malformed",
    "stream_too_large",
];

/// An error that ends a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamError {
    /// A word for it: the provider's own, or one of `stream_truncated`, `stream_malformed`, `stream_too_large`,
    /// `client_gone`, ….
    pub code: Box<str>,
    /// A sentence about it.
    pub message: JsonText,
    /// Who met it.
    pub source: StreamErrorSource,
    /// Whether asking again can help.
    pub retryable: bool,
    /// The error as it came, JSON.
    pub raw: Option<RawJson>,
}

impl StreamError {
    /// An error of the stream itself, or of whoever records it. Whether asking again can help shows in its code.
    #[must_use]
    pub fn of_stream(code: &str, message: &str) -> Self {
        Self {
            code: code.into(),
            message: JsonText::from_plain(message),
            source: StreamErrorSource::Stream,
            retryable: !FOR_GOOD.contains(&code),
            raw: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_worth_another_try() {
        for (code, retryable) in [
            ("stream_truncated", true),
            ("stream_empty", true),
            ("stream_idle", true),
            ("overloaded", true),
            ("stream_malformed", false),
            ("stream_too_large", false),
            ("credentials", false),
            ("limit_exceeded", false),
        ] {
            let error = StreamError::of_stream(code, "m");
            assert_eq!(error.retryable, retryable, "{code}");
        }
    }
}
