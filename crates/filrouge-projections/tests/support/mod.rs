//! What the tests of targets have in common: sessions, and the checks that every target on a server passes.

use filrouge_projections::{Row, SessionKey, SessionUpdate, Target, TargetError, Update};
use filrouge_types::{
    Channel, Item, ItemBody, JsonText, Recorded, Role, Timestamp, Turn, TurnId, Variant,
};
use serde_json::{Value, json};

pub(crate) const ALL: &str = env!("CARGO_TARGET_TMPDIR");

const TIME: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

pub(crate) fn key(tenant: &str, session: &str) -> SessionKey {
    SessionKey {
        tenant: tenant.parse().expect("an id"),
        session: session.parse().expect("an id"),
    }
}

/// An update of an entire session with a turn for each question, which is answered.
pub(crate) fn update(key: &SessionKey, version: u64, questions: &[&str]) -> SessionUpdate {
    let turns = (1..)
        .zip(questions)
        .map(|(n, question)| turn(key, n, question));
    let session = json!({
        "session_id": key.session,
        "tenant_id": key.tenant,
        "identity_id": "anna",
        "title": questions.first(),
        "status": "active",
        "last_seq": 2 * questions.len(),
        "turn_count": questions.len(),
        "metadata": { "device": { "type": "phone" }, "score": 0.1 },
        "created_at": TIME,
        "updated_at": TIME,
    });
    SessionUpdate {
        key: key.clone(),
        version,
        is_entire: true,
        recorded: Recorded {
            session: parsed(&session),
            turns: turns.collect(),
            loose: Vec::new(),
        },
        events: Vec::new(),
        checkpoints: Vec::new(),
    }
}

/// Reads a value from text: its members may be raw JSON.
fn parsed<T: serde::de::DeserializeOwned>(json: &Value) -> T {
    serde_json::from_str(&json.to_string()).expect("valid JSON")
}

fn turn(key: &SessionKey, number: u64, question: &str) -> (Turn, Vec<Item>) {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    let turn_id = TurnId::from_derived(id);
    let answer = format!("An answer to {question}");
    let first_seq = 2 * number - 1;
    let turn = json!({
        "turn_id": turn_id,
        "session_id": key.session,
        "request_id": format!("r{number}"),
        "ordinal": number,
        "status": "finalized",
        "question_neutral": question,
        "answer_neutral": answer,
        "answer_translated_is_fallback": false,
        "translate_chat": false,
        "metadata": {},
        "first_seq": first_seq,
        "last_seq": first_seq + 1,
        "record_version": 1,
        "created_at": TIME,
        "finalized_at": TIME,
        "replayed": false,
        "differs": false,
    });
    let item = |seq, role, channel, text: &str| Item {
        seq,
        turn_id: Some(turn_id),
        created_at: TIME,
        redacted: false,
        body: ItemBody::from_text(role, channel, Variant::Neutral, &JsonText::from_plain(text)),
    };
    let items = vec![
        item(first_seq, Role::User, Channel::Question, question),
        item(first_seq + 1, Role::Assistant, Channel::Final, &answer),
    ];
    (parsed(&turn), items)
}

pub(crate) fn rows_of(target: &dyn Target, update: &SessionUpdate) -> Update {
    Update::Rows {
        key: update.key.clone(),
        version: update.version,
        is_entire: update.is_entire,
        rows: target.rows(update),
    }
}

pub(crate) async fn write(target: &dyn Target, generation: u64, updates: &[SessionUpdate]) {
    let updates = updates.iter().map(|update| rows_of(target, update));
    let refused = target.write(generation, updates.collect()).await;
    let refused = refused.expect("written");
    assert!(refused.is_empty(), "{refused:?}");
}

async fn list(target: &dyn Target, after: Option<&SessionKey>, limit: usize) -> Vec<SessionKey> {
    target.sessions(1, after, limit).await.expect("sessions")
}

/// The stored rows of a session, by table and id.
pub(crate) async fn stored(target: &dyn Target, generation: u64, key: &SessionKey) -> Vec<Row> {
    sorted(target.stored(generation, key).await.expect("rows"))
}

pub(crate) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (a.table, &a.id).cmp(&(b.table, &b.id)));
    rows
}

