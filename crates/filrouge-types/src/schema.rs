//! Schemas of the types with a custom JSON form, for an OpenAPI document.
//!
//! A custom format adds a constraint that JSON Schema lacks: `utf8-N` is a text of at most N bytes in UTF-8, because
//! `maxLength` counts characters.

use std::borrow::Cow;

use utoipa::openapi::schema::{
    AdditionalProperties, KnownFormat, Object, ObjectBuilder, SchemaFormat, Type,
};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::{
    Channel, EventKey, IdentityId, ItemId, JsonText, ProjectId, RequestId, Role, SessionId,
    SessionStatus, TenantId, Timestamp, TurnId, TurnStatus, Variant,
};

fn string(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
}

fn bounded(description: &str, bytes: usize) -> ObjectBuilder {
    string(description)
        .min_length(Some(1))
        .max_length(Some(bytes))
        .pattern(Some(r"^[^\u0000-\u001F\u007F-\u009F]+$"))
        .format(Some(SchemaFormat::Custom(format!("utf8-{bytes}"))))
}

fn id(description: &str, example: &str) -> Object {
    bounded(description, 256).examples([example]).build()
}

const NO_NUL: &str = r"^[^\u0000]*$";

fn label(description: &str, pattern: &str) -> ObjectBuilder {
    string(description)
        .max_length(Some(4096))
        .pattern(Some(pattern))
        .format(Some(SchemaFormat::Custom("utf8-4096".to_owned())))
}

fn words(description: &str, words: &[&str]) -> Object {
    string(description)
        .enum_values(Some(words.iter().copied()))
        .build()
}

macro_rules! schemas {
    ($($type:ident: $schema:expr),+ $(,)?) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema))
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($type))
            }
        }
    )+};
}

schemas! {
    TenantId: id("The isolation boundary.", "default"),
    SessionId: id("One conversation, unique in its tenant.", "call/2026-11-21/1"),
    IdentityId: id("An authenticated end user.", "user-1"),
    RequestId: id("The caller's key of a turn, unique in its session.", "request-1"),
    ItemId: id("The caller's key of an item, unique in its session.", "item-1"),
    ProjectId: id("The project a session belongs to.", "project-1"),
    EventKey: id("The caller's key of an event, unique in its session.", "event-1"),
    TurnId: string("Derived from tenant, session and request id: the same in every store.")
        .format(Some(SchemaFormat::Custom("uuid".to_owned())))
        .build(),
    Timestamp: string("A moment as RFC 3339; answers give it in UTC, to the microsecond.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build(),
    JsonText: string("A text, kept with its escapes as it was written.").build(),
    Role: words("Who an item comes from.", &Role::ALL.map(Role::as_str)),
    Variant: words("Which of a pair of languages an item is in.", &Variant::ALL.map(Variant::as_str)),
    SessionStatus: words("Whether a session continues.", &SessionStatus::ALL.map(SessionStatus::as_str)),
    TurnStatus: words("The state of a turn.", &TurnStatus::ALL.map(TurnStatus::as_str)),
    Channel: bounded(
        "What kind of entry an item is: question, final, partial, plan, thought, observation, tool_call, tool_result, \
         error, system_note, hitl_request, hitl_response, summary, interrupted, cancelled, link, redaction. Others are \
         kept and passed through.",
        64,
    )
    .examples(["final"])
    .build(),
    Label: label("A label, at most 4096 bytes without NUL.", NO_NUL).build(),
    NonEmptyLabel: label("A word, 1 to 4096 bytes without NUL.", NO_NUL).min_length(Some(1)).build(),
    LeaseHolder: bounded("The name of a session's holder, unique to it.", 256).examples(["webhook-7f3a"]).build(),
    RedactionReason: label("Why, 1 to 4096 bytes; stays in the ledger.", r"^[^\u0000]*[^\s\u0000][^\u0000]*$")
        .min_length(Some(1))
        .build(),
    Part: ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("A piece of an item's content; types that are not known are kept and passed through."))
        .property(
            "type",
            string("What it is: text, code, image_url, file, link, reasoning, tool_call, tool_result, error or another.")
                .min_length(Some(1))
                .examples(["text"]),
        )
        .required("type")
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        .build(),
}

/// The schema of a label of the application, such as a title: at most 4096 bytes without NUL.
#[derive(Debug)]
pub struct Label;

/// The schema of a label that is not empty.
#[derive(Debug)]
pub struct NonEmptyLabel;

/// The schema of the name of a lease holder.
#[derive(Debug)]
pub struct LeaseHolder;

/// The schema of a reason: a text that does not consist of white space alone.
#[derive(Debug)]
pub struct RedactionReason;

/// The schema of a part, a piece of an item's content.
#[derive(Debug)]
pub struct Part;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the schema lists exactly the words that `read` accepts.
    fn check<T: PartialSchema>(read: impl Fn(&str) -> bool, known: &str) {
        let RefOr::T(Schema::Object(object)) = T::schema() else {
            panic!("no object");
        };
        let words = object.enum_values.unwrap_or_default();
        assert!(words.iter().all(|w| w.as_str().is_some_and(&read)));
        let named: Vec<&str> = words.iter().filter_map(|w| w.as_str()).collect();
        assert_eq!(named.join(", "), known);
    }

    #[test]
    fn schemas_list_every_word() {
        let known = |e: crate::UnknownName| e.known;
        check::<Role>(
            |w| w.parse::<Role>().is_ok(),
            &"".parse::<Role>().map_err(known).unwrap_err(),
        );
        check::<Variant>(
            |w| w.parse::<Variant>().is_ok(),
            &"".parse::<Variant>().map_err(known).unwrap_err(),
        );
        check::<SessionStatus>(
            |w| w.parse::<SessionStatus>().is_ok(),
            &"".parse::<SessionStatus>().map_err(known).unwrap_err(),
        );
        check::<TurnStatus>(
            |w| w.parse::<TurnStatus>().is_ok(),
            &"".parse::<TurnStatus>().map_err(known).unwrap_err(),
        );
    }
}
