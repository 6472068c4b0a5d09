//! The one table of error codes: code → status → retry? → title (DESIGN §12).

use std::fmt;

use crate::Lease;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $status:literal $retry:literal $title:literal),+ $(,)?) => {
        /// Every failure a caller can be told of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* $variant),+ }

        impl ErrorCode {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The code as callers see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code),+ }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),+ }
            }

            /// Whether the same request can succeed later, unchanged.
            #[must_use]
            pub const fn retry(self) -> bool {
                match self { $(Self::$variant => $retry),+ }
            }

            /// A short title.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }
        }
    };
}

codes! {
    /// The request cannot be read.
    BadRequest = "bad_request" 400 false "The request cannot be read",
    /// The request carries no credentials, or none that are valid.
    Unauthenticated = "unauthenticated" 401 false "Credentials are needed",
    /// The request came from an address or origin that is not allowed.
    Forbidden = "forbidden" 403 false "Not allowed",
    /// No such route.
    RouteNotFound = "route_not_found" 404 false "No such route",
    /// No such session, or it is somebody else's.
    SessionNotFound = "session_not_found" 404 false "No such session",
    /// No such turn, or it is somebody else's.
    TurnNotFound = "turn_not_found" 404 false "No such turn",
    /// The session has no such checkpoint.
    CheckpointNotFound = "checkpoint_not_found" 404 false "No such checkpoint",
    /// No such tenant, or it is not the caller's.
    TenantNotFound = "tenant_not_found" 404 false "No such tenant",
    /// The route does not know this method.
    MethodNotAllowed = "method_not_allowed" 405 false "Method not allowed",
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout" 408 true "The request took too long to arrive",
    /// The session id is taken.
    SessionConflict = "session_conflict" 409 false "The session id is taken",
    /// The session was closed.
    SessionClosed = "session_closed" 409 false "The session is closed",
    /// The session belongs to another identity already.
    SessionLinked = "session_linked" 409 false "The session is linked to another identity",
    /// The same key came with another body.
    IdempotencyMismatch = "idempotency_mismatch" 409 false "The same key came with another body",
    /// Some of the batch's item ids are known and some are not.
    PartialReplay = "partial_replay" 409 false "The batch is known in part",
    /// `expected_seq` is not the session's newest seq.
    SeqConflict = "seq_conflict" 409 false "The session has moved on",
    /// The turn is closed or interrupted.
    TurnClosed = "turn_closed" 409 false "The turn is closed",
    /// The turn belongs to another session or request.
    TurnMismatch = "turn_mismatch" 409 false "The turn belongs elsewhere",
    /// Another turn is open, and the session allows one at a time.
    TurnOpen = "turn_open" 409 true "Another turn is open",
    /// The turn is being recorded.
    StreamOpen = "stream_open" 409 true "The turn is being recorded",
    /// The recording was ended by somebody else.
    StreamLost = "stream_lost" 409 false "The recording was given up",
    /// The turn has a final item of this variant.
    FinalExists = "final_exists" 409 false "The turn has its final already",
    /// The session is in the hot store alone, where this cannot be done.
    SessionEphemeral = "session_ephemeral" 409 false "The session is ephemeral",
    /// The turn was replaced already.
    TurnReplaced = "turn_replaced" 409 false "The turn was replaced already",
    /// The turn was redacted.
    TurnRedacted = "turn_redacted" 409 false "The turn was redacted",
    /// The fence is not the newest one: somebody else holds the session, or did since.
    StaleFence = "stale_fence" 409 false "The lease was taken over",
    /// The fence is the newest one, and its time is up.
    LeaseExpired = "lease_expired" 409 false "The lease has expired",
    /// Somebody holds the session, and the write names no fence.
    LeaseHeld = "lease_held" 409 true "The session is held by a lease",
    /// The session has come to a state that it does not go on from.
    SessionTerminated = "session_terminated" 409 false "The session has come to its end",
    /// Somebody works at the turn.
    TurnBusy = "turn_busy" 409 true "The turn is being worked at",
    /// The journal of live calls is off, or written and not read.
    JournalOff = "journal_off" 409 false "The journal is off",
    /// The session was erased.
    SessionErased = "session_erased" 410 false "The session was erased",
    /// The turn was in the hot store alone, which keeps it no longer.
    TurnExpired = "turn_expired" 410 false "The turn is no longer kept",
    /// The session is not in the state that `If-Match` names.
    PreconditionFailed = "precondition_failed" 412 false "The session has changed",
    /// The body is too large.
    PayloadTooLarge = "payload_too_large" 413 false "The request is too large",
    /// The route does not take bodies of this type, or encoded so.
    UnsupportedMediaType = "unsupported_media_type" 415 false "The body's type is not taken",
    /// The request is understood and not acceptable.
    Invalid = "invalid" 422 false "The request is not acceptable",
    /// A limit of DESIGN §8 is reached.
    LimitExceeded = "limit_exceeded" 422 false "A limit is reached",
    /// The policy is to refuse credentials, and the request holds one.
    CredentialRefused = "credential_refused" 422 false "The request holds a credential",
    /// Finalizing needs an answer.
    AnswerMissing = "answer_missing" 422 false "There is no answer to finalize with",
    /// Somebody held the session for as long as was waited.
    LeaseTimeout = "lease_timeout" 423 true "The session is held by somebody else",
    /// A rate of DESIGN §8 is exceeded.
    RateLimited = "rate_limited" 429 true "Too many requests",
    /// Stored data does not pass verification.
    IntegrityError = "integrity_error" 500 false "Stored data was changed",
    /// An invariant of the program failed.
    Internal = "internal" 500 false "Internal error",
    /// A key needed for verification is missing.
    KeyMissing = "key_missing" 500 false "A verification key is missing",
    /// The server has no room for the request now.
    Overloaded = "overloaded" 503 true "The server is busy",
    /// The store does not answer.
    StoreUnavailable = "store_unavailable" 503 true "The store does not answer",
    /// The hot store does not answer, and what is asked for is nowhere else.
    HotUnavailable = "hot_unavailable" 503 true "The hot store does not answer",
    /// A flush failed: nothing is acknowledged until the server is started again.
    StoreReadOnly = "store_read_only" 503 true "The store takes no writes",
    /// The ledger does not answer, and the spool has no more room.
    SpoolFull = "spool_full" 503 true "The spool is full",
    /// The disk is full.
    StoreFull = "store_full" 507 true "The disk is full",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure as callers see it: its code, what happened, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct Failure {
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// What happened, in a sentence.
    pub detail: String,
    /// What the caller can do.
    pub hint: Option<String>,
    /// The newest seq, for [`ErrorCode::SeqConflict`].
    pub actual_seq: Option<u64>,
    /// Where stored data is wrong, for [`ErrorCode::IntegrityError`].
    pub place: Option<Box<Place>>,
    /// Who holds the session, for [`ErrorCode::LeaseTimeout`] and [`ErrorCode::LeaseHeld`].
    pub held: Option<Box<Lease>>,
}

/// A place in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The session.
    pub session_id: String,
    /// The seq in it; `None` when the session as a whole is meant.
    pub seq: Option<u64>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            hint: None,
            actual_seq: None,
            place: None,
            held: None,
        }
    }

    /// Stored data that is not what was written: names the session and the first bad seq (DESIGN §9).
    pub fn integrity(session: &str, seq: Option<u64>, what: impl fmt::Display) -> Self {
        let at = seq.map_or_else(String::new, |seq| format!(", seq {seq}"));
        Self {
            place: Some(Box::new(Place {
                session_id: session.to_owned(),
                seq,
            })),
            ..Self::new(
                ErrorCode::IntegrityError,
                format!("session {session:?}{at}: {what}"),
            )
        }
    }

    /// Adds what the caller can do.
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
        let mut seen = std::collections::BTreeSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{code} twice");
            assert!(
                code.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_')
            );
            assert!((400..600).contains(&code.status()));
        }
    }
}
