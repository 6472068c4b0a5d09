//! Copies that are interrupted and continued, with and without writes to the source in between.

use filrouge_store::contract::differential::{play, steps};
use filrouge_store::contract::fixture::{anyone, item, redact_items, user};
use filrouge_store::read::ChangeKind;
use filrouge_types::Channel;
use proptest::prelude::*;

use super::uninterrupted::fill;
use super::*;

/// Runs the copy until it succeeds; each run may write more than the one before it. Returns the result and the number
/// of runs.
fn run_until_complete(pair: &Pair, rows: usize, writes_per_run: usize) -> (Copied, usize) {
    for run_no in 1.. {
        let copy_target = failing_target(&pair.target(), rows, writes_per_run * run_no);
        match run(&pair.source(), copy_target, Progress::default()) {
            Ok(copied) => return (copied, run_no),
            Err(failure) => assert_eq!(failure, injected_failure()),
        }
        let opened = SqliteLedger::open(own_options(&pair.target(), keyring()));
        let refused = opened.err().unwrap();
        assert_eq!(refused.code, ErrorCode::StoreUnavailable);
        assert!(refused.detail.contains("not finished"), "{refused}");
    }
    unreachable!()
}

#[test]
fn a_copy_interrupted_after_every_few_rows_completes() {
    for (rows, writes_per_run) in [(1, 13), (3, 5), (20, 1), (100_000, 1)] {
        let pair = Pair::new();
        let f = fixture_at(&pair.source(), keyring());
        block_on(async {
            fill(&f).await;
            f.ledger.close().await;
        });
        let (copied, runs) = run_until_complete(&pair, rows, writes_per_run);
        assert!(
            runs > 2 && copied.resumed,
            "{rows} {writes_per_run}: {runs}"
        );
        assert!(copied.sessions_unchanged > 0, "{rows} {writes_per_run}");
        pair.assert_equal();
    }
}

#[test]
fn random_ledgers_are_copied() {
    let cases = std::env::var("PROPTEST_CASES").ok();
    let config = ProptestConfig {
        cases: cases.and_then(|n| n.parse().ok()).unwrap_or(24),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(before in steps(), after in steps(), rows in 1..40_usize, left in 0..30_usize)| {
        let pair = Pair::new();
        let f = fixture_at(&pair.source(), keyring());
        block_on(play(&f, &before, ""));
        let first = run(&pair.source(), failing_target(&pair.target(), rows, left), Progress::default());
        let is_complete = first.is_ok();
        prop_assert!(is_complete || first.unwrap_err() == injected_failure());
        if !is_complete {
            block_on(play(&f, &after, ""));
        }
        block_on(f.ledger.close());
        if !is_complete {
            let (copied, _) = run_until_complete(&pair, rows, 3);
            prop_assert!(copied.resumed);
        }
        pair.assert_equal();
        let g = fixture_at(&pair.target(), keyring());
        block_on(async {
            g.assert_intact().await;
            play(&g, &after, "more").await;
            g.assert_intact().await;
            g.ledger.close().await;
        });
    });
}

/// Contents erased between two runs are in no file of the copy.
#[test]
fn contents_erased_between_runs_leave_the_copy() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    let ann = user("ann");
    let secret = |s: &str| format!("{s}-not-to-be-kept");
    block_on(async {
        for s in ["redacted", "erased", "other"] {
            let turn = f.start(&ann, s, "r").await;
            let thought = item(Channel::Thought, &secret(s));
            f.append(&ann, &turn, vec![thought]).await.unwrap();
        }
    });
    let copy_contains = |text: &str| {
        let text = text.as_bytes();
        files(&pair.target())
            .values()
            .any(|bytes| bytes.windows(text.len()).any(|w| w == text))
    };
    // Runs until all rows but the last ones are copied.
    let mut writes = 1;
    while !copy_contains(&secret("other")) {
        let first = run(
            &pair.source(),
            failing_target(&pair.target(), 4, writes),
            Progress::default(),
        );
        assert_eq!(first.unwrap_err(), injected_failure());
        writes += 1;
    }
    assert!(copy_contains(&secret("redacted")) && copy_contains(&secret("erased")));
    block_on(async {
        f.write_redaction(&ann, redact_items("redacted", &[(2, 2)]))
            .await
            .unwrap();
        f.erase(&ann, "erased").await.unwrap();
        f.ledger.close().await;
    });
    assert!(pair.copy().unwrap().resumed);
    assert!(!copy_contains(&secret("redacted")) && !copy_contains(&secret("erased")));
    assert!(copy_contains(&secret("other")));
    pair.assert_equal();
}

