//! Leases whose callers are gone, and webhooks that come twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, LeaseAsk, Write};
use filrouge_store::ledger::{About, Inspect, Layer, Stored};

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{
    ErrorCode, Failure, FixedClock, JsonText, Lease, SessionId, TenantId, Turn, TurnId,
};

use super::resume::is_trimmed;
use super::*;
use crate::OnBusy;
use crate::caller::Caller;
use crate::{Engine, FinalizeTurn, RecordEvent, Settings, StartTurn, Written};

/// A ledger whose answers are kept back, or that fails, when it is told to.
struct Gated {
    inner: MemoryLedger,
    /// Leases that were asked for.
    asked: AtomicU64,
    /// Leases are given, and nobody is told.
    kept_back: AtomicBool,
    /// Leases are not given free.
    keeps: AtomicBool,
    /// So many reads fail.
    unread: AtomicU64,
}

fn away() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "the ledger is away")
}

#[async_trait]
impl Layer for Gated {
    fn behind(&self) -> &dyn Ledger {
        &self.inner
    }

    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let ask = match &command.write {
            Write::Lease(take) => Some(take.ask.clone()),
            _ => None,
        };
        let releases = matches!(ask, Some(LeaseAsk::Release { .. }));
        if releases && self.keeps.load(Ordering::SeqCst) {
            return Err(away());
        }
        let written = self.inner.write(command).await;
        if matches!(ask, Some(LeaseAsk::Acquire(_))) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            while self.kept_back.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        written
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        let less = |n: u64| n.checked_sub(1);
        let fails = self
            .unread
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        match fails {
            Ok(_) => Err(away()),
            Err(_) => self.inner.inspect(about, question).await,
        }
    }

    async fn close(&self) {}
}

struct World {
    ledger: Arc<Gated>,
    engine: Arc<Engine>,
}

fn caller() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

fn sid() -> SessionId {
    "s".parse().unwrap()
}

fn by(holder: &str, wait_ms: u64) -> ResumeSession {
    ResumeSession {
        wait_ms: Some(wait_ms),
        ..ResumeSession::new(holder)
    }
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let keyring = Arc::new(Keyring::single([3; 32]));
        let ledger = Arc::new(Gated {
            inner: MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone()),
            asked: AtomicU64::new(0),
            kept_back: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            unread: AtomicU64::new(0),
        });
        let engine = Engine::new(
            ledger.clone(),
            Arc::new(OsEntropy),
            clock,
            Settings::default(),
        );
        Self {
            ledger,
            engine: Arc::new(engine),
        }
    }

    async fn lease(&self) -> Lease {
        self.engine.calls.lease(&caller(), &sid()).await.unwrap()
    }

    async fn resume(&self, holder: &str) -> Result<Written<Resumed>, Failure> {
        self.engine
            .calls
            .resume(&caller(), &sid(), by(holder, 0))
            .await
    }

    /// Until somebody has asked for so many leases.
    async fn asked(&self, leases: u64) {
        until(async || self.ledger.asked.load(Ordering::SeqCst) >= leases).await;
    }

    async fn freed(&self) {
        until(async || self.lease().await.holder.is_none()).await;
    }

    async fn start(&self, fence: u64) -> Turn {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain("?")),
            fence: Some(fence),
            ..StartTurn::new("r".parse().unwrap())
        };
        let turn = self.engine.turns.start(&caller(), sid(), start).await;
        turn.unwrap().value
    }

    async fn finalize(&self, turn: TurnId, fence: u64, release: bool) {
        let finalize = FinalizeTurn {
            answer_neutral: Some(JsonText::from_plain("!")),
            fence: Some(fence),
            release,
            ..FinalizeTurn::default()
        };
        let ended = self
            .engine
            .turns
            .finalize(&caller(), sid(), turn, finalize)
            .await;
        ended.unwrap();
    }

    /// The same webhook at somebody else's.
    fn enter(
        &self,
        resume: ResumeSession,
        on_busy: OnBusy,
    ) -> tokio::task::JoinHandle<Result<Entered, Failure>> {
        let engine = self.engine.clone();
        tokio::spawn(async move {
            let webhook = Webhook {
                session: sid(),
                request: "r".parse().unwrap(),
                resume,
                on_busy,
            };
            engine.calls.enter(&caller(), webhook).await
        })
    }

    async fn timeouts_told(&self) -> usize {
        let (caller, session) = (caller(), sid());
        let listed = self.engine.events.list(&caller, &session, 0, 100);
        let (events, _) = listed.await.unwrap();
        let of = events.iter().filter(|e| &*e.kind == "call_lock_timeout");
        of.count()
    }
}

