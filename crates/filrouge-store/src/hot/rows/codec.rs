//! Encodes the value of a field: the row's stored bytes, preceded by those columns that the field's name does not
//! contain.

use filrouge_types::{
    IdentityId, ItemId, ProjectId, RawJson, RequestId, SessionId, SessionStatus, TenantId, TurnId,
};

use super::PK;
use crate::codec::{ByteReader, FORMAT, Malformed, WriteBytes};
use crate::command::{Erased, SessionToken};
use crate::memory::rows::Rows;
use crate::record::RecordRow;
use crate::rows::{
    AgentRow, CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, RowKey, SessionRow, TurnRow,
};

/// Encodes a row; `None` when it does not exist.
pub(super) fn write(rows: &Rows, key: &RowKey) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match key {
        RowKey::Session => write_session(&mut out, rows.sessions.get(&PK)?),
        RowKey::Head => out = rows.heads.get(&PK)?.encode(),
        RowKey::Turn(place) => {
            let row = rows.turns.get(&(PK, *place))?;
            out.extend_from_slice(row.turn_id.as_bytes());
            out.extend_from_slice(&row.encode());
        }
        RowKey::Record(first) => {
            let row = rows.records.get(&(PK, *first))?;
            out.reserve(row.head.len() + row.body.len() + 16);
            out.number(row.count);
            out.bytes(&row.head);
            out.extend_from_slice(&row.body);
        }
        RowKey::Item(id) => {
            out.number(*rows.keys.get(&(PK, id.clone()))?);
            out.extend_from_slice(id.as_str().as_bytes());
        }
        RowKey::Request(id) => {
            out.number(*rows.requests.get(&(PK, id.clone()))?);
            out.extend_from_slice(id.as_str().as_bytes());
        }
        RowKey::Agent(agent) => {
            let row = rows.agents.get(&(PK, agent.clone()))?;
            out.text(&row.agent);
            out.extend_from_slice(&row.encode());
        }
        RowKey::Event(number) => out = rows.events.get(&(PK, *number))?.encode(),
        RowKey::Draft(place) => out = rows.drafts.get(&(PK, *place))?.encode(),
        RowKey::Chunk(place, number) => {
            out = rows.draft_chunks.get(&(PK, *place, *number))?.encode();
        }
        RowKey::Checkpoint(seq) => out = rows.checkpoints.get(&(PK, *seq))?.encode(),
    }
    Some(out)
}

/// Decodes a field and inserts its row.
pub(super) fn read(rows: &mut Rows, name: &[u8], value: &[u8]) -> Result<RowKey, Malformed> {
    let mut field_name = ByteReader(name);
    let kind_letter = field_name.byte()?;
    let mut number = || Ok(u64::from_be_bytes(field_name.array()?));
    let mut r = ByteReader(value);
    let key = match kind_letter {
        b's' => {
            let row = ByteReader::read_all(value, read_session).ok_or(Malformed)?;
            let name = (row.tenant_id.clone(), row.session_id.clone());
            rows.names.insert(name, PK);
            rows.sessions.insert(PK, row);
            RowKey::Session
        }
        b'h' => {
            let row = HeadRow::decode(value).ok_or(Malformed)?;
            rows.heads.insert(PK, row);
            RowKey::Head
        }
        b't' => {
            let (place, id) = (number()?, TurnId::from_bytes(r.array()?));
            let row = TurnRow::decode(id, place, r.0).ok_or(Malformed)?;
            rows.turn_ids.insert(id, (PK, place));
            rows.turns.insert((PK, place), row);
            RowKey::Turn(place)
        }
        b'r' => {
            let first_seq = number()?;
            let row = RecordRow {
                first_seq,
                count: r.number()?,
                head: r.bytes()?.to_vec(),
                body: r.0.to_vec(),
            };
            rows.records.insert((PK, first_seq), row);
            RowKey::Record(first_seq)
        }
        b'i' => {
            let (seq, id) = (r.number()?, remaining_text(r)?);
            let id = ItemId::new(id).map_err(|_| Malformed)?;
            rows.keys.insert((PK, id.clone()), seq);
            RowKey::Item(id)
        }
        b'q' => {
            let (seq, id) = (r.number()?, remaining_text(r)?);
            let id = RequestId::new(id).map_err(|_| Malformed)?;
            rows.requests.insert((PK, id.clone()), seq);
            RowKey::Request(id)
        }
        b'a' => {
            let row = AgentRow::decode(r.text()?, r.0).ok_or(Malformed)?;
            let agent = row.agent.clone();
            rows.agents.insert((PK, agent.clone()), row);
            RowKey::Agent(agent)
        }
        b'e' => {
            let number = number()?;
            let row = EventRow::decode(number, value).ok_or(Malformed)?;
            rows.event_keys.insert((PK, row.event.key.clone()), number);
            rows.events.insert((PK, number), row);
            RowKey::Event(number)
        }
        b'd' => {
            let place = number()?;
            let row = DraftRow::decode(place, value).ok_or(Malformed)?;
            rows.drafts.insert((PK, place), row);
            RowKey::Draft(place)
        }
        b'c' => {
            let (place, number) = (number()?, number()?);
            let chunk = DraftChunk::decode(number, value).ok_or(Malformed)?;
            rows.draft_chunks.insert((PK, place, number), chunk);
            RowKey::Chunk(place, number)
        }
        b'k' => {
            let seq = number()?;
            let row = CheckpointRow::decode(seq, value).ok_or(Malformed)?;
            rows.checkpoints.insert((PK, seq), row);
            RowKey::Checkpoint(seq)
        }
        _ => return Err(Malformed),
    };
    // Some names are hashes of a key that only the value contains. So the name is computed from the key and compared.
    if key.field_name() == name {
        Ok(key)
    } else {
        Err(Malformed)
    }
}

