//! Random writes have the same effect on every ledger, byte for byte.

use std::sync::Arc;

use filrouge_types::{Channel, FixedClock, ItemBody, ItemId, Timestamp, TurnId};
use proptest::prelude::*;
use tokio::runtime::Builder;

mod fences;
mod reads;
mod writes;

use fences::Fences;
pub use reads::session_readings;
use reads::{answers, readings};
use writes::{draft_write, lease_or_checkpoint_write, session_write};

use super::fixture::{
    CountingEntropy, Fixture, anyone, append, body, cancel, close, cmd, fail, finalize, interrupt,
    item, operator, redact, redact_items, replacement, rid, sid, start, start_with, user,
};
use super::session_writes::{event, json, put_note};
use crate::command::{
    Command, ConcurrentTurns, Ending, FencingToken, NewEvent, NewSession, RedactionTarget, Scope,
    Write,
};
use crate::keyring::{Entropy, Keyring};
use crate::lane::Lanes;
use crate::ledger::Ledger;
use crate::memory::MemoryLedger;

/// A random source that always returns the same bytes, so that a retry has the same result.
#[derive(Debug, Default)]
pub struct SameEntropy;

impl Entropy for SameEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), filrouge_types::Failure> {
        bytes.fill(0);
        Ok(())
    }
}

/// A write as small numbers: kind, caller, session, request, and one parameter.
pub type RandomWrite = (u8, u8, u8, u8, u8);

/// A sequence of random writes.
pub fn steps() -> impl Strategy<Value = Vec<RandomWrite>> {
    proptest::collection::vec((0..46_u8, 0..6_u8, 0..3_u8, 0..4_u8, 0..4_u8), 1..60)
}

fn caller(keyring: &Keyring, n: u8) -> Scope {
    match n {
        0..3 => anyone(),
        3 => user("ann"),
        4 => Scope {
            token: Some(keyring.session_token("secret")),
            ..anyone()
        },
        _ => operator("t"),
    }
}

fn items(request: u8, more: u8) -> Vec<ItemBody> {
    (0..=more)
        .map(|n| {
            let channel = if more == 3 && n == 3 {
                Channel::Final
            } else {
                Channel::Observation
            };
            let mut item_body = item(channel, &format!("{request} {n}"));
            item_body.agent = (n == 1).then(|| format!("agent{request}").into());
            if more != 2 {
                item_body.item_id = ItemId::new(format!("{request}-{n}")).ok();
            }
            item_body
        })
        .collect()
}

