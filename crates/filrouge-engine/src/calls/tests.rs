//! Tests of leases whose caller was cancelled, and of webhooks that are delivered twice.

mod takeover;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, LeaseRequest, Write};
use filrouge_store::ledger::{CommittedWrite, LedgerLayer, QuerySubject, SnapshotQuery};
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

/// A ledger that delays its answers or fails on command.
struct ControlledLedger {
    inner: MemoryLedger,
    /// Number of attempts to acquire a lease.
    acquire_attempts: AtomicU64,
    /// While set, leases are granted, but the answer is delayed.
    answers_delayed: AtomicBool,
    /// While set, releases fail.
    releases_fail: AtomicBool,
    /// Number of reads that will fail.
    failing_reads: AtomicU64,
}

fn unavailable() -> Failure {
    Failure::new(ErrorCode::StoreUnavailable, "the ledger does not answer")
}

#[async_trait]
impl LedgerLayer for ControlledLedger {
    fn inner(&self) -> &dyn Ledger {
        &self.inner
    }

    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let request = match &command.write {
            Write::Lease(command) => Some(command.request.clone()),
            _ => None,
        };
        let releases = matches!(request, Some(LeaseRequest::Release { .. }));
        if releases && self.releases_fail.load(Ordering::SeqCst) {
            return Err(unavailable());
        }
        let written = self.inner.write(command).await;
        if matches!(request, Some(LeaseRequest::Acquire(_))) {
            self.acquire_attempts.fetch_add(1, Ordering::SeqCst);
            while self.answers_delayed.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        written
    }

    async fn inspect(
        &self,
        subject: QuerySubject<'_>,
        query: SnapshotQuery,
    ) -> Result<(), Failure> {
        let decrement = |n: u64| n.checked_sub(1);
        let fails = self
            .failing_reads
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement);
        match fails {
            Ok(_) => Err(unavailable()),
            Err(_) => self.inner.inspect(subject, query).await,
        }
    }

    async fn close(&self) {}
}

struct World {
    ledger: Arc<ControlledLedger>,
    engine: Arc<Engine>,
}

fn caller() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

fn session_id() -> SessionId {
    "s".parse().unwrap()
}

fn resume_by(holder: &str, wait_ms: u64) -> ResumeSession {
    ResumeSession {
        wait_ms: Some(wait_ms),
        ..ResumeSession::new(holder)
    }
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let keyring = Arc::new(Keyring::single([3; 32]));
        let ledger = Arc::new(ControlledLedger {
            inner: MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone()),
            acquire_attempts: AtomicU64::new(0),
            answers_delayed: AtomicBool::new(false),
            releases_fail: AtomicBool::new(false),
            failing_reads: AtomicU64::new(0),
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
        self.engine
            .calls
            .lease(&caller(), &session_id())
            .await
            .unwrap()
    }

    async fn resume(&self, holder: &str) -> Result<Written<Resumed>, Failure> {
        self.engine
            .calls
            .resume(&caller(), &session_id(), resume_by(holder, 0))
            .await
    }

    /// Waits until this many attempts to acquire a lease were made.
    async fn wait_for_attempts(&self, attempts: u64) {
        wait_until(async || self.ledger.acquire_attempts.load(Ordering::SeqCst) >= attempts).await;
    }

    async fn wait_for_release(&self) {
        wait_until(async || self.lease().await.holder.is_none()).await;
    }

    async fn start(&self, fence: u64) -> Turn {
        let start = StartTurn {
            question_neutral: Some(JsonText::from_plain("?")),
            fence: Some(fence),
            ..StartTurn::new("r".parse().unwrap())
        };
        let turn = self
            .engine
            .turns
            .start(&caller(), session_id(), start)
            .await;
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
            .finalize(&caller(), session_id(), turn, finalize)
            .await;
        ended.unwrap();
    }

    /// Delivers the same webhook to another caller.
    fn enter(
        &self,
        resume: ResumeSession,
        on_busy: OnBusy,
    ) -> tokio::task::JoinHandle<Result<WebhookAdmission, Failure>> {
        let engine = self.engine.clone();
        tokio::spawn(async move {
            let webhook = Webhook {
                session: session_id(),
                request: "r".parse().unwrap(),
                resume,
                on_busy,
            };
            engine.calls.enter(&caller(), webhook).await
        })
    }

    async fn reported_timeouts(&self) -> usize {
        let (caller, session) = (caller(), session_id());
        let listed = self.engine.events.list(&caller, &session, 0, 100);
        let (events, _) = listed.await.unwrap();
        let timeouts = events.iter().filter(|e| &*e.kind == "call_lock_timeout");
        timeouts.count()
    }
}

/// Waits until the condition is true; fails after a minute or more.
async fn wait_until(condition: impl AsyncFn() -> bool) {
    for _ in 0..60_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the condition was never true");
}

