//! Projections of another program's history: changes, removals, several processes, and a history that is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_engine::cleaning::{ERASED, PENDING};
use filrouge_sources::library::samples::{MemorySource, conversation, header, message, text};
use filrouge_sources::{Role, SkipReason, Skipped, Source};
use filrouge_types::{Clock, TenantId};

use super::world::{SECRET, World, key};
use crate::history::sums::group_of;
use crate::projector::Next;
use crate::target::{Stamp, Target};
use crate::{
    CurrentSessions, DifferenceKind, ForeignHistory, Selection, begin_rebuild, retry_dead_letters,
};

/// A history that a test changes.
#[derive(Clone, Default)]
struct History {
    source: Arc<Mutex<Arc<MemorySource>>>,
    is_away: Arc<AtomicBool>,
}

impl History {
    fn source(&self) -> Arc<MemorySource> {
        self.source.lock().unwrap().clone()
    }

    /// Adds a session, or replaces it, with one question for each text.
    fn put(&self, session: &str, texts: &[&str]) {
        let messages = texts.iter().enumerate();
        let messages = messages.map(|(n, question)| {
            let part = text(&format!("p{n}"), question);
            message(&format!("m{n}"), Role::User, vec![part])
        });
        let conversation = conversation(messages.collect());
        self.source().put(header(session, 1_000), conversation);
    }

    fn remove(&self, session: &str) {
        self.source().sessions.lock().unwrap().remove(session);
    }

    /// The history as a process opens it.
    fn open(&self) -> ForeignHistory {
        let history = self.clone();
        ForeignHistory::new(TenantId::default_tenant(), move || {
            match history.is_away.load(Ordering::SeqCst) {
                true => Err("the folder does not exist".to_owned()),
                false => Ok(vec![history.source() as Arc<dyn Source>]),
            }
        })
    }

    /// Another process that projects the history to the target of `world`.
    fn process(&self, world: &World) -> World {
        world.with_history(self.open())
    }

    /// Fills the projection in a new process. It must then equal the history.
    async fn converge(&self, world: &World) -> World {
        let process = self.process(world);
        process.fill().await;
        process.check().await;
        process
    }
}

#[tokio::test]
async fn changed_and_removed_sessions_are_followed_by_one_process_and_by_the_next() {
    for is_one_process in [true, false] {
        let (world, history) = (World::new(), History::default());
        for session in ["a", "b", "c"] {
            history.put(session, &["one", "two"]);
        }
        let process = history.converge(&world).await;
        let mut projector = process.projector();
        process.run_until_idle(&mut projector).await;
        assert_eq!(process.verify().await.0.sessions, 3);
        // A history has no session of the ledger.
        process.create("of-the-ledger").await;

        history.put("a", &["one"]);
        history.put("b", &["one", "three"]);
        history.put("d", &["four"]);
        history.remove("c");
        assert!(!process.verify().await.1.is_empty());
        if is_one_process {
            process.run_until_idle(&mut projector).await;
            assert!(!process.verify().await.1.is_empty(), "it scans at times");
            process.clock.advance(10 * 1_000_000);
            process.run_until_idle(&mut projector).await;
            process.check().await;
        } else {
            projector.release().await;
            history.converge(&world).await;
        }
        let everything = process.target.everything();
        for (word, is_there) in [("three", true), ("four", true), ("two", false)] {
            assert_eq!(everything.contains(word), is_there, "{word}");
        }
        assert_eq!(process.status().await.lag_commits, Some(0));
        assert_eq!(process.verify().await.0.sessions, 3);
    }
}

#[tokio::test]
async fn the_status_shows_the_lag_without_a_scan_of_the_history() {
    let (world, history) = (World::new(), History::default());
    history.put("a", &["one"]);
    let process = history.converge(&world).await;
    let mut projector = process.projector();
    for session in ["b", "c", "d"] {
        history.put(session, &["two"]);
    }
    while process.status().await.lag_commits == Some(0) {
        assert_eq!(projector.step().await.unwrap(), Next::Again);
    }
    let lists = history.source().lists.load(Ordering::SeqCst);
    assert_eq!(process.status().await.lag_commits, Some(3));
    assert_eq!(history.source().lists.load(Ordering::SeqCst), lists);
    process.run_until_idle(&mut projector).await;
    assert_eq!(process.status().await.lag_commits, Some(0));
}

