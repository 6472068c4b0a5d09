//! A comparison names each row that differs, and no contents.

use super::world::World;
use crate::DifferenceKind;

#[tokio::test]
async fn each_difference_is_named() {
    let world = World::new();
    for session in ["a", "b", "c"] {
        world.create_with_secret(session).await;
    }
    world.fill().await;
    world.check().await;
    world.target.tamper(|rows| {
        let find = |rows: &std::collections::BTreeMap<_, (u64, crate::Row)>, name: &str| {
            let found = rows.iter().find(|(_, (_, row))| row.id == name);
            let (at, stored): (&(crate::SessionKey, &'static str, String), _) = found.unwrap();
            (at.clone(), stored.clone())
        };
        let (at, mut changed) = find(rows, "a");
        changed
            .1
            .content
            .insert("title".to_owned(), "forged".into());
        changed.1.content.insert("more".to_owned(), 1.into());
        rows.insert(at, changed);
        let (at, _) = find(rows, "b/1");
        rows.remove(&at);
        let (mut at, mut added) = find(rows, "c");
        added.1.id = "gone".to_owned();
        at.0.session = "gone".parse().unwrap();
        at.2 = "gone".to_owned();
        rows.insert(at, added);
    });
    let (verified, differences) = world.verify().await;
    assert_eq!(verified.differences, 3);
    let named: Vec<_> = differences
        .iter()
        .map(|d| (d.kind, d.table, d.id.as_str(), d.columns.join(",")))
        .collect();
    let none = String::new;
    assert_eq!(
        named,
        [
            (
                DifferenceKind::Different,
                "sessions",
                "a",
                "more,title".to_owned()
            ),
            (DifferenceKind::Missing, "items", "b/1", none()),
            (DifferenceKind::Extra, "sessions", "gone", none()),
        ]
    );
    let json = serde_json::to_string(&differences).unwrap();
    assert!(!json.contains("forged"), "{json}");
}

#[tokio::test]
async fn a_projection_without_a_generation_is_not_compared() {
    let world = World::new();
    let refused = crate::verify(&world.engine, &world.projection, |_| {}).await;
    assert!(refused.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_answer_is_waited_for_once() {
    let world = World::new();
    for session in ["a", "b", "c"] {
        world.create(session).await;
    }
    world.fill().await;
    let calls = world.target.calls();
    world.target.hang_at(2, false);
    let ended = crate::verify(&world.engine, &world.projection, |_| {}).await;
    let ended = ended.unwrap_err().to_string();
    assert_eq!(
        ended,
        "the target: no answer within 20000 ms; the comparison ended there, so it is unknown whether the projection \
         is equal"
    );
    assert_eq!(world.target.calls(), calls + 2);
}