/// The remaining bytes as text.
fn remaining_text(r: ByteReader<'_>) -> Result<&str, Malformed> {
    std::str::from_utf8(r.0).map_err(|_| Malformed)
}

fn write_session(out: &mut Vec<u8>, row: &SessionRow) {
    out.byte(FORMAT);
    out.text(row.tenant_id.as_str());
    out.text(row.session_id.as_str());
    let labels = [
        row.identity_id.as_ref().map(IdentityId::as_str),
        row.parent_session_id.as_ref().map(SessionId::as_str),
        row.project_id.as_ref().map(ProjectId::as_str),
        row.team_id.as_deref(),
        row.title.as_deref(),
        row.state.as_deref(),
    ];
    for label in labels {
        write_optional(out, label.map(str::as_bytes));
    }
    out.byte(row.status.code());
    out.text(row.metadata.as_str());
    out.time(row.created_at);
    write_optional(out, row.token.as_ref().map(|token| token.0.as_slice()));
    write_optional(out, row.erased.map(|e| e.encode()).as_deref());
}

fn write_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.byte(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        out.bytes(bytes);
    }
}

fn read_optional<'a>(r: &mut ByteReader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match r.flag()? {
        true => r.bytes().map(Some),
        false => Ok(None),
    }
}

fn read_label<'a>(r: &mut ByteReader<'a>) -> Result<Option<&'a str>, Malformed> {
    let bytes = read_optional(r)?;
    let text = bytes.map(std::str::from_utf8).transpose();
    text.map_err(|_| Malformed)
}

fn parse_id<'a, T, E>(
    label: Option<&'a str>,
    new: impl FnOnce(&'a str) -> Result<T, E>,
) -> Result<Option<T>, Malformed> {
    label.map(new).transpose().map_err(|_| Malformed)
}

fn read_session(r: &mut ByteReader<'_>) -> Result<SessionRow, Malformed> {
    r.format()?;
    Ok(SessionRow {
        tenant_id: TenantId::new(r.text()?).map_err(|_| Malformed)?,
        session_id: SessionId::new(r.text()?).map_err(|_| Malformed)?,
        identity_id: parse_id(read_label(r)?, IdentityId::new)?,
        parent_session_id: parse_id(read_label(r)?, SessionId::new)?,
        project_id: parse_id(read_label(r)?, ProjectId::new)?,
        team_id: read_label(r)?.map(Into::into),
        title: read_label(r)?.map(Into::into),
        state: read_label(r)?.map(Into::into),
        status: SessionStatus::from_code(r.byte()?).ok_or(Malformed)?,
        metadata: RawJson::from_checked(r.text()?),
        created_at: r.time()?,
        token: match read_optional(r)? {
            Some(bytes) => Some(SessionToken(bytes.try_into().map_err(|_| Malformed)?)),
            None => None,
        },
        erased: match read_optional(r)? {
            Some(bytes) => Some(Erased::decode(bytes).ok_or(Malformed)?),
            None => None,
        },
    })
}
