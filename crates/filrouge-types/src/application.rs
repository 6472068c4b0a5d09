//! The application-specific fields of the stored format (DESIGN §3): the language pair of a chat and the labels of its
//! turns. All other code passes a turn's application fields as one [`Application`], so a new field requires changes
//! only in this file.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::RawJson;
use crate::words::stored_words;

stored_words!(
    /// The language of an item. A chat has a pair of languages, and each item is in one of them.
    #[derive(Default)]
    pub enum Variant: "variant" {
        /// The agent's language, in which prompts are built.
        #[default]
        Neutral = 0 => "neutral",
        /// The user's language.
        Translated = 1 => "translated",
    }
);

impl Variant {
    /// The variant's index in an array with one value per variant.
    pub fn slot(self) -> usize {
        usize::from(self.code())
    }

    /// The name of the variant in documents. `copied` states whether the text is a copy of the text in the other
    /// language; it only affects `Translated`.
    pub const fn display_name(self, copied: bool) -> &'static str {
        match self {
            Self::Translated if copied => "translated, a copy of the neutral answer",
            _ => self.as_str(),
        }
    }
}

/// The metadata member that marks a turn's neutral question as a copy of the translated one.
pub const QUESTION_IS_COPY: &str = "question_neutral_is_fallback";
/// Like [`QUESTION_IS_COPY`], for the answer.
pub const ANSWER_IS_COPY: &str = "answer_neutral_is_fallback";

/// Metadata whose only member is the flag `name`, set to `true`.
pub fn flag_metadata(name: &str) -> RawJson {
    RawJson::from_checked(format!(r#"{{"{name}":true}}"#))
}

/// A turn's application-specific fields. In JSON they are members of the turn's own object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Application {
    /// Whether the chat is translated.
    pub translate_chat: bool,
    /// The pipeline that answers.
    #[schema(value_type = Option<crate::schema::Label>)]
    pub pipeline_name: Option<Box<str>>,
    /// The consultant that answers.
    #[schema(value_type = Option<crate::schema::Label>)]
    pub consultant: Option<Box<str>>,
    /// The repository that the turn is about.
    #[schema(value_type = Option<crate::schema::Label>)]
    pub repository: Option<Box<str>>,
}

/// A label of a turn.
#[derive(Debug, Clone, Copy)]
pub struct TurnLabel<'a> {
    /// The label's name in JSON.
    pub name: &'static str,
    /// The label's name in documents.
    pub title: &'static str,
    /// The label's text; `None` if the turn has no such label.
    pub value: Option<&'a str>,
}

impl Application {
    /// The names of the fields in JSON. The labels come first, in the order in which they are stored; then comes whether
    /// the chat is translated.
    pub const NAMES: [&str; 4] = [
        "pipeline_name",
        "consultant",
        "repository",
        "translate_chat",
    ];

    /// The fields of a turn without labels. `wants_translation` requests answers in the user's language.
    pub fn new(wants_translation: bool) -> Self {
        Self {
            translate_chat: wants_translation,
            ..Self::default()
        }
    }

    /// Whether answers are wanted in the user's language.
    pub const fn wants_translation(&self) -> bool {
        self.translate_chat
    }

    /// The labels, in the order in which they are stored.
    pub fn labels(&self) -> [TurnLabel<'_>; 3] {
        let labels = [
            ("pipeline_name", "pipeline", &self.pipeline_name),
            ("consultant", "consultant", &self.consultant),
            ("repository", "repository", &self.repository),
        ];
        labels.map(|(name, title, value)| TurnLabel {
            name,
            title,
            value: value.as_deref(),
        })
    }

    /// The labels, mutable, in the order of [`Self::labels`].
    pub const fn labels_mut(&mut self) -> [&mut Option<Box<str>>; 3] {
        let Self {
            translate_chat: _,
            pipeline_name,
            consultant,
            repository,
        } = self;
        [pipeline_name, consultant, repository]
    }
}

/// Reads the members of an [`Application`] while a struct reads the other members of the same object. The error
/// messages are those of a single struct with all members.
#[derive(Debug, Default)]
pub struct ApplicationReader {
    read_names: Vec<&'static str>,
    /// The fields that were read; an absent one has its default.
    pub read: Application,
}

