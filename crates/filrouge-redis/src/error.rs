//! Redis's failures, told apart by the code word that its errors begin with, never by what follows.

use filrouge_types::{ErrorCode, Failure};
use redis::{ErrorKind, RedisError, ServerError};

/// What a failure means for the requests that come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody is there who can serve: the next request would fail alike.
    Down(String),
    /// This request was refused; others may be served.
    Refused(String),
    /// It takes no writes at the moment; reads and removals may be served.
    NoWrites(String),
    /// What lies there was not put there by a hot store.
    Damaged,
}

/// Codes of a server, or a cluster, that serves nobody at the moment.
const DOWN: [&str; 8] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "NOAUTH",
    "READONLY",
    "WRONGPASS",
    "DENIED",
];

/// Codes of a server that is full, cannot save, or has too few replicas.
const NO_WRITES: [&str; 3] = ["MISCONF", "NOREPLICAS", "OOM"];

/// Codes of values that are not ours; the last one is our scripts' own.
const DAMAGED: [&str; 2] = ["WRONGTYPE", "DAMAGED"];

const WANTS_PASSWORD: &str = "Redis wants a password (FILROUGE_HOT_PASSWORD)";
const WRONG_PASSWORD: &str = "Redis refuses the user or the password (FILROUGE_HOT_PASSWORD)";

impl Trouble {
    /// What an answer says.
    pub(crate) fn answered(error: &ServerError) -> Self {
        Self::coded(error.code())
    }

    fn coded(code: &str) -> Self {
        if DAMAGED.contains(&code) {
            Self::Damaged
        } else if DOWN.contains(&code) {
            Self::Down(match code {
                "NOAUTH" => WANTS_PASSWORD.to_owned(),
                "WRONGPASS" => WRONG_PASSWORD.to_owned(),
                _ => format!("Redis answers {code}"),
            })
        } else if NO_WRITES.contains(&code) {
            Self::NoWrites(format!("Redis answers {code}"))
        } else if code == "MOVED" || code == "ASK" {
            Self::Refused("Redis is a cluster, and its URL does not say ?cluster=true".to_owned())
        } else {
            Self::Refused(format!("Redis answers {code}"))
        }
    }

    /// Why no connection was made: the next one would fail alike. What it asks for first is what a bare error is about: a
    /// cluster's slots, or the database.
    pub(crate) fn opening(error: &RedisError, cluster: bool, db: i64) -> Self {
        match Self::of(error) {
            Self::Refused(_) if cluster => Self::Down("Redis is no cluster".to_owned()),
            Self::Refused(_) if db != 0 => Self::Down(format!(
                "Redis has no database {db}, or wants a password for it (FILROUGE_HOT_PASSWORD)"
            )),
            Self::Refused(why) | Self::NoWrites(why) => Self::Down(why),
            other => other,
        }
    }

    /// Why there is no answer, or the client's own reading of it.
    pub(crate) fn of(error: &RedisError) -> Self {
        match (error.code(), error.kind()) {
            (Some(code), _) => Self::coded(code),
            (None, ErrorKind::AuthenticationFailed) => Self::Down(WRONG_PASSWORD.to_owned()),
            (None, _) if error.is_timeout() => {
                Self::Down("Redis does not answer in time".to_owned())
            }
            (None, _) => Self::Down(error.to_string()),
        }
    }
}

/// The failure that callers see.
pub(crate) fn unavailable(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::HotUnavailable, what)
}

pub(crate) fn damaged() -> Failure {
    unavailable("what is in Redis was not put there by a hot store")
}
