//! Writes the JSON of histories in the form of the HTTP API: `data`, `next_cursor`, `session_id`, times by RFC 3339.
//! MCP has names of its own, which its contract fixes.

use filrouge_types::Timestamp;
use serde_json::{Map, Value};

/// Objects whose member names are data, such as the names of tools.
const MAPS: [&str; 5] = ["agents", "by_source", "models", "parts_by_type", "tools"];

/// Converts a document.
pub(crate) fn http_form(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(http_form).collect(),
        Value::Object(members) => {
            // Only the row of a session has this member.
            let is_session = members.contains_key("generation");
            let members = members.into_iter();
            let members: Map<String, Value> = members
                .map(|(name, value)| convert_member(is_session, &name, value))
                .collect();
            Value::Object(members)
        }
        value => value,
    }
}

fn convert_member(of_session: bool, name: &str, value: Value) -> (String, Value) {
    let name = snake_case(name);
    if let Some(at) = time_name(&name)
        && (value.is_null() || value.is_i64())
    {
        let time = value.as_i64().and_then(Timestamp::from_millis);
        return (at.to_owned(), time.map(|time| time.to_string()).into());
    }
    let name = match name.as_str() {
        "id" if of_session => "session_id".to_owned(),
        "parent_id" if of_session => "parent_session_id".to_owned(),
        "sessions" if value.is_array() => "data".to_owned(),
        _ => name,
    };
    match value {
        Value::Object(map) if MAPS.contains(&name.as_str()) => {
            let map = map.into_iter().map(|(key, value)| (key, http_form(value)));
            (name, Value::Object(map.collect()))
        }
        value => (name, http_form(value)),
    }
}

/// The name of a member that has a time in milliseconds since 1970.
fn time_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "archived" => "archived_at",
        "as_of" => "as_of",
        "completed" => "completed_at",
        "created" => "created_at",
        "end" => "ended_at",
        "pruned" => "pruned_at",
        "start" => "started_at",
        "updated" => "updated_at",
        _ => return None,
    })
}

/// `parentID` becomes `parent_id`.
fn snake_case(name: &str) -> String {
    let (mut snake, mut after_small) = (String::with_capacity(name.len() + 2), false);
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_small {
            snake.push('_');
        }
        after_small = c.is_ascii_lowercase();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_times_have_the_form_of_http() {
        let time = 1_766_880_000_000_i64;
        let results = json!({
            "sessions": [{
                "id": "s", "parentID": null, "generation": "sqlite", "created": time, "archived": null,
                "excerpts": [{ "messageID": "m", "created": time, "place": "s:m" }],
            }],
            "totalSessions": 1, "asOf": time, "nextCursor": null,
        });
        let form = http_form(results);
        let session = &form["data"][0];
        assert_eq!(
            session["created_at"],
            Timestamp::from_millis(time).unwrap().to_string()
        );
        let day = "2025-12-28T00:00:00";
        assert!(
            session["created_at"].as_str().unwrap().starts_with(day),
            "{form}"
        );
        assert_eq!(form["as_of"], session["excerpts"][0]["created_at"]);
        assert_eq!(session["session_id"], "s");
        for (object, absent) in [
            (session, "id"),
            (session, "created"),
            (&form, "sessions"),
            (&form, "asOf"),
        ] {
            assert!(object.get(absent).is_none(), "{absent}: {form}");
        }
        assert_eq!(session["parent_session_id"], Value::Null);
        assert_eq!(session["archived_at"], Value::Null);
        assert_eq!(session["excerpts"][0]["message_id"], "m");
        assert_eq!(form["total_sessions"], 1);
    }

    #[test]
    fn names_that_are_data_stay() {
        let sums = json!({ "sessions": 3, "tools": { "readFile": { "callID": 7 }, "start": 5 }, "id": "m" });
        assert_eq!(
            http_form(sums),
            json!({ "sessions": 3, "tools": { "readFile": { "call_id": 7 }, "start": 5 }, "id": "m" })
        );
    }
}
