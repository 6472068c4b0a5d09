//! The suite that every target must pass. Each test gets an empty target.

use filrouge_types::{
    RawJson, Recorded, Session, SessionEvent, SessionId, SessionStatus, TenantId, Timestamp,
};

use serde_json::Value;

use crate::target::{Row, SessionKey, SessionUpdate, Stamp, Target, TargetError, Update};

/// Runs all tests, each with a target that `empty` creates. Panics if the target breaks the contract.
pub async fn run<F, T>(mut empty: impl FnMut() -> F)
where
    F: Future<Output = T>,
    T: Target,
{
    rows_are_stored_as_they_were_made(&empty().await).await;
    a_smaller_version_replaces_nothing(&empty().await).await;
    an_entire_update_deletes_older_rows(&empty().await).await;
    an_update_of_some_rows_deletes_none(&empty().await).await;
    removed_sessions_have_no_rows(&empty().await).await;
    a_refused_session_harms_no_other(&empty().await).await;
    only_one_generation_is_published(&empty().await).await;
    an_existing_generation_is_kept(&empty().await).await;
    cleaning_reaches_all_generations_and_spares_newer_rows(&empty().await).await;
    sessions_are_listed_by_page(&empty().await).await;
    a_generation_has_one_stamp(&empty().await).await;
    similar_keys_are_kept_apart(&empty().await).await;
}

/// A key of the tenant `t`.
#[must_use]
pub fn key(session: &str) -> SessionKey {
    SessionKey {
        tenant: id("t"),
        session: id(session),
    }
}

fn id<T: std::str::FromStr>(text: &str) -> T {
    let parsed = text.parse::<T>();
    parsed.unwrap_or_else(|_| panic!("{text:?} is no id"))
}

/// A session without turns, with this title and this number of events.
#[must_use]
pub fn update(key: &SessionKey, version: u64, title: &str, events: usize) -> SessionUpdate {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    let event = |number: usize| SessionEvent {
        key: id(&format!("e{number}")),
        kind: "call_started".into(),
        at,
        detail: Some(RawJson::from_checked(r#"{"reason":"busy"}"#)),
        created_at: at,
    };
    let (tenant_id, session_id): (TenantId, SessionId) = (key.tenant.clone(), key.session.clone());
    SessionUpdate {
        key: key.clone(),
        version,
        is_entire: true,
        recorded: Recorded {
            session: Session {
                session_id,
                tenant_id,
                identity_id: None,
                parent_session_id: None,
                project_id: None,
                team_id: None,
                title: Some(title.into()),
                status: SessionStatus::Active,
                state: None,
                last_seq: 0,
                turn_count: 0,
                metadata: RawJson::from_checked("{}"),
                created_at: at,
                updated_at: at,
                version: [0; 16],
                title_is_derived: false,
                agents: Vec::new(),
            },
            turns: Vec::new(),
            loose: Vec::new(),
        },
        events: (0..events).map(event).collect(),
        checkpoints: Vec::new(),
    }
}

fn rows_of<T: Target>(target: &T, update: &SessionUpdate, is_entire: bool) -> Update {
    Update::Rows {
        key: update.key.clone(),
        version: update.version,
        is_entire,
        rows: target.rows(update),
    }
}

async fn write<T: Target>(target: &T, generation: u64, updates: Vec<Update>) {
    let refused = checked(target.write(generation, updates).await);
    assert!(refused.is_empty(), "{refused:?}");
}

fn checked<T>(result: Result<T, TargetError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the target failed: {error}"),
    }
}

/// The stored rows of a session, in the order of their tables and ids.
async fn stored<T: Target>(target: &T, generation: u64, key: &SessionKey) -> Vec<Row> {
    sorted(checked(target.stored(generation, key).await))
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (a.table, &a.id).cmp(&(b.table, &b.id)));
    rows
}

async fn rows_are_stored_as_they_were_made<T: Target>(target: &T) {
    checked(target.create(1).await);
    let update = update(&key("s"), 5, "a \"title\"\n\u{1f600}", 3);
    write(target, 1, vec![rows_of(target, &update, true)]).await;
    let rows = sorted(target.rows(&update));
    assert!(!rows.is_empty());
    assert_eq!(stored(target, 1, &update.key).await, rows);
    assert!(stored(target, 1, &key("other")).await.is_empty());
}

async fn a_smaller_version_replaces_nothing<T: Target>(target: &T) {
    checked(target.create(1).await);
    let (newer, older) = (
        update(&key("s"), 7, "new", 1),
        update(&key("s"), 6, "old", 1),
    );
    for update in [&newer, &older, &newer] {
        write(target, 1, vec![rows_of(target, update, true)]).await;
        assert_eq!(
            stored(target, 1, &key("s")).await,
            sorted(target.rows(&newer))
        );
    }
    let newest = update(&key("s"), 8, "newest", 1);
    write(target, 1, vec![rows_of(target, &newest, true)]).await;
    assert_eq!(
        stored(target, 1, &key("s")).await,
        sorted(target.rows(&newest))
    );
}

