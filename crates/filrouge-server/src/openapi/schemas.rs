//! Schemas of bodies that no derive can tell: made elsewhere, or with rules between their members.

use std::borrow::Cow;

use filrouge_engine::StartTurn;
use filrouge_engine::following::DraftEvent;
use filrouge_types::{Item, Session, SessionEvent, Turn};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{OpenApi, PartialSchema, ToSchema};

use super::problems::{problem, raw};

/// What `components/schemas` holds beside what the handlers name.
#[derive(OpenApi)]
#[openapi(components(schemas(
    Session,
    Turn,
    Item,
    DraftEvent,
    SessionEvent,
    Bundle,
    Document,
    Context,
    VerifyReport,
    ReplaceTurn
)))]
pub(super) struct Components;

macro_rules! written_out {
    ($($(#[$doc:meta])* $name:ident: $schema:expr;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                raw($schema).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

written_out! {
    /// A signed bundle.
    Bundle: json!({"type": "object", "description": "A signed bundle, as docs/format.md specifies it."});
    /// This document.
    Document: json!({"type": "object", "description": "An OpenAPI document."});
    /// A restored context.
    Context: context();
    /// What a verification looked at and found.
    VerifyReport: verify_report();
    /// As a start, with an answer.
    ReplaceTurn: replace_turn();
}

fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

fn optional_count(description: &str) -> Value {
    json!({"type": ["integer", "null"], "minimum": 0, "description": description})
}

/// An object whose members are always there.
fn whole(description: &str, members: Value) -> Value {
    let names: Vec<&String> = members
        .as_object()
        .map(|m| m.keys().collect())
        .unwrap_or_default();
    json!({"type": "object", "description": description, "required": names, "properties": members})
}

fn context() -> Value {
    let fate = |member: &str, what: &str| {
        let mut members = Map::from_iter([("seq".to_owned(), count("The item."))]);
        members.insert(
            member.to_owned(),
            json!({"type": "string", "description": what}),
        );
        json!({"type": "array", "items": whole("An item.", members.into())})
    };
    let window = json!({
        "last_turns": optional_count("The bound on turns that was asked for."),
        "max_tokens": optional_count("The bound on tokens that was asked for."),
        "estimate": {"type": "string", "description": "The name of the estimate that tokens are counted by."},
        "tokens": count("How many tokens the context has by that estimate."),
        "turns": count("How many turns are shown."),
        "first_seq": optional_count("The first seq that was looked at."),
        "last_seq": optional_count("The last seq that was looked at."),
        "cut": {"type": "boolean", "description": "Whether older turns are left out."},
        "summary_seq": optional_count("The item whose summary stands for older turns."),
    });
    let report = json!({
        "kept": count("How many items are shown, wholly or in part."),
        "dropped": fate("reason", "Why it is not shown."),
        "adapted": fate("change", "How it is shown otherwise than it was recorded."),
        "window": whole("What the context was taken from.", window),
    });
    let messages = json!({
        "type": "array",
        "items": {"type": "object"},
        "description": "In the format that was asked for; goes into the provider's request as it is.",
    });
    whole(
        "A restored context.",
        json!({
            "messages": messages,
            "report": whole("What was kept, what was left out and why.", report),
        }),
    )
}

fn verify_report() -> Value {
    let finding = json!({
        "session_id": {"type": ["string", "null"], "description": "The session, when it is about one."},
        "seq": optional_count("The first seq concerned."),
        "code": {"type": "string", "description": "The error code."},
        "what": {"type": "string", "description": "What is wrong."},
    });
    whole(
        "What a verification looked at and found.",
        json!({
            "status": {"type": "string", "enum": ["intact", "broken", "cannot_tell"], "description": "The outcome."},
            "sessions": count("Sessions looked at."),
            "turns": count("Turns looked at."),
            "items": count("Items looked at."),
            "events": count("Events looked at."),
            "checkpoints": count("Checkpoints looked at."),
            "notes": count("Notes looked at."),
            "commits": count("Commits looked at."),
            "findings": {"type": "array", "items": whole("One thing that is not what was written.", finding)},
        }),
    )
}

fn value(schema: RefOr<Schema>) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn replace_turn() -> Value {
    let mut schema = start_turn();
    schema["description"] = json!("As a start, with the answer.");
    schema["properties"]["answer_neutral"] =
        json!({"type": "string", "description": "The answer."});
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("answer_neutral"));
    }
    schema
}

/// One of the questions must be there.
fn start_turn() -> Value {
    let mut schema = value(StartTurn::schema());
    schema["anyOf"] = ["question_neutral", "question_translated"]
        .map(|name| json!({"required": [name], "properties": {name: {"type": "string"}}}))
        .into();
    schema
}

/// Answers in which every member is always there, `null` for absent (DESIGN §12).
const WHOLE: &[&str] = &[
    "Session",
    "Turn",
    "Item",
    "SessionEvent",
    "AuditRow",
    "Readiness",
    "Lease",
    "Checkpoint",
    "ListedCheckpoint",
    "Resumed",
    "KpiReport",
    "KpiRow",
    "TechnicalStatus",
];
/// Answers that hold the members of another one among their own.
const FLAT: &[(&str, &str)] = &[("KpiRow", "KeyFigures"), ("TechnicalStatus", "KeyFigures")];

/// Puts in what the derives leave out.
pub(super) fn complete(schemas: &mut Map<String, Value>) {
    schemas.insert("Problem".to_owned(), problem());
    schemas.insert("StartTurn".to_owned(), start_turn());
    for (name, held) in FLAT {
        flatten(schemas, name, held);
    }
    for (_, held) in FLAT {
        schemas.remove(*held);
    }
    for name in WHOLE {
        let Some(schema) = schemas.get_mut(*name) else {
            continue;
        };
        let names: Vec<Value> = match schema["properties"].as_object() {
            Some(members) => members.keys().map(|name| json!(name)).collect(),
            None => Vec::new(),
        };
        schema["required"] = names.into();
    }
    for schema in schemas.values_mut() {
        // A fence is any number of 64 bits, and of a derive's formats none says so.
        if let Some(fence) = schema.pointer_mut("/properties/fence") {
            fence["format"] = json!("uint64");
        }
    }
    if let Some(items) = schemas.get_mut("AppendItems") {
        items["properties"]["items"]["minItems"] = json!(1);
    }
}

/// Makes one object of a schema that is all of `held` and of members of its own.
fn flatten(schemas: &mut Map<String, Value>, name: &str, held: &str) {
    let Some(mut members) = schemas.get(held).map(|held| held["properties"].clone()) else {
        return;
    };
    let Some(schema) = schemas.get_mut(name) else {
        return;
    };
    let all = schema["allOf"].as_array().into_iter().flatten();
    for own in all.filter_map(|one| one["properties"].as_object()) {
        for (member, of) in own {
            members[member] = of.clone();
        }
    }
    let description = schema["description"].clone();
    *schema = json!({"type": "object", "description": description, "properties": members});
}
