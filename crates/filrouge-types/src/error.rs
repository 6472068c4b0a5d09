//! The table of all error codes: code, HTTP status, whether a retry can succeed, title (DESIGN §12).

use std::fmt;

use crate::Lease;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $status:literal $retry:literal $title:literal),+ $(,)?) => {
        /// Every failure that a caller can receive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* $variant),+ }

        impl ErrorCode {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code as callers see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// The HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// Whether the same request can succeed later, unchanged.
            pub const fn retry(self) -> bool {
                match self { $(Self::$variant => $retry),+ }
            }

            /// A short title.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    /// The request cannot be parsed.
    BadRequest = "bad_request" 400 false "The request cannot be read",
    /// The request carries no valid credentials.
    Unauthenticated = "unauthenticated" 401 false "Credentials are needed",
    /// The caller's address, origin or permissions do not allow the request.
    Forbidden = "forbidden" 403 false "Not allowed",
    /// The route does not exist.
    RouteNotFound = "route_not_found" 404 false "No such route",
    /// The session does not exist, or the caller does not own it.
    SessionNotFound = "session_not_found" 404 false "No such session",
    /// The turn does not exist, or the caller does not own its session.
    TurnNotFound = "turn_not_found" 404 false "No such turn",
    /// The session has no such checkpoint.
    CheckpointNotFound = "checkpoint_not_found" 404 false "No such checkpoint",
    /// The tenant does not exist, or the caller belongs to another tenant.
    TenantNotFound = "tenant_not_found" 404 false "No such tenant",
    /// The route does not support this method.
    MethodNotAllowed = "method_not_allowed" 405 false "Method not allowed",
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout" 408 true "The request took too long to arrive",
    /// The session id is in use by another owner or, when a bundle is imported, by another session.
    SessionConflict = "session_conflict" 409 false "The session id is taken",
    /// The session was closed.
    SessionClosed = "session_closed" 409 false "The session is closed",
    /// The session already belongs to another identity.
    SessionLinked = "session_linked" 409 false "The session is linked to another identity",
    /// The same idempotency key arrived with another body.
    IdempotencyMismatch = "idempotency_mismatch" 409 false "The key was used with another body",
    /// Only some items of the batch are already recorded.
    PartialReplay = "partial_replay" 409 false "Some items of the batch are recorded already",
    /// `expected_seq` is not the session's newest seq.
    SeqConflict = "seq_conflict" 409 false "The session has newer items",
    /// The turn is closed or interrupted.
    TurnClosed = "turn_closed" 409 false "The turn is closed",
    /// The turn belongs to another session or request.
    TurnMismatch = "turn_mismatch" 409 false "The turn belongs to another session or request",
    /// Another turn is open, and the session allows one at a time.
    TurnOpen = "turn_open" 409 true "Another turn is open",
    /// The turn is being recorded.
    StreamOpen = "stream_open" 409 true "The turn is being recorded",
    /// Another request ended the recording of the turn, for example by starting the turn again.
    StreamLost = "stream_lost" 409 false "The recording was abandoned",
    /// The turn already has a final item of this variant.
    FinalExists = "final_exists" 409 false "The turn already has a final item",
    /// The session exists only in the hot store, where this operation is not available.
    SessionEphemeral = "session_ephemeral" 409 false "The session is ephemeral",
    /// The turn was replaced already.
    TurnReplaced = "turn_replaced" 409 false "The turn was replaced already",
    /// The turn was redacted.
    TurnRedacted = "turn_redacted" 409 false "The turn was redacted",
    /// The fence is not the newest one: another holder has acquired the lease since.
    StaleFence = "stale_fence" 409 false "The lease was taken over",
    /// The fence is the newest one, and its lease has expired.
    LeaseExpired = "lease_expired" 409 false "The lease has expired",
    /// Another holder has the lease, and the write names no fence.
    LeaseHeld = "lease_held" 409 true "The session is held by a lease",
    /// The session's state is terminal (`calls.terminal_states`): it cannot be resumed, and gets no new turn.
    SessionTerminated = "session_terminated" 409 false "The session is in a terminal state",
    /// Another request is working on the turn.
    TurnBusy = "turn_busy" 409 true "Another request is working on the turn",
    /// Live calls are not recorded, because the setting `calls.journal` is `off`.
    JournalOff = "journal_off" 409 false "The journal is off",
    /// The session was erased.
    SessionErased = "session_erased" 410 false "The session was erased",
    /// The turn of an ephemeral session has expired in the hot store, or never existed.
    TurnExpired = "turn_expired" 410 false "The turn is no longer kept",
    /// The session is not in the state that `If-Match` names.
    PreconditionFailed = "precondition_failed" 412 false "The session has changed",
    /// The body is too large.
    PayloadTooLarge = "payload_too_large" 413 false "The request is too large",
    /// The route does not accept this content type or encoding.
    UnsupportedMediaType = "unsupported_media_type" 415 false "The body's type is not supported",
    /// The request was parsed, but its content is not acceptable.
    Invalid = "invalid" 422 false "The request is not acceptable",
    /// A limit of DESIGN §8 is reached.
    LimitExceeded = "limit_exceeded" 422 false "A limit is reached",
    /// The request contains a credential, and the policy is to refuse credentials.
    CredentialRefused = "credential_refused" 422 false "The request holds a credential",
    /// The turn cannot be finalized, because it has no answer.
    AnswerMissing = "answer_missing" 422 false "There is no answer to finalize with",
    /// Another holder kept the lease for as long as the request waited for it.
    LeaseTimeout = "lease_timeout" 423 true "Another holder has the session",
    /// A rate of DESIGN §8 is exceeded.
    RateLimited = "rate_limited" 429 true "Too many requests",
    /// Stored data does not pass verification.
    IntegrityError = "integrity_error" 500 false "Stored data was changed",
    /// An invariant of the program failed.
    Internal = "internal" 500 false "Internal error",
    /// The keyring lacks a key that verification needs.
    KeyMissing = "key_missing" 500 false "A verification key is missing",
    /// The server has no capacity for the request now.
    Overloaded = "overloaded" 503 true "The server is busy",
    /// The store does not answer.
    StoreUnavailable = "store_unavailable" 503 true "The store does not answer",
    /// The hot store does not answer, and the requested data is stored nowhere else.
    HotUnavailable = "hot_unavailable" 503 true "The hot store does not answer",
    /// A flush failed: no write is acknowledged until the server restarts.
    StoreReadOnly = "store_read_only" 503 true "The store accepts no writes",
    /// The ledger does not answer, and the spool is full.
    SpoolFull = "spool_full" 503 true "The spool is full",
    /// The disk is full.
    StoreFull = "store_full" 507 true "The disk is full",
}

impl ErrorCode {
    /// A failure with this code, without a hint.
    #[must_use]
    pub fn failure(self, detail: impl Into<String>) -> Failure {
        Failure::new(self, detail)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure as callers see it: its code, a description, and a hint how to proceed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Failure {
    /// The kind of failure.
    pub code: ErrorCode,
    /// A sentence that describes the failure.
    pub detail: String,
    /// An action by which the caller can resolve the failure.
    pub hint: Option<String>,
    /// The newest seq, for [`ErrorCode::SeqConflict`].
    pub actual_seq: Option<u64>,
    /// The location of the damaged data, for [`ErrorCode::IntegrityError`].
    pub location: Option<Box<DataLocation>>,
    /// The lease that is held, for [`ErrorCode::LeaseTimeout`] and [`ErrorCode::LeaseHeld`].
    pub held: Option<Box<Lease>>,
}

/// The location of damaged data in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataLocation {
    /// The session.
    pub session_id: String,
    /// The seq in the session; `None` for the entire session.
    pub seq: Option<u64>,
}

/// The result of an operation that can end in a [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure without a hint.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
            actual_seq: None,
            location: None,
            held: None,
        }
    }

    /// The failure for stored data that was changed (DESIGN §9). It names the session and the first affected seq;
    /// without a seq, the entire session is affected. `detail` describes the change.
    pub fn integrity(session: &str, seq: Option<u64>, detail: impl fmt::Display) -> Self {
        let seq_text = seq.map_or_else(String::new, |seq| format!(", seq {seq}"));
        Self {
            location: Some(Box::new(DataLocation {
                session_id: session.to_owned(),
                seq,
            })),
            ..Self::new(
                ErrorCode::IntegrityError,
                format!("session {session:?}{seq_text}: {detail}"),
            )
        }
    }

    /// Adds a hint for the caller.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_words_with_error_statuses() {
        let mut codes = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(codes.insert(code.as_str()), "{code} twice");
            assert!(
                code.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_')
            );
            assert!((400..600).contains(&code.status()));
        }
    }
}
