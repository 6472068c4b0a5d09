//! Random writes in random order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use super::super::{Edition, Field, HotBounds, HotKey, Recent, RecentFill, RecentUpdate};
use super::fixture::{HotFixture, change, edition, field, key, large_bounds, numbers};
use super::history::TestHistory;

/// Runs `test` for this many random values, each with its own key.
fn run_cases<S: Strategy>(cases: u32, values: S, test: impl AsyncFn(HotKey, S::Value)) {
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let runtime = tokio::runtime::Handle::current();
    let number = std::cell::Cell::new(0_u64);
    let done = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&values, |value| {
            number.set(number.get() + 1);
            let key = key(&format!("s{}", number.get()));
            runtime.block_on(test(key, value));
            Ok(())
        })
    });
    if let Err(TestError::Fail(why, value)) = done {
        panic!("{why}: {value:?}");
    }
    assert!(done.is_ok(), "{done:?}");
}

type Model = Option<(Edition, BTreeMap<Vec<u8>, Vec<u8>>)>;

async fn commit_at_random(
    f: &HotFixture,
    s: &HotKey,
    model: &mut Model,
    (kind, a, b): (u8, u8, u8),
) {
    let current = model.as_ref().map(|(edition, _)| *edition);
    // The expected version is sometimes an old one, or one that never existed.
    let expected = match kind % 8 {
        0 => None,
        1 => current.map(|e| Edition {
            version: e.version.wrapping_sub(1),
            ..e
        }),
        2 => Some(edition(a.into(), b.into())),
        3 => current.map(|e| edition(e.incarnation, e.version)),
        _ => current,
    };
    if kind >= 200 {
        let is_forgotten = f.hot.forget(s, expected).await.unwrap();
        assert_eq!(
            is_forgotten,
            current.is_none() || expected.is_none() || expected == current
        );
        if is_forgotten {
            *model = None;
        }
        return;
    }
    let value = vec![b; usize::from(b % 40)];
    let commit = change(
        &[&[a % 5], &[b % 7]],
        &[(&[b % 5], &value), (&[a % 7, 0], &[a])],
    );
    let created = f.commit(s, expected, a.into(), commit.clone()).await;
    if expected != current {
        assert_eq!(created, None);
        return;
    }
    let created = created.unwrap();
    let (old, mut fields) = model
        .take()
        .unwrap_or((edition(a.into(), 0), BTreeMap::new()));
    for name in &commit.removes {
        fields.remove(name);
    }
    fields.extend(commit.puts.into_iter().map(|put| (put.name, put.value)));
    assert_eq!(
        numbers(Some(created)),
        Some((old.incarnation, old.version + 1))
    );
    assert_ne!(created.nonce, old.nonce);
    *model = Some((created, fields));
}

/// A load returns the written fields.
pub async fn random_commits_are_loaded_as_written(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(large_bounds()).await;
    let writes = proptest::collection::vec(any::<(u8, u8, u8)>(), 1..25);
    run_cases(20, writes, async |s, writes| {
        let mut model = None;
        for write in writes {
            commit_at_random(&f, &s, &mut model, write).await;
            let expected = model.clone().map(|(edition, fields): (_, BTreeMap<_, _>)| {
                let fields = fields.iter().map(|(name, value)| field(name, value));
                (edition, fields.collect::<Vec<Field>>())
            });
            assert_eq!(f.load(&s).await, expected);
        }
    });
}

/// A write: the number of items, the removed turns, the written turn and the length of its record.
type RandomWrite = (u64, Vec<u64>, Option<(u64, u8)>);

fn writes() -> impl Strategy<Value = Vec<RandomWrite>> {
    let removes = prop_oneof![
        3 => Just(Vec::new()),
        2 => proptest::collection::vec(1..12_u64, 1..3),
    ];
    let put = proptest::option::weighted(0.8, (1..12_u64, 0..30_u8));
    proptest::collection::vec((1..4_u64, removes, put), 1..24)
}

/// A step in the life of a copy; numbers are used modulo the available count.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next writes arrive in one batch.
    Deliver(usize),
    /// The next write is lost or arrives late.
    Skip,
    /// An earlier or later write arrives out of order.
    DeliverOutOfOrder(usize),
    /// A fill of this many turns, read this many writes before or after the newest one.
    Fill(usize, usize),
    /// The copy is removed at the newest write.
    Forget,
    /// This many turns are requested.
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..4_usize).prop_map(Step::Deliver),
        1 => Just(Step::Skip),
        2 => any::<usize>().prop_map(Step::DeliverOutOfOrder),
        3 => (0..6_usize, 0..14_usize).prop_map(|(at, limit)| Step::Fill(at, limit)),
        1 => Just(Step::Forget),
        2 => (0..14_usize).prop_map(Step::Read),
    ]
}

