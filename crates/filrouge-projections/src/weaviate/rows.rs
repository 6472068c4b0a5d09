//! The objects of a session: one for the session, and one for each turn.

use filrouge_types::{Item, JsonText, Session, Timestamp, Turn, TurnId};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::content::{owner_digest, session_digest};
use crate::{Row, SessionUpdate};

/// Objects of sessions. They have no vector.
pub(super) const SESSION: &str = "session";
/// Objects of turns.
pub(super) const TURN: &str = "turn";

pub(super) fn rows(update: &SessionUpdate) -> Vec<Row> {
    let recorded = &update.recorded;
    let turns = recorded.turns.iter();
    let mut rows = vec![row(update, SESSION, b"", session(&recorded.session))];
    rows.extend(turns.map(|(of, items)| row(update, TURN, of.turn_id.as_bytes(), turn(of, items))));
    rows
}

fn session(session: &Session) -> Value {
    json!({
        "title": session.title,
        "status": session.status,
        "place": 0,
        "rank": 0,
        "last_rank": session.last_seq,
        "created_at": time(session.created_at),
    })
}

/// The properties of a turn. Texts are in the neutral language, if there is one. A redacted turn has none.
fn turn(turn: &Turn, items: &[Item]) -> Value {
    let mut agents: Vec<&str> = items
        .iter()
        .filter_map(|item| item.body.agent.as_deref())
        .collect();
    agents.sort_unstable();
    agents.dedup();
    let text = |neutral: &Option<JsonText>, translated: &Option<JsonText>| {
        let text = neutral.as_ref().or(translated.as_ref());
        text.map(JsonText::to_plain)
    };
    json!({
        "turn_id": turn.turn_id,
        "request_id": turn.request_id,
        "status": turn.status,
        "question": text(&turn.question_neutral, &turn.question_translated),
        "answer": text(&turn.answer_neutral, &turn.answer_translated),
        "agents": (!agents.is_empty()).then_some(agents),
        "redacted": turn.deleted_at.is_some(),
        "ordinal": turn.ordinal,
        "place": place(turn),
        "rank": turn.first_seq,
        "last_rank": turn.last_seq,
        "created_at": time(turn.created_at),
        "finalized_at": turn.finalized_at.map(time),
    })
}

/// The number of a turn among the objects of its session. No other has it: a turn that replaces another one has the same
/// ordinal and a greater version, and turns without items have the same rank.
const fn place(turn: &Turn) -> u64 {
    (turn.ordinal << 8) | (turn.record_version - 1)
}

/// Adds what all objects have in common. The id is a UUID, derived from the session and `id`.
fn row(update: &SessionUpdate, table: &'static str, id: &[u8], properties: Value) -> Row {
    let session = &update.recorded.session;
    let mut content = present(properties);
    content.extend(present(json!({
        "tenant_id": update.key.tenant,
        "session_id": update.key.session,
        "identity_id": session.identity_id,
        "owner_digest": session.identity_id.as_ref().map(owner_digest),
        "project_id": session.project_id,
    })));
    let mut hash = Sha256::new();
    hash.update(session_digest(&update.key));
    hash.update(id);
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hash.finalize()[..16]);
    let id = TurnId::from_derived(uuid).to_string();
    Row { table, id, content }
}

/// The members that are present: Weaviate keeps no null.
pub(super) fn present(content: Value) -> Map<String, Value> {
    let members = match content {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let members = members.into_iter();
    members.filter(|(_, value)| !value.is_null()).collect()
}

/// A time as Weaviate returns it: without zeros at the end of its fraction.
fn time(time: Timestamp) -> String {
    let text = time.to_string();
    match text.strip_suffix('Z') {
        Some(text) if text.contains('.') => {
            let text = text.trim_end_matches('0').trim_end_matches('.');
            format!("{text}Z")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_no_zeros_at_its_end() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (500_000, "1970-01-01T00:00:00.5Z"),
            (10_000_100, "1970-01-01T00:00:10.0001Z"),
        ] {
            assert_eq!(time(Timestamp::from_micros(micros)), text);
        }
    }
}