#[tokio::test]
async fn an_unchanged_history_is_neither_read_nor_written_again() {
    let (world, history) = (World::new(), History::default());
    for number in 0..100 {
        history.put(&format!("s{number}"), &["words"]);
    }
    history.converge(&world).await;
    let process = history.process(&world);
    let mut projector = process.projector();
    let reads = history.source().read_count();
    let commits = process.engine.index_feed.position().commit_count();
    for _ in 0..3 {
        process.run_until_idle(&mut projector).await;
        process.clock.advance(100 * 1_000_000);
    }
    assert_eq!(history.source().read_count(), reads);
    let after = process.engine.index_feed.position().commit_count();
    assert_eq!(after, commits);
}

#[tokio::test]
async fn a_process_may_be_killed_in_any_call_of_the_target() {
    for executes in [false, true] {
        for call in 1.. {
            let (world, history) = (World::new(), History::default());
            for session in ["a", "b", "c"] {
                history.put(session, &["one", "two"]);
            }
            world.target.hang_at(call, executes);
            let process = history.process(&world);
            let mut projector = process.projector();
            let scenario = async {
                process.run_until_idle(&mut projector).await;
                history.put("a", &["three"]);
                history.put("new", &["four"]);
                process.clock.advance(10 * 1_000_000);
                process.run_until_idle(&mut projector).await;
            };
            let was_killed = tokio::select! {
                () = scenario => false,
                () = world.target.hung() => true,
            };
            if !was_killed {
                break;
            }
            drop(projector);
            // What the killed process may have written is gone before the next one begins.
            history.remove("new");
            history.remove("b");
            world.end_claims();
            let process = history.converge(&world).await;
            assert_eq!(process.target.generations().len(), 1);
            assert_eq!(process.verify().await.0.sessions, 2, "{call}, {executes}");
        }
    }
}

#[tokio::test]
async fn a_history_that_is_away_removes_nothing() {
    let (world, history) = (World::new(), History::default());
    history.put("a", &["moonflower"]);
    history.converge(&world).await;
    history.is_away.store(true, Ordering::SeqCst);
    let process = history.process(&world);
    let mut projector = process.projector();
    loop {
        match projector.step().await.unwrap() {
            Next::Again => {}
            Next::At(_) => break,
            Next::Commit => panic!("the failure was not noticed"),
        }
    }
    let status = process.status().await;
    let reason = "the folder does not exist";
    assert_eq!(status.last_error.as_deref(), Some(reason));
    assert!(status.failures > 0 && status.lag_commits.is_none());
    assert!(process.target.everything().contains("moonflower"));
    let refused = crate::verify(&process.engine, &process.projection, |_| {}).await;
    assert!(refused.unwrap_err().to_string().contains(reason));
    history.is_away.store(false, Ordering::SeqCst);
    world.end_claims();
    history.converge(&world).await;
    assert_eq!(process.status().await.failures, 0);
}

