//! Copies that are interrupted and continued, with and without writes to the source in between.

use filrouge_store::contract::differential::{play, steps};
use filrouge_store::contract::fixture::{anyone, item, redact_items, user};
use filrouge_types::Channel;
use proptest::prelude::*;

use super::uninterrupted::fill;
use super::*;

/// Runs the copy until it succeeds; returns its result and the number of runs.
fn proceed(pair: &Pair, rows: usize, writes_per_run: usize) -> (Copied, usize) {
    for run_no in 1.. {
        let target = brittle(&pair.to(), rows, writes_per_run * run_no);
        match run(&pair.from(), target, Progress::default()) {
            Ok(copied) => return (copied, run_no),
            Err(failure) => assert_eq!(failure, broke_down()),
        }
        let opened = SqliteLedger::open(own_options(&pair.to(), keyring()));
        let refused = opened.err().unwrap();
        assert_eq!(refused.code, ErrorCode::StoreUnavailable);
        assert!(refused.detail.contains("not finished"), "{refused}");
    }
    unreachable!()
}

#[test]
fn a_copy_interrupted_after_every_few_rows_completes() {
    for (rows, each) in [(3, 40), (11, 11), (100, 1), (100_000, 1)] {
        let pair = Pair::new();
        let f = on(&pair.from(), keyring());
        block_on(async {
            fill(&f).await;
            f.ledger.close().await;
        });
        let (copied, runs) = proceed(&pair, rows, each);
        assert!(runs > 2 && copied.resumed, "{rows} {each}: {runs}");
        assert!(copied.sessions_unchanged > 0, "{rows} {each}");
        pair.equal();
    }
}

#[test]
fn random_journals_are_copied() {
    let cases = std::env::var("PROPTEST_CASES").ok();
    let config = ProptestConfig {
        cases: cases.and_then(|n| n.parse().ok()).unwrap_or(24),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(before in steps(), after in steps(), rows in 1..40_usize, left in 0..30_usize)| {
        let pair = Pair::new();
        let f = on(&pair.from(), keyring());
        block_on(play(&f, &before, ""));
        let first = run(&pair.from(), brittle(&pair.to(), rows, left), Progress::default());
        let is_complete = first.is_ok();
        prop_assert!(is_complete || first.unwrap_err() == broke_down());
        if !is_complete {
            block_on(play(&f, &after, ""));
        }
        block_on(f.ledger.close());
        if !is_complete {
            let (copied, _) = proceed(&pair, rows, 3);
            prop_assert!(copied.resumed);
        }
        pair.equal();
        let g = on(&pair.to(), keyring());
        block_on(async {
            g.intact().await;
            play(&g, &after, "more").await;
            g.intact().await;
            g.ledger.close().await;
        });
    });
}

/// Contents erased between two runs are in no file of the copy.
#[test]
fn contents_erased_between_runs_leave_the_copy() {
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    let ann = user("ann");
    let secrets = |s: &str| format!("{s}-not-to-be-kept");
    block_on(async {
        for s in ["redacted", "erased", "other"] {
            let turn = f.start(&ann, s, "r").await;
            let thought = item(Channel::Thought, &secrets(s));
            f.append(&ann, &turn, vec![thought]).await.unwrap();
        }
    });
    let holds = |what: &str| {
        let what = what.as_bytes();
        files(&pair.to())
            .values()
            .any(|bytes| bytes.windows(what.len()).any(|w| w == what))
    };
    // Runs until all rows but the last ones are copied.
    let mut left = 1;
    while !holds(&secrets("other")) {
        let first = run(
            &pair.from(),
            brittle(&pair.to(), 4, left),
            Progress::default(),
        );
        assert_eq!(first.unwrap_err(), broke_down());
        left += 1;
    }
    assert!(holds(&secrets("redacted")) && holds(&secrets("erased")));
    block_on(async {
        f.redacted(&ann, redact_items("redacted", &[(2, 2)]))
            .await
            .unwrap();
        f.erase(&ann, "erased").await.unwrap();
        f.ledger.close().await;
    });
    assert!(pair.copy().unwrap().resumed);
    assert!(!holds(&secrets("redacted")) && !holds(&secrets("erased")));
    assert!(holds(&secrets("other")));
    pair.equal();
}

/// After another run has taken over a copy, the first one writes nothing.
#[test]
fn only_one_run_copies_at_a_time() {
    struct Late {
        copy_target: Box<dyn CopyTarget>,
        to: PathBuf,
        other: Option<Box<dyn CopyTarget>>,
    }
    impl CopyTarget for Late {
        fn contents(&mut self) -> Result<TargetContents, Failure> {
            self.copy_target.contents()
        }
        fn begin(&mut self, source: &str) -> Result<StartedCopy, Failure> {
            let begun = self.copy_target.begin(source)?;
            let mut other = copy_target(&self.to);
            let again = other.begin(source).unwrap();
            assert_eq!(again.store_id, begun.store_id);
            assert!(again.resumed && !begun.resumed);
            self.other = Some(other);
            Ok(begun)
        }
        fn with_view(
            &mut self,
            query: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
        ) -> Result<(), Failure> {
            self.copy_target.with_view(query)
        }
        fn put(&mut self, rows: &[CopyRow]) -> Result<(), Failure> {
            self.copy_target.put(rows)
        }
        fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
            self.copy_target.finish(newest)
        }
    }
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    block_on(async {
        f.complete_turn(&anyone(), "s", "r", "a").await;
        f.ledger.close().await;
    });
    let late = Late {
        copy_target: copy_target(&pair.to()),
        to: pair.to(),
        other: None,
    };
    let failure = run(&pair.from(), Box::new(late), Progress::default()).unwrap_err();
    assert_eq!(failure, filrouge_store::copy::taken_over());
    assert!(dump(&pair.to())["commit_log"].is_empty());
    pair.copy().unwrap();
    pair.equal();
}
