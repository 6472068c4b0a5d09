//! The name and the address of a webhook.

use std::fmt;

use filrouge_http::outgoing;

/// The maximum length of a webhook's name.
const NAME_MAX: usize = 64;

/// The name of a webhook: 1 to 64 ASCII letters, digits, `-`, `_` and `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookName(Box<str>);

/// The text is not a valid name of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a webhook's name has 1 to {NAME_MAX} letters a–z, digits, '-', '_' and '.'")]
pub struct WebhookNameError;

impl WebhookName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebhookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for WebhookName {
    type Err = WebhookNameError;

    fn from_str(text: &str) -> Result<Self, WebhookNameError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(WebhookNameError)
        }
    }
}

/// The address to which changes are sent. Its path and query may contain a secret, so they are not displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(pub(super) reqwest::Url);

/// The text is not a valid address of a receiver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an https or http address without user and password")]
pub struct WebhookUrlError;

impl std::str::FromStr for WebhookUrl {
    type Err = WebhookUrlError;

    fn from_str(text: &str) -> Result<Self, WebhookUrlError> {
        outgoing::address(text).map(Self).ok_or(WebhookUrlError)
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.0.path() == "/" && self.0.query().is_none() {
            "/"
        } else {
            "/…"
        };
        write!(f, "{}{rest}", self.0.origin().ascii_serialization())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_checked_and_paths_not_shown() {
        let url: WebhookUrl = "https://example.org:8443/T0/secret?k=1".parse().unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            "https://example.org:8443/… https://example.org:8443/…"
        );
        for bad in [
            "ftp://example.org/",
            "example.org",
            "https://user:pw@example.org/",
            "http://",
        ] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
        assert!("crm-1.a_B".parse::<WebhookName>().is_ok());
        for bad in ["", "a/b", "a b", "é", &"n".repeat(65)] {
            assert!(bad.parse::<WebhookName>().is_err(), "{bad}");
        }
    }
}