/// The source of a history that was removed while the process runs lists no sessions, without a failure.
#[tokio::test]
async fn a_history_that_goes_away_or_has_an_unreadable_file_removes_nothing() {
    let (world, history) = (World::new(), History::default());
    for session in ["a", "b"] {
        history.put(session, &["one"]);
    }
    let process = history.process(&world);
    let mut projector = process.projector();
    process.run_until_idle(&mut projector).await;
    let (source, stored) = (history.source(), process.target.everything());
    let removed = source.sessions.lock().unwrap().remove("a");
    let unreadable = Skipped::new("a.jsonl".as_ref(), SkipReason::Unreadable, "no permission");
    for is_away in [true, false] {
        history.is_away.store(is_away, Ordering::SeqCst);
        if !is_away {
            source.skipped.lock().unwrap().push(unreadable.clone());
        }
        process.end_claims();
        let next = loop {
            match projector.step().await.unwrap() {
                Next::Again => {}
                next => break next,
            }
        };
        assert!(matches!(next, Next::At(_)), "{next:?}");
        assert_eq!(process.target.everything(), stored);
    }
    let restored = removed.map(|a| ("a".into(), a));
    source.sessions.lock().unwrap().extend(restored);
    source.skipped.lock().unwrap().clear();
    process.end_claims();
    process.run_until_idle(&mut projector).await;
    process.check().await;
}

#[tokio::test]
async fn refused_and_unreadable_sessions_are_dead_letters() {
    let (world, history) = (World::new(), History::default());
    *history.source.lock().unwrap() = Arc::new(MemorySource {
        unreadable: Some("torn".into()),
        ..MemorySource::default()
    });
    for session in ["a", "refused", "gone", "torn"] {
        history.put(session, &["one"]);
    }
    world.target.set_refused([key("refused"), key("gone")]);
    let process = history.process(&world);
    process.fill().await;
    assert_eq!(process.status().await.dead_letters.len(), 3);
    let (verified, differences) = process.verify().await;
    assert_eq!(verified.sessions, 4);
    let is_torn = |kind| kind == DifferenceKind::Unreadable;
    assert_eq!(differences.iter().filter(|d| is_torn(d.kind)).count(), 1);

    world.target.set_refused([]);
    history.remove("gone");
    let name = &process.projection.name;
    retry_dead_letters(&process.engine, name).await.unwrap();
    history.process(&world).fill().await;
    let letters = process.status().await.dead_letters;
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].key(), letters[0].attempts), (key("torn"), 2));
}

#[tokio::test]
async fn a_session_that_a_rebuild_was_refused_is_tried_again_there() {
    let (world, history) = (World::new(), History::default());
    // More than one write has.
    let mut sessions: Vec<String> = (0..300).map(|n| format!("s{n}")).collect();
    for session in &sessions {
        history.put(session, &["one"]);
    }
    let process = history.converge(&world).await;
    let name = &process.projection.name;
    let begun = begin_rebuild(&process.engine, name, world.clock.now());
    begun.await.unwrap();
    sessions.sort_by_key(|session| group_of(&session.parse().unwrap()));
    world.target.set_refused([key(&sessions[0])]);
    let mut projector = process.projector();
    while process.status().await.dead_letters.is_empty() {
        projector.step().await.unwrap();
    }
    world.target.set_refused([]);
    for _ in 0..2 {
        process.clock.advance(601 * 1_000_000);
        process.run_until_idle(&mut projector).await;
    }
    assert!(process.status().await.dead_letters.is_empty());
    process.check().await;
}

#[tokio::test]
async fn a_rebuild_fills_a_generation_and_the_selection_says_what_it_has() {
    let (world, history) = (World::new(), History::default());
    history.put("a", &["write to ann@example.org"]);
    let process = history.converge(&world).await;
    let first = process.status().await.generation;
    let name = &process.projection.name;
    let begun = begin_rebuild(&process.engine, name, world.clock.now());
    begun.await.unwrap();
    history.put("b", &["more"]);
    let process = history.converge(&world).await;
    assert_ne!(process.status().await.generation, first);
    let masked = process.with_selection(Selection {
        mask_personal_data: true,
        ..Selection::default()
    });
    masked.fill().await;
    masked.check().await;
    let everything = masked.target.everything();
    assert!(!everything.contains("ann@") && everything.contains("[masked:email]"));
    let (engine, projection) = (&masked.engine, &masked.projection);
    let history = projection.history.as_ref();
    let current = CurrentSessions::list(engine, history, &projection.selection);
    let current = current.await.unwrap();
    assert_eq!(current.keys().len(), 2);
    let read = current.read(&key("a")).await.unwrap().unwrap();
    let question = read.recorded.turns[0].0.question_neutral.clone();
    assert!(question.unwrap().to_plain().contains("[masked:email]"));
    assert!(current.read(&key("absent")).await.unwrap().is_none());
}

