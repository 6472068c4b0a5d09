//! Sessions that were not closed, because their record was dropped or their process was killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_team::ledger::{OpenOptions, open_existing, open_new};
use filrouge_team::message::Cut;
use filrouge_team::record::{Record, Status};
use filrouge_types::{Channel, TenantId, TurnStatus};

use crate::persistence::world::{
    World, caller, context, cut_message, engine_at, exchange, message, paused, record_message,
    session_id, team,
};

/// The variable that names the store for a child process.
const STORE: &str = "FILROUGE_TEAM_TEST_STORE";

/// Waits until a draft has this text.
pub(crate) async fn wait_for_draft(world: &World, id: &str, text: &str) {
    loop {
        let drafts = world
            .engine
            .streams
            .unfinished(&caller(), &session_id(id))
            .await;
        if drafts.unwrap().iter().any(|draft| draft.text == text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_message_becomes_one_interrupted_message() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut messages = exchange(&opened.record, 1).await;
    let question = message(3, "Ann", "go on");
    record_message(&opened.record, &question).await;
    let mut speech = opened
        .record
        .begin_message(&message(4, "Coder", ""))
        .await
        .unwrap();
    speech.append("half ").await.unwrap();
    speech.append("of é").await.unwrap();
    wait_for_draft(&world, &id, "half of é").await;
    // Neither the speech nor the record is closed, so the lease expires.
    std::mem::forget(speech);
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    messages.extend([
        question,
        cut_message(message(4, "Coder", "half of é"), Cut::Interrupted),
    ]);
    let mut world = world;
    for round in 0..2 {
        let next = world.other_process();
        let opened = next.open(&id).await;
        assert_eq!(opened.restored.context, context(&messages));
        assert_eq!(opened.restored.highest_message, 4);
        assert_eq!(opened.interrupted.len(), 1 - round);
        assert_eq!(opened.status, Status::Active);
        let turns = next.turns(&id).await;
        assert_eq!(turns[1].status, TurnStatus::Interrupted);
        let items = next.items(&id).await;
        let partial = items
            .iter()
            .filter(|item| item.body.channel == Channel::Partial);
        let ids: Vec<_> = partial
            .map(|item| item.body.item_id.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(ids, ["msg-4"]);
        next.assert_intact().await;
        std::mem::forget(opened);
        next.clock.advance(Duration::from_secs(60));
        world = next;
    }
    let opened = world.other_process().open(&id).await;
    messages.extend(exchange(&opened.record, 5).await);
    opened.record.close(&paused()).await.unwrap();
    let restored = world.other_process().open(&id).await.restored;
    assert_eq!(restored.context, context(&messages));
}

/// A server's sweep may run before the session is opened again. The item then has the draft's id, but is read as the
/// same message.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_before_the_opening_leaves_the_same_message() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    record_message(&opened.record, &message(1, "Ann", "well?")).await;
    let mut speech = opened
        .record
        .begin_message(&message(2, "Coder", ""))
        .await
        .unwrap();
    speech.append("so far").await.unwrap();
    wait_for_draft(&world, &id, "so far").await;
    std::mem::forget(speech);
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    let server = world.other_process();
    assert_eq!(server.engine.upkeep.sweep_streams().await.unwrap(), 1);
    let items = server.items(&id).await;
    assert!(items.iter().any(|item| {
        item.body
            .item_id
            .as_ref()
            .is_some_and(|id| id.as_str().starts_with("st_"))
    }));
    let opened = server.open(&id).await;
    let messages = [
        message(1, "Ann", "well?"),
        cut_message(message(2, "Coder", "so far"), Cut::Interrupted),
    ];
    assert_eq!(opened.restored.context, context(&messages));
    assert_eq!(opened.restored.highest_message, 2);
}

/// A message whose end is recorded is complete, even if its process ends right afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_message_is_complete() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let messages = [message(1, "Ann", "well?"), message(2, "Coder", "all of it")];
    for message in &messages {
        record_message(&opened.record, message).await;
    }
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    let opened = world.other_process().open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
    assert!(opened.interrupted.is_empty());
}

/// A message whose speech is dropped without an end is interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_speech_without_an_end_is_interrupted() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    record_message(&opened.record, &message(1, "Ann", "well?")).await;
    let mut speech = opened
        .record
        .begin_message(&message(2, "Coder", ""))
        .await
        .unwrap();
    speech.append("so").await.unwrap();
    drop(speech);
    // The ledger has processed the interruption once it lets another speech begin.
    loop {
        match opened
            .record
            .begin_message(&message(3, "Planner", ""))
            .await
        {
            Ok(speech) => {
                let answer = message(3, "Planner", "yes");
                speech.end(&answer, None).await.unwrap();
                break;
            }
            Err(failure) => assert_eq!(failure.code, filrouge_types::ErrorCode::StreamOpen),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    opened.record.close(&paused()).await.unwrap();
    let messages = [
        message(1, "Ann", "well?"),
        cut_message(message(2, "Coder", "so"), Cut::Interrupted),
        message(3, "Planner", "yes"),
    ];
    let restored = world.open(&id).await.restored;
    assert_eq!(restored.context, context(&messages));
}

/// Runs in a child process: starts a message, prints the session's id, and waits to be killed.
#[test]
#[ignore = "run by the tests that kill it"]
fn child_starts_a_message_and_waits_to_be_killed() {
    let Ok(store) = std::env::var(STORE) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let clock = std::sync::Arc::new(filrouge_types::SystemClock);
        let settings = filrouge_engine::Settings::default();
        let (engine, _) = engine_at(Path::new(&store), clock, settings);
        let caller = Caller::local(TenantId::default_tenant(), None);
        let options = OpenOptions::new("a child");
        let opened = open_new(engine.clone(), caller.clone(), &team(), options).await;
        let opened = opened.unwrap();
        let id = opened.record.session_id().to_owned();
        exchange(&opened.record, 1).await;
        record_message(&opened.record, &message(3, "Ann", "go on")).await;
        let mut speech = opened
            .record
            .begin_message(&message(4, "Coder", ""))
            .await
            .unwrap();
        speech.append("half an answer").await.unwrap();
        loop {
            let drafts = engine
                .streams
                .unfinished(&caller, &session_id(&id))
                .await
                .unwrap();
            if drafts.iter().any(|draft| !draft.text.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!("\nSESSION {id}");
        std::future::pending::<()>().await;
    });
}

/// Runs a test of this program in a separate process.
pub(crate) fn run_child(name: &str, variables: &[(&str, &Path)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The text after the prefix of the next line that the child prints with it.
pub(crate) fn line_after_prefix(child: &mut Child, prefix: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix(prefix).map(str::to_owned));
    line.expect("the child prints the line before it ends")
}

/// The system reports that the killed process has ended, so its lease delays no other process.
#[test]
fn the_session_of_a_killed_process_is_opened_at_once() {
    let world = World::new();
    let store = world.folder.path().join("filrouge.db");
    let mut child = run_child(
        "persistence::crash::child_starts_a_message_and_waits_to_be_killed",
        &[(STORE, &store)],
    );
    let id = line_after_prefix(&mut child, "SESSION ");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let refused = world.try_open(&id).await.err();
        let refused = refused.expect("the child holds the lease");
        assert_eq!(refused.code, filrouge_types::ErrorCode::LeaseTimeout);
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = world.open(&id).await;
        let messages = [
            message(1, "Ann", "question 1"),
            message(2, "Planner", "answer 1"),
            message(3, "Ann", "go on"),
            cut_message(message(4, "Coder", "half an answer"), Cut::Interrupted),
        ];
        assert_eq!(opened.restored.context, context(&messages));
        assert_eq!(*opened.interrupted, ["msg-4".into()]);
        exchange(&opened.record, 5).await;
        opened.record.close(&paused()).await.unwrap();
        world.assert_intact().await;
    });
}

/// The variable that names the session for a child process.
const SESSION: &str = "FILROUGE_TEAM_TEST_SESSION";

/// Runs in a child process: records messages until it is killed, and prints the number of each recorded message.
#[test]
#[ignore = "run by the test that kills it"]
fn child_reports_messages_until_it_is_killed() {
    let (Ok(store), Ok(id)) = (std::env::var(STORE), std::env::var(SESSION)) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let clock = std::sync::Arc::new(filrouge_types::SystemClock);
        let settings = filrouge_engine::Settings::default();
        let (engine, _) = engine_at(Path::new(&store), clock, settings);
        let options = OpenOptions::new("a child");
        let opened = open_existing(engine, caller(), &team(), &id, options).await;
        let opened = opened.unwrap();
        let mut number = opened.restored.highest_message;
        println!();
        loop {
            for name in ["Ann", "Planner", "Coder"] {
                number += 1;
                let message = message(number, name, &format!("{name} says {number}"));
                record_message(&opened.record, &message).await;
                println!("RECORDED {number}");
            }
            opened.record.hand_over(&paused()).await.unwrap();
            println!("RECORDED {number}");
        }
    });
}