/// Rows are stored as they were written, and only newer ones replace them.
pub(crate) async fn rows_are_kept_by_version(target: &dyn Target) {
    target.create(1).await.expect("created");
    target.create(1).await.expect("kept");
    let key = key("acme", "Session 1/ä");
    let two = update(&key, 5, &["Who wrote Solaris?", "东京在哪里"]);
    write(target, 1, std::slice::from_ref(&two)).await;
    let rows = sorted(target.rows(&two));
    assert_eq!(stored(target, 1, &key).await, rows);
    // An older write, and the same one again, change nothing.
    write(target, 1, &[update(&key, 4, &["Older?", "Older?"])]).await;
    write(target, 1, std::slice::from_ref(&two)).await;
    assert_eq!(stored(target, 1, &key).await, rows);
    // A newer one deletes the rows that it lacks.
    let one = update(&key, 6, &["Only one?"]);
    write(target, 1, std::slice::from_ref(&one)).await;
    assert_eq!(stored(target, 1, &key).await, sorted(target.rows(&one)));
    // Unless it is not entire.
    let partial = SessionUpdate {
        is_entire: false,
        ..update(&key, 7, &[])
    };
    write(target, 1, &[partial]).await;
    let count = stored(target, 1, &key).await.len();
    assert!(count >= target.rows(&one).len(), "{count}");
}

/// Sessions are listed in the order of their keys, and a removed one is not listed.
pub(crate) async fn sessions_are_listed_and_removed(target: &dyn Target) {
    target.create(1).await.expect("created");
    let keys = [
        key("Zoo", "a"),
        key("acme", "B"),
        key("acme", "a"),
        key("acme", "a b"),
        key("acme", "é"),
        key("über", "a"),
    ];
    let updates: Vec<_> = keys.iter().map(|key| update(key, 3, &["Why?"])).collect();
    write(target, 1, &updates).await;
    assert_eq!(list(target, None, 100).await, keys);
    assert_eq!(list(target, None, 2).await, keys[..2]);
    assert_eq!(list(target, Some(&keys[1]), 2).await, keys[2..4]);
    let removed = Update::Removed {
        key: keys[2].clone(),
        version: 4,
    };
    target.write(1, vec![removed]).await.expect("removed");
    assert!(stored(target, 1, &keys[2]).await.is_empty());
    assert_eq!(list(target, Some(&keys[1]), 1).await, keys[3..4]);
    // Another session stays.
    assert!(!stored(target, 1, &keys[3]).await.is_empty());
    let cleaned = target.clean(&keys[3], 3).await.expect("cleaned");
    assert!(cleaned.remains.is_some());
    assert!(stored(target, 1, &keys[3]).await.is_empty());
    // A newer version stays.
    target.clean(&keys[4], 2).await.expect("cleaned");
    assert!(!stored(target, 1, &keys[4]).await.is_empty());
}

/// Queries see one generation, and a published one replaces all others.
pub(crate) async fn one_generation_is_published(target: &dyn Target) {
    assert_eq!(target.published().await.expect("an answer"), None);
    let key = key("acme", "s1");
    for generation in [1, 2] {
        let before = target.published().await.expect("an answer");
        assert_eq!(before, (generation > 1).then_some(generation - 1));
        target.create(generation).await.expect("created");
        write(target, generation, &[update(&key, 3, &["Why?"])]).await;
        target.publish(generation).await.expect("published");
        let published = target.published().await.expect("an answer");
        assert_eq!(published, Some(generation));
    }
    assert!(!stored(target, 2, &key).await.is_empty());
    let missing = target.stored(1, &key).await;
    assert!(
        matches!(missing, Err(TargetError::Altered(_))),
        "{missing:?}"
    );
    let missing = target.publish(7).await;
    assert!(
        matches!(missing, Err(TargetError::Altered(_))),
        "{missing:?}"
    );
    let rows = rows_of(target, &update(&key, 3, &["Why?"]));
    let missing = target.write(7, vec![rows]).await;
    assert!(
        matches!(missing, Err(TargetError::Altered(_))),
        "{missing:?}"
    );
}

/// All turns of a session are read and replaced, also if none has items, as in a history: then all have the rank 0.
pub(crate) async fn turns_of_one_rank_are_distinguished(target: &dyn Target) {
    target.create(1).await.expect("created");
    let key = key("acme", "s1");
    let mut many = update(&key, 3, &["Why?"; 250]);
    for (turn, items) in &mut many.recorded.turns {
        (turn.first_seq, turn.last_seq) = (0, 0);
        items.clear();
    }
    write(target, 1, std::slice::from_ref(&many)).await;
    assert_eq!(stored(target, 1, &key).await, sorted(target.rows(&many)));
    let one = update(&key, 4, &["Only one?"]);
    write(target, 1, std::slice::from_ref(&one)).await;
    assert_eq!(stored(target, 1, &key).await, sorted(target.rows(&one)));
}