async fn an_entire_update_deletes_older_rows<T: Target>(target: &T) {
    checked(target.create(1).await);
    for key in [key("s"), key("other")] {
        let large = update(&key, 5, "title", 9);
        write(target, 1, vec![rows_of(target, &large, true)]).await;
    }
    let small = update(&key("s"), 6, "title", 2);
    write(target, 1, vec![rows_of(target, &small, true)]).await;
    assert_eq!(
        stored(target, 1, &key("s")).await,
        sorted(target.rows(&small))
    );
    let other = target.rows(&update(&key("other"), 5, "title", 9));
    assert_eq!(stored(target, 1, &key("other")).await, sorted(other));
}

async fn an_update_of_some_rows_deletes_none<T: Target>(target: &T) {
    checked(target.create(1).await);
    let large = update(&key("s"), 5, "title", 4);
    let small = update(&key("s"), 6, "title", 1);
    let updates = vec![
        rows_of(target, &large, true),
        rows_of(target, &small, false),
    ];
    write(target, 1, updates).await;
    assert_eq!(
        stored(target, 1, &key("s")).await,
        sorted(target.rows(&large))
    );
}

async fn removed_sessions_have_no_rows<T: Target>(target: &T) {
    checked(target.create(1).await);
    let before = update(&key("s"), 5, "title", 2);
    write(target, 1, vec![rows_of(target, &before, true)]).await;
    let removed = Update::Removed {
        key: key("s"),
        version: 6,
    };
    write(target, 1, vec![removed.clone(), removed]).await;
    assert!(stored(target, 1, &key("s")).await.is_empty());
}

/// A session with a value of another type is refused alone, also if others are written with it. The reason does not quote
/// the value. Panics if an empty target does otherwise.
pub async fn a_refused_session_harms_no_other<T: Target>(target: &T) {
    const WRONG: &str = "moonflower";
    checked(target.create(1).await);
    let session = |name| update(&key(name), 5, "title", 2);
    let (before, refused, after) = (session("a"), session("refused"), session("z"));
    let mut wrong = rows_of(target, &refused, true);
    if let Update::Rows { rows, .. } = &mut wrong {
        let mut values = rows.iter_mut().flat_map(|row| row.content.values_mut());
        if let Some(number) = values.find(|value| value.is_number()) {
            *number = Value::from(WRONG);
        }
    }
    let right = [&before, &after].map(|session| rows_of(target, session, true));
    let [first, last] = right;
    let letters = checked(target.write(1, vec![first, wrong, last]).await);
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.key, refused.key);
    assert!(!letter.reason.contains(WRONG), "{}", letter.reason);
    let corrected = update(&refused.key, 6, "title", 2);
    write(target, 1, vec![rows_of(target, &corrected, true)]).await;
    for session in [before, corrected, after] {
        let rows = sorted(target.rows(&session));
        assert_eq!(stored(target, 1, &session.key).await, rows);
    }
}

async fn only_one_generation_is_published<T: Target>(target: &T) {
    assert_eq!(checked(target.published().await), None);
    checked(target.create(3).await);
    assert_eq!(checked(target.published().await), None);
    let first = update(&key("s"), 5, "first", 1);
    write(target, 3, vec![rows_of(target, &first, true)]).await;
    for _ in 0..2 {
        checked(target.publish(3).await);
        assert_eq!(checked(target.published().await), Some(3));
    }
    checked(target.create(4).await);
    let second = update(&key("s"), 4, "second", 1);
    write(target, 4, vec![rows_of(target, &second, true)]).await;
    assert_eq!(
        stored(target, 3, &key("s")).await,
        sorted(target.rows(&first)),
        "generations are independent"
    );
    checked(target.publish(4).await);
    assert_eq!(checked(target.published().await), Some(4));
    assert_eq!(
        stored(target, 4, &key("s")).await,
        sorted(target.rows(&second))
    );
    let gone = target.publish(3).await;
    assert!(matches!(gone, Err(TargetError::Altered(_))), "{gone:?}");
    assert_eq!(checked(target.published().await), Some(4));
}

async fn an_existing_generation_is_kept<T: Target>(target: &T) {
    checked(target.create(1).await);
    let update = update(&key("s"), 5, "title", 1);
    write(target, 1, vec![rows_of(target, &update, true)]).await;
    checked(target.create(1).await);
    assert_eq!(
        stored(target, 1, &key("s")).await,
        sorted(target.rows(&update))
    );
}

