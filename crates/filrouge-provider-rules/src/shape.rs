//! The rules about the shape of JSON, which apply to every provider: objects have only known members, members have the
//! right types, and enumerated members have known values.

use serde_json::{Map, Value};

use crate::Violation;

/// Defines the constants of a module's rules together with the list `RULES`, so that no rule can be missing from the
/// list.
macro_rules! rules {
    ($($(#[$source:meta])* $name:ident = $word:literal;)*) => {
        $($(#[$source])* pub const $name: &str = $word;)*
        /// The names of this module's rules.
        pub const RULES: &[&str] = &[$($name),*];
    };
}
pub(crate) use rules;

rules! {
    /// An object has no members other than those that this crate lists for it. OpenAI: "Unknown parameter:
    /// 'messages[0].x'."; Anthropic: "messages.0.x: Extra inputs are not permitted"; Gemini: "Invalid JSON payload
    /// received. Unknown name \"x\" at 'contents[0]': Cannot find field."
    UNKNOWN_MEMBER = "unknown-member";
    /// An object has every member that its type requires. OpenAI: "Missing required parameter: 'messages[0].content'.";
    /// Anthropic: "messages.0.content: Field required"; Gemini documents them as "Required." in the REST reference.
    MISSING_MEMBER = "missing-member";
    /// A member has its documented JSON type. OpenAI: "Invalid type for 'messages[0].content': expected one of a string
    /// or array of objects, but got an integer instead."; Anthropic: "Input should be a valid string"; Gemini: "Invalid
    /// value at 'contents[0].parts[0].text' (TYPE_STRING)".
    WRONG_TYPE = "wrong-type";
    /// A role, a type tag or another enumerated member has a known value. OpenAI: "Invalid value: 'x'. Supported values
    /// are: ..."; Anthropic: "Input tag 'x' found using 'type' does not match any of the expected tags"; Gemini:
    /// "Please use a valid role: user, model."
    UNKNOWN_VALUE = "unknown-value";
    /// Inline data is non-empty, padded, canonical base64 of the standard alphabet. OpenAI: "Invalid base64
    /// image_url."; Anthropic, Vision guide: "a base64-encoded image"; Gemini, REST reference, Blob: "A base64-encoded
    /// string". Stricter for Gemini, whose JSON mapping also accepts the URL-safe alphabet.
    BASE64 = "base64";
    /// A link is an absolute http or https URL. OpenAI: "Invalid 'input[0].content[1].image_url'. Expected a valid URL,
    /// but got a value with an invalid format."; Anthropic, Vision guide: an image "hosted online"; Gemini, REST
    /// reference, FileData: a URI, which may also be a gs:// URI.
    URL = "url";
    /// Inline data has a media type that the provider's documents list. OpenAI (Images and vision guide): png, jpeg,
    /// gif, webp; Anthropic: "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"; Gemini: an IANA
    /// media type.
    MEDIA_TYPE = "media-type";
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Violation>);

impl Findings {
    pub(crate) fn add(&mut self, at: &str, rule: &'static str, description: impl Into<String>) {
        self.0.push(Violation {
            at: at.to_owned(),
            rule,
            description: description.into(),
        });
    }

    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.0
    }
}

/// The name of a value's JSON type, for descriptions of violations.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Returns `value` as an array; adds a finding and returns `None` if it is not an array.
pub(crate) fn array<'v>(
    value: &'v Value,
    at: &str,
    findings: &mut Findings,
) -> Option<&'v [Value]> {
    if let Value::Array(items) = value {
        return Some(items);
    }
    findings.add(
        at,
        WRONG_TYPE,
        format!("expected an array, got {}", type_name(value)),
    );
    None
}

/// The string member `key` of the object `value` if it is one of `allowed`; otherwise adds a finding and returns
/// `None`.
pub(crate) fn tag<'v>(
    value: &'v Value,
    key: &str,
    allowed: &[&str],
    at: &str,
    findings: &mut Findings,
) -> Option<&'v str> {
    let Value::Object(map) = value else {
        findings.add(
            at,
            WRONG_TYPE,
            format!("expected an object, got {}", type_name(value)),
        );
        return None;
    };
    if !map.contains_key(key) {
        findings.add(at, MISSING_MEMBER, format!("{key} is required"));
        return None;
    }
    let object = Object {
        at: at.to_owned(),
        map,
    };
    object.choice(key, allowed, findings)
}

/// A JSON object. [`Object::open`] has checked the names of its members.
#[derive(Debug)]
pub(crate) struct Object<'v> {
    /// The path of the object.
    pub(crate) at: String,
    map: &'v Map<String, Value>,
}

