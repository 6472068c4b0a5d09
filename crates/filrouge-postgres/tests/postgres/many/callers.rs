//! Callers that remember their answers, and check that the store agrees.

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
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The delay between attempts of a refused write.
const TRY_EVERY: Duration = Duration::from_millis(20);

pub(crate) type Ledgers = Vec<Arc<dyn Ledger>>;

/// A write as its caller knows it: rebuilt for every attempt, with the same keys.
#[derive(Debug, Clone)]
enum Order {
    Start { request: String },
    Append { turn: TurnId, words: Vec<String> },
    Finalize { turn: TurnId, words: String },
}

impl Order {
    fn write(&self, session: &str) -> Write {
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

    /// The texts of the items that it adds.
    fn texts(&self) -> Vec<String> {
        match self {
            Self::Start { request: words } | Self::Finalize { words, .. } => vec![words.clone()],
            Self::Append { words, .. } => words.clone(),
        }
    }
}

/// An answer, except for whether it was a replay.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Turn(TurnId, u64),
    Place(u64, u64),
}

fn answer(outcome: Outcome) -> (Answer, bool) {
    match outcome {
        Outcome::Turn(turn, _) => (Answer::Turn(turn.turn_id, turn.first_seq), turn.replayed),
        Outcome::Appended {
            first_seq,
            last_seq,
            replayed,
            ..
        } => (Answer::Place(first_seq, last_seq), replayed),
        other => panic!("{other:?}"),
    }
}

/// A session as its caller knows it.
#[derive(Default)]
struct Book {
    session: String,
    /// Every write in order: its texts, and whether it was acknowledged; if not, it was given up.
    sent: Vec<(Vec<String>, bool)>,
    acknowledged: Vec<(Order, Answer)>,
    open: Option<TurnId>,
    number: u64,
}

impl Book {
    fn next(&mut self) -> String {
        self.number += 1;
        format!("{}-{}", self.session, self.number)
    }

    /// Chooses the next write at random.
    fn order(&mut self, rng: &mut StdRng) -> Order {
        match self.open {
            None => Order::Start {
                request: self.next(),
            },
            Some(turn) if rng.random_bool(0.15) => Order::Finalize {
                turn,
                words: self.next(),
            },
            Some(turn) => {
                let count = rng.random_range(1..=3);
                let words = (0..count).map(|_| self.next()).collect();
                Order::Append { turn, words }
            }
        }
    }

    fn note(&mut self, order: Order, given: Option<Answer>) {
        self.sent.push((order.texts(), given.is_some()));
        self.open = match (&order, &given) {
            (Order::Append { turn, .. }, _) => Some(*turn),
            (Order::Start { .. }, Some(Answer::Turn(turn, _))) => Some(*turn),
            // A turn whose start or end is uncertain is left alone.
            _ => None,
        };
        self.acknowledged.extend(given.map(|given| (order, given)));
    }

    /// Checks that every acknowledged write is stored once and completely, every abandoned one at most once, all in
    /// order.
    fn holds(&self, items: &[Item]) {
        let dense = items.iter().zip(1..).all(|(item, seq)| item.seq == seq);
        assert!(dense, "the seqs of {}", self.session);
        let mut left = items;
        for (texts, acknowledged) in &self.sent {
            let there = texts.len() <= left.len()
                && texts
                    .iter()
                    .zip(left)
                    .all(|(t, item)| item.body.parts == text(t));
            assert!(there || !acknowledged, "{texts:?} was acknowledged");
            if there {
                left = &left[texts.len()..];
            }
        }
        assert_eq!(
            left.len(),
            0,
            "{} holds what no caller wrote there",
            self.session
        );
    }
}

/// Writes to its own sessions through any of the ledgers, one write at a time.
struct Caller {
    rng: StdRng,
    ledgers: Ledgers,
    books: Vec<Book>,
    refused: u64,
}

impl Caller {
    fn any(&mut self) -> Arc<dyn Ledger> {
        let n = self.rng.random_range(0..self.ledgers.len());
        self.ledgers[n].clone()
    }

