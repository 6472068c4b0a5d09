//! Two processes write to one session concurrently: the result equals a serial execution, without lost or repeated
//! writes.

use std::sync::Arc;

use filrouge_store::command::{Command, Outcome, Write, WrittenRange};
use filrouge_store::contract::SameEntropy;
use filrouge_store::contract::differential::{memory_with, session_readings};
use filrouge_store::contract::fixture::{
    anyone, append, cancel, cmd, finalize, keyed, operator, redact_items, replacement, sid,
    start_with,
};
use filrouge_store::hot::{Edition, EphemeralSessions, FieldRetention};
use filrouge_types::RequestId;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::ephemeral::fake_hot_store::FakeHotStore;
use crate::ephemeral::store::{Store, id, tenant};

/// The kind of a write, the number of its request, and a number for its contents.
type RandomStep = (u8, u8, u8);

fn command(store: &Store<FakeHotStore>, (kind, request, more): RandomStep) -> Command {
    let who = anyone();
    let name = format!("r{request}");
    let request_id = RequestId::new(name.as_str()).unwrap();
    let turn = store.keyring.turn_id(&tenant(), &id("s0"), &request_id);
    let write = match kind {
        0 | 1 => Write::Start(Arc::new(start_with(
            &who,
            "s0",
            &name,
            "q",
            None,
            |_, _| {},
        ))),
        2 => {
            let answer = format!("a{}", more % 2);
            let complete = start_with(&who, "s0", &name, "q", Some(&answer), |_, _| {});
            Write::Start(Arc::new(complete))
        }
        3..=6 => append(
            "s0",
            turn,
            vec![keyed(&format!("{request}-{more}"), "x")],
            None,
        ),
        7 => finalize("s0", turn, Some("a")),
        8 => cancel("s0", turn),
        9 => redact_items(
            "s0",
            &[(u64::from(request) + 1, u64::from(request + more) + 1)],
        ),
        _ => replacement(&who, "s0", &format!("v{request}-{more}"), turn, "w"),
    };
    cmd(&who, write)
}

const fn written_range(outcome: &Outcome) -> Option<&WrittenRange> {
    match outcome {
        Outcome::Turn(_, written)
        | Outcome::Appended { written, .. }
        | Outcome::Interrupted(written) => written.as_ref(),
        Outcome::Redacted(redacted) => redacted.written.as_ref(),
        _ => None,
    }
}

/// Executes the lists of commands concurrently; returns the answered writes in the order of their versions.
async fn write_concurrently(
    processes: &[Arc<EphemeralSessions>],
    commands: Vec<Vec<Command>>,
) -> Vec<(Edition, Outcome, Command)> {
    let tasks = commands.into_iter().zip(processes.iter().cycle().cloned());
    let tasks = tasks.map(|(commands, process)| {
        tokio::spawn(async move {
            let mut done = Vec::new();
            for command in commands {
                if let Ok((outcome, edition)) = process.write(&command).await {
                    done.push((edition, outcome, command));
                }
            }
            done
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.unwrap());
    }
    // A write that only read a version is sorted after the write that created it.
    all.sort_by_key(|(edition, outcome, _)| (edition.version, written_range(outcome).is_none()));
    all
}

#[test]
fn concurrent_processes_give_a_serial_result() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut runner = TestRunner::deterministic();
        let steps = proptest::collection::vec((0..11_u8, 0..4_u8, 0..6_u8), 25..26);
        let mut conflicts = 0;
        for _ in 0..8 {
            let mut store = Store::fake();
            store.entropy = Arc::new(SameEntropy);
            let processes = [store.process(), store.process()].map(Arc::new);
            let commands = (0..6).map(|_| {
                let steps: Vec<RandomStep> = steps.new_tree(&mut runner).unwrap().current();
                steps
                    .into_iter()
                    .map(|step| command(&store, step))
                    .collect()
            });
            let done = write_concurrently(&processes, commands.collect()).await;
            let serial = memory_with(store.keyring.clone(), Arc::new(SameEntropy));
            let mut version = 0;
            for (edition, outcome, command) in done {
                let changed = written_range(&outcome).is_some();
                assert_eq!(
                    edition.version,
                    version + u64::from(changed),
                    "every write is in the history"
                );
                version = edition.version;
                let expected = serial.ledger.put(command).await.unwrap();
                assert_eq!(outcome, expected);
            }
            let expected = session_readings(&serial).await;
            for process in processes {
                conflicts += process.counts().conflicts;
                assert_eq!(
                    session_readings(&store.fixture_with(process)).await,
                    expected
                );
            }
            let (_, adopt) = store
                .extract("s0", &FieldRetention::default())
                .await
                .unwrap()
                .unwrap();
            let expected_adoption = serial.adopt_command_for(&operator("t"), "s0").await;
            assert!(adopt.items == expected_adoption.items);
            serial.assert_intact().await;
            assert_eq!(expected_adoption.session.session_id, sid("s0"));
        }
        assert!(conflicts > 0, "no commits conflicted");
    });
}
