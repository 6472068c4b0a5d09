//! Random writes in random order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use super::super::{Edition, Field, HotBounds, HotKey, Recent, RecentFill, RecentUpdate};
use super::fixture::{HotFixture, change, edition, field, key, numbers, wide};
use super::story::TestHistory;

/// Runs `test` for this many random values, each with its own key.
fn check<S: Strategy>(cases: u32, values: S, test: impl AsyncFn(HotKey, S::Value)) {
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

async fn commit_one(f: &HotFixture, s: &HotKey, model: &mut Model, (kind, a, b): (u8, u8, u8)) {
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
        let gone = f.hot.forget(s, expected).await.unwrap();
        assert_eq!(
            gone,
            current.is_none() || expected.is_none() || expected == current
        );
        if gone {
            *model = None;
        }
        return;
    }
    let value = vec![b; usize::from(b % 40)];
    let commit = change(
        &[&[a % 5], &[b % 7]],
        &[(&[b % 5], &value), (&[a % 7, 0], &[a])],
    );
    let made = f.commit(s, expected, a.into(), commit.clone()).await;
    if expected != current {
        assert_eq!(made, None);
        return;
    }
    let made = made.unwrap();
    let (old, mut fields) = model
        .take()
        .unwrap_or((edition(a.into(), 0), BTreeMap::new()));
    for name in &commit.removes {
        fields.remove(name);
    }
    fields.extend(commit.puts.into_iter().map(|put| (put.name, put.value)));
    assert_eq!(
        numbers(Some(made)),
        Some((old.incarnation, old.version + 1))
    );
    assert_ne!(made.nonce, old.nonce);
    *model = Some((made, fields));
}

/// A load returns the written fields.
pub async fn random_commits_are_loaded_as_written(make: impl AsyncFn(HotBounds) -> HotFixture) {
    let f = make(wide()).await;
    let writes = proptest::collection::vec(any::<(u8, u8, u8)>(), 1..25);
    check(20, writes, async |s, writes| {
        let mut model = None;
        for write in writes {
            commit_one(&f, &s, &mut model, write).await;
            let held = model.clone().map(|(edition, fields): (_, BTreeMap<_, _>)| {
                let fields = fields.iter().map(|(name, value)| field(name, value));
                (edition, fields.collect::<Vec<Field>>())
            });
            assert_eq!(f.load(&s).await, held);
        }
    });
}

/// A write: the number of items, the removed turns, the written turn and the length of its record.
type Written = (u64, Vec<u64>, Option<(u64, u8)>);

fn writes() -> impl Strategy<Value = Vec<Written>> {
    let goes = prop_oneof![
        3 => Just(Vec::new()),
        2 => proptest::collection::vec(1..12_u64, 1..3),
    ];
    let put = proptest::option::weighted(0.8, (1..12_u64, 0..30_u8));
    proptest::collection::vec((1..4_u64, goes, put), 1..24)
}

/// An event of a copy; numbers are used modulo the available count.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next writes arrive in one batch.
    Reported(usize),
    /// The next write is lost or arrives late.
    Lost,
    /// An earlier or later write arrives out of order.
    Late(usize),
    /// A fill of this many turns, read this many writes before or after the newest one.
    Filled(usize, usize),
    /// The copy is removed at the newest write.
    Forgotten,
    /// This many turns are requested.
    Asked(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (1..4_usize).prop_map(Event::Reported),
        1 => Just(Event::Lost),
        2 => any::<usize>().prop_map(Event::Late),
        3 => (0..6_usize, 0..14_usize).prop_map(|(at, limit)| Event::Filled(at, limit)),
        1 => Just(Event::Forgotten),
        2 => (0..14_usize).prop_map(Event::Asked),
    ]
}

/// A history, and a model of a copy of it that follows the port's rules.
struct Copied {
    /// All writes. `stories` contains the history before the first write, then the history after each write.
    steps: Vec<RecentUpdate>,
    stories: Vec<TestHistory>,
    reported: usize,
    known: Option<u64>,
    /// The index of the copy's history in `stories`, while the copy is valid.
    held: Option<usize>,
}

