//! Sends messages to a receiver over HTTP, and reports the outcomes.

use std::future::Future;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};

use super::WebhookUrl;
use super::message::Message;
use filrouge_http::outgoing;

/// The maximum number of bytes that are read of a response. A response is read so that its connection can be reused.
const RESPONSE_MAX_BYTES: usize = 16 << 10;

/// Why a message was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The receiver responded with this status; redirects are not followed.
    #[error("status_{0}")]
    Status(u16),
    /// It did not respond in time.
    #[error("timeout")]
    Timeout,
    /// No connection could be established.
    #[error("connect")]
    Connect,
    /// The connection ended, or the response was not HTTP.
    #[error("broken")]
    Broken,
}

impl Refusal {
    /// Returns the label for metrics, one of four.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Status(_) => "refused",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Broken => "broken",
        }
    }
}

/// The outcome of sending a message to a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The receiver accepted it.
    Delivered,
    /// The receiver permanently refuses messages (410).
    Gone,
    /// The receiver refused it, or could not be reached.
    Refused {
        refusal: Refusal,
        retry_after: Option<Duration>,
    },
}

/// Returns how long a receiver asks to wait. `now` is in seconds since 1970.
fn retry_after(headers: &HeaderMap, now: i64) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let now = Duration::from_secs(now.try_into().ok()?);
    Some(at.duration_since(UNIX_EPOCH).ok()?.saturating_sub(now))
}

/// Sends messages to a receiver. Tests use an implementation without a network.
pub(super) trait MessageSender: Send + Sync + 'static {
    fn send(&self, message: Message) -> impl Future<Output = SendOutcome> + Send;
}

/// Sends messages over HTTP.
pub(super) struct HttpSender {
    client: reqwest::Client,
    url: reqwest::Url,
}

impl HttpSender {
    pub(super) fn new(url: &WebhookUrl, timeout: Duration) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: outgoing::client(timeout)?,
            url: url.0.clone(),
        })
    }
}

fn refusal_of(error: reqwest::Error) -> SendOutcome {
    let refusal = if error.is_timeout() {
        Refusal::Timeout
    } else if error.is_connect() {
        Refusal::Connect
    } else {
        Refusal::Broken
    };
    SendOutcome::Refused {
        refusal,
        retry_after: None,
    }
}

impl MessageSender for HttpSender {
    async fn send(&self, message: Message) -> SendOutcome {
        let request = self
            .client
            .post(self.url.clone())
            .header(USER_AGENT, concat!("filrouge/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp)
            .header("webhook-signature", message.signature)
            .body(message.body);
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return refusal_of(error),
        };
        let status = response.status();
        let retry_after = retry_after(response.headers(), message.timestamp);
        let mut bytes_read = 0;
        // The body of the response is ignored, but read, so that the connection can be reused.
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes_read += chunk.len();
            if bytes_read > RESPONSE_MAX_BYTES {
                break;
            }
        }
        match status {
            StatusCode::GONE => SendOutcome::Gone,
            status if status.is_success() => SendOutcome::Delivered,
            status => SendOutcome::Refused {
                refusal: Refusal::Status(status.as_u16()),
                retry_after: retry_after.filter(|_| {
                    let statuses_with_retry_after = [
                        StatusCode::TOO_MANY_REQUESTS,
                        StatusCode::SERVICE_UNAVAILABLE,
                    ];
                    statuses_with_retry_after.contains(&status)
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let parsed = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, 784_111_770)
        };
        let wait = |text| parsed(text).map(|wait| wait.as_secs());
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(7));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        assert_eq!(wait("-1"), None);
        assert_eq!(wait("soon"), None);
    }
}
