//! One row of the audit.

use filrouge_store::command::Erased;
use filrouge_store::rows::SessionRow;
use filrouge_types::{
    Channel, Failure, IdentityId, ItemId, JsonText, RawJson, RequestId, Role, SessionEvent,
    SessionId, Timestamp, TurnId, Variant,
};
use serde::Serialize;

use crate::refused_links::LINK_REFUSED;
use crate::shared::to_json;

/// The content of an error item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditError {
    /// Its code.
    #[schema(required)]
    pub code: Option<JsonText>,
    /// The message of the error.
    #[schema(required)]
    pub message: Option<JsonText>,
    /// The component that failed.
    #[schema(required)]
    pub source: Option<JsonText>,
    /// Whether a retry could have succeeded.
    #[schema(required)]
    pub retryable: Option<bool>,
}

// The field order is that of the public JSON and of the CSV columns.
/// An item of the ledger, or one of an item's several calls and results: who said or did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditRow {
    /// The session.
    pub session_id: SessionId,
    /// The item's position in it; absent for erasures, refused links, events of shares and damage.
    pub seq: Option<u64>,
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The request that the turn answers.
    pub request_id: Option<RequestId>,
    /// The identity that asked: the turn's end user, else the session's owner.
    pub identity_id: Option<IdentityId>,
    /// When it was committed, by the store that recorded it; for damage, when it was reported.
    pub at: Timestamp,
    /// When it happened, by the caller's clock.
    pub occurred_at: Option<Timestamp>,
    /// The role of its creator.
    pub role: Option<Role>,
    /// The kind of entry; absent for the erasure of a session and for damage.
    pub channel: Option<Channel>,
    /// The language it is in.
    pub variant: Option<Variant>,
    /// The agent that spoke.
    pub agent: Option<Box<str>>,
    /// The model that wrote it.
    pub model: Option<Box<str>>,
    /// The item's texts, in the first of its rows.
    pub text: Option<JsonText>,
    /// The tool that was called, or whose call the result answers.
    pub tool: Option<JsonText>,
    /// The id of the call.
    pub call_id: Option<JsonText>,
    /// The parameters of the call, as recorded.
    #[schema(value_type = Option<Value>)]
    pub args: Option<RawJson>,
    /// Whether the tool succeeded.
    pub ok: Option<bool>,
    /// The duration in milliseconds.
    #[schema(value_type = Option<f64>)]
    pub latency_ms: Option<RawJson>,
    /// The tool's result, as recorded.
    #[schema(value_type = Option<Value>)]
    pub result: Option<RawJson>,
    /// The error that the item records.
    pub error: Option<AuditError>,
    /// Token counts and costs. Only the item's first row has them, so that sums over rows are right.
    #[schema(value_type = Option<Object>)]
    pub usage: Option<RawJson>,
    /// The reason why the model stopped.
    pub finish_reason: Option<JsonText>,
    /// Whether the content was redacted.
    pub redacted: bool,
    /// The caller's key of the item.
    pub item_id: Option<ItemId>,
    /// The item's parts that the other members do not show completely, as recorded: no content is left out.
    #[schema(value_type = Option<Vec<Object>>)]
    pub detail: Option<RawJson>,
}

impl AuditRow {
    /// The row for the erasure of a session.
    pub(super) fn of_erasure(session_id: SessionId, erased: &Erased) -> Self {
        let Erased { items, turns, .. } = erased;
        let detail = format!(r#"[{{"type":"erasure","items":{items},"turns":{turns}}}]"#);
        Self::without_item(session_id, erased.at, detail)
    }

    /// The row for an event that filrouge recorded. `detail` is its data, an object with at least one member. A refused
    /// link is on the channel `link`, an event of a share on the channel `share`.
    pub(super) fn of_event(session: &SessionRow, event: &SessionEvent, detail: &RawJson) -> Self {
        let kind = &event.kind;
        let members = detail.as_str().trim_start_matches('{');
        let channel = match &**kind {
            LINK_REFUSED => Channel::Link,
            _ => Channel::from_word("share"),
        };
        let detail = format!(r#"[{{"type":"{kind}",{members}]"#);
        Self {
            identity_id: session.identity_id.clone(),
            role: Some(Role::System),
            channel: Some(channel),
            ..Self::without_item(session.session_id.clone(), event.created_at, detail)
        }
    }

    /// Whether this is the row for the erasure of a session.
    pub(super) fn is_erasure(&self) -> bool {
        let detail = self.detail.as_ref().map_or("", RawJson::as_str);
        self.channel.is_none() && detail.starts_with(r#"[{"type":"erasure","#)
    }

    /// The row that names a damaged session; `finding` is a JSON object that describes the damage.
    pub(super) fn of_damage(session_id: SessionId, at: Timestamp, finding: &str) -> Self {
        let members = finding.trim_start_matches('{');
        let detail = format!(r#"[{{"type":"damage",{members}]"#);
        Self::without_item(session_id, at, detail)
    }

    /// The row of something that no item records. `detail` is a JSON array.
    fn without_item(session_id: SessionId, at: Timestamp, detail: String) -> Self {
        Self {
            session_id,
            seq: None,
            turn_id: None,
            request_id: None,
            identity_id: None,
            at,
            occurred_at: None,
            role: None,
            channel: None,
            variant: None,
            agent: None,
            model: None,
            text: None,
            tool: None,
            call_id: None,
            args: None,
            ok: None,
            latency_ms: None,
            result: None,
            error: None,
            usage: None,
            finish_reason: None,
            redacted: false,
            item_id: None,
            detail: Some(RawJson::from_checked(detail)),
        }
    }

    /// The names of the members in order: the CSV columns.
    pub const COLUMNS: [&'static str; 25] = [
        "session_id",
        "seq",
        "turn_id",
        "request_id",
        "identity_id",
        "at",
        "occurred_at",
        "role",
        "channel",
        "variant",
        "agent",
        "model",
        "text",
        "tool",
        "call_id",
        "args",
        "ok",
        "latency_ms",
        "result",
        "error",
        "usage",
        "finish_reason",
        "redacted",
        "item_id",
        "detail",
    ];

    /// The row as JSON on one line, with its line feed.
    ///
    /// # Errors
    /// `internal` when it cannot be serialized.
    pub fn json_line(&self) -> Result<String, Failure> {
        let mut line = to_json(self)?;
        // Recorded JSON may contain line ends as white space; within strings they are escaped.
        if line.contains(['\n', '\r']) {
            line = line.replace(['\n', '\r'], " ");
        }
        line.push('\n');
        Ok(line)
    }
}
