//! The successful responses of operations, as types for `responses(…)` in the annotations.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};
use utoipa::openapi::extensions::{Extensions, ExtensionsBuilder};
use utoipa::openapi::response::Response;
use utoipa::openapi::{Content, ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use super::problems::{header, literal};

type Responses = BTreeMap<String, RefOr<Response>>;

macro_rules! responses {
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

responses! {
    /// 200 with a `T`.
    StateResponse: "200" described::<T>("The current state.");
    /// 200 with a page of `T`.
    PageResponse: "200" page_of::<T>();
    /// 200 with a page of `T`, which may come from the hot store's copy.
    CopyPageResponse: "200" with_source(page_of::<T>());
    /// 200 with a page of `T`, or with a stream of new items.
    PageOrStreamResponse: "200" page_of::<T>().content("text/event-stream", events_content());
    /// 200 with a page of `T`, or with all rows as lines or as a table.
    PageOrTableResponse: "200" page_of::<T>().content("application/x-ndjson", text_content(LINES)).content("text/csv", text_content(TABLE));
    /// 200 with what was written.
    WriteResponse: "200" with_durability(described::<T>("Written, or written before by the same request."));
    /// 200 with a `T` and the `ETag` of its state.
    TaggedResponse: "200" with_etag(described::<T>("The current state."));
    /// 200 with what was written and the `ETag` of its new state.
    TaggedWriteResponse: "200" with_durability(with_etag(described::<T>("The new state.")));
    /// 201 with a new `T`, 200 with an existing one, and its `ETag`.
    CreatedOrTaggedResponse:
        "201" with_durability(with_etag(described::<T>("New."))),
        "200" with_durability(with_etag(described::<T>("The caller has it already: its current state.")));
    /// 201 with a new `T`, 200 with an existing one.
    CreatedResponse:
        "201" with_durability(described::<T>("New.")),
        "200" with_durability(described::<T>("It exists already: the first response, repeated."));
}

const EVENTS: &str = "Server-sent events without an end. `item`: its id is the seq, its data an `Item`. `draft`: \
    without an id, its data a `DraftEvent`. `erased`: the last one, its data an object with `session_id`.";
const LINES: &str = "All rows, one JSON object a line.";
const TABLE: &str = "All rows: a line with the names of the members, then a line for each (RFC 4180). Absent members are \
    empty. A cell that a spreadsheet would take for a formula begins with an apostrophe, and so does one that begins \
    with an apostrophe.";

/// The responses of `R`, and 204 for a request with `on_busy=204` while another caller is at work.
pub(crate) struct OrNoContent<R>(PhantomData<R>);

impl<R: IntoResponses> IntoResponses for OrNoContent<R> {
    fn responses() -> Responses {
        let mut all = R::responses();
        let no_content = "Another caller is at work, and the request has `on_busy=204`.";
        let no_content = ResponseBuilder::new().description(no_content).build();
        all.insert("204".to_owned(), RefOr::T(no_content));
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

fn components_extension(components: Map<String, Value>) -> Extensions {
    ExtensionsBuilder::new().add(COMPONENTS, components).build()
}

fn described<T: ToSchema>(description: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name(T::name());
    ResponseBuilder::new()
        .description(description)
        .content(
            "application/json",
            ContentBuilder::new().schema(Some(schema)).build(),
        )
        .extensions(Some(components_extension(components::<T>())))
}

fn with_durability(response: ResponseBuilder) -> ResponseBuilder {
    let mut durability = header("What the write survives.", "string");
    durability.schema = Some(
        literal(json!({"type": "string", "enum": ["flushed", "buffered", "ephemeral"]})).into(),
    );
    let masked = "The number of credentials that were masked in the write; absent when none was.";
    response
        .header("Filrouge-Durability", durability)
        .header("Filrouge-Masked", header(masked, "integer"))
}

fn with_etag(response: ResponseBuilder) -> ResponseBuilder {
    let tag = header(
        "Identifies the state of the members that a patch can change.",
        "string",
    );
    response.header("ETag", tag)
}

fn with_source(response: ResponseBuilder) -> ResponseBuilder {
    let source = "`hot` when the ledger did not answer and a copy did; absent otherwise.";
    let seq = "The session's newest seq in that copy.";
    response
        .header("Filrouge-Source", header(source, "string"))
        .header("Filrouge-As-Of-Seq", header(seq, "integer"))
}

/// The schema names those of the events' data, which a stream cannot have as its own.
fn events_content() -> Content {
    let data = ["Item", "DraftEvent"].map(|name| json!(Ref::from_schema_name(name)));
    let schema = json!({
        "type": "string",
        "description": EVENTS,
        "contentSchema": {"oneOf": data},
    });
    ContentBuilder::new().schema(Some(literal(schema))).build()
}

fn text_content(description: &str) -> Content {
    let schema = json!({"type": "string", "description": description});
    ContentBuilder::new().schema(Some(literal(schema))).build()
}

fn page_of<T: ToSchema>() -> ResponseBuilder {
    let row = T::name();
    let name = match row.as_ref() {
        "SessionEvent" => "EventPage".to_owned(),
        "AuditRow" => "AuditPage".to_owned(),
        "ListedCheckpoint" => "CheckpointPage".to_owned(),
        row => format!("{row}Page"),
    };
    let has_findings = matches!(row.as_ref(), "Session" | "AuditRow");
    let mut schema = json!({
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
    if has_findings {
        schema["properties"]["findings"] = json!({
            "type": "array",
            "items": Ref::from_schema_name("Finding"),
            "description": "Damaged sessions that the page leaves out; absent if there are none.",
        });
    }
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(&name)))
        .build();
    let mut page_components = components::<T>();
    page_components.insert(name, schema);
    ResponseBuilder::new()
        .description("A page.")
        .content("application/json", content)
        .extensions(Some(components_extension(page_components)))
}
