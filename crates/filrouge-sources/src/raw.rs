//! Values of a record in their original JSON. A value is decoded only when it is used.

use std::borrow::Cow;

use filrouge_types::Timestamp;
use serde_json::value::RawValue;

use crate::object::{Object, token_text};

/// A value of any type, in its original JSON. Every field of a record is read as this type, so that a field of an
/// unexpected type does not make the record unreadable.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Raw<'a>(Option<&'a str>);

impl<'a> Raw<'a> {
    /// Creates the value of a JSON text; `None` and `null` both give an absent value.
    pub(crate) fn new(json: Option<&'a str>) -> Self {
        Self(json.filter(|json| *json != "null"))
    }

    /// The original JSON; `None` when absent or null.
    pub(crate) const fn json(self) -> Option<&'a str> {
        self.0
    }

    /// The JSON token of a string, with its quotes and escapes; `None` for any other type.
    pub(crate) fn token(self) -> Option<&'a str> {
        self.0.filter(|raw| raw.starts_with('"'))
    }

    /// The text of a string, unescaped; invalid Unicode (half of a surrogate pair) becomes U+FFFD.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let token = self.token()?;
        let inner = token.strip_prefix('"')?.strip_suffix('"')?;
        Some(if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
            Cow::Borrowed(inner)
        } else {
            Cow::Owned(serde_json::from_str(token).unwrap_or_else(|_| token_text(token)))
        })
    }

    /// The text of a string, unless it is empty.
    pub(crate) fn boxed(self) -> Option<Box<str>> {
        self.text().filter(|t| !t.is_empty()).map(|t| t.into())
    }

    /// Whether it is `true`.
    pub(crate) fn is_true(self) -> bool {
        self.0 == Some("true")
    }

    /// A nonnegative integer; `None` for any other value.
    pub(crate) fn number(self) -> Option<u64> {
        self.0?.parse().ok()
    }

    /// Any finite number.
    pub(crate) fn float(self) -> Option<f64> {
        self.0?.parse().ok().filter(|n: &f64| n.is_finite())
    }

    /// The fields of an object; `None` for anything else, or if a key occurs twice.
    pub(crate) fn object(self) -> Option<Object<'a>> {
        let raw = self.0.filter(|raw| raw.starts_with('{'))?;
        Object::parse(raw).ok()
    }

    /// The values of a list; `None` for anything else.
    pub(crate) fn list(self) -> Option<Vec<Raw<'a>>> {
        let values: Vec<&RawValue> = serde_json::from_str(self.0?).ok()?;
        let values = values.into_iter().map(|value| Raw::new(Some(value.get())));
        Some(values.collect())
    }

    /// The objects of a list that contains only objects.
    pub(crate) fn objects(self) -> Option<Vec<Object<'a>>> {
        self.list()?.into_iter().map(Raw::object).collect()
    }

    /// A time in RFC 3339, as milliseconds since 1970.
    pub(crate) fn time(self) -> Option<i64> {
        let time: Timestamp = self.text()?.parse().ok()?;
        Some(time.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_type_is_absent() {
        let field = |json: &'static str| Object::parse(json).ok().unwrap().field("a");
        assert!(matches!(
            field(r#"{"a":"x"}"#).text(),
            Some(Cow::Borrowed("x"))
        ));
        assert_eq!(field(r#"{"a":"\u00e9\n"}"#).text().unwrap(), "é\n");
        // A text that was cut inside a surrogate pair.
        assert!(
            field(r#"{"a":"x\ud83d"}"#)
                .text()
                .unwrap()
                .starts_with("x\u{fffd}")
        );
        assert_eq!(field(r#"{"a":7}"#).text(), None);
        assert_eq!(field(r#"{"a":7}"#).number(), Some(7));
        assert_eq!(field(r#"{"a":null}"#).json(), None);
        assert_eq!(field("{}").json(), None);
        let list = field(r#"{"a":[1,null]}"#).list().unwrap();
        assert_eq!(list[0].number().zip(list[1].json()), None);
        assert_eq!((list.len(), list[0].number()), (2, Some(1)));
        assert!(field(r#"{"a":[1]}"#).objects().is_none());
        assert!(field(r#"{"a":{"b":1,"b":2}}"#).object().is_none());
        assert_eq!(field(r#"{"a":-1}"#).number(), None);
    }

    #[test]
    fn times_are_read_in_every_usual_form() {
        let time = |text: &str| Raw::new(Some(&format!("\"{text}\""))).time();
        assert_eq!(time("2026-09-12T20:37:51Z"), Some(1_789_245_471_000));
        assert_eq!(time("2026-09-12T20:37:51.6275Z"), Some(1_789_245_471_627));
        for bad in [
            "",
            "2026-13-12T20:37:51.627Z",
            "2026-09-12T25:37:51.627Z",
            "yesterday",
        ] {
            assert_eq!(time(bad), None, "{bad}");
        }
    }
}
