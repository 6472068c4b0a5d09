//! Values of a line as they stand there: nothing is copied that is not asked for.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::object::plain;

/// A value of any type, as written. Every field of a record is read as this: a field of an unexpected type must not
/// cost the record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Raw<'a>(Option<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw: &'de RawValue = Deserialize::deserialize(d)?;
        Ok(Self(Some(raw.get()).filter(|raw| *raw != "null")))
    }
}

impl<'a> Raw<'a> {
    /// The JSON as written; `None` when absent or null.
    pub(crate) const fn json(self) -> Option<&'a str> {
        self.0
    }

    /// The token of a string.
    pub(crate) fn token(self) -> Option<&'a str> {
        self.0.filter(|raw| raw.starts_with('"'))
    }

    /// The text of a string, its escapes resolved; what Unicode cannot hold (a pair cut in half) becomes U+FFFD.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.token()?.strip_prefix('"')?.strip_suffix('"')?;
        Some(if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            Cow::Borrowed(inner)
        } else {
            let token = self.0.unwrap_or_default();
            Cow::Owned(serde_json::from_str(token).unwrap_or_else(|_| plain(token)))
        })
    }

    /// The text of a string that is not empty.
    pub(crate) fn boxed(self) -> Option<Box<str>> {
        self.text().filter(|t| !t.is_empty()).map(|t| t.into())
    }

    /// Whether it is `true`.
    pub(crate) fn is_true(self) -> bool {
        self.0 == Some("true")
    }

    /// A whole number that is not negative.
    pub(crate) fn number(self) -> Option<u64> {
        self.0?.parse().ok()
    }

    /// Any number.
    pub(crate) fn float(self) -> Option<f64> {
        self.0?.parse().ok().filter(|n: &f64| n.is_finite())
    }

    /// An object or list read as `T`; `None` when it is none.
    pub(crate) fn read<T: Deserialize<'a>>(self) -> Option<T> {
        let raw = self.0.filter(|raw| raw.starts_with(['{', '[']))?;
        serde_json::from_str(raw).ok()
    }

    /// A time as RFC 3339 text, in milliseconds since 1970.
    pub(crate) fn time(self) -> Option<i64> {
        super::time::millis(&self.text()?)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct One<'a> {
        #[serde(borrow)]
        a: Raw<'a>,
    }

    #[test]
    fn odd_values_cost_nothing_else() {
        let of = |json: &'static str| serde_json::from_str::<One<'_>>(json).unwrap().a;
        assert!(matches!(
            of(r#"{"a":"x"}"#).text(),
            Some(Cow::Borrowed("x"))
        ));
        assert_eq!(of(r#"{"a":"\u00e9\n"}"#).text().unwrap(), "é\n");
        // A text that was cut in the middle of a pair.
        assert!(
            of(r#"{"a":"x\ud83d"}"#)
                .text()
                .unwrap()
                .starts_with("x\u{fffd}")
        );
        assert_eq!(of(r#"{"a":7}"#).text(), None);
        assert_eq!(of(r#"{"a":7}"#).number(), Some(7));
        assert_eq!(of(r#"{"a":null}"#).json(), None);
        assert_eq!(of("{}").json(), None);
        assert_eq!(of(r#"{"a":[1,2]}"#).read::<Vec<u8>>(), Some(vec![1, 2]));
        assert_eq!(of(r#"{"a":-1}"#).number(), None);
    }
}
