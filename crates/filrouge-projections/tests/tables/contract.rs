//! What every database of tables does.

use filrouge_projections::{Refused, SessionKey, SessionUpdate, Target, TargetError, Update};
use serde_json::json;

use crate::sessions::{key, removed, session, short_session, turn};
use crate::world::{Place, World, rows, settings, sorted};

pub(crate) async fn rows_are_returned_as_they_were_written(world: &World) {
    let key = key("acme", "été/'\"");
    let update = short_session(&key, 5, "where is\nmy \0 order? 🧵");
    world.tables.create(1).await.unwrap();
    world.write(&update).await;
    let written = sorted(world.tables.rows(&update));
    assert_eq!(world.stored(&key).await, written);
    let ids: std::collections::BTreeSet<_> = written.iter().map(|r| (r.table, &r.id)).collect();
    assert_eq!(ids.len(), written.len());
    // Every table has a row of this session.
    for table in filrouge_projections::tables::TABLES {
        assert!(written.iter().any(|row| row.table == table.name));
    }
    world.write(&update).await;
    assert_eq!(world.stored(&key).await, written);
}

/// The corpus has texts that try to break out of their place in an output, and to act there.
pub(crate) async fn hostile_texts_are_only_texts(world: &World) {
    let corpus = include_str!("../../../../tests/fixtures/hostile-text.json");
    let corpus: serde_json::Value = serde_json::from_str(corpus).unwrap();
    let texts = corpus["texts"].as_array().unwrap().iter();
    let texts: Vec<&str> = texts.map(|text| text.as_str().unwrap()).collect();
    let key = |number: usize| key("acme", &format!("call-{number}"));
    let sessions = texts.iter().enumerate();
    let updates = sessions.map(|(number, text)| {
        let update = short_session(&key(number), 5, text);
        rows(&world.tables, &update)
    });
    world.tables.create(1).await.unwrap();
    world.apply(updates.collect()).await;
    for (number, text) in texts.iter().enumerate() {
        let stored = text.replace('\0', "\u{fffd}");
        assert_eq!(world.questions(&key(number)).await, [stored]);
    }
}

pub(crate) async fn similar_keys_are_kept_apart(world: &World) {
    filrouge_projections::contract::similar_keys_are_kept_apart(&world.tables).await;
}

/// A part of a session: one turn.
fn one_turn(key: &SessionKey, version: u64, number: u8, words: &str) -> SessionUpdate {
    let turns = vec![turn(key.session.as_str(), number, words)];
    SessionUpdate {
        is_entire: false,
        ..session(key, version, turns)
    }
}

pub(crate) async fn an_older_row_never_replaces_a_newer_one(world: &World) {
    let key = key("acme", "call");
    world.tables.create(1).await.unwrap();
    world.write(&one_turn(&key, 7, 1, "newer")).await;
    world.write(&one_turn(&key, 6, 1, "older")).await;
    world.write(&one_turn(&key, 6, 2, "another turn")).await;
    assert_eq!(world.questions(&key).await, ["newer", "another turn"]);
    world.write(&one_turn(&key, 7, 1, "corrected")).await;
    assert_eq!(world.questions(&key).await, ["corrected", "another turn"]);
}

pub(crate) async fn an_entire_update_deletes_other_rows(world: &World) {
    let (call, other) = (key("acme", "call"), key("acme", "other"));
    let two = ["one", "two"].into_iter().zip(1..);
    let turns = two.map(|(words, number)| turn("call", number, words));
    world.tables.create(1).await.unwrap();
    world.write(&session(&call, 5, turns.collect())).await;
    world.write(&short_session(&other, 5, "kept")).await;
    world.write(&one_turn(&call, 6, 1, "uno")).await;
    assert_eq!(world.questions(&call).await, ["uno", "two"]);
    world.write(&short_session(&call, 7, "one")).await;
    assert_eq!(world.questions(&call).await, ["one"]);
    assert_eq!(world.questions(&other).await, ["kept"]);
    // An update that was read before this one has no effect, not even on rows that are no longer stored.
    world.write(&one_turn(&call, 6, 2, "two")).await;
    assert_eq!(world.questions(&call).await, ["one"]);
}

pub(crate) async fn a_removed_session_does_not_come_back(world: &World) {
    let key = key("acme", "call");
    world.tables.create(1).await.unwrap();
    world.write(&short_session(&key, 5, "words")).await;
    world.apply(vec![removed(&key, 8)]).await;
    world.write(&short_session(&key, 7, "late")).await;
    world.write(&one_turn(&key, 6, 2, "late")).await;
    assert_eq!(world.stored(&key).await, []);
    assert_eq!(world.tables.sessions(1, None, 9).await.unwrap(), []);
    // The settings select it again.
    world.write(&short_session(&key, 9, "words")).await;
    assert_eq!(world.questions(&key).await, ["words"]);
    assert_eq!(world.tables.sessions(1, None, 9).await.unwrap(), [key]);
}

pub(crate) async fn a_cleaned_session_does_not_come_back(world: &World) {
    let key = key("acme", "call");
    for generation in [1, 2] {
        world.tables.create(generation).await.unwrap();
        let update = rows(&world.tables, &short_session(&key, 5, "words"));
        world.tables.write(generation, vec![update]).await.unwrap();
    }
    let cleaned = world.tables.clean(&key, 6).await.unwrap();
    match world.place {
        Place::Sqlite(_) => assert_eq!(cleaned.remains, None),
        Place::Postgres(_) => assert!(cleaned.remains.unwrap().contains("vacuumed")),
    }
    for generation in [1, 2] {
        assert_eq!(world.tables.stored(generation, &key).await.unwrap(), []);
        assert_eq!(
            world.tables.sessions(generation, None, 9).await.unwrap(),
            []
        );
    }
    world.write(&short_session(&key, 5, "late")).await;
    assert_eq!(world.stored(&key).await, []);
    // What was read after the erasure stays.
    world.write(&short_session(&key, 7, "newer")).await;
    world.tables.clean(&key, 6).await.unwrap();
    assert_eq!(world.questions(&key).await, ["newer"]);
}

