//! The error codes of each operation, by status.

use std::collections::BTreeMap;

use filrouge_types::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::schema::ObjectBuilder;
use utoipa::openapi::{HeaderBuilder, Schema};

use super::finish::{PUBLIC, reference};

macro_rules! operation_codes {
    ($($operation:ident $($fenced:ident)?: $($code:ident)*;)+) => {
        /// Operations, each with a list that is empty unless it accepts a fence (DESIGN §6), and with the codes that no
        /// rule of [`codes`] adds.
        const OPERATION_CODES: &[(&str, &[&str], &[ErrorCode])] =
            &[$((stringify!($operation), &[$(stringify!($fenced))?], &[$(ErrorCode::$code),*])),+];
    };
}

operation_codes! {
    listAudit: SessionNotFound;
    putCheckpoint fenced: JournalOff IdempotencyMismatch CredentialRefused;
    getLatestCheckpoint: CheckpointNotFound;
    recordEvent: IdempotencyMismatch;
    exportSession: SessionEphemeral LimitExceeded;
    appendItems fenced: SeqConflict TurnClosed PartialReplay IdempotencyMismatch FinalExists CredentialRefused;
    getKeyFigures: LimitExceeded;
    takeLease: SessionClosed JournalOff LeaseTimeout SessionTerminated;
    renewLease fenced: JournalOff StaleFence LeaseExpired LeaseHeld;
    releaseLease fenced: LeaseHeld;
    resumeSession: SessionClosed JournalOff LeaseTimeout SessionTerminated SessionConflict SessionErased
        HotUnavailable StaleFence;
    search: SessionNotFound;
    patchSession fenced: PreconditionFailed;
    closeSession fenced:;
    linkSession: SessionLinked;
    createSession: SessionConflict SessionErased HotUnavailable;
    verifySession: SessionEphemeral;
    recordStream fenced: TurnClosed StreamOpen StreamLost LimitExceeded UnsupportedMediaType;
    getTechnicalStatus: LimitExceeded;
    startTurn fenced: SessionConflict SessionErased HotUnavailable SeqConflict SessionClosed SessionTerminated TurnBusy
        TurnOpen TurnRedacted IdempotencyMismatch PartialReplay FinalExists CredentialRefused AnswerMissing;
    finalizeTurn fenced: TurnClosed IdempotencyMismatch FinalExists AnswerMissing;
    failTurn fenced: TurnClosed IdempotencyMismatch FinalExists;
    cancelTurn fenced: TurnClosed IdempotencyMismatch FinalExists;
    redactTurn: TurnOpen TurnRedacted IdempotencyMismatch;
    replaceTurn fenced: SeqConflict SessionClosed TurnBusy TurnOpen TurnRedacted IdempotencyMismatch PartialReplay
        FinalExists CredentialRefused TurnReplaced AnswerMissing;
}

/// Whether an operation accepts a fence.
pub(super) fn is_fenced(id: &str) -> bool {
    let mut operations = OPERATION_CODES.iter();
    operations.any(|(operation, fenced, _)| *operation == id && !fenced.is_empty())
}

macro_rules! rules {
    ($all:ident: $($applies:expr => $($code:ident)+;)+) => {
        let rules: &[(bool, &[ErrorCode])] = &[$(($applies, &[$(ErrorCode::$code),+])),+];
        for (_, codes) in rules.iter().filter(|(applies, _)| *applies) {
            $all.extend_from_slice(codes);
        }
    };
}

