//! A random workload: callers remember the answers that they got, and check that the store agrees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use filrouge_store::command::Write;
use filrouge_store::contract::fixture::{anyone, append, cmd, finalize, keyed, sid, start, text};
use filrouge_store::verify::Verdict;
use filrouge_store::{Ledger, Outcome};
use filrouge_types::{Failure, Item, TurnId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

/// How long to wait for an expected event.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// The delay between attempts of a refused write.
const RETRY_DELAY: Duration = Duration::from_millis(20);

pub(crate) type Ledgers = Vec<Arc<dyn Ledger>>;

/// A write as its caller knows it: rebuilt for every attempt, with the same keys.
#[derive(Debug, Clone)]
pub(crate) enum PlannedWrite {
    Start { request: String },
    Append { turn: TurnId, words: Vec<String> },
    Finalize { turn: TurnId, words: String },
}

impl PlannedWrite {
    pub(crate) fn write(&self, session: &str) -> Write {
        match self {
            Self::Start { request } => {
                Write::Start(Arc::new(start(&anyone(), session, request, request)))
            }
            Self::Append { turn, words } => {
                let items = words.iter().map(|w| keyed(w, w)).collect();
                append(session, *turn, items, None)
            }
            Self::Finalize { turn, words } => finalize(session, *turn, Some(words)),
        }
    }

    /// The texts of the items that the write adds.
    pub(crate) fn texts(&self) -> Vec<String> {
        match self {
            Self::Start { request: words } | Self::Finalize { words, .. } => vec![words.clone()],
            Self::Append { words, .. } => words.clone(),
        }
    }
}

/// An answer, except for whether it was a replay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Turn(TurnId, u64),
    Seqs(u64, u64),
}

/// The answer, and whether it was a replay.
pub(crate) fn answer(outcome: Outcome) -> (Answer, bool) {
    match outcome {
        Outcome::Turn(turn, _) => (Answer::Turn(turn.turn_id, turn.first_seq), turn.replayed),
        Outcome::Appended {
            first_seq,
            last_seq,
            replayed,
            ..
        } => (Answer::Seqs(first_seq, last_seq), replayed),
        other => panic!("{other:?}"),
    }
}

/// A session as its caller knows it.
#[derive(Default)]
struct ExpectedSession {
    session: String,
    /// Every write in order: its texts, and whether it was acknowledged. Other writes were given up.
    sent: Vec<(Vec<String>, bool)>,
    acknowledged: Vec<(PlannedWrite, Answer)>,
    open: Option<TurnId>,
    number: u64,
}

impl ExpectedSession {
    /// A text that no other item has.
    fn next_text(&mut self) -> String {
        self.number += 1;
        format!("{}-{}", self.session, self.number)
    }

    /// Chooses the next write at random.
    fn plan_write(&mut self, rng: &mut StdRng) -> PlannedWrite {
        match self.open {
            None => PlannedWrite::Start {
                request: self.next_text(),
            },
            Some(turn) if rng.random_bool(0.15) => PlannedWrite::Finalize {
                turn,
                words: self.next_text(),
            },
            Some(turn) => {
                let count = rng.random_range(1..=3);
                let words = (0..count).map(|_| self.next_text()).collect();
                PlannedWrite::Append { turn, words }
            }
        }
    }

    /// Remembers a write and its answer.
    fn remember(&mut self, write: PlannedWrite, answer: Option<Answer>) {
        self.sent.push((write.texts(), answer.is_some()));
        self.open = match (&write, &answer) {
            (PlannedWrite::Append { turn, .. }, _) => Some(*turn),
            (PlannedWrite::Start { .. }, Some(Answer::Turn(turn, _))) => Some(*turn),
            // A turn whose start or end is uncertain is left alone.
            _ => None,
        };
        self.acknowledged
            .extend(answer.map(|answer| (write, answer)));
    }

    /// Asserts that every acknowledged write is stored once and completely, every abandoned one at most once, all in
    /// order.
    fn assert_stored(&self, items: &[Item]) {
        let dense = items.iter().zip(1..).all(|(item, seq)| item.seq == seq);
        assert!(dense, "the seqs of {}", self.session);
        let mut left = items;
        for (texts, acknowledged) in &self.sent {
            let is_stored = texts.len() <= left.len()
                && texts
                    .iter()
                    .zip(left)
                    .all(|(t, item)| item.body.parts == text(t));
            assert!(
                is_stored || !acknowledged,
                "{texts:?} was acknowledged, but is not stored"
            );
            if is_stored {
                left = &left[texts.len()..];
            }
        }
        assert_eq!(
            left.len(),
            0,
            "{} has items that no caller wrote",
            self.session
        );
    }
}

/// Writes to its own sessions through any of the ledgers, one write at a time.
struct Caller {
    rng: StdRng,
    ledgers: Ledgers,
    sessions: Vec<ExpectedSession>,
    refused: u64,
}

