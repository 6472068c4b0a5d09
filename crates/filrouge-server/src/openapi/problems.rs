//! Which error codes an operation can answer, told by status.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use filrouge_types::ErrorCode;
use serde_json::{Value, json};
use utoipa::IntoResponses;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::response::Response;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, RefOr, ResponseBuilder, Schema};

/// Codes that come together.
pub(crate) trait Codes {
    fn codes() -> Vec<ErrorCode>;
}

macro_rules! sets {
    ($($(#[$doc:meta])* $name:ident: $($code:ident),+;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Codes for $name {
            fn codes() -> Vec<ErrorCode> {
                vec![$(ErrorCode::$code),+]
            }
        }
    )+};
}

sets! {
    /// Of every operation that needs a caller.
    Called: Unauthenticated, Forbidden, RequestTimeout, Invalid, RateLimited, Internal, Overloaded;
    /// Of every operation that needs none.
    Asked: Forbidden, RequestTimeout, Internal, Overloaded;
    /// Of what reads the store.
    Stored: IntegrityError, KeyMissing, StoreUnavailable;
    /// Of what a session is named for.
    OfSession: SessionNotFound, SessionErased, HotUnavailable;
    /// Of what a session may be asked for in a query.
    InSessionAsked: SessionNotFound;
    /// Of what a tenant is named for.
    OfTenant: TenantNotFound;
    /// Of what a turn is named for.
    OfTurn: TurnNotFound, TurnMismatch, TurnExpired;
    /// Of what takes a body.
    WithBody: BadRequest, PayloadTooLarge, UnsupportedMediaType, LimitExceeded;
    /// Of what writes to the store.
    Writing: StoreReadOnly, StoreFull, LimitExceeded;
    /// Of what makes a session when there is none.
    MakingSession: SessionConflict, SessionErased, HotUnavailable;
    /// Of what a closed session refuses.
    InOpenSession: SessionClosed;
    /// Of what goes on with a session that may be held.
    UnderLease: StaleFence, LeaseExpired, LeaseHeld, SpoolFull;
    /// Of a lease that is taken.
    Taking: LeaseTimeout, SessionTerminated;
    /// Of a session that is read once its lease was taken.
    Resuming: StaleFence;
    /// Of a lease that is renewed.
    Renewing: StaleFence, LeaseExpired, LeaseHeld;
    /// Of a lease that is given back.
    Releasing: LeaseHeld;
    /// Of what the journal of live calls can be off for.
    Journaled: JournalOff;
    /// Of a checkpoint.
    OfCheckpoint: CheckpointNotFound;
    /// Of a checkpoint that is put.
    PuttingCheckpoint: JournalOff, IdempotencyMismatch, CredentialRefused;
    /// Of a new turn.
    Starting: TurnBusy, TurnOpen, TurnRedacted, IdempotencyMismatch, PartialReplay, FinalExists, CredentialRefused;
    /// Of a turn put in the place of another.
    Replacing: TurnReplaced, AnswerMissing;
    /// Of items put to a turn.
    Appending: SeqConflict, TurnClosed, PartialReplay, IdempotencyMismatch, FinalExists, CredentialRefused;
    /// Of a stream that is recorded into a turn.
    Streaming: TurnClosed, StreamOpen, StreamLost, LimitExceeded, UnsupportedMediaType;
    /// Of a turn's end.
    Ending: TurnClosed, IdempotencyMismatch, FinalExists;
    /// Of an end with an answer.
    Answering: AnswerMissing;
    /// Of a change under a condition.
    Conditional: PreconditionFailed;
    /// Of a session that is given its owner.
    LinkingSession: SessionLinked;
    /// Of what is recorded once for each key.
    Recording: IdempotencyMismatch;
    /// Of a redaction.
    Redacting: TurnOpen, TurnRedacted, IdempotencyMismatch;
    /// Of what needs a session that is in the ledger.
    InLedger: SessionEphemeral;
    /// Of a document that may be too large to be written.
    Large: LimitExceeded;
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: Codes),+> Codes for ($($name,)+) {
            fn codes() -> Vec<ErrorCode> {
                [$($name::codes()),+].concat()
            }
        }
    )+};
}

tuples! {
    A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H;
}

/// The problems of an operation, for `responses(…)`.
pub(crate) struct Problems<C>(PhantomData<C>);

impl<C: Codes> IntoResponses for Problems<C> {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
        for code in C::codes() {
            let codes = by_status.entry(code.status()).or_default();
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        let told = by_status.into_iter();
        told.map(|(status, codes)| (status.to_string(), RefOr::T(response(status, &codes))))
            .collect()
    }
}

fn response(status: u16, codes: &[ErrorCode]) -> Response {
    let titles: Vec<&str> = codes.iter().map(|code| code.title()).collect();
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let schema = json!({"allOf": [
        {"$ref": "#/components/schemas/Problem"},
        {"properties": {"status": {"const": status}, "code": {"enum": words}}},
    ]});
    let content = ContentBuilder::new()
        .schema(Some(raw(schema)))
        .example(codes.first().map(|code| example(*code)))
        .build();
    let mut response = ResponseBuilder::new()
        .description(titles.join("; "))
        .content("application/problem+json", content);
    if codes.iter().all(|code| code.retry()) {
        response = response.header(
            "Retry-After",
            header("Seconds until it may go better.", "integer"),
        );
    }
    if codes.contains(&ErrorCode::Unauthenticated) {
        response = response.header(
            "WWW-Authenticate",
            header("The scheme: `Bearer`.", "string"),
        );
    }
    response.build()
}

/// The member under which a schema stands that the library's types have no words for.
pub(super) const RAW: &str = "x-raw";

/// A schema as it is written; [`super::finish`] puts it in its place.
pub(crate) fn raw(schema: Value) -> Schema {
    let written = ExtensionsBuilder::new().add(RAW, schema).build();
    ObjectBuilder::new()
        .extensions(Some(written))
        .build()
        .into()
}

pub(crate) fn header(description: &str, kind: &str) -> utoipa::openapi::Header {
    HeaderBuilder::new()
        .schema(Some(raw(json!({"type": kind}))))
        .description(Some(description))
        .build()
}

fn example(code: ErrorCode) -> Value {
    json!({
        "type": format!("urn:filrouge:error:{code}"),
        "title": code.title(),
        "status": code.status(),
        "code": code.as_str(),
        "detail": "what happened, in a sentence",
        "hint": null,
    })
}