/// Returns the error codes of an operation: those that follow from its id, path and method, and those in
/// [`OPERATION_CODES`].
pub(super) fn codes(id: &str, method: &str, path: &str, has_body: bool) -> Vec<ErrorCode> {
    let is_public = PUBLIC.contains(&id);
    let is_stored = !["getHealth", "getOpenApi", "getMetrics", "getInfo"].contains(&id);
    let path_has = |parameter: &str| path.contains(parameter);
    let mut codes = Vec::new();
    // Two operations are exceptions: `startTurn` creates a missing session, and the body of `recordStream` is not JSON.
    rules! { codes:
        is_public => BadRequest;
        is_public && id != "getHealth" => Forbidden RequestTimeout Internal Overloaded;
        !is_public => BadRequest Unauthenticated Forbidden RequestTimeout Invalid RateLimited Internal Overloaded;
        is_stored => IntegrityError KeyMissing StoreUnavailable;
        has_body && id != "recordStream" => PayloadTooLarge UnsupportedMediaType LimitExceeded;
        method != "get" => StoreReadOnly StoreFull LimitExceeded;
        path_has("{session_id}") && id != "startTurn" => SessionNotFound SessionErased HotUnavailable;
        path_has("{turn_id}") => TurnNotFound TurnMismatch TurnExpired;
        path_has("{tenant_id}") => TenantNotFound;
    }
    let own_codes = OPERATION_CODES
        .iter()
        .find(|(operation, ..)| *operation == id);
    codes.extend(own_codes.into_iter().flat_map(|(.., codes)| *codes));
    rules! { codes:
        is_fenced(id) && !path.ends_with("/lease") => StaleFence LeaseExpired LeaseHeld SpoolFull;
    }
    codes
}

/// Adds the error responses for these codes to an operation. Codes with the same status are one response. Operations
/// with the same set of codes share the response, which is a component in `shared`.
pub(super) fn add_problem_responses(
    responses: &mut Value,
    shared: &mut Map<String, Value>,
    codes: Vec<ErrorCode>,
) {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in codes {
        let codes_of_status = by_status.entry(code.status()).or_default();
        if !codes_of_status.contains(&code) {
            codes_of_status.push(code);
        }
    }
    for (status, codes) in by_status {
        let name_parts = codes.iter().flat_map(|code| [".", code.as_str()]);
        let name = name_parts.fold(status.to_string(), |name, part| name + part);
        responses[status.to_string()] = reference("responses", &name);
        let new_response = || problem_response(&codes);
        shared.entry(name).or_insert_with(new_response);
    }
}

/// The extension that lists the codes of an error response.
pub(super) const CODES: &str = "x-filrouge-codes";

fn problem_response(codes: &[ErrorCode]) -> Value {
    let titles: Vec<&str> = codes.iter().map(|code| code.title()).collect();
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    // Nothing else than the type: generators of clients drop a response that narrows it.
    let schema = reference("schemas", "Problem");
    let example = codes.first().map(|code| example_of(*code));
    let mut headers = Map::new();
    headers.insert(
        "Filrouge-Request-Id".to_owned(),
        reference("headers", "RequestId"),
    );
    let mut header = |name: &str, description: &str, kind: &str| {
        let header = json!({"description": description, "schema": {"type": kind}});
        headers.insert(name.to_owned(), header);
    };
    if codes.iter().all(|code| code.retry()) {
        header(
            "Retry-After",
            "Seconds until a retry may succeed.",
            "integer",
        );
    }
    if codes.contains(&ErrorCode::Unauthenticated) {
        header("WWW-Authenticate", "The scheme: `Bearer`.", "string");
    }
    json!({
        "description": titles.join("; "),
        "headers": headers,
        "content": {"application/problem+json": {"schema": schema, "example": example}},
        (CODES): names,
    })
}

/// The extension that contains a schema that the library's types cannot express. [`super::finish`] moves it to its
/// place.
pub(super) const LITERAL: &str = "x-raw";

/// Returns a schema that is literal JSON; [`super::finish`] moves the JSON to its place.
pub(crate) fn literal(schema: Value) -> Schema {
    let extension = ExtensionsBuilder::new().add(LITERAL, schema).build();
    ObjectBuilder::new()
        .extensions(Some(extension))
        .build()
        .into()
}

pub(crate) fn header(description: &str, kind: &str) -> utoipa::openapi::Header {
    HeaderBuilder::new()
        .schema(Some(literal(json!({"type": kind}))))
        .description(Some(description))
        .build()
}

fn example_of(code: ErrorCode) -> Value {
    json!({
        "type": format!("urn:filrouge:error:{code}"),
        "title": code.title(),
        "status": code.status(),
        "code": code.as_str(),
        "detail": "what happened, in a sentence",
        "hint": null,
    })
}
