//! The documents of a session.

use filrouge_types::{Application, Item, ItemBody, JsonText, RawJson, Session, Timestamp, Turn};
use serde_json::{Map, Value, json};

use crate::content::{parsed, session_digest};
use crate::{Row, SessionUpdate};

/// Documents of sessions.
pub(super) const SESSION: &str = "session";
/// Documents of turns.
pub(super) const TURN: &str = "turn";
/// Documents of items.
pub(super) const ITEM: &str = "item";

/// The documents of an update: one for the session, one for each turn and each item.
pub(super) fn rows(update: &SessionUpdate) -> Vec<Row> {
    let recorded = &update.recorded;
    let session = Documents {
        digest: session_digest(&update.key),
        update,
    };
    let mut rows = vec![session.session(&recorded.session)];
    for (turn, items) in &recorded.turns {
        rows.push(session.turn(turn, items));
        rows.extend(items.iter().map(|item| session.item(item, Some(turn))));
    }
    rows.extend(recorded.loose.iter().map(|item| session.item(item, None)));
    rows
}

/// Creates the documents of one session.
struct Documents<'a> {
    digest: String,
    update: &'a SessionUpdate,
}

impl Documents<'_> {
    fn session(&self, session: &Session) -> Row {
        let content = json!({
            "rank": 0,
            "last_rank": session.last_seq,
            "turn_count": session.turn_count,
            "title": session.title,
            "session_status": session.status,
            "session_state": session.state,
            "parent_session_id": session.parent_session_id,
            "team_id": session.team_id,
            "timestamp": session.created_at,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
        });
        let metadata = Some(&session.metadata);
        self.row(SESSION, self.digest.clone(), metadata, content)
    }

    fn turn(&self, turn: &Turn, items: &[Item]) -> Row {
        let mut agents: Vec<&str> = items
            .iter()
            .filter_map(|item| item.body.agent.as_deref())
            .collect();
        agents.sort_unstable();
        agents.dedup();
        let either = |neutral: &Option<JsonText>, translated: &Option<JsonText>| {
            let texts = [neutral, translated].into_iter().flatten();
            let texts: Vec<String> = texts.map(JsonText::to_plain).collect();
            texts
        };
        let mut content = json!({
            "exchange_id": turn.turn_id,
            "request_id": turn.request_id,
            "ordinal": turn.ordinal,
            "rank": turn.first_seq,
            "last_rank": turn.last_seq,
            "turn_status": turn.status,
            "question": either(&turn.question_neutral, &turn.question_translated),
            "answer": either(&turn.answer_neutral, &turn.answer_translated),
            "answer_is_fallback": turn.answer_translated_is_fallback,
            (Application::NAMES[3]): turn.application.wants_translation(),
            "agent": agents,
            "record_version": turn.record_version,
            "replaced_by": turn.replaced_by_turn_id,
            "redacted": turn.deleted_at.is_some(),
            "timestamp": turn.created_at,
            "created_at": turn.created_at,
            "finalized_at": turn.finalized_at,
            "deleted_at": turn.deleted_at,
        });
        for label in turn.application.labels() {
            content[label.name] = Value::from(label.value);
        }
        let id = format!("{}-{}", self.digest, turn.turn_id);
        self.row(TURN, id, Some(&turn.metadata), content)
    }

    fn item(&self, item: &Item, turn: Option<&Turn>) -> Row {
        let ItemBody {
            item_id,
            role,
            channel,
            variant,
            parts,
            agent,
            model,
            usage,
            metadata,
            occurred_at: _,
        } = &item.body;
        let timestamp: Timestamp = item.when();
        let content = json!({
            "exchange_id": item.turn_id,
            "rank": item.seq,
            "item_id": item_id,
            "role": role,
            "channel": channel,
            "variant": variant,
            "parts": parsed(parts),
            "text": item.body.text().map(|text| text.to_plain()),
            "agent": agent,
            "model": model,
            "usage": usage.as_ref().map(parsed),
            "turn_status": turn.map(|turn| turn.status),
            "redacted": item.redacted,
            "timestamp": timestamp,
            "created_at": item.created_at,
        });
        let id = format!("{}-{:012}", self.digest, item.seq);
        self.row(ITEM, id, metadata.as_ref(), content)
    }

    /// Adds what all documents have in common. Absent values are left out.
    fn row(
        &self,
        table: &'static str,
        id: String,
        metadata: Option<&RawJson>,
        mut content: Value,
    ) -> Row {
        if let Some(metadata) = metadata.map(parsed) {
            let name = if metadata.is_object() && is_indexable(&metadata, 0, 0) {
                "metadata"
            } else {
                "metadata_unindexed"
            };
            content[name] = metadata;
        }
        let session = &self.update.recorded.session;
        let common = json!({
            "tenant_id": self.update.key.tenant,
            "session_id": self.update.key.session,
            "identity_id": session.identity_id,
            "project_id": session.project_id,
        });
        let members = [common, content]
            .into_iter()
            .filter_map(|value| match value {
                Value::Object(members) => Some(members),
                _ => None,
            });
        let content: Map<String, Value> = members
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .collect();
        Row { table, id, content }
    }
}

/// The greatest length of a member's value together with its path that is indexed. Lucene refuses a document with more
/// than 32,766 bytes.
const MAX_VALUE_BYTES: usize = 16_000;
/// The deepest nesting that Elasticsearch indexes.
const MAX_DEPTH: usize = 18;

/// Whether the field `metadata` takes a value. `path_bytes` is the length of the path to it.
fn is_indexable(value: &Value, path_bytes: usize, depth: usize) -> bool {
    let is_name = |name: &str| !name.split('.').any(str::is_empty) && !name.contains('\0');
    let fits = path_bytes <= MAX_VALUE_BYTES && depth <= MAX_DEPTH;
    fits && match value {
        Value::Object(members) => members.iter().all(|(name, value)| {
            is_name(name) && is_indexable(value, path_bytes + name.len() + 1, depth + 1)
        }),
        Value::Array(values) => values
            .iter()
            .all(|value| is_indexable(value, path_bytes, depth + 1)),
        Value::String(text) => path_bytes + text.len() <= MAX_VALUE_BYTES,
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_that_an_index_refuses_is_found() {
        let long = "x".repeat(MAX_VALUE_BYTES);
        let deep = format!("{}1{}", r#"{"a":["#.repeat(30), "]}".repeat(30));
        for (metadata, expected) in [
            (json!({}), true),
            (json!({ "a": { "b.c": [1, "x", null, true] } }), true),
            (json!({ "a": long }), false),
            (json!({ long.as_str(): 1 }), false),
            (json!({ "": 1 }), false),
            (json!({ "a..b": 1 }), false),
            (serde_json::from_str(&deep).unwrap(), false),
        ] {
            assert_eq!(is_indexable(&metadata, 0, 0), expected, "{metadata}");
        }
    }
}