    /// Retries a write until it is answered, or occasionally gives it up after a refusal.
    async fn put(&mut self, session: &str, order: &Order) -> Option<(Answer, bool)> {
        let begun = Instant::now();
        loop {
            let ledger = self.any();
            match ledger.put(cmd(&anyone(), order.write(session))).await {
                Ok(outcome) => return Some(answer(outcome)),
                Err(failure) => {
                    assert!(failure.code.retry(), "{failure:?}");
                    assert!(begun.elapsed() < PATIENCE, "{failure:?}");
                    self.refused += 1;
                    if self.rng.random_bool(0.1) {
                        return None;
                    }
                    tokio::time::sleep(TRY_EVERY).await;
                }
            }
        }
    }

    /// Every server returns acknowledged writes at once.
    async fn read(&mut self, n: usize) {
        let ledger = self.any();
        let book = &self.books[n];
        if book.acknowledged.is_empty() {
            return;
        }
        match try_items(&*ledger, &book.session).await {
            Ok(items) => book.holds(&items),
            Err(failure) => assert!(failure.code.retry(), "{failure:?}"),
        }
    }

    async fn step(&mut self) {
        let n = self.rng.random_range(0..self.books.len());
        if self.rng.random_bool(0.1) {
            return self.read(n).await;
        }
        let mut book = std::mem::take(&mut self.books[n]);
        let count = book.acknowledged.len();
        if count > 0 && self.rng.random_bool(0.2) {
            let (order, first) = book.acknowledged[self.rng.random_range(0..count)].clone();
            if let Some(again) = self.put(&book.session, &order).await {
                assert_eq!(again, (first, true), "{order:?}");
            }
        } else {
            let order = book.order(&mut self.rng);
            let given = self.put(&book.session, &order).await;
            book.note(order, given.map(|(answer, _)| answer));
        }
        self.books[n] = book;
    }
}

/// Callers that are running.
pub(crate) struct Crowd {
    ledgers: Ledgers,
    callers: JoinSet<Caller>,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Crowd {
    /// Starts `callers` callers with `sessions` sessions each.
    pub(crate) fn start(ledgers: &Ledgers, callers: u64, sessions: usize) -> Self {
        let mut crowd = Self {
            ledgers: ledgers.clone(),
            callers: JoinSet::new(),
            over: Arc::default(),
            answered: Arc::default(),
        };
        for n in 0..callers {
            let book = |s| Book {
                session: format!("c{n}s{s}"),
                ..Book::default()
            };
            let mut caller = Caller {
                rng: StdRng::seed_from_u64(n),
                ledgers: ledgers.clone(),
                books: (0..sessions).map(book).collect(),
                refused: 0,
            };
            let (over, answered) = (crowd.over.clone(), crowd.answered.clone());
            crowd.callers.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    caller.step().await;
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                caller
            });
        }
        crowd
    }

    /// Waits for `writes` more answered writes.
    pub(crate) async fn continues_for(&self, writes: u64) {
        let goal = self.answered.load(Ordering::SeqCst) + writes;
        eventually("the callers continue", || {
            self.answered.load(Ordering::SeqCst) >= goal
        })
        .await;
    }

    /// Lets all callers finish, and compares the store with their answers; returns how many attempts were refused.
    pub(crate) async fn finish_and_check(self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        let callers = self.callers.join_all().await;
        let ledgers = self.ledgers.iter().cycle();
        let books = callers.iter().flat_map(|caller| &caller.books);
        for (book, ledger) in books.zip(ledgers) {
            if book.acknowledged.is_empty() {
                continue;
            }
            book.holds(&items(&**ledger, &book.session).await);
        }
        for ledger in &self.ledgers {
            intact(&**ledger).await;
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

/// Everything verifies.
pub(crate) async fn intact(ledger: &dyn Ledger) {
    let report = ledger.verify(None).await.unwrap();
    assert_eq!(report.findings, Vec::new());
    assert_eq!(report.verdict(), Verdict::Intact);
    assert_eq!(ledger.health().integrity, None);
}

/// Waits until `is` returns true.
pub(crate) async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