fn command(
    keyring: &Keyring,
    prefix: &str,
    step: RandomWrite,
    now: i64,
    log: &[Command],
) -> Command {
    let (kind, who, s, request, more) = step;
    let who = caller(keyring, who);
    let s = format!("{prefix}s{s}");
    let r = format!("r{request}");
    let turn = |r: &str| -> TurnId { keyring.turn_id(&who.tenant, &sid(&s), &rid(r)) };
    let id = turn(&r);
    let write = match kind {
        0 => Write::CreateSession(NewSession::with_id(sid(&s))),
        1 | 2 => {
            let mut command = start(&who, &s, &r, &format!("q{}", more % 2));
            if more == 3 {
                command.concurrent_turns = ConcurrentTurns::Reject;
            }
            Write::Start(Arc::new(command))
        }
        3 => {
            let command = start_with(&who, &s, &r, "q", Some("answer"), |event, items_of_turn| {
                event.application.translate_chat = more == 1;
                items_of_turn.splice(1..1, items(request, more.min(2)));
            });
            Write::Start(Arc::new(command))
        }
        4..=6 => append(
            &s,
            id,
            items(request, more),
            (more == 1).then_some(u64::from(request)),
        ),
        7 => finalize(&s, id, (more > 0).then_some("answer")),
        8 => {
            let translated = Some(filrouge_types::JsonText::from_plain("t"));
            let ending = Ending::Finalize {
                neutral: None,
                translated,
                fallback: Some(more == 1),
            };
            Write::Close(Arc::new(close(&s, id, ending, body("t"))))
        }
        9 => fail(&s, id, &format!("e{}", more % 2)),
        10 => cancel(&s, id),
        11 => interrupt(&s, id, now + i64::from(more) * 10 - 15),
        12 => replacement(&who, &s, &format!("r{more}"), id, "words"),
        13 => append(
            &s,
            TurnId::from_derived([more; 16]),
            items(request, 0),
            None,
        ),
        14 | 15 => redact(&s, RedactionTarget::Turn(id)),
        16 => {
            let first = u64::from(request) * 2 + 1;
            redact_items(&s, &[(first, first + u64::from(more)), (1, 1)])
        }
        17..=21 => session_write(&s, kind - 17, request, more),
        22..=24 => Write::RecordEvent(Box::new(NewEvent {
            at: (more == 1).then(|| Timestamp::from_micros(now)),
            detail: (more == 2).then(|| json(r#"{"a":1}"#)),
            ..event(
                &s,
                &format!("e{request}"),
                if more == 3 { "other" } else { "kind" },
            )
        })),
        30..=33 => draft_write(&s, id, kind - 30, request, more),
        34..=39 => lease_or_checkpoint_write(&s, kind - 34, request, more),
        40..=45 => {
            // The same write under a fence, which may be the newest one.
            let inner = [1, 3, 4, 7, 17, 38][usize::from(kind) - 40];
            let mut held = command(
                keyring,
                prefix,
                (inner, step.1, step.2, request, more),
                now,
                log,
            );
            held.scope.fence = Some(FencingToken {
                fence: u64::from(request),
                release: more % 2 == 1,
                queued: more > 1,
            });
            return held;
        }
        25 | 26 => put_note(&format!("n{}", request / 2), u64::from(more), &[request]),
        _ => match log.get(usize::from(request) * 4 + usize::from(more)) {
            Some(earlier) => return earlier.clone(),
            None => finalize(&s, id, None),
        },
    };
    cmd(&who, write)
}

/// Executes the steps; returns all outcomes.
pub async fn play(f: &Fixture, steps: &[RandomWrite], prefix: &str) -> Vec<String> {
    let mut log = Vec::new();
    let mut results = Vec::new();
    for step in steps {
        let now = filrouge_types::Clock::now(&*f.clock).as_micros();
        let command = command(&f.keyring, prefix, *step, now, &log);
        log.push(command);
        results.extend(play_commands(f, &log[log.len() - 1..]).await);
    }
    results
}

async fn play_commands(f: &Fixture, commands: &[Command]) -> Vec<String> {
    let mut results = Vec::new();
    for command in commands {
        results.push(format!("{:?}", f.ledger.put(command.clone()).await));
        f.clock.advance(7);
    }
    results
}

/// A repeatable random source. Other stores draw a random id when they are created. Drawing one as well keeps later
/// random bytes equal.
fn repeatable_entropy() -> Arc<dyn Entropy> {
    let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
    entropy.fill(&mut [0; 16]).unwrap();
    entropy
}

/// A memory ledger of one lane with repeatable bytes.
pub fn memory(keyring: Arc<Keyring>) -> Fixture {
    memory_with(keyring, repeatable_entropy())
}

/// A memory ledger of one lane with another random source.
pub fn memory_with(keyring: Arc<Keyring>, entropy: Arc<dyn Entropy>) -> Fixture {
    changed_memory(keyring, entropy, |ledger| ledger)
}

/// A memory ledger of several lanes with repeatable bytes.
pub fn memory_with_lanes(keyring: Arc<Keyring>, lanes: Lanes) -> Fixture {
    changed_memory(keyring, repeatable_entropy(), |ledger| {
        ledger.with_lanes(lanes)
    })
}

/// A memory ledger with repeatable bytes and with the id and the number of lanes of another ledger, so that both store
/// the same.
pub fn memory_like(keyring: Arc<Keyring>, other: &dyn Ledger) -> Fixture {
    changed_memory(keyring, repeatable_entropy(), |ledger| {
        ledger
            .with_store_id(other.store_id())
            .with_writer(other.writer())
            .with_lanes(other.lanes())
    })
}

fn changed_memory(
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    change: impl FnOnce(MemoryLedger) -> MemoryLedger,
) -> Fixture {
    let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
    let ledger = MemoryLedger::new(keyring.clone(), entropy, clock.clone());
    Fixture {
        ledger: Arc::new(change(ledger)),
        clock,
        keyring,
        keep: Box::new(()),
    }
}

/// Runs a test with random steps.
fn with_random_steps(
    cases: u32,
    runtime: &mut Builder,
    test: impl AsyncFn(Vec<RandomWrite>) -> Result<(), TestCaseError>,
) {
    let runtime = runtime.enable_all().build().unwrap();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| {
        runtime.block_on(test(steps))?;
    });
}

/// Executes the steps on both ledgers, and compares the outcomes.
async fn play_on_both(
    keyring: &Keyring,
    steps: &[RandomWrite],
    (a, b): (&Fixture, &Fixture),
) -> Result<(), TestCaseError> {
    let mut log = Vec::new();
    for step in steps {
        let now = filrouge_types::Clock::now(&*a.clock).as_micros();
        let command = command(keyring, "", *step, now, &log);
        log.push(command);
        let last = &log[log.len() - 1..];
        prop_assert_eq!(play_commands(a, last).await, play_commands(b, last).await);
    }
    Ok(())
}

/// Applies random writes to a ledger of `make` and to one in memory of as many lanes, and compares outcomes and reads.
/// `make` must use a [`CountingEntropy`] and the clock of [`memory`].
pub fn same_as_memory(cases: u32, make: impl Fn(Arc<Keyring>) -> Fixture) {
    let keyring = Arc::new(Keyring::single([5; 32]));
    with_random_steps(cases, &mut Builder::new_multi_thread(), async |steps| {
        let b = make(keyring.clone());
        let a = memory_like(keyring.clone(), &*b.ledger);
        play_on_both(&keyring, &steps, (&a, &b)).await?;
        for (a, b) in readings(&a).await.iter().zip(&readings(&b).await) {
            prop_assert_eq!(a, b);
        }
        b.assert_intact().await;
        b.ledger.close().await;
        Ok(())
    });
}

/// Applies random writes to a memory ledger of one lane and to one of three, and compares all that callers can see.
pub fn same_with_several_lanes(cases: u32) {
    let keyring = Arc::new(Keyring::single([5; 32]));
    with_random_steps(cases, &mut Builder::new_current_thread(), async |steps| {
        let lanes = Lanes::new(3).unwrap();
        let (a, b) = (
            memory(keyring.clone()),
            memory_with_lanes(keyring.clone(), lanes),
        );
        play_on_both(&keyring, &steps, (&a, &b)).await?;
        prop_assert_eq!(answers(&a).await, answers(&b).await);
        let counts = [&a, &b].map(|f| f.ledger.position().commit_count());
        prop_assert_eq!(counts[0], counts[1]);
        Ok(())
    });
}

/// Like [`same_as_memory`], for writes to one session. `make` returns two ledgers of one store, which write in turn and
/// use [`SameEntropy`]. `done` receives the memory ledger and these two at the end.
pub fn same_in_one_session(
    cases: u32,
    make: impl Fn(Arc<Keyring>) -> [Fixture; 2],
    done: impl AsyncFn(&Fixture, &[Fixture; 2]),
) {
    let keyring = Arc::new(Keyring::single([5; 32]));
    with_random_steps(cases, &mut Builder::new_current_thread(), async |steps| {
        let same = Arc::new(SameEntropy);
        let (a, b) = (memory_with(keyring.clone(), same), make(keyring.clone()));
        let create = cmd(
            &anyone(),
            Write::CreateSession(NewSession::with_id(sid("s0"))),
        );
        let mut log = vec![create];
        // Notes belong to no session.
        for step in steps.iter().filter(|step| !(25..27).contains(&step.0)) {
            let now = filrouge_types::Clock::now(&*a.clock).as_micros();
            let step = (step.0, step.1, 0, step.3, step.4);
            log.push(command(&keyring, "", step, now, &log));
        }
        let mut fences = Fences(0);
        for (one, n) in log.iter().zip(0..) {
            let other = &b[usize::from(n % 3 == 1)];
            let found = play_commands(other, &[fences.to_ledger(one)]).await;
            fences.observe(other).await;
            let expected = play_commands(&a, std::slice::from_ref(one)).await;
            prop_assert_eq!(expected, fences.with_normal_fences(found));
        }
        let expected = session_readings(&a).await;
        for b in &b {
            prop_assert_eq!(
                &expected,
                &fences.with_normal_fences(session_readings(b).await)
            );
        }
        done(&a, &b).await;
        Ok(())
    });
}
