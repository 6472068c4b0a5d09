//! Schemas of bodies that no derive can express, because the type is in another crate or one member determines another.

use std::borrow::Cow;

use filrouge_engine::StartTurn;
use filrouge_engine::following::DraftEvent;
use filrouge_engine::restore::Report;
use filrouge_http::problem::ProblemBody;
use filrouge_types::{Application, Item, Session, SessionEvent, Turn};
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{OpenApi, PartialSchema, ToSchema};

use super::problems::literal;

/// The entries of `components/schemas` that the annotations of handlers do not add.
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
    ProblemBody,
    ReplaceTurn
)))]
pub(super) struct Components;

macro_rules! literal_schemas {
    ($($(#[$doc:meta])* $name:ident: $schema:expr;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                literal($schema).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

literal_schemas! {
    /// A signed bundle.
    Bundle: json!({"type": "object", "description": "A signed bundle, as docs/format.md specifies it."});
    /// This document.
    Document: json!({"type": "object", "description": "An OpenAPI document."});
    /// Like a start, with an answer.
    ReplaceTurn: replace_turn();
}

/// A restored context.
#[derive(ToSchema)]
#[schema(as = Context)]
#[expect(dead_code, reason = "the fields are read by the derive")]
pub(crate) struct Context {
    /// In the requested format; copied unchanged into the provider's request.
    #[schema(value_type = Vec<Object>)]
    messages: (),
    /// What was kept, what was left out and why.
    report: Report,
}

/// Returns the schema of a string that has one of these values.
pub(crate) fn enum_schema<W: Into<Value>>(values: impl IntoIterator<Item = W>) -> Schema {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    schema.enum_values(Some(values)).build().into()
}

fn to_value(schema: RefOr<Schema>) -> Value {
    serde_json::to_value(schema).unwrap_or_default()
}

fn replace_turn() -> Value {
    let mut schema = start_turn();
    schema["description"] =
        json!("Like a start, with the answer. The question is required as in a start.");
    schema["properties"]["answer_neutral"] =
        json!({"type": "string", "description": "The answer."});
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("answer_neutral"));
    }
    schema
}

/// Returns the schema of the request that starts a turn. That it needs a question is said in words only: of an
/// `anyOf` beside `properties`, generators of clients make several types without members.
fn start_turn() -> Value {
    let mut schema = to_value(StartTurn::schema());
    add_application_members(&mut schema);
    schema
}

/// Adds the members for application-specific fields to those of a turn.
fn add_application_members(turn: &mut Value) {
    let mut application = to_value(Application::schema());
    let members = application["properties"].as_object_mut();
    if let (Some(turn_members), Some(members)) = (turn["properties"].as_object_mut(), members) {
        turn_members.append(members);
    }
}

/// The schemas of response bodies whose members are always present; an absent value is `null` (DESIGN §12).
const ALL_REQUIRED: &[&str] = &[
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
    "KeyFigures",
    "KpiRow",
    "TechnicalStatus",
    "Context",
    "ContextReport",
    "ContextWindow",
    "Finding",
];

/// Adds to the schemas what the derives cannot express.
pub(super) fn complete_schemas(schemas: &mut Map<String, Value>) {
    schemas.insert("StartTurn".to_owned(), start_turn());
    if let Some(turn) = schemas.get_mut("Turn") {
        add_application_members(turn);
    }
    for name in ALL_REQUIRED {
        if let Some(schema) = schemas.get_mut(*name) {
            require_all(schema);
        }
    }
    // Only lists name agents.
    if let Some(session) = schemas.get_mut("Session")
        && let Some(required) = session.get_mut("required").and_then(Value::as_array_mut)
    {
        required.retain(|name| name != "agents");
    }
    for schema in schemas.values_mut() {
        // The derives have no format for an unsigned 64-bit number.
        if let Some(fence) = schema.pointer_mut("/properties/fence") {
            fence["format"] = json!("uint64");
        }
    }
    if let Some(items) = schemas.get_mut("AppendItems") {
        items["properties"]["items"]["minItems"] = json!(1);
    }
}

/// Makes every member of a schema required, including the members of the schemas of which it is composed.
fn require_all(schema: &mut Value) {
    for part in schema
        .get_mut("allOf")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        require_all(part);
    }
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        schema["required"] = members.keys().cloned().collect();
    }
}