impl<'v> Object<'v> {
    /// Reads `value` as an object. Adds a finding for each member of `required` that is missing, and each member that
    /// is neither in `required` nor in `optional`. Returns `None`, with a finding, if `value` is not an object.
    pub(crate) fn open(
        value: &'v Value,
        at: &str,
        required: &[&str],
        optional: &[&str],
        findings: &mut Findings,
    ) -> Option<Self> {
        let Value::Object(map) = value else {
            findings.add(
                at,
                WRONG_TYPE,
                format!("expected an object, got {}", type_name(value)),
            );
            return None;
        };
        for key in required.iter().filter(|key| !map.contains_key(**key)) {
            findings.add(at, MISSING_MEMBER, format!("{key} is required"));
        }
        for key in map.keys() {
            if !required.contains(&key.as_str()) && !optional.contains(&key.as_str()) {
                findings.add(at, UNKNOWN_MEMBER, format!("{key} is not a member"));
            }
        }
        Some(Self {
            at: at.to_owned(),
            map,
        })
    }

    /// The path of the member `key`.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'v Value> {
        self.map.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    fn add_wrong_type(&self, key: &str, expected: &str, value: &Value, findings: &mut Findings) {
        let description = format!("expected {expected}, got {}", type_name(value));
        findings.add(&self.path(key), WRONG_TYPE, description);
    }

    /// The string member `key`. `None` if the member is absent, or if it has another type; the latter adds a finding.
    pub(crate) fn text(&self, key: &str, findings: &mut Findings) -> Option<&'v str> {
        let value = self.get(key)?;
        if value.is_string() {
            return value.as_str();
        }
        self.add_wrong_type(key, "a string", value, findings);
        None
    }

    /// Like [`Self::text`], but null counts as absent.
    pub(crate) fn nullable_text(&self, key: &str, findings: &mut Findings) -> Option<&'v str> {
        match self.get(key) {
            Some(Value::Null) => None,
            _ => self.text(key, findings),
        }
    }

    /// The boolean member `key`; false if absent.
    pub(crate) fn flag(&self, key: &str, findings: &mut Findings) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(value) => {
                self.add_wrong_type(key, "a boolean", value, findings);
                false
            }
        }
    }

    /// Checks that the member `key`, if present, is an object. Does not check its members.
    pub(crate) fn free_object(&self, key: &str, findings: &mut Findings) {
        if let Some(value) = self.get(key).filter(|value| !value.is_object()) {
            self.add_wrong_type(key, "an object", value, findings);
        }
    }

    /// Checks that the member `key`, if present, is a non-negative integer.
    pub(crate) fn integer(&self, key: &str, findings: &mut Findings) {
        if let Some(value) = self.get(key).filter(|value| !value.is_u64()) {
            self.add_wrong_type(key, "a whole number", value, findings);
        }
    }

    /// The array member `key`. `None` if the member is absent, or if it has another type; the latter adds a finding.
    pub(crate) fn list(&self, key: &str, findings: &mut Findings) -> Option<&'v [Value]> {
        array(self.get(key)?, &self.path(key), findings)
    }

    /// The parts of the member `key`, which is an array of parts, or a string, which has no parts. An empty array
    /// breaks `rule`. An empty string breaks `rule` unless `allow_empty` is true.
    pub(crate) fn parts(
        &self,
        key: &str,
        rule: &'static str,
        allow_empty: bool,
        findings: &mut Findings,
    ) -> &'v [Value] {
        let at = self.path(key);
        match self.get(key) {
            Some(Value::Array(parts)) => {
                if parts.is_empty() {
                    findings.add(&at, rule, "is an empty array");
                }
                return parts;
            }
            Some(Value::String(text)) if allow_empty || !text.is_empty() => {}
            Some(Value::String(_)) => findings.add(&at, rule, "is an empty string"),
            Some(value) => self.add_wrong_type(key, "a string or an array", value, findings),
            None => {}
        }
        &[]
    }

    /// The string member `key`, which must be one of `allowed`; otherwise adds a finding and returns `None`.
    pub(crate) fn choice(
        &self,
        key: &str,
        allowed: &[&str],
        findings: &mut Findings,
    ) -> Option<&'v str> {
        let value = self.text(key, findings)?;
        if allowed.contains(&value) {
            return Some(value);
        }
        let description = format!("{value:?} is none of {}", allowed.join(", "));
        findings.add(&self.path(key), UNKNOWN_VALUE, description);
        None
    }

    /// The string member `key`. Adds a finding of `rule` if it is empty.
    pub(crate) fn filled(
        &self,
        key: &str,
        rule: &'static str,
        findings: &mut Findings,
    ) -> Option<&'v str> {
        let value = self.text(key, findings)?;
        if value.is_empty() {
            findings.add(&self.path(key), rule, "is empty");
        }
        Some(value)
    }

    /// Checks that the string member `key`, if present, contains a JSON object as text; otherwise adds a finding of
    /// `rule`.
    pub(crate) fn json_object(&self, key: &str, rule: &'static str, findings: &mut Findings) {
        let Some(text) = self.text(key, findings) else {
            return;
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(_)) => {}
            Ok(other) => findings.add(
                &self.path(key),
                rule,
                format!("is JSON, but {}", type_name(&other)),
            ),
            Err(error) => findings.add(&self.path(key), rule, format!("is no JSON: {error}")),
        }
    }
}

/// Whether `text` consists of 1 to `max_chars` ASCII letters, ASCII digits, `_` and `-`.
pub(crate) fn is_word(text: &str, max_chars: usize) -> bool {
    !text.is_empty()
        && text.len() <= max_chars
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
