//! Sessions as the projector reads them.

use filrouge_projections::{SessionKey, SessionUpdate, Update};
use filrouge_types::{
    Application, Channel, Checkpoint, EventKey, Item, ItemBody, JsonText, RawJson, Recorded,
    RequestId, Role, Session, SessionEvent, SessionId, SessionStatus, TenantId, Timestamp, Turn,
    TurnId, TurnStatus, Variant,
};

/// 2026-11-30T00:00:00Z.
pub(crate) const MIDNIGHT: i64 = 1_795_996_800_000_000;

pub(crate) fn key(tenant: &str, session: &str) -> SessionKey {
    SessionKey {
        tenant: TenantId::new(tenant).unwrap(),
        session: SessionId::new(session).unwrap(),
    }
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(MIDNIGHT + seconds * 1_000_000 + 123_456)
}

pub(crate) fn event(key: &str, kind: &str) -> SessionEvent {
    SessionEvent {
        key: EventKey::new(key).unwrap(),
        kind: kind.into(),
        at: at(1),
        detail: Some(json(r#"{"line": 7}"#)),
        created_at: at(2),
    }
}

fn item(seq: u64, turn: Option<TurnId>, role: Role, channel: Channel, text: &str) -> Item {
    let text = JsonText::from_plain(text);
    let body = ItemBody::from_text(role, channel, Variant::Neutral, &text);
    Item {
        seq,
        turn_id: turn,
        created_at: at(seq.cast_signed()),
        redacted: false,
        body,
    }
}

/// A turn with a question and an answer. Its number also determines its seqs.
pub(crate) fn turn(session: &str, number: u8, words: &str) -> (Turn, Vec<Item>) {
    let id = TurnId::from_derived([number; 16]);
    let seq = u64::from(number) * 2 - 1;
    let turn = Turn {
        turn_id: id,
        session_id: SessionId::new(session).unwrap(),
        request_id: RequestId::new(format!("request-{number}")).unwrap(),
        ordinal: number.into(),
        status: TurnStatus::Finalized,
        identity_id: None,
        question_neutral: Some(JsonText::from_plain(words)),
        question_translated: None,
        answer_neutral: Some(JsonText::from_plain("oui")),
        answer_translated: None,
        answer_translated_is_fallback: false,
        application: Application {
            consultant: Some("ada".into()),
            ..Application::default()
        },
        metadata: json(
            r#"{"n": [1e2, 2.50, 1e16, -0.0], "nul\u0000": "\u0000", "lone": "\ud800"}"#,
        ),
        first_seq: seq,
        last_seq: seq + 1,
        record_version: 1,
        replaced_by_turn_id: None,
        created_at: at(seq.cast_signed()),
        finalized_at: Some(Timestamp::from_micros(-1)),
        deleted_at: None,
        replayed: false,
        differs: false,
    };
    let items = vec![
        item(seq, Some(id), Role::User, Channel::Question, words),
        item(seq + 1, Some(id), Role::Assistant, Channel::Final, "oui"),
    ];
    (turn, items)
}

/// A session with these turns, as it was read at `version`.
pub(crate) fn session(
    key: &SessionKey,
    version: u64,
    turns: Vec<(Turn, Vec<Item>)>,
) -> SessionUpdate {
    let last_seq = turns.last().map_or(0, |(turn, _)| turn.last_seq);
    let session = Session {
        session_id: key.session.clone(),
        tenant_id: key.tenant.clone(),
        identity_id: None,
        parent_session_id: None,
        project_id: None,
        team_id: None,
        title: Some("Ünïcode, \"quotes\" and \0".into()),
        status: SessionStatus::Active,
        state: Some("WAIT_CONFIRM".into()),
        last_seq,
        turn_count: turns.len() as u64,
        metadata: json(r#"{"version": "not the row's"}"#),
        created_at: at(0),
        updated_at: at(9),
        version: [0; 16],
        title_is_derived: false,
        agents: Vec::new(),
    };
    SessionUpdate {
        key: key.clone(),
        version,
        is_entire: true,
        recorded: Recorded {
            session,
            turns,
            loose: Vec::new(),
        },
        events: vec![event("start", "call_started")],
        checkpoints: vec![Checkpoint {
            seq: last_seq,
            label: Some("WAIT_CONFIRM".into()),
            state: json(r#"{"slots": ["9:00", "9:30"]}"#),
            created_at: at(3),
        }],
    }
}

/// A session with one turn.
pub(crate) fn short_session(key: &SessionKey, version: u64, words: &str) -> SessionUpdate {
    let turns = vec![turn(key.session.as_str(), 1, words)];
    session(key, version, turns)
}

/// A session was erased.
pub(crate) fn removed(key: &SessionKey, version: u64) -> Update {
    Update::Removed {
        key: key.clone(),
        version,
    }
}
