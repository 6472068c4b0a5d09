//! The fields of a part, read in one pass where all is as expected, and one by one where it is not.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, Visitor};
use serde_json::value::RawValue;

use crate::object::{Object, Refusal, millis};

/// A text that is not copied where it needs no copy.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl From<Text<'_>> for Box<str> {
    fn from(text: Text<'_>) -> Self {
        text.0.into_owned().into()
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_str(TextVisitor)
    }
}

/// A time; `None` when it is outside the calendar.
#[derive(Clone, Copy)]
pub(super) struct Millis(pub(super) Option<i64>);

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(d)?;
        Ok(Self(millis(&number)))
    }
}

/// The times of a part or of a tool's state.
#[derive(Default, Clone, Copy, serde::Deserialize)]
pub(super) struct Times {
    start: Option<Millis>,
    end: Option<Millis>,
    created: Option<Millis>,
    compacted: Option<Millis>,
}

impl Times {
    fn lenient(object: Option<Object<'_>>) -> Self {
        let Some(object) = object else {
            return Self::default();
        };
        let time = |key| object.millis(key).map(|ms| Millis(Some(ms)));
        Self {
            start: time("start"),
            end: time("end"),
            created: time("created"),
            compacted: time("compacted"),
        }
    }

    /// When it began; a retry has only the time it was made.
    pub(super) fn start(&self) -> Option<i64> {
        self.start.or(self.created)?.0
    }

    pub(super) fn end(&self) -> Option<i64> {
        self.end?.0
    }

    pub(super) fn compacted(&self) -> Option<i64> {
        self.compacted?.0
    }
}

/// The fields of a part that have a meaning here. Any other field makes the one pass fail, so that keys that are
/// there twice are found whatever their name.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, rename = "sessionID")]
    pub(super) session: Option<Text<'a>>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'a>>,
    pub(super) synthetic: Option<bool>,
    pub(super) ignored: Option<bool>,
    pub(super) time: Option<Times>,
    #[serde(borrow, rename = "callID")]
    pub(super) call: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) state: Option<State<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) files: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) mime: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) filename: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) url: Option<Text<'a>>,
    pub(super) auto: Option<bool>,
    #[serde(borrow)]
    pub(super) tail_start_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Text<'a>>,
    /// Whether a field has another type than it should.
    #[serde(skip)]
    pub(super) odd: bool,
    snapshot: Option<IgnoredAny>,
    reason: Option<IgnoredAny>,
    cost: Option<IgnoredAny>,
    tokens: Option<IgnoredAny>,
    hash: Option<IgnoredAny>,
    source: Option<IgnoredAny>,
    name: Option<IgnoredAny>,
    overflow: Option<IgnoredAny>,
}

/// The state of a tool.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct State<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) title: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<Metadata<'a>>,
    pub(super) time: Option<Times>,
    raw: Option<IgnoredAny>,
    attachments: Option<IgnoredAny>,
}

/// What a tool tells about itself; each tool has other fields.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Metadata<'a> {
    #[serde(borrow, rename = "sessionId", alias = "sessionID")]
    pub(super) session: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) filediff: Option<FileDiff<'a>>,
    #[serde(borrow)]
    pub(super) filepath: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) files: Option<&'a RawValue>,
}

/// A file that a tool has changed.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct FileDiff<'a> {
    #[serde(borrow, alias = "filePath")]
    pub(super) file: Option<Text<'a>>,
    pub(super) additions: u64,
    pub(super) deletions: u64,
}

impl<'a> Fields<'a> {
    /// Reads a part's text.
    pub(super) fn read(text: &'a str) -> Result<Self, Refusal> {
        match serde_json::from_str(text) {
            Ok(fields) => Ok(fields),
            Err(_) => Self::lenient(&Object::parse(text)?),
        }
    }

    fn lenient(object: &Object<'a>) -> Result<Self, Refusal> {
        let mut odd = false;
        let mut text = |key| text(object, key, &mut odd);
        let mut fields = Fields {
            id: id(object, "id"),
            session: id(object, "sessionID"),
            message: id(object, "messageID"),
            kind: text("type"),
            text: text("text"),
            reasoning: text("reasoning"),
            call: text("callID"),
            tool: text("tool"),
            mime: text("mime"),
            filename: text("filename"),
            url: text("url"),
            tail_start_id: text("tail_start_id"),
            summary: text("summary"),
            synthetic: Some(object.is_true("synthetic")),
            ignored: Some(object.is_true("ignored")),
            auto: Some(object.is_true("auto")),
            time: Some(Times::lenient(object.object("time")?)),
            metadata: raw(object, "metadata"),
            files: raw(object, "files"),
            ..Self::default()
        };
        fields.state = match object.object("state")? {
            Some(state) => Some(State::lenient(&state, &mut odd)?),
            None => None,
        };
        fields.odd = odd;
        Ok(fields)
    }
}

impl<'a> State<'a> {
    fn lenient(object: &Object<'a>, odd: &mut bool) -> Result<Self, Refusal> {
        // A title is nothing without which a call could not be understood.
        let title = text(object, "title", &mut false);
        let mut text = |key| text(object, key, odd);
        Ok(State {
            status: text("status"),
            output: text("output"),
            error: text("error"),
            title,
            input: raw(object, "input"),
            metadata: object
                .object("metadata")
                .ok()
                .flatten()
                .map(|m| Metadata::lenient(&m)),
            time: Some(Times::lenient(object.object("time")?)),
            ..Self::default()
        })
    }
}

impl<'a> Metadata<'a> {
    /// Reads them where a field is of another type than the one most tools give it.
    pub(super) fn lenient(object: &Object<'a>) -> Self {
        let text = |key| text(object, key, &mut false);
        let diff = raw(object, "filediff");
        Self {
            session: text("sessionId").or_else(|| text("sessionID")),
            filediff: diff.and_then(|diff| serde_json::from_str(diff.get()).ok()),
            filepath: text("filepath"),
            files: raw(object, "files"),
        }
    }
}

/// An id; what is no text is the id of nothing.
fn id<'a>(object: &Object<'a>, key: &str) -> Option<Text<'a>> {
    let found = object
        .get(key)
        .map(|_| object.text(key).unwrap_or_default());
    found.map(|text| Text(Cow::Owned(text)))
}

/// The text of a field; sets `odd` when something else is there.
fn text<'a>(object: &Object<'a>, key: &str, odd: &mut bool) -> Option<Text<'a>> {
    let found = object.text(key).map(|text| Text(Cow::Owned(text)));
    *odd |= found.is_none() && object.get(key).is_some();
    found
}

fn raw<'a>(object: &Object<'a>, key: &str) -> Option<&'a RawValue> {
    object
        .get(key)
        .and_then(|raw| serde_json::from_str(raw).ok())
}