impl Copied {
    fn new(writes: Vec<Written>) -> Self {
        let mut story = TestHistory::new();
        let (mut steps, mut stories) = (Vec::new(), vec![story.clone()]);
        for (n, (items, goes, put)) in writes.into_iter().enumerate() {
            let record =
                put.map(|(turn, length)| (turn, format!("{n} {}", "x".repeat(length.into()))));
            let put = record
                .as_ref()
                .map(|(turn, record)| (*turn, record.as_bytes()));
            steps.push(story.write(items, &goes, put));
            stories.push(story.clone());
        }
        Self {
            steps,
            stories,
            reported: 0,
            known: None,
            held: None,
        }
    }

    fn step(&mut self, n: usize) {
        let after = self.stories[n + 1].as_of.seq;
        if self.known.is_some_and(|known| after <= known) {
            return;
        }
        let goes_on = self.held == Some(n) || (self.known.is_none() && n == 0);
        self.held = goes_on.then_some(n + 1);
        self.known = Some(after);
    }

    fn filled(&mut self, n: usize) {
        let seq = self.stories[n].as_of.seq;
        if self.known.is_none_or(|known| known <= seq) {
            (self.known, self.held) = (Some(seq), Some(n));
        }
    }

    fn fill(&self, back: usize, limit: usize) -> (usize, RecentFill) {
        // One fill in six is ahead of the received updates.
        let n = match back {
            5 => self.reported + 1,
            _ => self.reported.saturating_sub(back / 2),
        };
        let n = n.min(self.steps.len());
        (n, self.stories[n].fill(limit))
    }

    async fn happens(&mut self, f: &HotFixture, s: &HotKey, event: Event) {
        match event {
            Event::Reported(many) => {
                let end = (self.reported + many).min(self.steps.len());
                let steps: Vec<&RecentUpdate> = self.steps[self.reported..end].iter().collect();
                f.advance(s, &steps).await;
                (self.reported..end).for_each(|n| self.step(n));
                self.reported = end;
            }
            Event::Lost => self.reported = (self.reported + 1).min(self.steps.len()),
            Event::Late(n) => {
                let n = n % self.steps.len();
                f.advance(s, &[&self.steps[n]]).await;
                self.step(n);
            }
            Event::Filled(back, limit) => {
                let (n, fill) = self.fill(back, limit);
                f.fill(s, fill).await;
                self.filled(n);
            }
            Event::Forgotten => {
                let seq = self.stories[self.reported].as_of.seq;
                f.forget_recent(s, seq).await;
                self.known = self.known.max(Some(seq));
                self.held = None;
            }
            Event::Asked(_) => {}
        }
    }

    /// Asserts that a result is exactly the newest turns of the history that it names.
    fn agrees(&self, bounds: &HotBounds, limit: usize, found: Option<&Recent>) {
        let held = self.held.map(|n| &self.stories[n]);
        assert_eq!(found.map(|r| r.as_of), held.map(|story| story.as_of));
        let (Some(found), Some(story)) = (found, held) else {
            return;
        };
        let many = found.turns.len();
        assert_eq!(found.turns, story.newest(many));
        let bytes: usize = found.turns.iter().map(|turn| turn.record.len()).sum();
        assert!(many <= limit && many as u64 <= bounds.turns && bytes as u64 <= bounds.bytes);
        assert!(!found.all || many == story.shown.len());
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
            ..wide()
        };
        let f = make(bounds).await;
        let events = proptest::collection::vec(event(), 1..40);
        check(cases, (writes(), events), async |s, (writes, events)| {
            let mut copied = Copied::new(writes);
            for event in events {
                copied.happens(&f, &s, event).await;
                let limit = if let Event::Asked(limit) = event {
                    limit
                } else {
                    100
                };
                let found = f.recent(&s, limit).await;
                copied.agrees(&bounds, limit, found.as_ref());
            }
        });
    }
}
