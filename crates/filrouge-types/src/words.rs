//! Closed lists of words: enums whose values have a name in JSON, settings, SQL and documents.

/// The error for a word that is not in a closed list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {name:?}; known: {known}")]
pub struct UnknownName {
    /// The kind of the words in the list, such as `role`.
    pub what: &'static str,
    /// The unknown word.
    pub name: String,
    /// The words of the list, separated by commas.
    pub known: String,
}

/// Declares a closed list: an enum, the name of the list in errors, and the word of each value. The enum gets `ALL` and
/// `as_str`. A value is displayed as its word and parsed from it.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $name:ident: $what:literal { $($(#[$doc:meta])* $value:ident $(= $code:literal)? => $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $name { $($(#[$doc])* $value $(= $code)?),+ }

        impl $name {
            /// All values.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// The word of this value.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word),+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                let value = Self::ALL.into_iter().find(|value| value.as_str() == word);
                value.ok_or_else(|| $crate::UnknownName {
                    what: $what,
                    name: word.to_owned(),
                    known: Self::ALL.map(Self::as_str).join(", "),
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Declares a closed list of words that are used in JSON and in stored records.
macro_rules! stored_words {
    ($(#[$about:meta])* pub enum $name:ident: $what:literal { $($values:tt)+ }) => {
        $crate::words!($(#[$about])* pub enum $name: $what { $($values)+ });

        impl $name {
            /// The byte used in stored records (docs/format.md).
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value of a stored byte; `None` if this version defines no value for it.
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.code() == code)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use stored_words;
