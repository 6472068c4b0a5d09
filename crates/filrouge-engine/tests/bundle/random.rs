//! Random sessions: their exports are intact, can be imported into other stores and back, and contain no redacted text.

use filrouge_engine::FinalizeTurn;
use filrouge_types::{Item, JsonText, Turn, TurnStatus};
use proptest::prelude::*;

use crate::sessions::{complete_turn, full_item, observation, start, unusual_parts};
use crate::world::{BundleWorld, assert_intact, operator, run, sid};

/// The kind of step, the turn it concerns, and another number.
type Step = (u8, u8, u8);

/// The number of kinds of steps. Several of them start a turn, because the other steps need open turns.
const KINDS: u8 = 17;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..KINDS, 0..6_u8, 0..9_u8), 1..40)
}

/// Executes one step. Many steps are refused, for example on a closed turn. Returns whether the step had an effect.
async fn execute(world: &BundleWorld, number: usize, (kind, which, more): Step) -> bool {
    let mark = format!("mark-{number}-");
    let question = format!("\"{mark}?\"");
    // Mostly new requests, otherwise one that may exist and may be open or interrupted.
    let request = match more {
        0..6 => format!("{mark}r"),
        _ => format!("r{which}"),
    };
    let mut turns = world.turns_if_any().await;
    if (3..9).contains(&kind) {
        turns.retain(|turn| turn.status == TurnStatus::Open);
    }
    let turn: Option<&Turn> = turns.get(usize::from(which) % turns.len().max(1));
    let done = match (kind, turn) {
        (0 | 13.., _) => world.start("s", start(&request, &question)).await.is_ok(),
        (1 | 2, _) => {
            let mut request = complete_turn(&request, &question, &format!("\"{mark}!\""));
            request.application.translate_chat = kind == 2;
            request.items.push(observation(&format!("{mark}i")));
            world.start("s", request).await.is_ok()
        }
        (3 | 4, Some(turn)) => {
            let notes = (0..more).map(|n| observation(&format!("{mark}{n}-")));
            world.append(turn, notes.collect()).await.is_ok()
        }
        (5, Some(turn)) => {
            let item = full_item(&mark, &unusual_parts()[usize::from(more)]);
            world.append(turn, vec![item]).await.is_ok()
        }
        (6, Some(turn)) => {
            let answer = Some(JsonText::from_plain(&mark));
            let request = FinalizeTurn {
                answer_translated: answer.clone().filter(|_| more % 2 == 0),
                answer_neutral: answer,
                ..FinalizeTurn::default()
            };
            world.finalize(turn, request).await.is_ok()
        }
        (7, Some(turn)) => world.fail(turn).await.is_ok(),
        (8, Some(turn)) => world.cancel(turn).await.is_ok(),
        (9, _) => world.interrupt_open_turns().await > 0,
        (10, Some(turn)) => {
            let request = complete_turn(&mark, &question, "\"a\"");
            world.replace(turn, request).await.is_ok()
        }
        (11, Some(turn)) => world.redact_turn(turn).await.is_ok(),
        (12, Some(turn)) => {
            let first = turn.first_seq + u64::from(more) / 2;
            let seqs = [(first, first + u64::from(which))];
            world.redact("s", &seqs).await.is_ok()
        }
        _ => false,
    };
    world.clock.advance(i64::from(more));
    done
}

impl BundleWorld {
    async fn turns_if_any(&self) -> Vec<Turn> {
        let (caller, id) = (operator(), sid("s"));
        match self.engine.sessions.get(&caller, &id).await {
            Ok(_) => self.turns("s").await,
            Err(_) => Vec::new(),
        }
    }
}

/// The marks of contents that no item shows any longer.
fn removed_marks(before: &[Item], after: &[Item]) -> Vec<String> {
    let marks = |items: &[Item]| -> Vec<String> {
        let texts = items.iter().flat_map(|i| i.body.parts.as_str().split('"'));
        let marks = texts.filter(|t| t.starts_with("mark-"));
        marks.map(str::to_owned).collect()
    };
    let remaining = marks(after);
    let mut removed = marks(before);
    removed.retain(|mark| !remaining.contains(mark));
    removed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sessions_survive_export_and_import(steps in steps(), redacted in proptest::collection::vec((1..40_u64, 0..4_u64), 0..6)) {
        run(async {
            let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
            first.start("s", start("r0", "\"q\"")).await.unwrap();
            let mut shown = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                execute(&first, number, *step).await;
                shown.extend(first.items("s").await);
            }
            let bundle = first.export("s").await;
            assert_intact(&bundle).await;
            second.import(&bundle).await.unwrap();
            second.intact().await;
            assert_eq!(first.turns("s").await, second.turns("s").await);
            assert_eq!(first.items("s").await, second.items("s").await);
            let again = second.export("s").await;
            assert_intact(&again).await;
            let imported_back = BundleWorld::new(1);
            imported_back.import(&again).await.unwrap();
            assert_eq!(imported_back.export("s").await, bundle);
            // Then arbitrary items are redacted, in both stores.
            for world in [&first, &second] {
                for (from, more) in &redacted {
                    // A range that contains a redaction is refused.
                    let _ = world.redact("s", &[(*from, from + more)]).await;
                }
                let bundle = world.export("s").await;
                assert_intact(&bundle).await;
                for mark in removed_marks(&shown, &world.items("s").await) {
                    assert!(!bundle.contains(&format!("\"{mark}\"")), "{mark}: {bundle}");
                }
                world.intact().await;
                let third = BundleWorld::new(3);
                third.import(&bundle).await.unwrap();
                third.intact().await;
            }
        });
    }
}

#[test]
fn every_kind_of_step_has_an_effect() {
    run(async {
        let world = BundleWorld::new(1);
        let mut random = crate::world::Random(7);
        let mut done = [0; KINDS as usize];
        for number in 0..400 {
            let kind = u8::try_from(random.below(usize::from(KINDS))).unwrap();
            let (which, more) = (random.below(6), random.below(9));
            let step = (
                kind,
                u8::try_from(which).unwrap(),
                u8::try_from(more).unwrap(),
            );
            done[usize::from(kind)] += u32::from(execute(&world, number, step).await);
        }
        assert!(done.iter().all(|n| *n > 0), "{done:?}");
        world.intact().await;
        let report = assert_intact(&world.export("s").await).await;
        assert!(report.turns > 5, "{report:?}");
    });
}