/// Polls until it is so.
async fn until(so: impl AsyncFn() -> bool) {
    for _ in 0..60_000 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never was so");
}

#[tokio::test]
async fn a_lease_of_somebody_who_is_gone_is_given_free() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    world
        .engine
        .calls
        .release(&caller(), &sid(), "a", Some(first.fence))
        .await
        .unwrap();
    for resumes in [true, false] {
        let asked = world.ledger.asked.load(Ordering::SeqCst);
        world.ledger.kept_back.store(true, Ordering::SeqCst);
        let engine = world.engine.clone();
        let gone = tokio::spawn(async move {
            if resumes {
                let _ = engine.calls.resume(&caller(), &sid(), by("b", 0)).await;
            } else {
                let request = AcquireLease {
                    holder: "b".into(),
                    ttl_ms: None,
                    wait_ms: Some(0),
                };
                let _ = engine.calls.acquire(&caller(), &sid(), request).await;
            }
        });
        world.asked(asked + 1).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        assert_eq!(world.lease().await.holder.as_deref(), Some("b"));
        world.ledger.kept_back.store(false, Ordering::SeqCst);
        world.freed().await;
    }
    let next = world.resume("c").await.unwrap();
    assert_eq!(next.fence, first.fence + 3);
}

#[tokio::test]
async fn a_lease_of_a_resume_that_fails_is_given_free_unless_it_was_held_before() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    world.ledger.unread.store(1, Ordering::SeqCst);
    let failed = world.resume("a").await.unwrap_err();
    assert_eq!(failed.code, ErrorCode::StoreUnavailable);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(world.lease().await.holder.as_deref(), Some("a"));
    world
        .engine
        .calls
        .release(&caller(), &sid(), "a", Some(first.fence))
        .await
        .unwrap();
    world.ledger.unread.store(1, Ordering::SeqCst);
    world.resume("b").await.unwrap_err();
    world.freed().await;
    assert_eq!(world.lease().await.fence, first.fence + 1);
}

#[tokio::test]
async fn what_was_not_waited_for_is_no_timeout_and_each_waiter_is_told_of_once() {
    let world = World::new();
    world.resume("a").await.unwrap();
    world.resume("b").await.unwrap_err();
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (0, 1)
    );
    assert_eq!(world.timeouts_told().await, 0);
    for holder in ["b", "b", "c"] {
        let refused = world
            .engine
            .calls
            .resume(&caller(), &sid(), by(holder, 1))
            .await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::LeaseTimeout);
    }
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (3, 1)
    );
    assert_eq!(world.timeouts_told().await, 2);
}

#[tokio::test]
async fn a_webhook_that_is_answered_in_the_end_is_no_timeout() {
    let world = World::new();
    let held = world.resume("a").await.unwrap();
    let turn = world.start(held.fence).await;
    let other = world.enter(by("b", 100), OnBusy::Wait(Duration::from_secs(60)));
    world.asked(2).await;
    world.finalize(turn.turn_id, held.fence, false).await;
    let entered = other.await.unwrap().unwrap();
    assert!(
        matches!(&entered, Entered::Answered(t) if t.turn_id == turn.turn_id),
        "{entered:?}"
    );
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (0, 0)
    );
    assert_eq!(world.timeouts_told().await, 0);
}

