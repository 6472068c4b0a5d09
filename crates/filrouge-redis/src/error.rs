//! Classifies Redis errors by their code, never by the text after it.

use filrouge_types::{ErrorCode, Failure};
use redis::{ErrorKind, RedisError, ServerError};

/// The failure of a request, classified by its consequence for later requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// The server cannot answer any request at the moment: the next one would fail too.
    Down(String),
    /// This request was refused; others may succeed.
    Refused(String),
    /// Redis refuses writes at the moment; reads and removals may succeed.
    NoWrites(String),
    /// A value was not written by a hot store.
    Damaged,
}

/// The error codes of a server or cluster that serves no requests at the moment.
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

/// The error codes of a server that accepts no writes: it is out of memory, cannot save, or has too few replicas.
const NO_WRITES: [&str; 3] = ["MISCONF", "NOREPLICAS", "OOM"];

/// The error codes for values that no hot store wrote. Redis has no code `DAMAGED`: our scripts return it.
const DAMAGED: [&str; 2] = ["WRONGTYPE", "DAMAGED"];

const PASSWORD_REQUIRED: &str = "Redis wants a password (FILROUGE_HOT_PASSWORD)";
const WRONG_PASSWORD: &str = "Redis refuses the user or the password (FILROUGE_HOT_PASSWORD)";

impl RequestFailure {
    /// Classifies an error that Redis returned.
    pub(crate) fn from_server_error(error: &ServerError) -> Self {
        Self::from_code(error.code())
    }

    fn from_code(code: &str) -> Self {
        if DAMAGED.contains(&code) {
            Self::Damaged
        } else if DOWN.contains(&code) {
            Self::Down(match code {
                "NOAUTH" => PASSWORD_REQUIRED.to_owned(),
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

    /// Classifies an error from opening a connection: the next attempt would fail too. A refused command is one of
    /// those that the client library sends first: to read the slots of a cluster, or to select the database `db`.
    pub(crate) fn from_connect_error(error: &RedisError, cluster: bool, db: i64) -> Self {
        match Self::from_client_error(error) {
            Self::Refused(_) if cluster => Self::Down("Redis is not a cluster".to_owned()),
            Self::Refused(_) if db != 0 => Self::Down(format!(
                "Redis has no database {db}, or wants a password for it (FILROUGE_HOT_PASSWORD)"
            )),
            Self::Refused(why) | Self::NoWrites(why) => Self::Down(why),
            other => other,
        }
    }

    /// Classifies an error of the client library: an error of the server, a missing answer, or another one.
    pub(crate) fn from_client_error(error: &RedisError) -> Self {
        match (error.code(), error.kind()) {
            (Some(code), _) => Self::from_code(code),
            (None, ErrorKind::AuthenticationFailed) => Self::Down(WRONG_PASSWORD.to_owned()),
            (None, _) if error.is_timeout() => {
                Self::Down("Redis does not answer in time".to_owned())
            }
            (None, _) => Self::Down(error.to_string()),
        }
    }
}

/// The failure that callers of the hot store get: `hot_unavailable`.
pub(crate) fn unavailable(message: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::HotUnavailable, message)
}

pub(crate) fn damaged_value() -> Failure {
    unavailable("a value in Redis was not written by a hot store")
}
