//! The objects of a session: one for each turn.

use filrouge_types::{Item, JsonText, Timestamp, Turn, TurnId};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::content::session_digest;
use crate::{Row, SessionUpdate};

/// The only table.
pub(super) const TURN: &str = "turn";

pub(super) fn rows(update: &SessionUpdate) -> Vec<Row> {
    let turns = update.recorded.turns.iter();
    turns
        .map(|(turn, items)| row(update, turn, items))
        .collect()
}

/// The object of a turn. Its id is derived from the session and the turn. Texts are in the neutral language, if there is one. A
/// redacted turn has none.
fn row(update: &SessionUpdate, turn: &Turn, items: &[Item]) -> Row {
    let session = &update.recorded.session;
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
    let content = json!({
        "tenant_id": update.key.tenant,
        "session_id": update.key.session,
        "turn_id": turn.turn_id,
        "request_id": turn.request_id,
        "identity_id": session.identity_id,
        "project_id": session.project_id,
        "status": turn.status,
        "question": text(&turn.question_neutral, &turn.question_translated),
        "answer": text(&turn.answer_neutral, &turn.answer_translated),
        "agents": (!agents.is_empty()).then_some(agents),
        "redacted": turn.deleted_at.is_some(),
        "ordinal": turn.ordinal,
        "rank": turn.first_seq,
        "last_rank": turn.last_seq,
        "created_at": time(turn.created_at),
        "finalized_at": turn.finalized_at.map(time),
    });
    Row {
        table: TURN,
        id: id(update, turn).to_string(),
        content: present(content),
    }
}

/// The id of a turn's object, a UUID.
fn id(update: &SessionUpdate, turn: &Turn) -> TurnId {
    let mut hash = Sha256::new();
    hash.update(session_digest(&update.key));
    hash.update(turn.turn_id.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    TurnId::from_derived(id)
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