async fn cleaning_reaches_all_generations_and_spares_newer_rows<T: Target>(target: &T) {
    for generation in [1, 2] {
        checked(target.create(generation).await);
        for name in ["s", "other"] {
            let update = update(&key(name), 5, "secret", 2);
            write(target, generation, vec![rows_of(target, &update, true)]).await;
        }
    }
    checked(target.clean(&key("s"), 4).await);
    assert!(!stored(target, 1, &key("s")).await.is_empty());
    for _ in 0..2 {
        checked(target.clean(&key("s"), 5).await);
        for generation in [1, 2] {
            assert!(stored(target, generation, &key("s")).await.is_empty());
            assert!(!stored(target, generation, &key("other")).await.is_empty());
        }
    }
    // What is written after the cleaning with a greater version stays.
    let newer = update(&key("s"), 6, "clean", 1);
    write(target, 1, vec![rows_of(target, &newer, true)]).await;
    checked(target.clean(&key("s"), 5).await);
    assert_eq!(
        stored(target, 1, &key("s")).await,
        sorted(target.rows(&newer))
    );
}

async fn sessions_are_listed_by_page<T: Target>(target: &T) {
    checked(target.create(1).await);
    let mut keys = Vec::new();
    for (tenant, session) in [("t", "a"), ("t", "b"), ("t", "c"), ("u", "a"), ("t-2", "z")] {
        keys.push(SessionKey {
            tenant: id(tenant),
            session: id(session),
        });
    }
    for key in &keys {
        let update = update(key, 5, "title", 2);
        write(target, 1, vec![rows_of(target, &update, true)]).await;
    }
    keys.sort();
    let mut listed: Vec<SessionKey> = Vec::new();
    loop {
        let page = checked(target.sessions(1, listed.last(), 2).await);
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, keys);
}

/// A generation has no stamp at first, and then one that only grows.
pub async fn a_generation_has_one_stamp<T: Target>(target: &T) {
    let stamp = |commits: u64| Stamp {
        commits,
        position: format!(r#"[{{"commit":{commits},"link":"'00'"}}]"#),
    };
    let refused = target.set_stamp(1, &stamp(1)).await;
    assert!(
        matches!(refused, Err(TargetError::Altered(_))),
        "{refused:?}"
    );
    for generation in [1, 2] {
        checked(target.create(generation).await);
        assert_eq!(checked(target.stamp(generation).await), None);
    }
    for (commits, stored) in [(5, 5), (4, 5), (5, 5), (6_000_000_000, 6_000_000_000)] {
        checked(target.set_stamp(1, &stamp(commits)).await);
        assert_eq!(checked(target.stamp(1).await), Some(stamp(stored)));
    }
    assert_eq!(checked(target.stamp(2).await), None);
    // It is no session, and it stays with the rows of its generation.
    assert_eq!(checked(target.sessions(1, None, 9).await), []);
    let update = update(&key("s"), 5, "title", 1);
    write(target, 1, vec![rows_of(target, &update, true)]).await;
    checked(target.clean(&key("s"), 5).await);
    checked(target.create(1).await);
    checked(target.publish(1).await);
    assert_eq!(checked(target.stamp(1).await), Some(stamp(6_000_000_000)));
}

/// Tests keys that differ only in case or in white space, and keys with characters that have a meaning in patterns,
/// queries, paths and names of indices. Panics if an empty target mixes them up.
pub async fn similar_keys_are_kept_apart<T: Target>(target: &T) {
    const TENANTS: [&str; 12] = [
        "t", "T", "t ", "t*", "t?", "t%", "t\"", "t') --", "t,T", "t/T", "..", "_all",
    ];
    const SESSIONS: [&str; 6] = ["s", "S", "s*", "s_", "s\\", "s\"}) {"];
    checked(target.create(1).await);
    let sessions_of = |tenant| {
        SESSIONS.map(|session| SessionKey {
            tenant: id(tenant),
            session: id(session),
        })
    };
    let mut keys: Vec<SessionKey> = TENANTS.into_iter().flat_map(sessions_of).collect();
    let update_of = |key: &SessionKey| {
        let title = format!("{} {}", key.tenant, key.session);
        update(key, 5, &title, 1)
    };
    let rows = |key: &SessionKey| rows_of(target, &update_of(key), true);
    write(target, 1, keys.iter().map(rows).collect()).await;
    keys.sort();
    // Each is cleaned alone: all others stay as they were.
    for cleaned in ["t", "t*"] {
        assert_eq!(checked(target.sessions(1, None, 1_000).await), keys);
        for key in &keys {
            let rows = sorted(target.rows(&update_of(key)));
            assert_eq!(stored(target, 1, key).await, rows, "{key:?}");
        }
        for key in sessions_of(cleaned) {
            checked(target.clean(&key, 5).await);
            keys.retain(|other| *other != key);
        }
    }
    assert_eq!(checked(target.sessions(1, None, 1_000).await), keys);
}
