//! JSON that is preserved byte for byte (DESIGN §3: exact bytes of `parts`).

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// The maximum nesting of arrays and objects (DESIGN §8).
pub const MAX_NESTING: usize = 128;

/// The reason why a text is not the expected JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The text is not a single JSON value.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// The value is not a string.
    #[error("expected a JSON string")]
    NotString,
    /// Arrays and objects are nested too deeply.
    #[error("nested deeper than {MAX_NESTING} levels")]
    TooDeep,
}

/// Checks that arrays and objects are nested at most [`MAX_NESTING`] levels deep; `json` must be valid JSON.
///
/// # Errors
/// [`JsonError::TooDeep`].
pub fn check_nesting(json: &[u8]) -> Result<(), JsonError> {
    check_nesting_within(json, MAX_NESTING)
}

/// Like [`check_nesting`], but with the limit `levels`: for JSON that will be part of a deeper document.
///
/// # Errors
/// [`JsonError::TooDeep`].
pub fn check_nesting_within(json: &[u8], levels: usize) -> Result<(), JsonError> {
    let mut depth = 0_usize;
    let mut remaining = json;
    while let Some(index) = remaining
        .iter()
        .position(|b| matches!(b, b'"' | b'[' | b'{' | b']' | b'}'))
    {
        let byte = remaining[index];
        remaining = &remaining[index + 1..];
        match byte {
            b'"' => remaining = after_string(remaining),
            b'[' | b'{' => {
                depth += 1;
                if depth > levels {
                    return Err(JsonError::TooDeep);
                }
            }
            _ => depth = depth.saturating_sub(1),
        }
    }
    Ok(())
}

/// Replaces the escape of each lone surrogate, which UTF-8 cannot encode, by the escape of U+FFFD. Keeps all other
/// bytes unchanged.
pub fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    if memchr::memmem::find(bytes, b"\\u").is_none() {
        return Cow::Borrowed(json);
    }
    let (mut replaced, mut copied, mut next) = (String::new(), 0, 0);
    while let Some(offset) = memchr::memchr(b'\\', &bytes[next..]) {
        let escape = next + offset;
        next = (escape + 2).min(bytes.len());
        match code_unit(bytes, escape) {
            Some(0xd800..=0xdbff)
                if matches!(code_unit(bytes, escape + 6), Some(0xdc00..=0xdfff)) =>
            {
                next = escape + 12;
            }
            Some(0xd800..=0xdfff) => {
                replaced.push_str(&json[copied..escape]);
                replaced.push_str("\\ufffd");
                copied = escape + 6;
                next = copied;
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    replaced.push_str(&json[copied..]);
    Cow::Owned(replaced)
}

/// The UTF-16 code unit of the `\uXXXX` escape at byte `at`; `None` if there is no such escape.
fn code_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The bytes after a JSON string. `remaining` begins after the string's opening quote.
fn after_string(mut remaining: &[u8]) -> &[u8] {
    while let Some(index) = memchr::memchr2(b'"', b'\\', remaining) {
        let is_quote = remaining[index] == b'"';
        let skip = if is_quote { 1 } else { 2 };
        remaining = remaining.get(index + skip..).unwrap_or_default();
        if is_quote {
            return remaining;
        }
    }
    &[]
}

/// One JSON value as text, exactly as written: key order, number spelling, escapes and inner white space are preserved.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// Checks that `text` is one JSON value and strips the white space around it.
    ///
    /// # Errors
    /// [`JsonError::Syntax`] or [`JsonError::TooDeep`].
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|e| JsonError::Syntax(e.to_string()))?;
        check_nesting(raw.get().as_bytes())?;
        Ok(Self(raw.get().into()))
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// [`JsonError::Syntax`] when `value` cannot be serialized, for example a map whose keys are not strings.
    pub fn write<T: Serialize>(value: &T) -> Result<Self, JsonError> {
        let text = serde_json::to_string(value).map_err(|e| JsonError::Syntax(e.to_string()))?;
        Ok(Self(text.into()))
    }

    /// Wraps a text that was checked earlier, for example when it was stored.
    pub fn from_checked(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }

    /// Whether the value is an array.
    pub fn is_array(&self) -> bool {
        self.0.starts_with('[')
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The struct name by which serde_json recognizes text that is already JSON.
const RAW_VALUE_NAME: &str = "$serde_json::private::RawValue";

/// Serializes checked JSON unchanged. Serializing a [`RawValue`] would do the same, but building one parses the text
/// again.
fn write_raw<S: Serializer>(json: &str, s: S) -> Result<S::Ok, S::Error> {
    let mut raw = s.serialize_struct(RAW_VALUE_NAME, 1)?;
    raw.serialize_field(RAW_VALUE_NAME, json)?;
    raw.end()
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        write_raw(&self.0, s)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Box::deserialize(d)?;
        check_nesting(raw.get().as_bytes()).map_err(de::Error::custom)?;
        Ok(Self(raw.into()))
    }
}

/// One JSON string, preserved with its quotes and escapes exactly as written.
pub struct JsonText {
    json: RawJson,
    /// The range of the string in `json`: a string inside larger JSON is not copied.
    token: Range<usize>,
}

impl Clone for JsonText {
    fn clone(&self) -> Self {
        Self::from_entire(RawJson(self.as_token().into()))
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_token() == other.as_token()
    }
}

impl Eq for JsonText {}

impl Hash for JsonText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_token().hash(state);
    }
}