/// A history, and a model of a copy of it that follows the port's rules.
struct CopyModel {
    /// All writes. `histories` contains the history before the first write, then the history after each write.
    steps: Vec<RecentUpdate>,
    histories: Vec<TestHistory>,
    /// The number of writes that were delivered in order or skipped.
    delivered: usize,
    /// The newest seq that the copy has received.
    newest_seq: Option<u64>,
    /// The index of the copy's history in `histories`, while the copy is valid.
    valid_version: Option<usize>,
}

impl CopyModel {
    fn new(writes: Vec<RandomWrite>) -> Self {
        let mut history = TestHistory::new();
        let (mut steps, mut histories) = (Vec::new(), vec![history.clone()]);
        for (n, (items, removes, put)) in writes.into_iter().enumerate() {
            let record =
                put.map(|(turn, length)| (turn, format!("{n} {}", "x".repeat(length.into()))));
            let put = record
                .as_ref()
                .map(|(turn, record)| (*turn, record.as_bytes()));
            steps.push(history.write(items, &removes, put));
            histories.push(history.clone());
        }
        Self {
            steps,
            histories,
            delivered: 0,
            newest_seq: None,
            valid_version: None,
        }
    }

    fn apply_write(&mut self, n: usize) {
        let after = self.histories[n + 1].as_of.seq;
        if self.newest_seq.is_some_and(|known| after <= known) {
            return;
        }
        let is_next = self.valid_version == Some(n) || (self.newest_seq.is_none() && n == 0);
        self.valid_version = is_next.then_some(n + 1);
        self.newest_seq = Some(after);
    }

    fn apply_fill(&mut self, n: usize) {
        let seq = self.histories[n].as_of.seq;
        if self.newest_seq.is_none_or(|known| known <= seq) {
            (self.newest_seq, self.valid_version) = (Some(seq), Some(n));
        }
    }

    fn fill(&self, back: usize, limit: usize) -> (usize, RecentFill) {
        // One fill in six is ahead of the received updates.
        let n = match back {
            5 => self.delivered + 1,
            _ => self.delivered.saturating_sub(back / 2),
        };
        let n = n.min(self.steps.len());
        (n, self.histories[n].fill(limit))
    }

    async fn apply_step(&mut self, f: &HotFixture, s: &HotKey, step: Step) {
        match step {
            Step::Deliver(count) => {
                let end = (self.delivered + count).min(self.steps.len());
                let steps: Vec<&RecentUpdate> = self.steps[self.delivered..end].iter().collect();
                f.advance(s, &steps).await;
                (self.delivered..end).for_each(|n| self.apply_write(n));
                self.delivered = end;
            }
            Step::Skip => self.delivered = (self.delivered + 1).min(self.steps.len()),
            Step::DeliverOutOfOrder(n) => {
                let n = n % self.steps.len();
                f.advance(s, &[&self.steps[n]]).await;
                self.apply_write(n);
            }
            Step::Fill(back, limit) => {
                let (n, fill) = self.fill(back, limit);
                f.fill(s, fill).await;
                self.apply_fill(n);
            }
            Step::Forget => {
                let seq = self.histories[self.delivered].as_of.seq;
                f.forget_recent(s, seq).await;
                self.newest_seq = self.newest_seq.max(Some(seq));
                self.valid_version = None;
            }
            Step::Read(_) => {}
        }
    }

    /// Asserts that a result is exactly the newest turns of the history that it names.
    fn assert_result(&self, bounds: &HotBounds, limit: usize, found: Option<&Recent>) {
        let valid = self.valid_version.map(|n| &self.histories[n]);
        assert_eq!(found.map(|r| r.as_of), valid.map(|history| history.as_of));
        let (Some(found), Some(history)) = (found, valid) else {
            return;
        };
        let count = found.turns.len();
        assert_eq!(found.turns, history.newest(count));
        let bytes: usize = found.turns.iter().map(|turn| turn.record.len()).sum();
        assert!(count <= limit && count as u64 <= bounds.turns && bytes as u64 <= bounds.bytes);
        assert!(!found.all || count == history.visible_turns.len());
    }
}

/// A random history, sent in any order.
pub async fn random_interleavings_return_consistent_copies(
    make: impl AsyncFn(HotBounds) -> HotFixture,
) {
    interleavings(20, make).await;
}

/// Like [`random_interleavings_return_consistent_copies`], with this many histories for each of several limits.
pub async fn interleavings(cases: u32, make: impl AsyncFn(HotBounds) -> HotFixture) {
    for (turns, bytes) in [(500, 1 << 20), (3, 1 << 20), (500, 60)] {
        let bounds = HotBounds {
            turns,
            bytes,
            ..large_bounds()
        };
        let f = make(bounds).await;
        let steps = proptest::collection::vec(step(), 1..40);
        run_cases(cases, (writes(), steps), async |s, (writes, steps)| {
            let mut model = CopyModel::new(writes);
            for step in steps {
                model.apply_step(&f, &s, step).await;
                let limit = if let Step::Read(limit) = step {
                    limit
                } else {
                    100
                };
                let found = f.recent(&s, limit).await;
                model.assert_result(&bounds, limit, found.as_ref());
            }
        });
    }
}
