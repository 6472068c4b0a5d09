//! The request bodies of DESIGN §12, shared by Rust callers and HTTP. Unknown fields are refused.

use filrouge_store::rules::TURN_ITEMS_MAX;
use filrouge_types::{
    Application, ApplicationReader, EventKey, IdentityId, ItemBody, JsonText, ProjectId, RawJson,
    RequestId, SessionId, SessionStatus, Timestamp, object, objects,
};
use serde::{Deserialize, Deserializer};

/// Creates a session.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// Its id; generated when absent.
    pub session_id: Option<SessionId>,
    /// Its title.
    #[schema(value_type = Option<filrouge_types::schema::Label>)]
    pub title: Option<Box<str>>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team (DESIGN §11); not part of any request body.
    #[serde(skip)]
    pub team_id: Option<Box<str>>,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// The application's data, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<RawJson>,
}

/// Starts a turn; with `items` and `answer_neutral` it records a complete turn in one call. At least one of the two
/// questions is required, unless the first of the items is the question: role `user`, channel `question`, with parts.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct StartTurn {
    /// The caller's key of the turn.
    pub request_id: RequestId,
    /// The question in the neutral language.
    pub question_neutral: Option<JsonText>,
    /// The question in the user's language.
    pub question_translated: Option<JsonText>,
    /// The application-specific fields; in JSON they are members of the request.
    #[serde(skip)]
    pub application: Application,
    /// The application's data, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<RawJson>,
    /// Allow-listed members become metadata of the question; all others are dropped.
    #[schema(value_type = Option<Object>)]
    pub runtime_context: Option<RawJson>,
    /// Items that follow the question, or begin with it.
    #[serde(default, deserialize_with = "items")]
    pub items: Vec<ItemBody>,
    /// The answer: closes the turn as finalized.
    pub answer_neutral: Option<JsonText>,
    /// Whether the turn ends in this write, with its item of channel `final` as the answer.
    #[serde(default)]
    pub finalize: bool,
    /// The newest seq that the session must have; 0 for a session that does not exist yet.
    pub expected_seq: Option<u64>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

impl<'de> Deserialize<'de> for StartTurn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut application = ApplicationReader::default();
        let request = Self::deserialize(application.split_from(d))?;
        Ok(Self {
            application: application.read,
            ..request
        })
    }
}

impl StartTurn {
    /// A request with only its key; the caller fills in the other fields.
    pub fn new(request_id: RequestId) -> Self {
        Self {
            request_id,
            question_neutral: None,
            question_translated: None,
            application: Application::default(),
            metadata: None,
            runtime_context: None,
            items: Vec::new(),
            answer_neutral: None,
            finalize: false,
            expected_seq: None,
            fence: None,
            release: false,
        }
    }
}

/// Appends items to an open turn, or errors and notes to an interrupted or closed one: all or none.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendItems {
    /// The items, in order.
    #[serde(deserialize_with = "items")]
    pub items: Vec<ItemBody>,
    /// The newest seq that the session must have.
    pub expected_seq: Option<u64>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

impl AppendItems {
    /// Appends `items` without a condition: neither a seq nor a fence is checked.
    pub const fn new(items: Vec<ItemBody>) -> Self {
        Self {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        }
    }
}

/// Ends a turn with an answer; without one, the turn's final item becomes the answer.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinalizeTurn {
    /// The turn's key; checked when given.
    pub request_id: Option<RequestId>,
    /// The answer in the neutral language.
    pub answer_neutral: Option<JsonText>,
    /// The answer in the user's language.
    pub answer_translated: Option<JsonText>,
    /// Whether the translated answer replaces a missing translation; by default, whether it equals the neutral answer.
    pub answer_translated_is_fallback: Option<bool>,
    /// Members that are merged into the turn's metadata.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<RawJson>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

/// The error that ended a turn.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TurnError)]
pub struct ErrorBody {
    /// A code for the error.
    #[schema(value_type = filrouge_types::schema::NonEmptyLabel)]
    pub code: Box<str>,
    /// A sentence about the error.
    pub message: Option<JsonText>,
    /// Whether a retry can succeed.
    #[serde(default)]
    pub retryable: bool,
}

/// Ends a turn with an error.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailTurn {
    /// The error.
    #[serde(deserialize_with = "object")]
    pub error: ErrorBody,
    /// The text shown so far.
    pub partial_text: Option<JsonText>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

/// Cancels a turn on the user's behalf.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelTurn {
    /// The text shown so far.
    pub partial_text: Option<JsonText>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

/// Erases the contents of a turn.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactTurn {
    /// The reason, 1 to 4096 bytes; stays in the ledger.
    #[schema(value_type = filrouge_types::schema::RedactionReason)]
    pub reason: Box<str>,
}

/// Erases the contents of items.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactItems {
    /// Ranges of items, each as its first and its last seq; 10,000 items at most.
    #[schema(value_type = Vec<Vec<u64>>)]
    pub seqs: Vec<(u64, u64)>,
    /// The reason, 1 to 4096 bytes; stays in the ledger.
    #[schema(value_type = filrouge_types::schema::RedactionReason)]
    pub reason: Box<str>,
}

/// Replaces a closed turn by a corrected one: a start with an answer.
pub type ReplaceTurn = StartTurn;

/// Changes a session; absent fields stay unchanged, `null` removes a value.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchSession {
    /// Its title.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<filrouge_types::schema::Label>)]
    pub title: Option<Option<Box<str>>>,
    /// Its status: active, paused or closed.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = SessionStatus, required = false)]
    pub status: Option<SessionStatus>,
    /// The application's label.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<filrouge_types::schema::Label>)]
    pub state: Option<Option<Box<str>>>,
    /// Its project.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<ProjectId>)]
    pub project_id: Option<Option<ProjectId>>,
    /// A JSON merge patch (RFC 7396) of its metadata.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Option<RawJson>>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

/// Ends a session.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseSession {
    /// The reason, at most 4096 bytes; stays in the ledger.
    #[schema(value_type = Option<filrouge_types::schema::Label>)]
    pub reason: Option<Box<str>>,
    /// The fence of the session's lease; the header `Filrouge-Fence` can carry it instead.
    pub fence: Option<u64>,
    /// Whether the write also releases the lease.
    #[serde(default)]
    pub release: bool,
}

/// Assigns an anonymous session its owner.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSession {
    /// The owner.
    pub identity_id: IdentityId,
}

/// Records an event of a session.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordEvent {
    /// The caller's key; an event whose key already exists is not recorded again.
    pub key: EventKey,
    /// The kind of event, such as `call_started`.
    #[schema(value_type = filrouge_types::schema::NonEmptyLabel)]
    pub kind: Box<str>,
    /// When it happened; by default now.
    pub at: Option<Timestamp>,
    /// The application's data, a JSON object.
    #[schema(value_type = Option<Object>)]
    pub detail: Option<RawJson>,
}

/// Reads at most one item more than a turn may have, which suffices to detect that the request has too many.
fn items<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ItemBody>, D::Error> {
    let max = usize::try_from(TURN_ITEMS_MAX).unwrap_or(usize::MAX);
    objects(d, max.saturating_add(1))
}

/// Reads a value that is present and may be `null`: a patch distinguishes `null` from an absent value.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

/// Reads a value that may be absent but not `null`.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// The bytes of an optional text in a request's fingerprint: an absent text differs from every present one.
pub(crate) fn optional_bytes(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(|| vec![0], |t| [b"1", t.as_bytes()].concat())
}
