//! What lies in the key of an ephemeral session.

use filrouge_store::hot::{Change, Edition, Field, Loaded};
use filrouge_store::{Entropy, OsEntropy};
use filrouge_types::Failure;
use redis::{Cmd, Value};

use crate::copy::Damaged;

/// The field with the edition.
pub(crate) const EDITION: &str = "e";

/// An edition as it is written.
pub(crate) fn written(edition: &Edition) -> String {
    let Edition {
        incarnation,
        version,
        word,
    } = edition;
    format!("{incarnation}:{version}:{word:016x}")
}

fn named(name: &[u8]) -> Vec<u8> {
    [b"f", name].concat()
}

/// A word for a commit: by it, it is known when it is sent again, and what it leaves is told from any other state.
pub(crate) fn word() -> Result<u64, Failure> {
    let mut word = [0; 8];
    OsEntropy.fill(&mut word)?;
    Ok(u64::from_be_bytes(word))
}

/// Adds what `commit.lua` is told of a change.
pub(crate) fn write_change(to: &mut Cmd, change: &Change) {
    to.arg(change.removes.len());
    for name in &change.removes {
        to.arg(named(name));
    }
    for field in &change.puts {
        to.arg(named(&field.name)).arg(&field.value);
    }
}

/// Reads an edition.
pub(crate) fn read_edition(answer: Value) -> Result<Option<Edition>, Damaged> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => parsed(&bytes).map(Some).ok_or(Damaged),
        _ => Err(Damaged),
    }
}

fn parsed(bytes: &[u8]) -> Option<Edition> {
    let (incarnation, rest) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
    let (version, word) = rest.split_once(':')?;
    let edition = Edition {
        incarnation: incarnation.parse().ok()?,
        version: version.parse().ok()?,
        word: u64::from_str_radix(word, 16).ok()?,
    };
    // The scripts compare bytes: what is written in another way would never be the edition that is expected.
    (written(&edition).as_bytes() == bytes).then_some(edition)
}

/// Reads all fields of a session.
pub(crate) fn read(answer: Value) -> Result<Option<Loaded>, Damaged> {
    let Value::Array(words) = answer else {
        return Err(Damaged);
    };
    let (mut edition, mut fields) = (None, Vec::with_capacity(words.len() / 2));
    let mut words = words.into_iter();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let (Value::BulkString(mut name), Value::BulkString(value)) = (name, value) else {
            return Err(Damaged);
        };
        if name == EDITION.as_bytes() {
            edition = parsed(&value);
        } else if name.first() == Some(&b'f') {
            name.remove(0);
            fields.push(Field { name, value });
        } else {
            return Err(Damaged);
        }
    }
    match edition {
        Some(edition) => Ok(Some(Loaded { edition, fields })),
        None if fields.is_empty() => Ok(None),
        None => Err(Damaged),
    }
}
