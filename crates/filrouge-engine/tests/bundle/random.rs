//! Random journals: their exports are intact, can be imported back, and contain nothing that was redacted.

use filrouge_engine::FinalizeTurn;
use filrouge_types::{Item, JsonText, Turn, TurnStatus};
use proptest::prelude::*;

use crate::journal::{complete_turn, full, note, odd_parts, start};
use crate::world::{BundleWorld, good, operator, run, sid};

/// The kind of step, the turn it concerns, and another number.
type Step = (u8, u8, u8);

/// The number of kinds of steps. Several of them start a turn, because the other steps need open turns.
const KINDS: u8 = 17;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0..KINDS, 0..6_u8, 0..9_u8), 1..40)
}

/// Plays one step. Many steps are refused, for example on a closed turn. Returns whether the step did something.
async fn play(world: &BundleWorld, number: usize, (kind, which, more): Step) -> bool {
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
            request.items.push(note(&format!("{mark}i")));
            world.start("s", request).await.is_ok()
        }
        (3 | 4, Some(turn)) => {
            let notes = (0..more).map(|n| note(&format!("{mark}{n}-")));
            world.append(turn, notes.collect()).await.is_ok()
        }
        (5, Some(turn)) => {
            let item = full(&mark, &odd_parts()[usize::from(more)]);
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
        (9, _) => world.silence().await > 0,
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
fn gone(before: &[Item], after: &[Item]) -> Vec<String> {
    let marks = |items: &[Item]| -> Vec<String> {
        let texts = items.iter().flat_map(|i| i.body.parts.as_str().split('"'));
        let marks = texts.filter(|t| t.starts_with("mark-"));
        marks.map(str::to_owned).collect()
    };
    let remaining = marks(after);
    let mut gone = marks(before);
    gone.retain(|mark| !remaining.contains(mark));
    gone
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_journals_survive_export_and_import(steps in steps(), redacted in proptest::collection::vec((1..40_u64, 0..4_u64), 0..6)) {
        run(async {
            let (here, there) = (BundleWorld::new(1), BundleWorld::new(2));
            here.start("s", start("r0", "\"q\"")).await.unwrap();
            let mut shown = Vec::new();
            for (number, step) in steps.iter().enumerate() {
                play(&here, number, *step).await;
                shown.extend(here.items("s").await);
            }
            let bundle = here.export("s").await;
            good(&bundle).await;
            there.import(&bundle).await.unwrap();
            there.intact().await;
            assert_eq!(here.turns("s").await, there.turns("s").await);
            assert_eq!(here.items("s").await, there.items("s").await);
            let again = there.export("s").await;
            good(&again).await;
            let back = BundleWorld::new(1);
            back.import(&again).await.unwrap();
            assert_eq!(back.export("s").await, bundle);
            // Then arbitrary items are redacted, in both stores.
            for world in [&here, &there] {
                for (first, more) in &redacted {
                    // A range that holds a redaction is refused.
                    let _ = world.redact("s", &[(*first, first + more)]).await;
                }
                let bundle = world.export("s").await;
                good(&bundle).await;
                for mark in gone(&shown, &world.items("s").await) {
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
fn every_kind_of_step_does_something() {
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
            done[usize::from(kind)] += u32::from(play(&world, number, step).await);
        }
        assert!(done.iter().all(|n| *n > 0), "{done:?}");
        world.intact().await;
        let report = good(&world.export("s").await).await;
        assert!(report.turns > 5, "{report:?}");
    });
}