impl JsonText {
    fn from_entire(json: RawJson) -> Self {
        let token = 0..json.0.len();
        Self { json, token }
    }

    /// Writes `text` as a JSON string.
    pub fn from_plain(text: &str) -> Self {
        Self::from_entire(RawJson(serde_json::Value::from(text).to_string().into()))
    }

    /// The string at the range `token` of `json`, without a copy: the result keeps all of `json` in memory. The range
    /// must come from a JSON reader; only the quotes at its ends are checked.
    ///
    /// # Errors
    /// [`JsonError::NotString`] when there are no quotes at the ends of the range.
    pub fn within(json: RawJson, token: Range<usize>) -> Result<Self, JsonError> {
        let text = json.0.get(token.clone()).unwrap_or_default();
        if text.len() >= 2 && text.starts_with('"') && text.ends_with('"') {
            Ok(Self { json, token })
        } else {
            Err(JsonError::NotString)
        }
    }

    /// Wraps a checked JSON value that must be a string.
    ///
    /// # Errors
    /// [`JsonError::NotString`] when the value is not a string.
    pub fn from_raw(raw: RawJson) -> Result<Self, JsonError> {
        if raw.0.starts_with('"') {
            Ok(Self::from_entire(raw))
        } else {
            Err(JsonError::NotString)
        }
    }

    /// The string as JSON, with its quotes.
    pub fn as_token(&self) -> &str {
        &self.json.0[self.token.clone()]
    }

    /// The text without quotes, escapes unresolved.
    pub fn inner(&self) -> &str {
        let token = self.as_token();
        &token[1..token.len() - 1]
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.inner().is_empty()
    }

    /// The text with its escapes resolved; a lone surrogate, which Unicode cannot encode, becomes U+FFFD.
    pub fn to_plain(&self) -> String {
        let bytes: Result<serde_bytes_lossy::Lossy, _> = serde_json::from_str(self.as_token());
        bytes.map_or_else(|_| self.inner().to_owned(), |text| text.0)
    }

    /// Joins strings with a line feed between them, escapes unresolved; `None` for an empty list.
    pub fn join(texts: &[Self]) -> Option<Self> {
        match texts {
            [] => None,
            [only] => Some(only.clone()),
            texts => {
                let inner: Vec<&str> = texts.iter().map(Self::inner).collect();
                let joined = format!("\"{}\"", inner.join("\\n"));
                Some(Self::from_entire(RawJson(joined.into())))
            }
        }
    }
}

/// Reads a JSON string as bytes, so that serde_json accepts a lone surrogate.
mod serde_bytes_lossy {
    use std::fmt;

    use serde::de::{self, Deserialize, Deserializer, Visitor};

    pub(super) struct Lossy(pub(super) String);

    struct BytesVisitor;

    impl Visitor<'_> for BytesVisitor {
        type Value = Lossy;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<Lossy, E> {
            Ok(Lossy(String::from_utf8_lossy(v).into_owned()))
        }
    }

    impl<'de> Deserialize<'de> for Lossy {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            d.deserialize_bytes(BytesVisitor)
        }
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_token())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        write_raw(self.as_token(), s)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(d)?;
        Self::from_raw(raw).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