impl Caller {
    fn random_ledger(&mut self) -> Arc<dyn Ledger> {
        let n = self.rng.random_range(0..self.ledgers.len());
        self.ledgers[n].clone()
    }

    /// Retries a write until it is answered, or occasionally gives it up after a refusal.
    async fn put(&mut self, session: &str, write: &PlannedWrite) -> Option<(Answer, bool)> {
        let begun = Instant::now();
        loop {
            let ledger = self.random_ledger();
            match ledger.put(cmd(&anyone(), write.write(session))).await {
                Ok(outcome) => return Some(answer(outcome)),
                Err(failure) => {
                    assert!(failure.code.retry(), "{failure:?}");
                    assert!(begun.elapsed() < TIMEOUT, "{failure:?}");
                    self.refused += 1;
                    if self.rng.random_bool(0.1) {
                        return None;
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Reads a session: every server returns acknowledged writes at once.
    async fn read(&mut self, n: usize) {
        let ledger = self.random_ledger();
        let expected = &self.sessions[n];
        if expected.acknowledged.is_empty() {
            return;
        }
        match try_items(&*ledger, &expected.session).await {
            Ok(items) => expected.assert_stored(&items),
            Err(failure) => assert!(failure.code.retry(), "{failure:?}"),
        }
    }

    /// Reads a session, repeats an acknowledged write, or executes a new one.
    async fn step(&mut self) {
        let n = self.rng.random_range(0..self.sessions.len());
        if self.rng.random_bool(0.1) {
            return self.read(n).await;
        }
        let mut expected = std::mem::take(&mut self.sessions[n]);
        let count = expected.acknowledged.len();
        if count > 0 && self.rng.random_bool(0.2) {
            let (write, first) = expected.acknowledged[self.rng.random_range(0..count)].clone();
            if let Some(again) = self.put(&expected.session, &write).await {
                assert_eq!(again, (first, true), "{write:?}");
            }
        } else {
            let write = expected.plan_write(&mut self.rng);
            let answer = self.put(&expected.session, &write).await;
            expected.remember(write, answer.map(|(answer, _)| answer));
        }
        self.sessions[n] = expected;
    }
}

/// Callers that are running.
pub(crate) struct Workload {
    ledgers: Ledgers,
    callers: JoinSet<Caller>,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Workload {
    /// Starts `callers` callers with `sessions` sessions each.
    pub(crate) fn start(ledgers: &Ledgers, callers: u64, sessions: usize) -> Self {
        let mut workload = Self {
            ledgers: ledgers.clone(),
            callers: JoinSet::new(),
            over: Arc::default(),
            answered: Arc::default(),
        };
        for n in 0..callers {
            let session = |s| ExpectedSession {
                session: format!("c{n}s{s}"),
                ..ExpectedSession::default()
            };
            let mut caller = Caller {
                rng: StdRng::seed_from_u64(n),
                ledgers: ledgers.clone(),
                sessions: (0..sessions).map(session).collect(),
                refused: 0,
            };
            let (over, answered) = (workload.over.clone(), workload.answered.clone());
            workload.callers.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    caller.step().await;
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                caller
            });
        }
        workload
    }

    /// Waits for `writes` more answered writes.
    pub(crate) async fn wait_for_writes(&self, writes: u64) {
        let goal = self.answered.load(Ordering::SeqCst) + writes;
        eventually("more writes are answered", || {
            self.answered.load(Ordering::SeqCst) >= goal
        })
        .await;
    }

    /// Lets all callers finish, and compares the store with their answers; returns how many attempts were refused.
    pub(crate) async fn finish_and_check(self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        let callers = self.callers.join_all().await;
        let ledgers = self.ledgers.iter().cycle();
        let sessions = callers.iter().flat_map(|caller| &caller.sessions);
        for (expected, ledger) in sessions.zip(ledgers) {
            if expected.acknowledged.is_empty() {
                continue;
            }
            expected.assert_stored(&items(&**ledger, &expected.session).await);
        }
        for ledger in &self.ledgers {
            assert_intact(&**ledger).await;
        }
        callers.iter().map(|caller| caller.refused).sum()
    }
}

/// All items of a session.
pub(crate) async fn items(ledger: &dyn Ledger, session: &str) -> Vec<Item> {
    try_items(ledger, session).await.unwrap()
}

async fn try_items(ledger: &dyn Ledger, session: &str) -> Result<Vec<Item>, Failure> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let page = ledger.items(&anyone(), &sid(session), after, 200).await;
        let (items, next) = page?;
        all.extend(items);
        match next {
            Some(next) => after = next.parse().unwrap(),
            None => return Ok(all),
        }
    }
}

/// Asserts that verification finds nothing.
pub(crate) async fn assert_intact(ledger: &dyn Ledger) {
    let report = ledger.verify(None).await.unwrap();
    assert_eq!(report.findings, Vec::new());
    assert_eq!(report.verdict(), Verdict::Intact);
    assert_eq!(ledger.health().integrity, None);
}

/// Waits until `condition` returns true; `what` says what is waited for.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < TIMEOUT, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
