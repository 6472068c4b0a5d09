//! A session that was not closed: after a drop, after a kill.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filrouge_engine::Caller;
use filrouge_team::ledger::{OpenOptions, open_existing, open_new};
use filrouge_team::message::Cut;
use filrouge_team::record::{Record, Status};
use filrouge_types::{Channel, TenantId, TurnStatus};

use crate::keeping::world::{
    World, caller, context, cut, engine_at, exchange, keep, message, paused, sid, team,
};

/// The variable that names the store for a child process.
const CHILD: &str = "FILROUGE_TEAM_TEST_CHILD";

/// Waits until this text is drafted.
pub(crate) async fn drafted(world: &World, id: &str, text: &str) {
    loop {
        let left = world.engine.streams.unfinished(&caller(), &sid(id)).await;
        if left.unwrap().iter().any(|left| left.text == text) {
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
    let mut said = exchange(&opened.record, 1).await;
    let asked = message(3, "Ann", "go on");
    keep(&opened.record, &asked).await;
    let begun = message(4, "Coder", "");
    let mut speech = opened.record.begin(&begun).await.unwrap();
    speech.append("as far ").await.unwrap();
    speech.append("as é").await.unwrap();
    drafted(&world, &id, "as far as é").await;
    // Neither the speech nor the record is closed, so the lease expires.
    std::mem::forget(speech);
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    said.extend([
        asked,
        cut(message(4, "Coder", "as far as é"), Cut::Interrupted),
    ]);
    let mut world = world;
    for round in 0..2 {
        let next = world.another();
        let opened = next.open(&id).await;
        assert_eq!(opened.restored.context, context(&said));
        assert_eq!(opened.restored.highest_message, 4);
        assert_eq!(opened.interrupted.len(), 1 - round);
        assert_eq!(opened.status, Status::Active);
        let turns = next.turns(&id).await;
        assert_eq!(turns[1].status, TurnStatus::Interrupted);
        let items = next.items(&id).await;
        let spoken = items.iter().filter(|i| i.body.channel == Channel::Partial);
        let keys: Vec<_> = spoken
            .map(|i| i.body.item_id.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(keys, ["msg-4"]);
        next.intact().await;
        std::mem::forget(opened);
        next.clock.advance(Duration::from_secs(60));
        world = next;
    }
    let opened = world.another().open(&id).await;
    said.extend(exchange(&opened.record, 5).await);
    opened.record.close(&paused()).await.unwrap();
    let restored = world.another().open(&id).await.restored;
    assert_eq!(restored.context, context(&said));
}

/// A server's sweep may run before the next opening: then the item has the draft's key, and is the same message.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_before_the_opening_leaves_the_same_message() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    keep(&opened.record, &message(1, "Ann", "well?")).await;
    let begun = message(2, "Coder", "");
    let mut speech = opened.record.begin(&begun).await.unwrap();
    speech.append("so far").await.unwrap();
    drafted(&world, &id, "so far").await;
    std::mem::forget(speech);
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    let server = world.another();
    assert_eq!(server.engine.upkeep.sweep_streams().await.unwrap(), 1);
    let keys: Vec<_> = server.items(&id).await;
    assert!(keys.iter().any(|i| {
        i.body
            .item_id
            .as_ref()
            .is_some_and(|id| id.as_str().starts_with("st_"))
    }));
    let opened = server.open(&id).await;
    let said = [
        message(1, "Ann", "well?"),
        cut(message(2, "Coder", "so far"), Cut::Interrupted),
    ];
    assert_eq!(opened.restored.context, context(&said));
    assert_eq!(opened.restored.highest_message, 2);
}

/// A message that has ended is complete, even if the process ended right after it.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_message_is_complete() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let said = [message(1, "Ann", "well?"), message(2, "Coder", "all of it")];
    for message in &said {
        keep(&opened.record, message).await;
    }
    std::mem::forget(opened);
    world.clock.advance(Duration::from_secs(60));
    let opened = world.another().open(&id).await;
    assert_eq!(opened.restored.context, context(&said));
    assert!(opened.interrupted.is_empty());
}

/// A speech that is dropped without an end was interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_speech_without_an_end_is_interrupted() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    keep(&opened.record, &message(1, "Ann", "well?")).await;
    let mut speech = opened.record.begin(&message(2, "Coder", "")).await.unwrap();
    speech.append("so").await.unwrap();
    drop(speech);
    // The end is processed once another speech may begin.
    loop {
        match opened.record.begin(&message(3, "Planner", "")).await {
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
    let said = [
        message(1, "Ann", "well?"),
        cut(message(2, "Coder", "so"), Cut::Interrupted),
        message(3, "Planner", "yes"),
    ];
    let restored = world.open(&id).await.restored;
    assert_eq!(restored.context, context(&said));
}

/// A child's work until it is killed.
#[test]
#[ignore = "run by the tests that kill it"]
fn child_talks_until_it_is_killed() {
    let Ok(store) = std::env::var(CHILD) else {
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
        keep(&opened.record, &message(3, "Ann", "go on")).await;
        let mut speech = opened.record.begin(&message(4, "Coder", "")).await.unwrap();
        speech.append("then it was killed").await.unwrap();
        loop {
            let left = engine.streams.unfinished(&caller, &sid(&id)).await.unwrap();
            if left.iter().any(|left| !left.text.is_empty()) {
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

/// The rest of the child's next line with this beginning.
pub(crate) fn line_of(child: &mut Child, begin: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut reported = lines.map_while(Result::ok);
    let line = reported.find_map(|line| line.strip_prefix(begin).map(str::to_owned));
    line.expect("the child has ended")
}

/// The system reports that the killed process is gone, so its lease delays no other process.
#[test]
fn after_a_kill_the_session_is_opened_at_once() {
    let world = World::new();
    let store = world.folder.path().join("filrouge.db");
    let mut child = run_child(
        "keeping::crash::child_talks_until_it_is_killed",
        &[(CHILD, &store)],
    );
    let id = line_of(&mut child, "SESSION ");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let held = world.try_open(&id).await.err().expect("it is held");
        assert_eq!(held.code, filrouge_types::ErrorCode::LeaseTimeout);
        child.kill().unwrap();
        child.wait().unwrap();
        let opened = world.open(&id).await;
        let said = [
            message(1, "Ann", "question 1"),
            message(2, "Planner", "answer 1"),
            message(3, "Ann", "go on"),
            cut(message(4, "Coder", "then it was killed"), Cut::Interrupted),
        ];
        assert_eq!(opened.restored.context, context(&said));
        assert_eq!(*opened.interrupted, ["msg-4".into()]);
        exchange(&opened.record, 5).await;
        opened.record.close(&paused()).await.unwrap();
        world.intact().await;
    });
}

/// The variable that names the session for a child process.
const SESSION: &str = "FILROUGE_TEAM_TEST_SESSION";

/// Talks until it is killed, and prints the number of each recorded message.
#[test]
#[ignore = "run by the test that kills it"]
fn child_reports_messages_until_it_is_killed() {
    let (Ok(store), Ok(id)) = (std::env::var(CHILD), std::env::var(SESSION)) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let clock = std::sync::Arc::new(filrouge_types::SystemClock);
        let settings = filrouge_engine::Settings::default();
        let (engine, _) = engine_at(Path::new(&store), clock, settings);
        let options = OpenOptions::new("a talker");
        let opened = open_existing(engine, caller(), &team(), &id, options).await;
        let opened = opened.unwrap();
        let mut number = opened.restored.highest_message;
        println!();
        loop {
            for by in ["Ann", "Planner", "Coder"] {
                number += 1;
                let said = message(number, by, &format!("{by} says {number}"));
                keep(&opened.record, &said).await;
                println!("KEPT {number}");
            }
            opened.record.hand_over(&paused()).await.unwrap();
            println!("KEPT {number}");
        }
    });
}

/// Whenever the process is killed, every recorded message exists once and in order, and the next opening continues.
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
        let of = [(CHILD, &*store), (SESSION, Path::new(&id))];
        let mut child = run_child(
            "keeping::crash::child_reports_messages_until_it_is_killed",
            &of,
        );
        let mut kept = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reported = lines.map_while(Result::ok);
        for _ in 0..=round {
            let line = reported.find_map(|l| l.strip_prefix("KEPT ").map(str::to_owned));
            kept = line.expect("the child has ended").parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines that it printed just before the kill count as well.
        let last = reported
            .filter_map(|l| l.strip_prefix("KEPT ")?.parse().ok())
            .last();
        let kept: u64 = last.unwrap_or(kept);
        runtime.block_on(async {
            let opened = world.open(&id).await;
            let messages = &opened.restored.context.messages;
            assert!(
                messages.len() as u64 >= kept,
                "{} of {kept}",
                messages.len()
            );
            for (message, number) in messages.iter().zip(1_u64..) {
                assert_eq!(*message.id, format!("msg-{number}"));
                let by = &message.speaker.name;
                let full_text = format!("{by} says {number}");
                match message.cut {
                    None => assert_eq!(*message.content, *full_text),
                    Some(cut) => {
                        assert_eq!(cut, Cut::Interrupted);
                        assert!(number > kept && full_text.starts_with(&*message.content));
                    }
                }
            }
            opened.record.close(&paused()).await.unwrap();
            let open = world.turns(&id).await;
            assert!(open.iter().all(|turn| turn.status != TurnStatus::Open));
        });
    }
    runtime.block_on(world.intact());
}
