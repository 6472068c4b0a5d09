//! The bodies of DESIGN §12, for Rust callers and for HTTP alike. Unknown fields are refused.

use filrouge_store::rules::TURN_ITEMS_MAX;
use filrouge_types::{
    Application, ApplicationReader, EventKey, IdentityId, ItemBody, JsonText, ProjectId, RawJson,
    RequestId, SessionId, SessionStatus, Timestamp, object, objects,
};
use serde::{Deserialize, Deserializer};

/// Makes a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// Its id; made up when absent.
    pub session_id: Option<SessionId>,
    /// Its title.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<filrouge_types::schema::Label>))]
    pub title: Option<Box<str>>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its team (DESIGN §11); no body of a request names it.
    #[serde(skip)]
    pub team_id: Option<Box<str>>,
    /// The session that started it.
    pub parent_session_id: Option<SessionId>,
    /// The application's data, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<RawJson>,
}

/// Starts a turn; with `items` and `answer_neutral` a whole finished turn in one call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartTurn {
    /// The caller's key of the turn.
    pub request_id: RequestId,
    /// The question in the neutral language.
    pub question_neutral: Option<JsonText>,
    /// The question in the user's language.
    pub question_translated: Option<JsonText>,
    /// What the application says of it, its members among those of the request.
    #[serde(skip)]
    pub application: Application,
    /// The application's data, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<RawJson>,
    /// Allow-listed members become metadata of the question; all others are forgotten.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub runtime_context: Option<RawJson>,
    /// Items that stand behind the question.
    #[serde(default, deserialize_with = "items")]
    pub items: Vec<ItemBody>,
    /// The answer: closes the turn as finalized.
    pub answer_neutral: Option<JsonText>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

impl<'de> Deserialize<'de> for StartTurn {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut application = ApplicationReader::default();
        let request = Self::deserialize(application.beside(d))?;
        Ok(Self {
            application: application.read,
            ..request
        })
    }
}

impl StartTurn {
    /// A start that says nothing but its key, for callers that fill in the rest.
    #[must_use]
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
            fence: None,
            release: false,
        }
    }
}

/// Appends items to an open turn, all or none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppendItems {
    /// The items, in order.
    #[serde(deserialize_with = "items")]
    pub items: Vec<ItemBody>,
    /// The seq the session must stand at.
    pub expected_seq: Option<u64>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

impl AppendItems {
    /// These items, under no condition.
    #[must_use]
    pub const fn new(items: Vec<ItemBody>) -> Self {
        Self {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        }
    }
}

/// Ends a turn with an answer; without one its final item is promoted.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinalizeTurn {
    /// Must be the turn's, when given.
    pub request_id: Option<RequestId>,
    /// The answer in the neutral language.
    pub answer_neutral: Option<JsonText>,
    /// The answer in the user's language.
    pub answer_translated: Option<JsonText>,
    /// Whether the translated answer is a copy; a supplied translation wins over it.
    pub answer_translated_is_fallback: Option<bool>,
    /// Merged over the turn's metadata.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<RawJson>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

/// What went wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TurnError))]
pub struct ErrorBody {
    /// A word for it.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Word))]
    pub code: Box<str>,
    /// A sentence about it.
    pub message: Option<JsonText>,
    /// Whether trying again can help.
    #[serde(default)]
    pub retryable: bool,
}

/// Ends a turn with an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailTurn {
    /// The error.
    #[serde(deserialize_with = "object")]
    pub error: ErrorBody,
    /// What was shown so far.
    pub partial_text: Option<JsonText>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

/// Ends a turn by the user's wish.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelTurn {
    /// What was shown so far.
    pub partial_text: Option<JsonText>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

/// Erases the contents of a turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedactTurn {
    /// Why, 1 to 4096 bytes; stays in the journal.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Reason))]
    pub reason: Box<str>,
}

/// Replaces a closed turn by a corrected one: as a start, with an answer.
pub type ReplaceTurn = StartTurn;

/// Changes a session; what is absent stays, `null` takes a value away.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchSession {
    /// Its title.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<filrouge_types::schema::Label>))]
    pub title: Option<Option<Box<str>>>,
    /// Whether it goes on.
    #[serde(default, deserialize_with = "not_null")]
    #[cfg_attr(feature = "openapi", schema(value_type = SessionStatus, required = false))]
    pub status: Option<SessionStatus>,
    /// The application's label.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<filrouge_types::schema::Label>))]
    pub state: Option<Option<Box<str>>>,
    /// Its project.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<ProjectId>))]
    pub project_id: Option<Option<ProjectId>>,
    /// Merged into its metadata as a JSON merge patch (RFC 7396).
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Option<RawJson>>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

/// Ends a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloseSession {
    /// Why, at most 4096 bytes; stays in the journal.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<filrouge_types::schema::Label>))]
    pub reason: Option<Box<str>>,
    /// The fence of the lease that the session is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}

/// Gives an anonymous session its owner.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkSession {
    /// The owner.
    pub identity_id: IdentityId,
}

/// Records an event of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordEvent {
    /// The caller's key: with the same key nothing is recorded twice.
    pub key: EventKey,
    /// What kind of event it is, such as `call_started`.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Word))]
    pub kind: Box<str>,
    /// When it happened; now when absent.
    pub at: Option<Timestamp>,
    /// The application's data, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub detail: Option<RawJson>,
}

/// One more than a turn can hold, so that too many are still seen to be.
fn items<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ItemBody>, D::Error> {
    let most = usize::try_from(TURN_ITEMS_MAX).unwrap_or(usize::MAX);
    objects(d, most.saturating_add(1))
}

/// A value that is there, if only as `null`: a patch tells it from one that is absent.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

/// A value that can be left out and not be taken away.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

pub(crate) fn optional_bytes(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(|| vec![0], |t| [b"1", t.as_bytes()].concat())
}
