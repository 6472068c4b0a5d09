//! The successful responses of operations, as types for `responses(…)` in the annotations.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::response::Response;
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use super::problems::{header, raw};

type Responses = BTreeMap<String, RefOr<Response>>;

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident: $($status:literal $response:expr),+;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name<T>(PhantomData<T>);

        impl<T: ToSchema> IntoResponses for $name<T> {
            fn responses() -> Responses {
                [$(($status.to_owned(), RefOr::T($response.build()))),+].into()
            }
        }
    )+};
}

answers! {
    /// 200 with a `T`.
    Shown: "200" shown::<T>("The current state.");
    /// 200 with a page of `T`.
    Listed: "200" page::<T>();
    /// 200 with a page of `T`, which may come from a copy.
    Copied: "200" copied(page::<T>());
    /// 200 with a page of `T`, or with a stream of new items.
    Tailed: "200" page::<T>().content("text/event-stream", text(EVENTS));
    /// 200 with a page of `T`, or with all rows as lines or as a table.
    Tabled: "200" page::<T>().content("application/x-ndjson", text(LINES)).content("text/csv", text(TABLE));
    /// 200 with what was written.
    Written: "200" durable(shown::<T>("Written, or written before by the same request."));
    /// 200 with a `T` and the `ETag` of its state.
    Tagged: "200" tagged(shown::<T>("The current state."));
    /// 200 with what was written and the `ETag` of its new state.
    TaggedWrite: "200" durable(tagged(shown::<T>("The new state.")));
    /// 201 with a new `T`, 200 with an existing one, and its `ETag`.
    Made:
        "201" durable(tagged(shown::<T>("New."))),
        "200" durable(tagged(shown::<T>("The caller has it already: its current state.")));
    /// 201 with a new `T`, 200 with an existing one.
    Created:
        "201" durable(shown::<T>("New.")),
        "200" durable(shown::<T>("It exists already: the first response, repeated."));
}

const EVENTS: &str = "Server-sent events without an end. `item`: its id is the seq, its data an `Item`. `draft`: \
    without an id, its data a `DraftEvent`. `erased`: the last one, its data an object with `session_id`.";
const LINES: &str = "All rows, one JSON object a line.";
const TABLE: &str = "All rows: a line with the names of the members, then a line for each (RFC 4180). Absent members are \
    empty. A cell that a spreadsheet would take for a formula begins with an apostrophe, and so does one that begins \
    with an apostrophe.";

/// The responses of `R`, and 204 for a request with `on_busy=204` while another caller is at work.
pub(crate) struct OrNothing<R>(PhantomData<R>);

impl<R: IntoResponses> IntoResponses for OrNothing<R> {
    fn responses() -> Responses {
        let mut all = R::responses();
        let nothing = "Another caller is at work, and the request has `on_busy=204`.";
        let nothing = ResponseBuilder::new().description(nothing).build();
        all.insert("204".to_owned(), RefOr::T(nothing));
        all
    }
}

/// The extension in which a response contains the schemas that it refers to, until `finish` moves them.
pub(super) const COMPONENTS: &str = "x-components";

/// Returns a type's schema and the schemas that it refers to, by name.
fn components<T: ToSchema>() -> Map<String, Value> {
    let mut all = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut all);
    all.into_iter()
        .map(|(name, schema)| (name, json!(schema)))
        .collect()
}

fn carry(components: Map<String, Value>) -> Extensions {
    ExtensionsBuilder::new().add(COMPONENTS, components).build()
}

fn shown<T: ToSchema>(description: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name(T::name());
    ResponseBuilder::new()
        .description(description)
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(schema)).build(),
        )
        .extensions(Some(carry(components::<T>())))
}

fn durable(response: ResponseBuilder) -> ResponseBuilder {
    let mut durability = header("What the write survives.", "string");
    durability.schema =
        Some(raw(json!({"type": "string", "enum": ["flushed", "buffered", "ephemeral"]})).into());
    let masked = "The number of credentials that were masked in the write; absent when none was.";
    response
        .header("Filrouge-Durability", durability)
        .header("Filrouge-Masked", header(masked, "integer"))
}

fn tagged(response: ResponseBuilder) -> ResponseBuilder {
    let tag = header(
        "Identifies the state of the members that a patch can change.",
        "string",
    );
    response.header("ETag", tag)
}

fn copied(response: ResponseBuilder) -> ResponseBuilder {
    let source = "`hot` when the ledger did not answer and a copy did; absent otherwise.";
    let seq = "The session's newest seq in that copy.";
    response
        .header("Filrouge-Source", header(source, "string"))
        .header("Filrouge-As-Of-Seq", header(seq, "integer"))
}

fn text(description: &str) -> Content {
    let schema = json!({"type": "string", "description": description});
    ContentBuilder::new().schema(Some(raw(schema))).build()
}

fn page<T: ToSchema>() -> ResponseBuilder {
    let row = T::name();
    let name = match row.as_ref() {
        "SessionEvent" => "EventPage".to_owned(),
        "AuditRow" => "AuditPage".to_owned(),
        "ListedCheckpoint" => "CheckpointPage".to_owned(),
        row => format!("{row}Page"),
    };
    let schema = json!({
        "type": "object",
        "description": "A page of a list.",
        "required": ["data", "next_cursor"],
        "properties": {
            "data": {
                "type": "array",
                "items": Ref::from_schema_name(row),
                "description": "The rows, in the order of the list.",
            },
            "next_cursor": {
                "type": ["string", "null"],
                "description": "Send it as `cursor` to get the next page; `null` on the last one.",
            },
        },
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(&name)))
        .build();
    let mut carried = components::<T>();
    carried.insert(name, schema);
    ResponseBuilder::new()
        .description("A page.")
        .content("application/json", content)
        .extensions(Some(carry(carried)))
}
