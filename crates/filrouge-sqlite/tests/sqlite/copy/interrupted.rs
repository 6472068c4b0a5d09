//! Copies that are broken off and gone on with, while the source goes on or not.

use filrouge_store::contract::differential::{play, steps};
use filrouge_store::contract::fixture::{anyone, item, redact_items, user};
use filrouge_types::Channel;
use proptest::prelude::*;

use super::whole::fill;
use super::*;

/// Runs until nothing breaks down any more; gives the number of runs.
fn go_on(pair: &Pair, rows: usize, each: usize) -> (Copied, usize) {
    for run_no in 1.. {
        let at = brittle(&pair.to(), rows, each * run_no);
        match run(&pair.from(), at, Seen::default()) {
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
fn broken_off_after_every_few_rows() {
    for (rows, each) in [(3, 40), (11, 11), (100, 1), (100_000, 1)] {
        let pair = Pair::new();
        let f = on(&pair.from(), keyring());
        block_on(async {
            fill(&f).await;
            f.ledger.close().await;
        });
        let (copied, runs) = go_on(&pair, rows, each);
        assert!(runs > 2 && copied.resumed, "{rows} {each}: {runs}");
        assert!(copied.sessions_known > 0, "{rows} {each}");
        pair.equal();
    }
}

#[test]
fn random_journals() {
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
        let first = run(&pair.from(), brittle(&pair.to(), rows, left), Seen::default());
        let is_whole = first.is_ok();
        prop_assert!(is_whole || first.unwrap_err() == broke_down());
        if !is_whole {
            block_on(play(&f, &after, ""));
        }
        block_on(f.ledger.close());
        if !is_whole {
            let (copied, _) = go_on(&pair, rows, 3);
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

/// What is erased between two runs is in no file of the copy.
#[test]
fn what_is_erased_meanwhile_does_not_stay() {
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    let ann = user("ann");
    let secrets = |s: &str| format!("{s}-not-to-be-kept");
    block_on(async {
        for s in ["redacted", "erased", "other"] {
            let turn = f.start(&ann, s, "r").await;
            let said = item(Channel::Thought, &secrets(s));
            f.append(&ann, &turn, vec![said]).await.unwrap();
        }
    });
    let holds = |what: &str| {
        let what = what.as_bytes();
        files(&pair.to())
            .values()
            .any(|bytes| bytes.windows(what.len()).any(|w| w == what))
    };
    // All but the end.
    let mut left = 1;
    while !holds(&secrets("other")) {
        let first = run(&pair.from(), brittle(&pair.to(), 4, left), Seen::default());
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

/// A run that another one has taken over puts nothing more.
#[test]
fn one_run_at_a_time() {
    struct Late {
        intake: Box<dyn Intake>,
        to: PathBuf,
        other: Option<Box<dyn Intake>>,
    }
    impl Intake for Late {
        fn holding(&mut self) -> Result<Holding, Failure> {
            self.intake.holding()
        }
        fn begin(&mut self, source: &str) -> Result<Begun, Failure> {
            let begun = self.intake.begin(source)?;
            let mut other = intake(&self.to);
            let again = other.begin(source).unwrap();
            assert_eq!(again.store_id, begun.store_id);
            assert!(again.resumed && !begun.resumed);
            self.other = Some(other);
            Ok(begun)
        }
        fn look(
            &mut self,
            question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
        ) -> Result<(), Failure> {
            self.intake.look(question)
        }
        fn put(&mut self, rows: &[Piece]) -> Result<(), Failure> {
            self.intake.put(rows)
        }
        fn finish(&mut self, newest: SessionPk) -> Result<(), Failure> {
            self.intake.finish(newest)
        }
    }
    let pair = Pair::new();
    let f = on(&pair.from(), keyring());
    block_on(async {
        f.whole(&anyone(), "s", "r", "a").await;
        f.ledger.close().await;
    });
    let late = Late {
        intake: intake(&pair.to()),
        to: pair.to(),
        other: None,
    };
    let failure = run(&pair.from(), Box::new(late), Seen::default()).unwrap_err();
    assert_eq!(failure, filrouge_store::copy::taken_over());
    assert!(dump(&pair.to())["commit_log"].is_empty());
    pair.copy().unwrap();
    pair.equal();
}
