//! What is left when nobody has closed a session: by a drop, by a kill.

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

/// Names the store that a child process talks into.
const CHILD: &str = "FILROUGE_TEAM_TEST_CHILD";

/// Waits until what was said is drafted.
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
async fn what_was_being_said_is_an_interrupted_message_once() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    let mut said = exchange(&opened.record, 1).await;
    let asked = message(3, "Ann", "go on");
    keep(&opened.record, &asked).await;
    let begun = message(4, "Coder", "");
    let mut speech = opened.record.begin(&begun).await.unwrap();
    speech.said("as far ").await.unwrap();
    speech.said("as é").await.unwrap();
    drafted(&world, &id, "as far as é").await;
    // Neither the speech nor the record has an end; the lease ends by itself.
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

/// A server's sweep may be faster than the next opening: then the item has the draft's key, and is the same message.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_comes_first_leaves_the_same_message() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    keep(&opened.record, &message(1, "Ann", "well?")).await;
    let begun = message(2, "Coder", "");
    let mut speech = opened.record.begin(&begun).await.unwrap();
    speech.said("so far").await.unwrap();
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

/// A message that has ended is whole, even when what follows it never happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_has_ended_is_whole() {
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

/// Who speaks and lets go of it without an end was interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_speech_without_an_end_is_interrupted() {
    let world = World::new();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    keep(&opened.record, &message(1, "Ann", "well?")).await;
    let mut speech = opened.record.begin(&message(2, "Coder", "")).await.unwrap();
    speech.said("so").await.unwrap();
    drop(speech);
    // It has ended as soon as another may begin.
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

/// What a child does until it is killed.
#[test]
#[ignore = "run by the tests that kill it"]
fn child() {
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
        speech.said("then it was killed").await.unwrap();
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

/// Runs a test of this program as a process of its own.
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

/// The next line of a child that begins so, without that.
pub(crate) fn line_of(child: &mut Child, begin: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut told = lines.map_while(Result::ok);
    let line = told.find_map(|line| line.strip_prefix(begin).map(str::to_owned));
    line.expect("the child has ended")
}

/// The system knows that a killed process is gone: nobody waits for its lease.
#[test]
fn after_a_kill_the_session_is_opened_at_once() {
    let world = World::new();
    let store = world.folder.path().join("filrouge.db");
    let mut child = run_child("keeping::crash::child", &[(CHILD, &store)]);
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

/// Names the session that a child goes on with.
const SESSION: &str = "FILROUGE_TEAM_TEST_SESSION";

/// Talks until it is killed, and tells what was kept.
#[test]
#[ignore = "run by the test that kills it"]
fn talker() {
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

/// Whenever it is killed: what was kept is there, once, in order, and the next opening goes on.
#[test]
fn whatever_is_killed_when_nothing_is_lost_or_doubled() {
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
        let mut child = run_child("keeping::crash::talker", &of);
        let mut kept = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = lines.map_while(Result::ok);
        for _ in 0..=round {
            let line = told.find_map(|l| l.strip_prefix("KEPT ").map(str::to_owned));
            kept = line.expect("the child has ended").parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it has told in its last moments counts as well.
        let last = told
            .filter_map(|l| l.strip_prefix("KEPT ")?.parse().ok())
            .last();
        let kept: u64 = last.unwrap_or(kept);
        runtime.block_on(async {
            let opened = world.open(&id).await;
            let there = &opened.restored.context.messages;
            assert!(there.len() as u64 >= kept, "{} of {kept}", there.len());
            for (message, number) in there.iter().zip(1_u64..) {
                assert_eq!(*message.id, format!("msg-{number}"));
                let by = &message.speaker.name;
                let whole = format!("{by} says {number}");
                match message.cut {
                    None => assert_eq!(*message.content, *whole),
                    Some(cut) => {
                        assert_eq!(cut, Cut::Interrupted);
                        assert!(number > kept && whole.starts_with(&*message.content));
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
