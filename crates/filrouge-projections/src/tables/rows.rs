//! The rows of a session.

use filrouge_types::{
    Application, Channel, Checkpoint, Item, JsonText, Role, Session, SessionEvent, SessionStatus,
    Turn, Variant,
};
use serde_json::{Map, Value};

use super::definition::{
    CALL_MESSAGES, CALL_SESSIONS, CALL_STATE_CHECKPOINTS, EVENTS, ITEMS, IVR_EVENTS, SESSIONS,
    TURNS, Table,
};
use super::values::{json, json_text, label, optional_json, optional_time, text, time};
use crate::{Row, SessionUpdate};

/// The rows of a session, or of its turns in the update: its own row, those of these turns and their items, and those
/// of all its events. With `tenant_id`, also those of the voice design, under this number of the tenant.
pub(crate) fn rows(update: &SessionUpdate, tenant_id: Option<i32>) -> Vec<Row> {
    let tenant = update.key.tenant.as_str();
    let session = update.key.session.as_str();
    let recorded = &update.recorded;
    let mut rows = vec![session_row(&recorded.session, tenant)];
    for (turn, items) in &recorded.turns {
        rows.push(turn_row(turn, tenant));
        rows.extend(items.iter().map(|item| item_row(item, tenant, session)));
    }
    let loose = recorded.loose.iter();
    rows.extend(loose.map(|item| item_row(item, tenant, session)));
    let events = update.events.iter();
    rows.extend(events.map(|event| event_row(event, tenant, session)));
    if let Some(number) = tenant_id {
        let call = Call {
            number,
            tenant,
            id: session,
        };
        call.add_rows(update, &mut rows);
    }
    rows
}

