//! JSON objects whose values keep their original text, and a writer for such objects.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use filrouge_types::{JsonText, MAX_NESTING, Members, RawJson, check_nesting_within};
use serde_json::value::RawValue;

use crate::raw::Raw;
use crate::{SkipReason, Skipped};

/// The times that are accepted, in milliseconds since 1970: the years 1 to 9999, because RFC 3339 cannot represent
/// others.
const MILLIS_RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_207_200_000;

/// The reason why a text or a line cannot be used, and the details as text for people.
pub(crate) type Refusal = (SkipReason, String);

/// The result of reading a text or a line.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Converts a refusal to a report.
pub(crate) fn refusal_report(path: &Path, (reason, detail): Refusal) -> Skipped {
    Skipped::new(path, reason, detail)
}

/// A JSON object in file order; each value is its original text. A key is copied only if it contains escapes.
#[derive(Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Object<'a> {
    /// Parses a text that is one JSON object. Fails if a key occurs twice.
    pub(crate) fn parse(text: &'a str) -> Result<Self> {
        let members: Members<'a> =
            serde_json::from_str(text).map_err(|e| parse_refusal(text, &e))?;
        let object = Self(members.iter().collect());
        if let Some(key) = repeated_key(&object.0) {
            let detail = format!("the key {key:?} occurs twice");
            return Err((SkipReason::DuplicateKey, detail));
        }
        Ok(object)
    }

    /// Creates an object with one field; without a field if the value is absent.
    pub(crate) fn with_field(key: &'a str, value: Raw<'a>) -> Self {
        let entry = value.json().map(|json| (Cow::Borrowed(key), json));
        Self(entry.into_iter().collect())
    }

    /// The value of `key`.
    pub(crate) fn field(&self, key: &str) -> Raw<'a> {
        let found = self.0.iter().find(|(name, _)| name == key);
        Raw::new(found.map(|(_, json)| *json))
    }

    /// The original text of the value of `key`; `None` when absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.field(key).json()
    }

    /// The original text of the value of `key` if it is a string.
    pub(crate) fn token(&self, key: &str) -> Option<&'a str> {
        self.field(key).token()
    }

    /// The string of `key`, unescaped.
    pub(crate) fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.field(key).text()
    }

    /// The string of `key`, unless it is empty.
    pub(crate) fn boxed(&self, key: &str) -> Option<Box<str>> {
        self.field(key).boxed()
    }

    /// Whether `key` is present and not null.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The object of `key`; `None` when it is absent or another type.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Object<'a>>> {
        match self.get(key) {
            Some(raw) if raw.starts_with('{') => Object::parse(raw).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the value of `key` is `true`.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.field(key).is_true()
    }

    /// The number of `key` as milliseconds, within the years that RFC 3339 can represent.
    pub(crate) fn millis(&self, key: &str) -> Option<i64> {
        let number: serde_json::Number = serde_json::from_str(self.get(key)?).ok()?;
        // Programs do not write fractions of a millisecond. `as` saturates, and the range check refuses such values.
        let integer = number.as_i64();
        let millis = integer.or_else(|| number.as_f64().map(|f| f as i64))?;
        MILLIS_RANGE.contains(&millis).then_some(millis)
    }

    /// The number of `key` as a count; a negative number becomes 0, and a fraction is truncated.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        let number: serde_json::Number = serde_json::from_str(self.get(key)?).ok()?;
        number
            .as_u64()
            .or_else(|| number.as_f64().map(|f| f as u64))
    }

    /// The first key.
    pub(crate) fn first_key(&self) -> Option<&str> {
        self.0.first().map(|(key, _)| &**key)
    }

    /// All entries except those whose keys are in `excluded`, in their original text.
    pub(crate) fn without(&self, excluded: &[&str]) -> Writer {
        let mut remaining = Writer::default();
        for (key, raw) in &self.0 {
            if !excluded.contains(&&**key) {
                remaining.raw(key, raw);
            }
        }
        remaining
    }
}

/// A key that occurs twice, if there is one. For small objects, and most are small, comparing all pairs is faster than
/// hashing.
fn repeated_key<'e>(entries: &'e [(Cow<'_, str>, &str)]) -> Option<&'e str> {
    if entries.len() <= 16 {
        let mut keys = entries.iter().enumerate();
        let repeated =
            keys.find(|(at, (key, _))| entries[..*at].iter().any(|(other, _)| other == key));
        return repeated.map(|(_, (key, _))| &**key);
    }
    let mut keys = HashSet::with_capacity(entries.len());
    let repeated = entries.iter().find(|(key, _)| !keys.insert(&**key));
    repeated.map(|(key, _)| &**key)
}

/// The text of a JSON string token; invalid Unicode becomes U+FFFD. Empty if `token` is not a string token.
pub(crate) fn token_text(token: &str) -> String {
    let text = JsonText::from_raw(RawJson::from_checked(token));
    text.map_or_else(|_| String::new(), |text| text.to_plain())
}

/// Checks that `text` is one JSON value that the ledger accepts, and returns it trimmed.
pub(crate) fn check_value(text: &str) -> Result<&str> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| parse_refusal(text, &e))?;
    check_depth(raw.get())?;
    Ok(raw.get())
}

