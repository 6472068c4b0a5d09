//! The stored form of deltas.

use filrouge_types::{Channel, JsonText, RawJson, Role};

use super::{Delta, PieceHead, PieceKind};
use crate::codec::{ByteReader, Malformed, WriteBytes};

/// Encodes deltas.
pub(crate) fn encode(deltas: &[Delta]) -> Vec<u8> {
    let mut out = Vec::new();
    out.number(deltas.len() as u64);
    for delta in deltas {
        out.number(delta.number);
        out.number(delta.part);
        let flags = [delta.done, delta.head.is_some(), delta.replaces];
        out.byte(
            (0..)
                .zip(flags)
                .map(|(bit, set)| u8::from(set) << bit)
                .sum(),
        );
        if let Some(head) = &delta.head {
            out.byte(head.kind.code());
            out.byte(head.role.code());
            out.text(head.channel.as_str());
            let (id, name) = match &head.call {
                Some((id, name)) => (id.as_token(), name.as_token()),
                None => ("", ""),
            };
            for text in [
                id,
                name,
                head.agent.as_deref().unwrap_or(""),
                head.model.as_deref().unwrap_or(""),
            ] {
                out.text(text);
            }
        }
        out.text(&delta.text);
    }
    out
}

/// Decodes deltas.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Delta>, Malformed> {
    let mut r = ByteReader(bytes);
    let count = r.number()?;
    let mut deltas = Vec::new();
    for _ in 0..count {
        let (number, part, flags) = (r.number()?, r.number()?, r.byte()?);
        if flags > 0b111 {
            return Err(Malformed);
        }
        let head = match flags & 0b10 {
            0 => None,
            _ => Some(read_head(&mut r)?),
        };
        deltas.push(Delta {
            number,
            part,
            head,
            replaces: flags & 0b100 != 0,
            text: r.text()?.to_owned(),
            done: flags & 1 == 1,
        });
    }
    if r.is_empty() {
        Ok(deltas)
    } else {
        Err(Malformed)
    }
}

fn read_head(r: &mut ByteReader<'_>) -> Result<PieceHead, Malformed> {
    let kind = PieceKind::from_code(r.byte()?).ok_or(Malformed)?;
    let role = Role::from_code(r.byte()?).ok_or(Malformed)?;
    let channel = Channel::from_word(r.text()?);
    let mut token = || -> Result<Option<JsonText>, Malformed> {
        let text = r.text()?;
        if text.is_empty() {
            return Ok(None);
        }
        JsonText::from_raw(RawJson::from_checked(text))
            .map(Some)
            .map_err(|_| Malformed)
    };
    let (id, name) = (token()?, token()?);
    let mut label = || -> Result<Option<Box<str>>, Malformed> {
        Ok(Some(r.text()?).filter(|t| !t.is_empty()).map(Into::into))
    };
    Ok(PieceHead {
        kind,
        role,
        channel,
        call: id.zip(name),
        agent: label()?,
        model: label()?,
    })
}