/// A row with these values. They are those of all columns.
fn row<const N: usize>(table: &Table, values: [(&'static str, Value); N]) -> Row {
    debug_assert!(has_all_columns(table, &values), "{}", table.name);
    let values = values.map(|(name, value)| (name.to_owned(), value));
    let content = Map::from_iter(values);
    Row {
        table: table.name,
        id: row_id(table, &content),
        content,
    }
}

fn has_all_columns(table: &Table, values: &[(&'static str, Value)]) -> bool {
    let has = |name: &str| values.iter().any(|(other, _)| *other == name);
    table.columns.len() == values.len() && table.columns.iter().all(|column| has(column.name))
}

/// The id of a row: the values of its key as a JSON array.
pub(crate) fn row_id(table: &Table, content: &Map<String, Value>) -> String {
    let key = table.key.iter();
    let values = key.map(|name| content.get(*name).cloned().unwrap_or_default());
    Value::Array(values.collect()).to_string()
}

fn session_row(session: &Session, tenant: &str) -> Row {
    let identity = session.identity_id.as_ref().map(|id| id.as_str());
    let parent = session.parent_session_id.as_ref().map(|id| id.as_str());
    let project = session.project_id.as_ref().map(|id| id.as_str());
    row(
        &SESSIONS,
        [
            ("tenant", text(tenant)),
            ("session_id", text(session.session_id.as_str())),
            ("identity_id", label(identity)),
            ("parent_session_id", label(parent)),
            ("project_id", label(project)),
            ("team_id", label(session.team_id.as_deref())),
            ("title", label(session.title.as_deref())),
            ("status", text(session.status.as_str())),
            ("state", label(session.state.as_deref())),
            ("last_seq", session.last_seq.into()),
            ("turn_count", session.turn_count.into()),
            ("metadata", json(&session.metadata)),
            ("created_at", time(session.created_at)),
            ("updated_at", time(session.updated_at)),
        ],
    )
}

fn turn_row(turn: &Turn, tenant: &str) -> Row {
    let labels = turn.application.labels();
    let [first, second, third] = labels.map(|of_turn| (of_turn.name, label(of_turn.value)));
    let is_translated = turn.application.wants_translation();
    let identity = turn.identity_id.as_ref().map(|id| id.as_str());
    let replaced_by = turn.replaced_by_turn_id.map(|id| id.to_string());
    row(
        &TURNS,
        [
            ("tenant", text(tenant)),
            ("turn_id", text(&turn.turn_id.to_string())),
            ("session_id", text(turn.session_id.as_str())),
            ("identity_id", label(identity)),
            ("request_id", text(turn.request_id.as_str())),
            ("created_at", time(turn.created_at)),
            ("finalized_at", optional_time(turn.finalized_at)),
            first,
            second,
            third,
            (Application::NAMES[3], is_translated.into()),
            ("question_neutral", json_text(&turn.question_neutral)),
            ("answer_neutral", json_text(&turn.answer_neutral)),
            ("question_translated", json_text(&turn.question_translated)),
            ("answer_translated", json_text(&turn.answer_translated)),
            (
                "answer_translated_is_fallback",
                turn.answer_translated_is_fallback.into(),
            ),
            ("metadata", json(&turn.metadata)),
            ("record_version", turn.record_version.into()),
            ("replaced_by_turn_id", label(replaced_by.as_deref())),
            ("deleted_at", optional_time(turn.deleted_at)),
            ("ordinal", turn.ordinal.into()),
            ("status", text(turn.status.as_str())),
            ("first_seq", turn.first_seq.into()),
            ("last_seq", turn.last_seq.into()),
        ],
    )
}

fn item_row(item: &Item, tenant: &str, session: &str) -> Row {
    let body = &item.body;
    let turn = item.turn_id.map(|id| id.to_string());
    let item_id = body.item_id.as_ref().map(|id| id.as_str());
    row(
        &ITEMS,
        [
            ("tenant", text(tenant)),
            ("session_id", text(session)),
            ("seq", item.seq.into()),
            ("turn_id", label(turn.as_deref())),
            ("item_id", label(item_id)),
            ("role", text(body.role.as_str())),
            ("channel", text(body.channel.as_str())),
            ("variant", text(body.variant.as_str())),
            ("text", json_text(&body.text())),
            ("parts", json(&body.parts)),
            ("agent", label(body.agent.as_deref())),
            ("model", label(body.model.as_deref())),
            ("usage", optional_json(body.usage.as_ref())),
            ("metadata", optional_json(body.metadata.as_ref())),
            ("occurred_at", optional_time(body.occurred_at)),
            ("created_at", time(item.created_at)),
            ("redacted", item.redacted.into()),
        ],
    )
}

fn event_row(event: &SessionEvent, tenant: &str, session: &str) -> Row {
    row(
        &EVENTS,
        [
            ("tenant", text(tenant)),
            ("session_id", text(session)),
            ("key", text(event.key.as_str())),
            ("kind", text(&event.kind)),
            ("at", time(event.at)),
            ("detail", optional_json(event.detail.as_ref())),
            ("created_at", time(event.created_at)),
        ],
    )
}

/// A session in the voice design's tables.
struct Call<'a> {
    /// The number of its tenant.
    number: i32,
    tenant: &'a str,
    id: &'a str,
}

impl Call<'_> {
    fn add_rows(&self, update: &SessionUpdate, rows: &mut Vec<Row>) {
        let recorded = &update.recorded;
        rows.push(self.session_row(&recorded.session));
        let items = recorded.turns.iter().flat_map(|(_, items)| items);
        let items = items.chain(&recorded.loose);
        rows.extend(items.filter_map(|item| self.message_row(item)));
        let checkpoints = update.checkpoints.iter();
        rows.extend(checkpoints.map(|checkpoint| self.checkpoint_row(checkpoint)));
        rows.extend(update.events.iter().map(|event| self.event_row(event)));
    }

    fn session_row(&self, session: &Session) -> Row {
        let status = match session.status {
            SessionStatus::Active | SessionStatus::Paused => "active",
            SessionStatus::Closed => "closed",
        };
        row(
            &CALL_SESSIONS,
            [
                ("tenant_id", self.number.into()),
                ("tenant", text(self.tenant)),
                ("call_id", text(self.id)),
                ("status", text(status)),
                ("started_at", time(session.created_at)),
                ("updated_at", time(session.updated_at)),
                ("last_state", label(session.state.as_deref())),
                ("last_seq", session.last_seq.into()),
            ],
        )
    }

    /// The row of a question or an answer in the agent's language, or of the part of an answer that was said before the
    /// turn was interrupted; `None` for other items.
    fn message_row(&self, item: &Item) -> Option<Row> {
        let body = &item.body;
        let role = match (&body.channel, body.role) {
            (Channel::Question, Role::User) => "user",
            (Channel::Final | Channel::Partial, Role::Assistant) => "agent",
            _ => return None,
        };
        if body.variant != Variant::Neutral {
            return None;
        }
        let spoken = body.text().map(|text: JsonText| text.to_plain());
        Some(row(
            &CALL_MESSAGES,
            [
                ("tenant_id", self.number.into()),
                ("tenant", text(self.tenant)),
                ("call_id", text(self.id)),
                ("seq", item.seq.into()),
                ("role", text(role)),
                ("text", label(spoken.as_deref())),
                ("ts", time(item.when())),
            ],
        ))
    }

    fn checkpoint_row(&self, checkpoint: &Checkpoint) -> Row {
        row(
            &CALL_STATE_CHECKPOINTS,
            [
                ("tenant_id", self.number.into()),
                ("tenant", text(self.tenant)),
                ("call_id", text(self.id)),
                ("seq", checkpoint.seq.into()),
                ("state_json", json(&checkpoint.state)),
                ("ts", time(checkpoint.created_at)),
            ],
        )
    }

    fn event_row(&self, event: &SessionEvent) -> Row {
        row(
            &IVR_EVENTS,
            [
                ("tenant_id", self.number.into()),
                ("tenant", text(self.tenant)),
                ("call_id", text(self.id)),
                ("event_key", text(event.key.as_str())),
                ("event", text(&event.kind)),
                ("detail", optional_json(event.detail.as_ref())),
                ("ts", time(event.at)),
                ("created_at", time(event.created_at)),
            ],
        )
    }
}
