//! Identifiers: 1–256 bytes, without control characters, compared as bytes, never truncated (DESIGN §3).

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The maximum length of an identifier in bytes.
const MAX_BYTES: usize = 256;

/// The reason why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("an id must not be empty")]
    Empty,
    /// The text is longer than 256 bytes.
    #[error("an id has at most {MAX_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// The text contains NUL or another control character.
    #[error("an id must not hold control characters (found {0:?})")]
    Control(char),
    /// The text is not a UUID (turn ids only).
    #[error("a turn id is a UUID")]
    NotUuid,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(IdError::TooLong(text.len()));
    }
    let control = text.chars().find(|c| c.is_control());
    control.map_or(Ok(()), |c| Err(IdError::Control(c)))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks `text` and wraps it.
            ///
            /// # Errors
            /// [`IdError`] when `text` is empty, is longer than 256 bytes or contains a control character.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text.into_boxed_str()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::new(text).map_err(de::Error::custom)
            }
        }
    };
}

text_id!(
    /// The id of a tenant, which is the isolation boundary; part of every key.
    TenantId
);
text_id!(
    /// The id of a session, unique in its tenant.
    SessionId
);
text_id!(
    /// The id of an authenticated end user.
    IdentityId
);
text_id!(
    /// The caller's idempotency key of a turn, unique in its session.
    RequestId
);
text_id!(
    /// The caller's idempotency key of an item, unique in its session.
    ItemId
);
text_id!(
    /// The id of the project that a session belongs to.
    ProjectId
);
text_id!(
    /// The idempotency key of an event, unique in its session.
    EventKey
);

/// The prefix of the keys of events that filrouge itself records. A caller's event key with this prefix is refused.
pub const INTERNAL_EVENT_PREFIX: &str = "filrouge:";

impl EventKey {
    /// The key of an event that filrouge records: at most one per session for each pair of `kind` and `subject`.
    ///
    /// # Errors
    /// [`IdError`] when the key would not be a valid id, for example because it is too long.
    pub fn internal(kind: &str, subject: impl fmt::Display) -> Result<Self, IdError> {
        Self::new(format!("{INTERNAL_EVENT_PREFIX}{kind}:{subject}"))
    }

    /// Whether filrouge itself recorded the event.
    pub fn is_internal(&self) -> bool {
        self.as_str().starts_with(INTERNAL_EVENT_PREFIX)
    }
}

impl TenantId {
    /// The tenant used when none is configured.
    pub fn default_tenant() -> Self {
        Self("default".into())
    }
}

/// A turn's id: a UUID derived from (tenant, session, request id), the same in every store (DESIGN §3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId([u8; 16]);

impl TurnId {
    /// Builds a version-8 UUID from 16 derived bytes.
    pub fn from_derived(bytes: [u8; 16]) -> Self {
        Self(*uuid::Builder::from_custom_bytes(bytes).as_uuid().as_bytes())
    }

    /// Wraps 16 stored bytes unchanged.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for TurnId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = uuid::Uuid::try_parse(text).map_err(|_| IdError::NotUuid)?;
        Ok(Self(*id.as_bytes()))
    }
}

impl Serialize for TurnId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TurnId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_bytes_and_control_characters_are_refused() {
        assert!(SessionId::new("a".repeat(256)).is_ok());
        assert_eq!(SessionId::new("é".repeat(129)), Err(IdError::TooLong(258)));
        assert_eq!(SessionId::new(""), Err(IdError::Empty));
        assert_eq!(SessionId::new("a\0b"), Err(IdError::Control('\0')));
        assert_eq!(SessionId::new("a\u{85}"), Err(IdError::Control('\u{85}')));
        assert!(SessionId::new("../a/ß 🧵").is_ok());
    }

    #[test]
    fn turn_ids_are_uuids() {
        let id = TurnId::from_derived([7; 16]);
        assert_eq!(id.to_string().parse::<TurnId>(), Ok(id));
        assert_eq!("x".parse::<TurnId>(), Err(IdError::NotUuid));
    }
}