impl ApplicationReader {
    /// Wraps `inner`, the deserializer of the object. A struct that is deserialized from the result does not see the
    /// application's members: they are stored in `self.read`.
    pub const fn split_from<D>(&mut self, inner: D) -> WithoutApplication<'_, D> {
        WithoutApplication {
            reader: self,
            fields: &[],
            inner,
        }
    }

    /// Reads the value of the application's member `name`; fails if the member occurred before.
    fn read_value<'de, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if self.read_names.contains(&name) {
            return Err(A::Error::duplicate_field(name));
        }
        self.read_names.push(name);
        let index = Application::NAMES.iter().position(|label| *label == name);
        let label = index.and_then(|index| self.read.labels_mut().into_iter().nth(index));
        match label {
            Some(label) => *label = map.next_value()?,
            None => self.read.translate_chat = map.next_value()?,
        }
        Ok(())
    }
}

/// Removes the application's members from an object that a struct is deserialized from.
#[derive(Debug)]
pub struct WithoutApplication<'a, T> {
    reader: &'a mut ApplicationReader,
    /// The struct's own members.
    fields: &'static [&'static str],
    /// The wrapped deserializer, visitor or object.
    inner: T,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WithoutApplication<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(WithoutApplication {
            reader: self.reader,
            fields,
            inner: visitor,
        })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WithoutApplication<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(WithoutApplication {
            reader: self.reader,
            fields: self.fields,
            inner: map,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutApplication<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            let fields = self.fields;
            let name = NameSeed(fields, &mut seed);
            match self.inner.next_key_seed(name)? {
                Some(MemberName::Application(word)) => {
                    self.reader.read_value(word, &mut self.inner)?;
                }
                Some(MemberName::Struct(name)) => return Ok(Some(name)),
                None => return Ok(None),
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

/// The name of a member of the application or of the struct.
enum MemberName<K> {
    /// A member of the application.
    Application(&'static str),
    /// A field of the struct.
    Struct(K),
}

/// Deserializes the name of a member. Contains the struct's field names, and the seed with which the struct reads the
/// name of a field; the seed is taken out when it is used.
struct NameSeed<'a, K>(&'static [&'static str], &'a mut Option<K>);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for NameSeed<'_, K> {
    type Value = MemberName<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        let Self(fields, seed) = self;
        let name = String::deserialize(d)?;
        let words = Application::NAMES.into_iter();
        if let Some(word) = words.clone().find(|word| *word == name) {
            return Ok(MemberName::Application(word));
        }
        match seed.take().filter(|_| fields.contains(&name.as_str())) {
            Some(seed) => seed
                .deserialize(name.into_deserializer())
                .map(MemberName::Struct),
            None => {
                let known = fields.iter().copied().chain(words);
                let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
                let known = known.join(", ");
                let detail = format!("unknown field `{name}`, expected one of {known}");
                Err(D::Error::custom(detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, remote = "Self")]
    struct Turn {
        id: u8,
        #[serde(skip)]
        application: Application,
    }

    impl<'de> Deserialize<'de> for Turn {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            let mut words = ApplicationReader::default();
            let mut turn = Self::deserialize(words.split_from(d))?;
            turn.application = words.read;
            Ok(turn)
        }
    }

    #[test]
    fn application_fields_are_read_among_other_members() {
        let json = r#"{"consultant":"ada","id":7,"translate_chat":true,"repository":null}"#;
        let turn: Turn = serde_json::from_str(json).unwrap();
        let expected = Application {
            consultant: Some("ada".into()),
            ..Application::new(true)
        };
        assert_eq!((turn.id, turn.application), (7, expected));
        let bare: Turn = serde_json::from_str(r#"{"id":7}"#).unwrap();
        assert_eq!(bare.application, Application::default());
    }

    #[test]
    fn errors_are_those_of_one_struct() {
        for (json, error) in [
            (
                r#"{"id":7,"consultant":1}"#,
                "invalid type: integer `1`, expected a string",
            ),
            (r#"{"consultant":"a"}"#, "missing field `id`"),
            (
                r#"{"consultant":"a","id":7,"consultant":"b"}"#,
                "duplicate field `consultant`",
            ),
            (r#"{"id":7,"id":7}"#, "duplicate field `id`"),
            (
                r#"{"nobody":7}"#,
                "unknown field `nobody`, expected one of `id`, `pipeline_name`, `consultant`, `repository`, `translate_chat`",
            ),
            ("[7]", "invalid type: sequence, expected struct Turn"),
        ] {
            let message = serde_json::from_str::<Turn>(json).unwrap_err().to_string();
            assert!(message.starts_with(error), "{message}");
        }
    }

    #[test]
    fn labels_have_their_json_names() {
        let mut application = Application::default();
        for (n, label) in application.labels_mut().into_iter().enumerate() {
            *label = Some(n.to_string().into());
        }
        let json = serde_json::to_value(&application).unwrap();
        for label in application.labels() {
            assert_eq!(json[label.name].as_str(), label.value);
        }
        assert_eq!(json.as_object().unwrap().len(), Application::NAMES.len());
    }
}
