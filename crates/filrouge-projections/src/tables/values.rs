//! The values of columns as JSON, in the one form in which every database returns them.

use filrouge_types::{JsonText, RawJson, Timestamp, replace_lone_surrogates};
use serde_json::{Number, Value};

use super::definition::Kind;

/// A text. PostgreSQL cannot store U+0000, so U+FFFD stands for it.
pub(super) fn text(text: &str) -> Value {
    Value::String(without_nul(text))
}

fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A text, or NULL.
pub(super) fn label(value: Option<&str>) -> Value {
    value.map_or(Value::Null, text)
}

/// A text with its escapes resolved, or NULL.
pub(super) fn json_text(value: &Option<JsonText>) -> Value {
    let plain = value.as_ref().map(JsonText::to_plain);
    label(plain.as_deref())
}

/// A time in RFC 3339, with microseconds.
pub(super) fn time(value: Timestamp) -> Value {
    Value::String(value.to_string())
}

/// A time, or NULL.
pub(super) fn optional_time(value: Option<Timestamp>) -> Value {
    value.map_or(Value::Null, time)
}

/// JSON, or NULL.
pub(super) fn optional_json(value: Option<&RawJson>) -> Value {
    value.map_or(Value::Null, json)
}

/// JSON in the form of [`canonical`]. JSON that is nested too deeply for serde_json becomes a string.
pub(super) fn json(raw: &RawJson) -> Value {
    let readable = replace_lone_surrogates(raw.as_str());
    canonical(stored_json(&readable))
}

fn stored_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The form that JSONB does not change: no U+0000, and whole numbers of up to 64 bits without fraction and exponent.
fn canonical(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_nul(&text)),
        Value::Number(number) => Value::Number(whole(&number).unwrap_or(number)),
        Value::Array(values) => values.into_iter().map(canonical).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members
                .map(|(name, value)| (without_nul(&name), canonical(value)))
                .collect()
        }
        other => other,
    }
}

/// A number with a fraction of zero or an exponent as a whole number, if it is one.
fn whole(number: &Number) -> Option<Number> {
    if !number.is_f64() {
        return None;
    }
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    let text = format!("{value:.0}");
    let unsigned = text.parse::<u64>().map(Number::from).ok();
    unsigned.or_else(|| text.parse::<i64>().map(Number::from).ok())
}

/// The value of a column that a database returned as `text`; `None` if it does not fit the column.
pub(super) fn stored(kind: Kind, text: Option<String>) -> Option<Value> {
    let Some(text) = text else {
        return Some(Value::Null);
    };
    match kind {
        Kind::Text | Kind::Uuid | Kind::Time => Some(Value::String(text)),
        Kind::Integer | Kind::Small => text.parse::<i64>().ok().map(Value::from),
        Kind::Boolean => match text.as_str() {
            "true" | "1" => Some(Value::Bool(true)),
            "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        Kind::Json => Some(canonical(stored_json(&text))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical_of(text: &str) -> Value {
        json(&RawJson::from_checked(text))
    }

    #[test]
    fn json_has_the_form_that_jsonb_returns() {
        assert_eq!(
            canonical_of("[1e2, 2.0, -3.0, 1e16, 1.5]"),
            json!([100, 2, -3, 10_000_000_000_000_000_u64, 1.5])
        );
        assert_eq!(
            canonical_of("[-0.0, 18446744073709551615]"),
            json!([0, u64::MAX])
        );
        assert_eq!(canonical_of("1e300"), json!(1e300));
        assert_eq!(
            canonical_of(r#"{"a\u0000": "b\u0000", "c": "\ud800"}"#),
            json!({"a\u{fffd}": "b\u{fffd}", "c": "\u{fffd}"})
        );
    }

    #[test]
    fn json_that_is_nested_too_deeply_is_kept_as_text() {
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        let value = canonical_of(&deep);
        assert_eq!(value, Value::String(deep.clone()));
        assert_eq!(stored(Kind::Json, Some(value.to_string())), Some(value));
        assert_eq!(
            stored(Kind::Json, Some(deep.clone())),
            Some(Value::String(deep))
        );
    }

    #[test]
    fn a_value_of_another_type_is_noticed() {
        assert_eq!(stored(Kind::Integer, Some("many".to_owned())), None);
        assert_eq!(stored(Kind::Boolean, Some("yes".to_owned())), None);
        assert_eq!(stored(Kind::Boolean, None), Some(Value::Null));
    }
}
