//! What becomes of the store's notes in a copy. API keys and the minimum versions of redacted ephemeral sessions are
//! copied unchanged. The state of a webhook contains a position in the change feed of its store.

use filrouge_store::Position;
use filrouge_store::read::ChangeCursor;
use serde_json::{Value, json};

/// The prefix of the names of the notes of webhooks.
const WEBHOOK: &str = "webhook/";
/// The prefix of the names of the notes of projections.
const PROJECTION: &str = "projection/";
/// The suffix of the name of a note with the dead letters of a webhook.
const DEAD_LETTERS: &str = "/dead";

/// The value that a note has in the copy; `None` leaves the note out. A webhook continues at `end`, the end of the
/// copy's feed: this feed begins with a change for each session, and the receiver knows the sessions. Dead letters name
/// changes by their positions in the feed of the source, so they are left out. So are the notes of projections: the
/// versions of their rows are commits of the source, so a projection is filled anew.
pub(super) fn value_in_copy(name: &str, value: Vec<u8>, end: &Position) -> Option<Vec<u8>> {
    if name.starts_with(PROJECTION) {
        return None;
    }
    let Some(webhook) = name.strip_prefix(WEBHOOK) else {
        return Some(value);
    };
    if webhook.ends_with(DEAD_LETTERS) {
        return None;
    }
    let Ok(Value::Object(mut state)) = serde_json::from_slice(&value) else {
        return Some(value);
    };
    for (member, value) in [
        ("cursor", json!(ChangeCursor::after(end).to_string())),
        ("claim", Value::Null),
        ("retry", Value::Null),
        ("redeliver", json!(false)),
    ] {
        state.insert(member.to_owned(), value);
    }
    serde_json::to_vec(&state).ok()
}

#[cfg(test)]
mod tests {
    use filrouge_store::LanePosition;

    use super::*;

    fn end() -> Position {
        let lane = |commit_no| LanePosition {
            commit_no,
            ..LanePosition::default()
        };
        Position::new(vec![lane(3), lane(0), lane(9)])
    }

    #[test]
    fn a_webhook_continues_at_the_end_of_the_copy() {
        let state = json!({
            "cursor": "70", "claim": { "holder": "h", "until": 5 },
            "retry": { "next_cursor": "72", "attempts": 3, "at": 5 },
            "disabled_at": 4, "redeliver": true, "failures": 2, "last_error": "status_410",
        });
        let value = value_in_copy("webhook/crm", state.to_string().into_bytes(), &end()).unwrap();
        let expected = json!({
            "cursor": "3_0_9", "claim": null, "retry": null,
            "disabled_at": 4, "redeliver": false, "failures": 2, "last_error": "status_410",
        });
        assert_eq!(serde_json::from_slice::<Value>(&value).unwrap(), expected);
    }

    #[test]
    fn dead_letters_and_projections_are_left_out_and_all_other_notes_unchanged() {
        let dead_letters = value_in_copy("webhook/crm/dead", b"{}".to_vec(), &end());
        assert_eq!(dead_letters, None);
        assert_eq!(value_in_copy("projection/p", b"{}".to_vec(), &end()), None);
        for name in ["api_keys", "hot/0123", "webhook/crm", "webhooks"] {
            let value = b"[1]".to_vec();
            assert_eq!(value_in_copy(name, value.clone(), &end()), Some(value));
        }
    }
}