pub(crate) async fn several_updates_of_a_session_are_applied_in_order(world: &World) {
    let (call, other) = (key("acme", "call"), key("acme", "other"));
    let update =
        |key: &SessionKey, version, words| rows(&world.tables, &short_session(key, version, words));
    world.tables.create(1).await.unwrap();
    let updates = vec![
        update(&call, 5, "first"),
        update(&other, 5, "other"),
        removed(&call, 6),
        update(&call, 7, "second"),
    ];
    world.apply(updates).await;
    assert_eq!(world.questions(&call).await, ["second"]);
    assert_eq!(world.questions(&other).await, ["other"]);
    world.apply(Vec::new()).await;
}

pub(crate) async fn many_rows_are_written(world: &World) {
    let key = key("acme", "call");
    let words = "word ".repeat(20_000);
    let turns = (1..=100).map(|number| turn("call", number, &words));
    world.tables.create(1).await.unwrap();
    world.write(&session(&key, 5, turns.collect())).await;
    let questions = world.questions(&key).await;
    assert_eq!(questions.len(), 100);
    assert!(questions.iter().all(|question| *question == words));
}

pub(crate) async fn a_refused_update_does_not_affect_others(world: &World) {
    filrouge_projections::contract::a_refused_session_harms_no_other(&world.tables).await;
    let (bad, good) = (key("acme", "bad"), key("acme", "good"));
    world.tables.create(1).await.unwrap();
    let mut unacceptable = rows(&world.tables, &short_session(&bad, 5, "bad"));
    let Update::Rows { rows: changed, .. } = &mut unacceptable else {
        unreachable!()
    };
    let row = changed.iter_mut().find(|row| row.table == "items").unwrap();
    row.content.insert("seq".to_owned(), json!("many"));
    let acceptable = rows(&world.tables, &short_session(&good, 5, "good"));
    let updates = vec![unacceptable, acceptable, removed(&key("acme", "absent"), 5)];
    let refused = world.tables.write(1, updates).await.unwrap();
    let refused: Vec<_> = refused
        .into_iter()
        .map(|Refused { key, reason }| (key, reason.is_empty()))
        .collect();
    assert_eq!(refused, [(bad.clone(), false)]);
    assert_eq!(world.stored(&bad).await, []);
    assert_eq!(world.questions(&good).await, ["good"]);
}

pub(crate) async fn sessions_are_listed_in_the_order_of_their_keys(world: &World) {
    let mut keys = vec![
        key("acme", "Z"),
        key("acme", "_"),
        key("acme", "a"),
        key("acme", "é"),
        key("Acme", "z"),
    ];
    world.tables.create(1).await.unwrap();
    for key in &keys {
        world.write(&short_session(key, 5, "words")).await;
    }
    keys.sort();
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = world.tables.sessions(1, after.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        listed.extend(page);
    }
    assert_eq!(listed, keys);
}

pub(crate) async fn queries_see_the_published_generation(world: &World) {
    let tables = &world.tables;
    assert_eq!(tables.published().await.unwrap(), None);
    let key = key("acme", "call");
    for (generation, words) in [(1, "first"), (2, "second")] {
        tables.create(generation).await.unwrap();
        tables.create(generation).await.unwrap();
        let update = rows(tables, &short_session(&key, 5, words));
        tables.write(generation, vec![update]).await.unwrap();
        assert_eq!(
            tables.published().await.unwrap(),
            (generation > 1).then_some(1)
        );
        tables.publish(generation).await.unwrap();
        tables.publish(generation).await.unwrap();
        assert_eq!(tables.published().await.unwrap(), Some(generation));
        let seen = world.value("SELECT question_neutral FROM turns").await;
        assert_eq!(seen, words);
    }
    assert_eq!(world.value("SELECT version FROM sessions").await, "5");
    let dropped = tables.stored(1, &key).await;
    assert!(matches!(dropped, Err(TargetError::Altered(_))));
    let absent = tables.publish(1).await;
    assert!(matches!(absent, Err(TargetError::Altered(_))));
    // Another process sees the same.
    let again = world.place.open(settings());
    assert_eq!(again.published().await.unwrap(), Some(2));
    assert_eq!(again.sessions(2, None, 9).await.unwrap(), [key]);
}

pub(crate) async fn a_generation_has_one_stamp(world: &World) {
    filrouge_projections::contract::a_generation_has_one_stamp(&world.tables).await;
}

pub(crate) async fn an_altered_generation_is_noticed(world: &World) {
    let tables = &world.tables;
    tables.create(1).await.unwrap();
    world.change("DROP TABLE turns_g1").await;
    let update = rows(tables, &short_session(&key("acme", "call"), 5, "words"));
    let written = tables.write(1, vec![update]).await;
    assert!(matches!(written, Err(TargetError::Altered(_))));
    let changed = "UPDATE projection_generation SET structure = 'older'";
    world.change(changed).await;
    let created = tables.create(1).await;
    assert!(matches!(created, Err(TargetError::Altered(_))));
}

pub(crate) async fn tables_of_others_are_left_alone(world: &World) {
    if let Place::Postgres(_) = world.place {
        world.tables.create(1).await.unwrap();
        let drop = "DROP TABLE projection_generation";
        world.change(drop).await;
    } else {
        world.change("CREATE TABLE sessions (id INTEGER)").await;
    }
    let created = world.tables.create(1).await;
    assert!(matches!(created, Err(TargetError::Refused(_))));
}