/// After another run has taken over a copy, the first one writes nothing.
#[test]
fn only_one_run_copies_at_a_time() {
    /// A target that another run takes over as soon as the copy has started.
    struct TakenOver {
        copy_target: Box<dyn CopyTarget>,
        path: PathBuf,
        other: Option<Box<dyn CopyTarget>>,
    }
    impl CopyTarget for TakenOver {
        fn contents(&mut self) -> Result<TargetContents, Failure> {
            self.copy_target.contents()
        }
        fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
            let first = self.copy_target.begin(source)?;
            let mut other = copy_target(&self.path);
            let second = other.begin(source).unwrap();
            assert_eq!(second.store_id, first.store_id);
            assert!(second.resumed && !first.resumed);
            self.other = Some(other);
            Ok(first)
        }
        fn with_view(
            &mut self,
            query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
        ) -> Result<(), Failure> {
            self.copy_target.with_view(query)
        }
        fn write(&mut self, work: CopyWrites<'_>) -> Result<(), Failure> {
            self.copy_target.write(work)
        }
        fn finish(&mut self) -> Result<(), Failure> {
            self.copy_target.finish()
        }
    }
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    block_on(async {
        f.complete_turn(&anyone(), "s", "r", "a").await;
        f.ledger.close().await;
    });
    let taken_over = TakenOver {
        copy_target: copy_target(&pair.target()),
        path: pair.target(),
        other: None,
    };
    let failure = run(&pair.source(), Box::new(taken_over), Progress::default()).unwrap_err();
    assert_eq!(failure, filrouge_store::copy::overtaken_run());
    assert!(dump(&pair.target())["session"].is_empty());
    pair.copy().unwrap();
    pair.assert_equal();
}

/// The source was restored to an older state after an interrupted run. What it has lost is not in the copy.
#[test]
fn a_copy_never_has_what_the_source_has_lost() {
    let pair = Pair::new();
    let write_turn = |session: &str, request: &str| {
        let f = fixture_at(&pair.source(), keyring());
        block_on(async {
            f.complete_turn(&anyone(), session, request, request).await;
            f.ledger.close().await;
        });
    };
    let interrupt = || {
        let copy_target = failing_target(&pair.target(), 100, 1);
        let first = run(&pair.source(), copy_target, Progress::default());
        assert_eq!(first.unwrap_err(), injected_failure());
    };
    write_turn("s", "r");
    let older = fs::read(pair.source()).unwrap();
    write_turn("s", "one");
    interrupt();
    fs::write(pair.source(), &older).unwrap();
    write_turn("s", "another");
    let copied = pair.copy().unwrap();
    assert!(copied.resumed && copied.sessions_unchanged == 0);
    pair.assert_equal();

    fs::remove_file(pair.target()).unwrap();
    write_turn("lost", "r");
    interrupt();
    fs::write(pair.source(), &older).unwrap();
    let refused = pair.copy().unwrap_err();
    assert_eq!(refused.code, ErrorCode::IntegrityError);
    assert!(refused.detail.contains("the copy differs"), "{refused}");
    fs::remove_file(pair.target()).unwrap();
    pair.copy().unwrap();
    pair.assert_equal();
}

/// Each run rewrites the commit log, so it has no trace of sessions that were copied twice.
#[test]
fn a_session_that_was_copied_twice_is_created_once() {
    let pair = Pair::new();
    let f = fixture_at(&pair.source(), keyring());
    let ann = user("ann");
    block_on(async {
        f.complete_turn(&ann, "s", "r", "a").await;
        f.complete_turn(&ann, "t", "r", "a").await;
    });
    // The runs fail before the log is made, after it is made, and before the copy is finished.
    for writes in 1..=3 {
        let copy_target = failing_target(&pair.target(), 100, writes);
        let failed = run(&pair.source(), copy_target, Progress::default());
        assert_eq!(failed.unwrap_err(), injected_failure());
        block_on(async {
            f.complete_turn(&ann, "s", &format!("r{writes}"), "a").await;
            f.ledger
                .put_note("n", writes as u64 - 1, vec![1])
                .await
                .unwrap();
        });
    }
    let copied = pair.copy().unwrap();
    assert_eq!(copied.sessions_unchanged, 1);
    pair.assert_equal();
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        let feed = g.feed(&ann, 100).await;
        let changes: Vec<_> = feed
            .iter()
            .map(|change| (change.session_id.as_str(), change.kind, change.last_seq))
            .collect();
        assert_eq!(
            changes,
            [
                ("s", ChangeKind::Created, Some(8)),
                ("t", ChangeKind::Created, Some(2))
            ]
        );
        f.ledger.close().await;
        g.ledger.close().await;
    });
}
