//! Bodies of the routes of live calls (DESIGN §6, §12).

use filrouge_types::RawJson;
use serde::Deserialize;

/// Acquires the lease of a session.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireLease {
    /// The holder: a unique name, such as one generated for each webhook.
    #[schema(value_type = filrouge_types::schema::LeaseHolder)]
    pub holder: Box<str>,
    /// Duration of the lease in milliseconds; the server's limit is a setting.
    #[schema(minimum = 1, maximum = 600_000)]
    pub ttl_ms: Option<u64>,
    /// How many milliseconds to wait while another holder has it; the server's limit is a setting.
    #[schema(minimum = 0, maximum = 30_000)]
    pub wait_ms: Option<u64>,
}

/// Renews the lease of a session.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewLease {
    /// The holder.
    #[schema(value_type = filrouge_types::schema::LeaseHolder)]
    pub holder: Box<str>,
    /// The fence of the lease; the header `Filrouge-Fence` may name it instead.
    pub fence: Option<u64>,
    /// Duration in milliseconds, from now on.
    #[schema(minimum = 1, maximum = 600_000)]
    pub ttl_ms: Option<u64>,
}

/// Resumes a session.
#[derive(Debug, Clone, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSession {
    /// The holder: a unique name, such as one generated for each webhook.
    #[schema(value_type = filrouge_types::schema::LeaseHolder)]
    pub holder: Box<str>,
    /// Duration of the lease in milliseconds; the server's limit is a setting.
    #[schema(minimum = 1, maximum = 600_000)]
    pub ttl_ms: Option<u64>,
    /// How many milliseconds to wait while another holder has it; the server's limit is a setting.
    #[schema(minimum = 0, maximum = 30_000)]
    pub wait_ms: Option<u64>,
    /// The seq up to which the caller has its own copy.
    #[schema(format = "uint64", minimum = 0)]
    pub known_seq: Option<u64>,
    /// The fence of the caller's last write. If another holder has had the lease since, the caller's copy counts
    /// as stale even when `known_seq` is current.
    #[schema(format = "uint64", minimum = 0)]
    pub known_fence: Option<u64>,
    /// Whether to create the session if it does not exist.
    #[serde(default)]
    pub create: bool,
}

impl ResumeSession {
    /// Resumes a session with the defaults, creating it if it does not exist.
    pub fn new(holder: impl Into<Box<str>>) -> Self {
        Self {
            holder: holder.into(),
            create: true,
            ..Self::default()
        }
    }
}

/// Saves a checkpoint.
#[derive(Debug, Clone, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SaveCheckpoint {
    /// It covers all items up to this seq; without a seq, all items that exist when it is written.
    pub seq: Option<u64>,
    /// The application's label, such as the state of its state machine; it becomes the session's `state`.
    #[schema(value_type = Option<filrouge_types::schema::Label>)]
    pub label: Option<Box<str>>,
    /// The application's state, a JSON object.
    #[schema(value_type = Object)]
    pub state: RawJson,
    /// The fence of the lease that the caller holds.
    pub fence: Option<u64>,
    /// Whether the write releases the lease.
    #[serde(default)]
    pub release: bool,
}