#[tokio::test]
async fn the_lease_of_a_cancelled_call_is_released() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    world
        .engine
        .calls
        .release(&caller(), &session_id(), "a", Some(first.fence))
        .await
        .unwrap();
    for resumes in [true, false] {
        let attempts = world.ledger.acquire_attempts.load(Ordering::SeqCst);
        world.ledger.answers_delayed.store(true, Ordering::SeqCst);
        let engine = world.engine.clone();
        let call = tokio::spawn(async move {
            if resumes {
                let _ = engine
                    .calls
                    .resume(&caller(), &session_id(), resume_by("b", 0))
                    .await;
            } else {
                let request = AcquireLease {
                    holder: "b".into(),
                    ttl_ms: None,
                    wait_ms: Some(0),
                };
                let _ = engine
                    .calls
                    .acquire(&caller(), &session_id(), request)
                    .await;
            }
        });
        world.wait_for_attempts(attempts + 1).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(world.lease().await.holder.as_deref(), Some("b"));
        world.ledger.answers_delayed.store(false, Ordering::SeqCst);
        world.wait_for_release().await;
    }
    let next = world.resume("c").await.unwrap();
    assert_eq!(next.fence, first.fence + 3);
}

#[tokio::test]
async fn a_failed_resume_releases_its_lease_unless_it_was_held_before() {
    let world = World::new();
    let first = world.resume("a").await.unwrap();
    world.ledger.failing_reads.store(1, Ordering::SeqCst);
    let failed = world.resume("a").await.unwrap_err();
    assert_eq!(failed.code, ErrorCode::StoreUnavailable);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(world.lease().await.holder.as_deref(), Some("a"));
    world
        .engine
        .calls
        .release(&caller(), &session_id(), "a", Some(first.fence))
        .await
        .unwrap();
    world.ledger.failing_reads.store(1, Ordering::SeqCst);
    world.resume("b").await.unwrap_err();
    world.wait_for_release().await;
    assert_eq!(world.lease().await.fence, first.fence + 1);
}

#[tokio::test]
async fn only_refusals_after_a_wait_are_timeouts_and_each_waiter_is_reported_once() {
    let world = World::new();
    world.resume("a").await.unwrap();
    world.resume("b").await.unwrap_err();
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (0, 1)
    );
    assert_eq!(world.reported_timeouts().await, 0);
    for holder in ["b", "b", "c"] {
        let refused = world
            .engine
            .calls
            .resume(&caller(), &session_id(), resume_by(holder, 1))
            .await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::LeaseTimeout);
    }
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (3, 1)
    );
    assert_eq!(world.reported_timeouts().await, 2);
}

#[tokio::test]
async fn a_webhook_that_is_answered_during_the_wait_is_not_a_timeout() {
    let world = World::new();
    let first_resume = world.resume("a").await.unwrap();
    let turn = world.start(first_resume.fence).await;
    let second_delivery = world.enter(resume_by("b", 100), OnBusy::Wait(Duration::from_secs(60)));
    world.wait_for_attempts(2).await;
    world
        .finalize(turn.turn_id, first_resume.fence, false)
        .await;
    let entered = second_delivery.await.unwrap().unwrap();
    assert!(
        matches!(&entered, WebhookAdmission::Answered(t) if t.turn_id == turn.turn_id),
        "{entered:?}"
    );
    let counts = world.engine.upkeep.counters();
    assert_eq!(
        (counts.lease_timeouts.get(), counts.leases_refused.get()),
        (0, 0)
    );
    assert_eq!(world.reported_timeouts().await, 0);
}

#[tokio::test]
async fn a_tail_that_begins_too_late_is_trimmed() {
    let world = World::new();
    let first_resume = world.resume("a").await.unwrap();
    let turn = world.start(first_resume.fence).await;
    world.finalize(turn.turn_id, first_resume.fence, true).await;
    let resumed = world.resume("b").await.unwrap();
    assert_eq!((resumed.fallback, resumed.tail.len()), (None, 2));
    let trimmed = |after, from: usize| is_trimmed(after, &resumed.tail[from..], 2);
    assert!(!trimmed(0, 0) && !trimmed(1, 1) && !trimmed(2, 2));
    assert!(trimmed(0, 1) && trimmed(0, 2) && trimmed(1, 2));
}

#[tokio::test]
async fn events_of_the_engine_leave_room_for_the_applications() {
    let world = World::new();
    world.resume("a").await.unwrap();
    let event = |n: u64| RecordEvent {
        key: format!("k{n}").parse().unwrap(),
        kind: "reported".into(),
        at: None,
        detail: None,
    };
    for n in 0..9_000 {
        let recorded = world
            .engine
            .events
            .record(&caller(), session_id(), event(n))
            .await;
        recorded.unwrap();
    }
    let refused = world
        .engine
        .calls
        .resume(&caller(), &session_id(), resume_by("b", 1))
        .await;
    assert_eq!(refused.unwrap_err().code, ErrorCode::LeaseTimeout);
    assert_eq!(world.engine.upkeep.counters().events_dropped.get(), 1);
    let last = event(9_000);
    let recorded = world
        .engine
        .events
        .record(&caller(), session_id(), last)
        .await;
    assert!(!recorded.unwrap().replayed);
}