#[tokio::test]
async fn a_webhook_whose_owner_is_gone_is_worked_at_by_who_waits() {
    let world = World::new();
    let held = world.resume("a").await.unwrap();
    world.start(held.fence).await;
    let other = world.enter(by("b", 0), OnBusy::Wait(Duration::from_secs(60)));
    world.asked(2).await;
    world
        .engine
        .calls
        .release(&caller(), &sid(), "a", Some(held.fence))
        .await
        .unwrap();
    let entered = other.await.unwrap().unwrap();
    assert!(
        matches!(&entered, Entered::Work(r) if r.fence == held.fence + 1),
        "{entered:?}"
    );
    assert_eq!(world.lease().await.holder.as_deref(), Some("b"));
}

#[tokio::test]
async fn an_answer_is_given_although_the_session_is_not_given_free() {
    let world = World::new();
    let held = world.resume("a").await.unwrap();
    let turn = world.start(held.fence).await;
    world.ledger.keeps.store(true, Ordering::SeqCst);
    let other = world.enter(by("b", 30_000), OnBusy::Reject);
    world.asked(2).await;
    world.finalize(turn.turn_id, held.fence, true).await;
    let entered = other.await.unwrap().unwrap();
    assert!(matches!(entered, Entered::Answered(_)), "{entered:?}");
}

#[tokio::test]
async fn a_copy_is_stale_when_somebody_has_held_the_session_since() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    let again = |holder: &str, known_seq, known_fence| ResumeSession {
        known_seq,
        known_fence,
        ..by(holder, 0)
    };
    let stale = async |request: ResumeSession| {
        let holder = request.holder.clone();
        let engine = &world.engine;
        let resumed = engine
            .calls
            .resume(&caller(), &sid(), request)
            .await
            .unwrap();
        engine
            .calls
            .release(&caller(), &sid(), &holder, Some(resumed.fence))
            .await
            .unwrap();
        resumed.stale
    };
    let (mine, none) = (Some(first.fence), Some(0));
    assert_eq!(stale(again("a", none, mine)).await, Some(false), "renewed");
    assert_eq!(stale(again("b", none, mine)).await, Some(false), "the next");
    assert_eq!(
        stale(again("a", none, mine)).await,
        Some(true),
        "b was there"
    );
    assert_eq!(stale(again("a", None, mine)).await, Some(true));
    assert_eq!(stale(again("a", Some(7), Some(99))).await, Some(true));
    assert_eq!(stale(again("a", none, None)).await, Some(false));
    assert_eq!(stale(again("a", None, None)).await, None);
}

#[tokio::test]
async fn a_tail_that_begins_too_late_is_trimmed() {
    let world = World::new();
    let held = world.resume("a").await.unwrap();
    let turn = world.start(held.fence).await;
    world.finalize(turn.turn_id, held.fence, true).await;
    let resumed = world.resume("b").await.unwrap();
    assert_eq!((resumed.fallback, resumed.tail.len()), (None, 2));
    let trimmed = |after, from: usize| is_trimmed(after, &resumed.tail[from..], 2);
    assert!(!trimmed(0, 0) && !trimmed(1, 1) && !trimmed(2, 2));
    assert!(trimmed(0, 1) && trimmed(0, 2) && trimmed(1, 2));
}

#[tokio::test]
async fn filrouge_leaves_room_for_the_events_of_the_application() {
    let world = World::new();
    world.resume("a").await.unwrap();
    let event = |n: u64| RecordEvent {
        key: format!("k{n}").parse().unwrap(),
        kind: "told".into(),
        at: None,
        detail: None,
    };
    for n in 0..9_000 {
        let recorded = world.engine.events.record(&caller(), sid(), event(n)).await;
        recorded.unwrap();
    }
    let refused = world
        .engine
        .calls
        .resume(&caller(), &sid(), by("b", 1))
        .await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::LeaseTimeout);
    assert_eq!(world.engine.upkeep.counters().events_dropped.get(), 1);
    let last = event(9_000);
    let recorded = world.engine.events.record(&caller(), sid(), last).await;
    assert!(!recorded.unwrap().replayed);
}
