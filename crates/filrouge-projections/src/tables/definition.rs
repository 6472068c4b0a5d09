//! The tables, as data. The statements of both databases, the rows, the Parquet files and the page
//! `docs/projections-tables.md` follow from it.

use filrouge_types::Application;

/// A type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A whole number of 32 bits, as the voice design has them.
    Small,
    /// True or false.
    Boolean,
    /// A time in UTC, to the microsecond.
    Time,
    /// Any JSON value.
    Json,
    /// A UUID.
    Uuid,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
}

/// A table. Besides its columns it has the column [`VERSION`].
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The column with the session's id. The tenant is in the column [`TENANT`].
    pub session: &'static str,
    /// The columns that identify a row; the first two are the tenant and the session.
    pub key: &'static [&'static str],
    /// The column with the time by whose day Parquet files are divided.
    pub day: &'static str,
    /// All columns, in order.
    pub columns: &'static [Column],
    /// The columns of each index besides that of the key.
    pub indexes: &'static [&'static [&'static str]],
}

impl Table {
    /// The table with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }
}

/// The column with the tenant of a row.
pub const TENANT: &str = "tenant";
/// The column with the version of a row: the number of the newest commit of its session's lane when it was read.
pub const VERSION: &str = "version";

const fn text(name: &'static str) -> Column {
    let kind = Kind::Text;
    Column { name, kind }
}

const fn integer(name: &'static str) -> Column {
    let kind = Kind::Integer;
    Column { name, kind }
}

const fn small(name: &'static str) -> Column {
    let kind = Kind::Small;
    Column { name, kind }
}

const fn boolean(name: &'static str) -> Column {
    let kind = Kind::Boolean;
    Column { name, kind }
}

const fn time(name: &'static str) -> Column {
    let kind = Kind::Time;
    Column { name, kind }
}

const fn json(name: &'static str) -> Column {
    let kind = Kind::Json;
    Column { name, kind }
}

const fn uuid(name: &'static str) -> Column {
    let kind = Kind::Uuid;
    Column { name, kind }
}

/// One row per session.
pub(super) const SESSIONS: Table = Table {
    name: "sessions",
    session: "session_id",
    key: &[TENANT, "session_id"],
    day: "created_at",
    columns: &[
        text(TENANT),
        text("session_id"),
        text("identity_id"),
        text("parent_session_id"),
        text("project_id"),
        text("team_id"),
        text("title"),
        text("status"),
        text("state"),
        integer("last_seq"),
        integer("turn_count"),
        json("metadata"),
        time("created_at"),
        time("updated_at"),
    ],
    indexes: &[&["created_at"], &[TENANT, "identity_id", "created_at"]],
};

/// One row per turn, in the columns of the history contract.
pub(super) const TURNS: Table = Table {
    name: "turns",
    session: "session_id",
    key: &[TENANT, "session_id", "turn_id"],
    day: "created_at",
    columns: &[
        text(TENANT),
        uuid("turn_id"),
        text("session_id"),
        text("identity_id"),
        text("request_id"),
        time("created_at"),
        time("finalized_at"),
        text(Application::NAMES[0]),
        text(Application::NAMES[1]),
        text(Application::NAMES[2]),
        boolean(Application::NAMES[3]),
        text("question_neutral"),
        text("answer_neutral"),
        text("question_translated"),
        text("answer_translated"),
        boolean("answer_translated_is_fallback"),
        json("metadata"),
        integer("record_version"),
        uuid("replaced_by_turn_id"),
        time("deleted_at"),
        integer("ordinal"),
        text("status"),
        integer("first_seq"),
        integer("last_seq"),
    ],
    indexes: &[&["created_at"], &[TENANT, "identity_id", "created_at"]],
};

/// One row per item.
pub(super) const ITEMS: Table = Table {
    name: "items",
    session: "session_id",
    key: &[TENANT, "session_id", "seq"],
    day: "created_at",
    columns: &[
        text(TENANT),
        text("session_id"),
        integer("seq"),
        uuid("turn_id"),
        text("item_id"),
        text("role"),
        text("channel"),
        text("variant"),
        text("text"),
        json("parts"),
        text("agent"),
        text("model"),
        json("usage"),
        json("metadata"),
        time("occurred_at"),
        time("created_at"),
        boolean("redacted"),
    ],
    indexes: &[&["created_at"]],
};

/// One row per event.
pub(super) const EVENTS: Table = Table {
    name: "events",
    session: "session_id",
    key: &[TENANT, "session_id", "key"],
    day: "at",
    columns: &[
        text(TENANT),
        text("session_id"),
        text("key"),
        text("kind"),
        time("at"),
        json("detail"),
        time("created_at"),
    ],
    indexes: &[&["at"]],
};

/// One row per session, as the voice design has it.
pub(super) const CALL_SESSIONS: Table = Table {
    name: "call_sessions",
    session: "call_id",
    key: &[TENANT, "call_id"],
    day: "started_at",
    columns: &[
        small("tenant_id"),
        text(TENANT),
        text("call_id"),
        text("status"),
        time("started_at"),
        time("updated_at"),
        text("last_state"),
        small("last_seq"),
    ],
    indexes: &[&["tenant_id", "call_id"], &["started_at"]],
};

/// One row per message of the user or the agent, as the voice design has it.
pub(super) const CALL_MESSAGES: Table = Table {
    name: "call_messages",
    session: "call_id",
    key: &[TENANT, "call_id", "seq"],
    day: "ts",
    columns: &[
        small("tenant_id"),
        text(TENANT),
        text("call_id"),
        small("seq"),
        text("role"),
        text("text"),
        time("ts"),
    ],
    indexes: &[&["tenant_id", "call_id", "ts"]],
};

/// One row per checkpoint, as the voice design has it.
pub(super) const CALL_STATE_CHECKPOINTS: Table = Table {
    name: "call_state_checkpoints",
    session: "call_id",
    key: &[TENANT, "call_id", "seq"],
    day: "ts",
    columns: &[
        small("tenant_id"),
        text(TENANT),
        text("call_id"),
        small("seq"),
        json("state_json"),
        time("ts"),
    ],
    indexes: &[&["tenant_id", "call_id", "ts"]],
};

/// One row per event, as the voice design's key figures count them.
pub(super) const IVR_EVENTS: Table = Table {
    name: "ivr_events",
    session: "call_id",
    key: &[TENANT, "call_id", "event_key"],
    day: "ts",
    columns: &[
        small("tenant_id"),
        text(TENANT),
        text("call_id"),
        text("event_key"),
        text("event"),
        json("detail"),
        time("ts"),
        time("created_at"),
    ],
    indexes: &[&["tenant_id", "ts"]],
};

/// All tables.
pub const TABLES: &[Table] = &[
    SESSIONS,
    TURNS,
    ITEMS,
    EVENTS,
    CALL_SESSIONS,
    CALL_MESSAGES,
    CALL_STATE_CHECKPOINTS,
    IVR_EVENTS,
];