/// The projection copied the ledger before. Queries see that copy until the one of the history is complete.
#[tokio::test]
async fn an_erasure_reaches_a_copy_of_the_ledger_that_a_history_replaces() {
    let (world, history) = (World::new(), History::default());
    for session in ["first", "second", "third"] {
        world.create_with_secret(session).await;
    }
    world.fill().await;
    history.put("a", &["one"]);
    history.is_away.store(true, Ordering::SeqCst);
    let process = history.process(&world).with_selection(Selection {
        mask_personal_data: true,
        ..Selection::default()
    });
    let mut projector = process.projector();
    while process.status().await.building.is_none() {
        projector.step().await.unwrap();
    }
    projector.release().await;
    let is_queried = |session: &str| process.target.everything().contains(session);
    assert!(is_queried("first"), "queries see the old generation");
    let receipt = process.erase("first").await;
    assert_eq!((receipt.store, receipt.status), ("projection", ERASED));
    assert!(!is_queried("first") && is_queried("second"));

    process.target.set_away(true);
    assert_eq!(process.erase("second").await.status, PENDING);
    process.target.set_away(false);
    assert_eq!(process.status().await.uncleaned, 1);
    // The history is away, which does not keep the projector from cleaning.
    while projector.step().await.unwrap() == Next::Again {}
    assert_eq!(process.status().await.uncleaned, 0);
    assert!(!is_queried("second") && is_queried("third"));

    history.is_away.store(false, Ordering::SeqCst);
    process.end_claims();
    process.fill().await;
    process.check().await;
    assert_eq!(process.erase("third").await.store, "ledger");
}

/// An operator puts a backup of the target back, with a session that was removed since.
#[tokio::test]
async fn an_older_state_of_the_target_is_replaced() {
    for is_one_process in [true, false] {
        let (world, history) = (World::new(), History::default());
        history.put("a", &["one"]);
        history.put("b", &[SECRET]);
        let process = history.process(&world);
        let mut projector = process.projector();
        process.run_until_idle(&mut projector).await;
        let copy = world.target.copy();
        history.remove("b");
        process.clock.advance(10 * 1_000_000);
        process.run_until_idle(&mut projector).await;
        assert!(!process.holds_secret());

        world.target.put_back(&copy);
        assert!(process.holds_secret());
        if is_one_process {
            process.clock.advance(60 * 1_000_000);
            process.run_until_idle(&mut projector).await;
        } else {
            projector.release().await;
            history.process(&world).fill().await;
        }
        assert!(!process.holds_secret());
        assert_eq!(process.status().await.older_states, 1);
        process.check().await;
    }
}

#[tokio::test]
async fn a_stamp_that_the_note_does_not_precede_is_of_an_undone_state_of_the_ledger() {
    let (world, history) = (World::new(), History::default());
    history.put("a", &["one"]);
    let process = history.converge(&world).await;
    let before = process.status().await.generation;
    let generation = before.unwrap();
    let stamp = world.target.stamp(generation).await.unwrap().unwrap();
    // A process has stopped between the stamp and the note.
    let next = Stamp {
        commits: stamp.commits + 1,
        position: stamp.commits.to_string(),
    };
    world.target.set_stamp(generation, &next).await.unwrap();
    history.put("b", &["two"]);
    history.converge(&world).await;
    assert_eq!(process.status().await.generation, before);

    let later = Stamp {
        commits: stamp.commits + 1_000,
        position: (stamp.commits + 999).to_string(),
    };
    world.target.set_stamp(generation, &later).await.unwrap();
    history.converge(&world).await;
    let status = process.status().await;
    assert!(status.generation > before);
    assert_eq!(status.older_states, 0);
}
