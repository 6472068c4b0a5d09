//! Random sessions: their exports are intact, can be imported into other stores and back, and contain no redacted text.

use filrouge_engine::FinalizeTurn;
use filrouge_types::{Item, JsonText, Turn, TurnStatus};
use proptest::prelude::*;

use crate::sessions::{complete_turn, full_item, observation, start, unusual_parts};
use crate::world::{BundleWorld, assert_intact, operator, run, session_id};

/// The kind of step, the turn it concerns, and another number.
type Step = (u8, u8, u8);

/// The number of kinds of steps. Several of them start a turn, because the other steps need open turns.
const KINDS: u8 = 17;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..KINDS, 0..6_u8, 0..9_u8), 1..40)
}

/// Executes one step. Many steps are refused, for example on a closed turn. Returns whether the step had an effect.
async fn execute(world: &BundleWorld, number: usize, (kind, turn_number, variation): Step) -> bool {
    let marker = format!("mark-{number}-");
    let question = format!("\"{marker}?\"");
    // Usually a new request id, otherwise the id of a request that may exist, and may be open or interrupted.
    let request = match variation {
        0..6 => format!("{marker}r"),
        _ => format!("r{turn_number}"),
    };
    let mut turns = world.turns_if_any().await;
    if (3..9).contains(&kind) {
        turns.retain(|turn| turn.status == TurnStatus::Open);
    }
    let turn: Option<&Turn> = turns.get(usize::from(turn_number) % turns.len().max(1));
    let had_effect = match (kind, turn) {
        (0 | 13.., _) => world.start("s", start(&request, &question)).await.is_ok(),
        (1 | 2, _) => {
            let mut request = complete_turn(&request, &question, &format!("\"{marker}!\""));
            request.application.translate_chat = kind == 2;
            request.items.push(observation(&format!("{marker}i")));
            world.start("s", request).await.is_ok()
        }
        (3 | 4, Some(turn)) => {
            let notes = (0..variation).map(|n| observation(&format!("{marker}{n}-")));
            world.append(turn, notes.collect()).await.is_ok()
        }
        (5, Some(turn)) => {
            let item = full_item(&marker, &unusual_parts()[usize::from(variation)]);
            world.append(turn, vec![item]).await.is_ok()
        }
        (6, Some(turn)) => {
            let answer = Some(JsonText::from_plain(&marker));
            let request = FinalizeTurn {
                answer_translated: answer.clone().filter(|_| variation % 2 == 0),
                answer_neutral: answer,
                ..FinalizeTurn::default()
            };
            world.finalize(turn, request).await.is_ok()
        }
        (7, Some(turn)) => world.fail(turn).await.is_ok(),
        (8, Some(turn)) => world.cancel(turn).await.is_ok(),
        (9, _) => world.interrupt_open_turns().await > 0,
        (10, Some(turn)) => {
            let request = complete_turn(&marker, &question, "\"a\"");
            world.replace(turn, request).await.is_ok()
        }
        (11, Some(turn)) => world.redact_turn(turn).await.is_ok(),
        (12, Some(turn)) => {
            let first = turn.first_seq + u64::from(variation) / 2;
            let seqs = [(first, first + u64::from(turn_number))];
            world.redact("s", &seqs).await.is_ok()
        }
        _ => false,
    };
    world.clock.advance(i64::from(variation));
    had_effect
}

impl BundleWorld {
    async fn turns_if_any(&self) -> Vec<Turn> {
        let (caller, id) = (operator(), session_id("s"));
        match self.engine.sessions.get(&caller, &id).await {
            Ok(_) => self.turns("s").await,
            Err(_) => Vec::new(),
        }
    }
}

/// The markers in the contents before that are in no content after.
fn removed_markers(before: &[Item], after: &[Item]) -> Vec<String> {
    let markers = |items: &[Item]| -> Vec<String> {
        let texts = items.iter().flat_map(|i| i.body.parts.as_str().split('"'));
        let markers = texts.filter(|t| t.starts_with("mark-"));
        markers.map(str::to_owned).collect()
    };
    let remaining = markers(after);
    let mut removed = markers(before);
    removed.retain(|marker| !remaining.contains(marker));
    removed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sessions_survive_export_and_import(steps in steps(), redacted in proptest::collection::vec((1..40_u64, 0..4_u64), 0..6)) {
        run(async {
            let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
            first.start("s", start("r0", "\"q\"")).await.unwrap();
            let mut all_items = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                execute(&first, number, *step).await;
                all_items.extend(first.items("s").await);
            }
            let bundle = first.export("s").await;
            assert_intact(&bundle).await;
            second.import(&bundle).await.unwrap();
            second.assert_store_intact().await;
            assert_eq!(first.turns("s").await, second.turns("s").await);
            assert_eq!(first.items("s").await, second.items("s").await);
            let second_bundle = second.export("s").await;
            assert_intact(&second_bundle).await;
            let imported_back = BundleWorld::new(1);
            imported_back.import(&second_bundle).await.unwrap();
            assert_eq!(imported_back.export("s").await, bundle);
            // Then arbitrary items are redacted, in both stores.
            for world in [&first, &second] {
                for (from, variation) in &redacted {
                    // A range that contains a redaction is refused.
                    let _ = world.redact("s", &[(*from, from + variation)]).await;
                }
                let bundle = world.export("s").await;
                assert_intact(&bundle).await;
                for marker in removed_markers(&all_items, &world.items("s").await) {
                    assert!(!bundle.contains(&format!("\"{marker}\"")), "{marker}: {bundle}");
                }
                world.assert_store_intact().await;
                let third_store = BundleWorld::new(3);
                third_store.import(&bundle).await.unwrap();
                third_store.assert_store_intact().await;
            }
        });
    }
}

#[test]
fn every_kind_of_step_has_an_effect() {
    run(async {
        let world = BundleWorld::new(1);
        let mut random = crate::world::Random(7);
        let mut had_effect = [0; KINDS as usize];
        for number in 0..400 {
            let kind = u8::try_from(random.below(usize::from(KINDS))).unwrap();
            let (turn_number, variation) = (random.below(6), random.below(9));
            let step = (
                kind,
                u8::try_from(turn_number).unwrap(),
                u8::try_from(variation).unwrap(),
            );
            had_effect[usize::from(kind)] += u32::from(execute(&world, number, step).await);
        }
        assert!(had_effect.iter().all(|n| *n > 0), "{had_effect:?}");
        world.assert_store_intact().await;
        let report = assert_intact(&world.export("s").await).await;
        assert!(report.turns > 5, "{report:?}");
    });
}