/// Checks that JSON is not nested deeper than the ledger accepts. Of the ledger's limit, 8 levels are reserved for the
/// conversion to an item, which adds levels.
pub(crate) fn check_depth(json: &str) -> Result<()> {
    let levels = MAX_NESTING - 8;
    let detail = || format!("nested deeper than {levels} levels");
    check_nesting_within(json.as_bytes(), levels).map_err(|_| (SkipReason::TooDeep, detail()))
}

/// Converts an error of the JSON parser.
fn parse_refusal(text: &str, error: &serde_json::Error) -> Refusal {
    let position = format!("line {}, column {}", error.line(), error.column());
    if text.contains('\0') {
        (SkipReason::Torn, format!("contains NUL bytes ({position})"))
    } else if error.is_eof() {
        (SkipReason::Torn, format!("ends too early ({position})"))
    } else if error.is_data() {
        (SkipReason::Malformed, "not a JSON object".to_owned())
    } else {
        // The message of a syntax error names the expected token and quotes none of the text.
        (SkipReason::Malformed, error.to_string())
    }
}

/// Builds a JSON object from raw values.
#[derive(Default, Clone)]
pub(crate) struct Writer(String);

impl Writer {
    /// Starts an object with a `type` field.
    pub(crate) fn part(kind: &str) -> Self {
        let mut part = Self::default();
        part.text("type", kind);
        part
    }

    /// Adds a value that is already JSON.
    pub(crate) fn raw(&mut self, key: &str, raw: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(JsonText::from_plain(key).as_token());
        self.0.push(':');
        self.0.push_str(raw);
    }

    /// Adds a value that is already JSON, if it is present.
    pub(crate) fn optional_raw(&mut self, key: &str, raw: Option<&str>) {
        if let Some(raw) = raw {
            self.raw(key, raw);
        }
    }

    /// Adds those of another object's fields that it has and that `keys` names, in their original text.
    pub(crate) fn copy(&mut self, object: &Object<'_>, keys: &[&str]) {
        for key in keys {
            self.optional_raw(key, object.get(key));
        }
    }

    /// Adds a text as a JSON string, if it is present.
    pub(crate) fn optional_text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// Adds a text as a JSON string.
    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.raw(key, JsonText::from_plain(text).as_token());
    }

    /// Adds an object, unless it is empty.
    pub(crate) fn nested(&mut self, key: &str, object: Writer) {
        if !object.is_empty() {
            self.raw(key, &object.finish());
        }
    }

    /// Adds all entries of another object.
    pub(crate) fn append(&mut self, other: Writer) {
        if let Some(entries) = other.0.strip_prefix('{') {
            self.0.push(if self.0.is_empty() { '{' } else { ',' });
            self.0.push_str(entries);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the object as JSON.
    pub(crate) fn finish(mut self) -> String {
        self.0.push_str(if self.0.is_empty() { "{}" } else { "}" });
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_original_text() {
        let text =
            "{ \"a\" : 1.0, \"b\": {\"x\":1,\"x\":2}, \"c\": null, \"t\": \"\\u00e9\\ud800\" }";
        let object = Object::parse(text).ok().unwrap();
        assert_eq!(object.get("a"), Some("1.0"));
        assert_eq!(object.get("c"), None);
        assert_eq!(object.token("t"), Some("\"\\u00e9\\ud800\""));
        assert!(object.text("t").unwrap().starts_with('é'));
        assert_eq!(
            object.without(&["t"]).finish(),
            "{\"a\":1.0,\"b\":{\"x\":1,\"x\":2},\"c\":null}"
        );
        assert!(matches!(
            object.object("b"),
            Err((SkipReason::DuplicateKey, _))
        ));
    }

    #[test]
    fn each_kind_of_invalid_text_has_its_own_reason() {
        let reason = |text: &str| Object::parse(text).err().unwrap().0;
        assert_eq!(reason("{\"a\": \"b"), SkipReason::Torn);
        assert_eq!(reason("{\"a\":1}\0\0"), SkipReason::Torn);
        assert_eq!(reason("{\"a\":x}"), SkipReason::Malformed);
        assert_eq!(reason("[]"), SkipReason::Malformed);
        assert_eq!(reason("{\"a\":1,\"\\u0061\":2}"), SkipReason::DuplicateKey);
        let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(check_value(&deep).unwrap_err().0, SkipReason::TooDeep);
    }

    #[test]
    fn times_that_rfc_3339_cannot_represent_are_absent() {
        let object = Object::parse(r#"{"a":1769936404782,"b":1e300,"c":"1","d":-5e17,"e":2.5}"#);
        let object = object.ok().unwrap();
        assert_eq!(object.millis("a"), Some(1_769_936_404_782));
        assert_eq!(["b", "c", "d"].map(|key| object.millis(key)), [None; 3]);
        assert_eq!(object.millis("e"), Some(2));
    }
}