/// Whenever the process is killed, every recorded message exists once and in order, and the session can be continued.
#[test]
fn a_kill_at_any_time_loses_and_duplicates_nothing() {
    let world = World::new();
    let store = world.folder.path().join("filrouge.db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let id = runtime.block_on(async {
        let opened = world.open_new().await;
        opened.record.close(&paused()).await.unwrap();
        opened.record.session_id().to_owned()
    });
    for round in 0..10 {
        let variables = [(STORE, &*store), (SESSION, Path::new(&id))];
        let mut child = run_child(
            "persistence::crash::child_reports_messages_until_it_is_killed",
            &variables,
        );
        let mut recorded = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        for _ in 0..=round {
            let number = lines.find_map(|line| line.strip_prefix("RECORDED ").map(str::to_owned));
            recorded = number.expect("the child still runs").parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines that the child printed just before it was killed count too.
        let last = lines
            .filter_map(|line| line.strip_prefix("RECORDED ")?.parse().ok())
            .last();
        let recorded: u64 = last.unwrap_or(recorded);
        runtime.block_on(async {
            let opened = world.open(&id).await;
            let messages = &opened.restored.context.messages;
            assert!(
                messages.len() as u64 >= recorded,
                "{} of {recorded}",
                messages.len()
            );
            for (message, number) in messages.iter().zip(1_u64..) {
                assert_eq!(*message.id, format!("msg-{number}"));
                let name = &message.speaker.name;
                let full_text = format!("{name} says {number}");
                match message.cut {
                    None => assert_eq!(*message.content, *full_text),
                    Some(cut) => {
                        assert_eq!(cut, Cut::Interrupted);
                        assert!(number > recorded && full_text.starts_with(&*message.content));
                    }
                }
            }
            opened.record.close(&paused()).await.unwrap();
            let turns = world.turns(&id).await;
            assert!(turns.iter().all(|turn| turn.status != TurnStatus::Open));
        });
    }
    runtime.block_on(world.assert_intact());
}
