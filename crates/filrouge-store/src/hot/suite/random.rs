//! Random writes, in random order.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use super::super::{Edition, Field, Fill, HotBounds, HotKey, Recent, Step};
use super::fixture::{HotFixture, change, edition, field, key, numbers, wide};
use super::story::Story;

/// Runs `test` for so many random values, each with a key of its own.
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
    // Now and then a state that was, or never was.
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
    assert_ne!(made.word, old.word);
    *model = Some((made, fields));
}

/// What is loaded is what was put.
pub async fn any_commits(make: impl AsyncFn(HotBounds) -> HotFixture) {
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

/// A write: how many items, the turns that go, the one that is put and how long its record is.
type Written = (u64, Vec<u64>, Option<(u64, u8)>);

fn writes() -> impl Strategy<Value = Vec<Written>> {
    let goes = prop_oneof![
        3 => Just(Vec::new()),
        2 => proptest::collection::vec(1..12_u64, 1..3),
    ];
    let put = proptest::option::weighted(0.8, (1..12_u64, 0..30_u8));
    proptest::collection::vec((1..4_u64, goes, put), 1..24)
}

/// What happens to a copy, in numbers that are taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next writes are told, in one batch.
    Told(usize),
    /// The next one is lost, or comes late.
    Lost,
    /// An earlier one, or a later one, is told out of its turn.
    Late(usize),
    /// A fill of so many turns, read so many writes behind the newest one, or before it.
    Filled(usize, usize),
    /// A copy is forgotten at the newest write.
    Forgotten,
    /// So many are asked for.
    Asked(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (1..4_usize).prop_map(Event::Told),
        1 => Just(Event::Lost),
        2 => any::<usize>().prop_map(Event::Late),
        3 => (0..6_usize, 0..14_usize).prop_map(|(at, most)| Event::Filled(at, most)),
        1 => Just(Event::Forgotten),
        2 => (0..14_usize).prop_map(Event::Asked),
    ]
}

/// A history, and what the port says about a copy of it.
struct Copied {
    /// Each write, and the history after it; the history before the first.
    steps: Vec<Step>,
    stories: Vec<Story>,
    told: usize,
    known: Option<u64>,
    /// The story that the copy is of, while it is of use.
    held: Option<usize>,
}

impl Copied {
    fn new(writes: Vec<Written>) -> Self {
        let mut story = Story::new();
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
            told: 0,
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

    fn fill(&self, back: usize, most: usize) -> (usize, Fill) {
        // One in six is ahead of what was told.
        let n = match back {
            5 => self.told + 1,
            _ => self.told.saturating_sub(back / 2),
        };
        let n = n.min(self.steps.len());
        (n, self.stories[n].fill(most))
    }

    async fn happens(&mut self, f: &HotFixture, s: &HotKey, event: Event) {
        match event {
            Event::Told(many) => {
                let end = (self.told + many).min(self.steps.len());
                let steps: Vec<&Step> = self.steps[self.told..end].iter().collect();
                f.advance(s, &steps).await;
                (self.told..end).for_each(|n| self.step(n));
                self.told = end;
            }
            Event::Lost => self.told = (self.told + 1).min(self.steps.len()),
            Event::Late(n) => {
                let n = n % self.steps.len();
                f.advance(s, &[&self.steps[n]]).await;
                self.step(n);
            }
            Event::Filled(back, most) => {
                let (n, fill) = self.fill(back, most);
                f.fill(s, fill).await;
                self.filled(n);
            }
            Event::Forgotten => {
                let seq = self.stories[self.told].as_of.seq;
                f.forget_recent(s, seq).await;
                self.known = self.known.max(Some(seq));
                self.held = None;
            }
            Event::Asked(_) => {}
        }
    }

    /// Whatever is answered is exactly the newest turns of the history that it says it is of.
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

/// A random history, told in any way.
pub async fn any_interleaving(make: impl AsyncFn(HotBounds) -> HotFixture) {
    interleavings(20, make).await;
}

/// The same, with as many histories under each of several bounds.
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
