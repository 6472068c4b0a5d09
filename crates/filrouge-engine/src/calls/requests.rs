//! The bodies of the routes of live calls (DESIGN §6, §12).

use filrouge_types::RawJson;
use serde::Deserialize;

/// Takes the lease of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AcquireLease {
    /// Who is to hold the session: a name that nobody else uses, such as one made up for each webhook.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Holder))]
    pub holder: Box<str>,
    /// For how many milliseconds; the server's bound is a setting.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 600_000))]
    pub ttl_ms: Option<u64>,
    /// How many milliseconds to wait while somebody else holds it; the server's bound is a setting.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 30_000))]
    pub wait_ms: Option<u64>,
}

/// Renews the lease of a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenewLease {
    /// Who holds the session.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Holder))]
    pub holder: Box<str>,
    /// The fence that it is held by; `Filrouge-Fence` says it as well.
    pub fence: Option<u64>,
    /// For how many milliseconds from now on.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 600_000))]
    pub ttl_ms: Option<u64>,
}

/// Goes on with a session.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResumeSession {
    /// Who is to hold the session: a name that nobody else uses, such as one made up for each webhook.
    #[cfg_attr(feature = "openapi", schema(value_type = filrouge_types::schema::Holder))]
    pub holder: Box<str>,
    /// For how many milliseconds; the server's bound is a setting.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 600_000))]
    pub ttl_ms: Option<u64>,
    /// How many milliseconds to wait while somebody else holds it; the server's bound is a setting.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 30_000))]
    pub wait_ms: Option<u64>,
    /// The seq up to which the caller has a copy of its own.
    #[cfg_attr(feature = "openapi", schema(format = "uint64", minimum = 0))]
    pub known_seq: Option<u64>,
    /// The fence that the caller has last written under: its copy is stale, too, when somebody has held the session since.
    #[cfg_attr(feature = "openapi", schema(format = "uint64", minimum = 0))]
    pub known_fence: Option<u64>,
    /// Whether the session is made when there is none.
    #[serde(default)]
    pub create: bool,
}

impl ResumeSession {
    /// Goes on with a session for the usual time, making it when there is none.
    #[must_use]
    pub fn new(holder: impl Into<Box<str>>) -> Self {
        Self {
            holder: holder.into(),
            ttl_ms: None,
            wait_ms: None,
            known_seq: None,
            known_fence: None,
            create: true,
        }
    }
}

/// Puts a checkpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SaveCheckpoint {
    /// It covers all items with this seq or less; without one, all that are there when it is written.
    pub seq: Option<u64>,
    /// The application's label, as the state of its state machine; it becomes the session's `state`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<filrouge_types::schema::Label>))]
    pub label: Option<Box<str>>,
    /// The application's state, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub state: RawJson,
    /// The fence of the lease that the session is held by.
    pub fence: Option<u64>,
    /// Whether the write gives the session free.
    #[serde(default)]
    pub release: bool,
}
