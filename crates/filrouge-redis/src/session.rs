//! The format in which Redis stores an ephemeral session (see the documentation of the crate).

use filrouge_store::hot::{Edition, Field, FieldChanges, HotSession};
use filrouge_store::{Entropy, OsEntropy};
use filrouge_types::Failure;
use redis::{Cmd, Value};

use crate::copy::Damaged;

/// The name of the field that contains the session's edition.
pub(crate) const EDITION: &str = "e";

/// Formats an edition.
pub(crate) fn format_edition(edition: &Edition) -> String {
    let Edition {
        incarnation,
        version,
        nonce,
    } = edition;
    format!("{incarnation}:{version}:{nonce:016x}")
}

fn field_name(name: &[u8]) -> Vec<u8> {
    [b"f", name].concat()
}

/// Creates the random nonce of a commit. It shows that a commit is repeated, and distinguishes the state that the
/// commit creates from every other state.
pub(crate) fn new_nonce() -> Result<u64, Failure> {
    let mut nonce = [0; 8];
    OsEntropy.fill(&mut nonce)?;
    Ok(u64::from_be_bytes(nonce))
}

/// Adds the last arguments of `commit.lua`: the change.
pub(crate) fn push_change_args(command: &mut Cmd, change: &FieldChanges) {
    command.arg(change.removes.len());
    for name in &change.removes {
        command.arg(field_name(name));
    }
    for field in &change.puts {
        command.arg(field_name(&field.name)).arg(&field.value);
    }
}

/// Parses the value of the field [`EDITION`]; `None` if there is no session.
pub(crate) fn parse_edition_answer(answer: Value) -> Result<Option<Edition>, Damaged> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => parse_edition(&bytes).map(Some).ok_or(Damaged),
        _ => Err(Damaged),
    }
}

fn parse_edition(bytes: &[u8]) -> Option<Edition> {
    let (incarnation, rest) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
    let (version, nonce) = rest.split_once(':')?;
    let edition = Edition {
        incarnation: incarnation.parse().ok()?,
        version: version.parse().ok()?,
        nonce: u64::from_str_radix(nonce, 16).ok()?,
    };
    // The scripts compare editions byte by byte, so an edition in another spelling would never equal the expected one.
    (format_edition(&edition).as_bytes() == bytes).then_some(edition)
}

/// Parses the names and values of all fields of a session; `None` if there is no session.
pub(crate) fn parse(answer: Value) -> Result<Option<HotSession>, Damaged> {
    let Value::Array(fields_and_values) = answer else {
        return Err(Damaged);
    };
    let (mut edition, mut fields) = (None, Vec::with_capacity(fields_and_values.len() / 2));
    let mut words = fields_and_values.into_iter();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let (Value::BulkString(mut name), Value::BulkString(value)) = (name, value) else {
            return Err(Damaged);
        };
        if name == EDITION.as_bytes() {
            edition = parse_edition(&value);
        } else if name.first() == Some(&b'f') {
            name.remove(0);
            fields.push(Field { name, value });
        } else {
            return Err(Damaged);
        }
    }
    match edition {
        Some(edition) => Ok(Some(HotSession { edition, fields })),
        None if fields.is_empty() => Ok(None),
        None => Err(Damaged),
    }
}
