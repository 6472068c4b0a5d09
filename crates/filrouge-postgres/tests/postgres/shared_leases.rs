//! Leases that several servers share, by the database's clock, and their cost.

use std::sync::Arc;
use std::time::Duration;

use filrouge_store::command::{
    Acquire, FencingToken, LeaseCommand, LeaseRequest, NewSession, Outcome, PutCheckpoint, Write,
};
use filrouge_store::contract::fixture::{
    anyone, append, cmd, finalize, item, keyed, rid, sid, start,
};
use filrouge_store::contract::session_writes::{event, json};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_testbed::{Database, PgBouncer};
use filrouge_types::{Channel, ErrorCode, Failure, Lease, Timestamp, TurnId};

use super::servers::callers::{TIMEOUT, eventually};
use super::servers::{block_on, close, open};
use super::{database, keyring};

mod cost;
mod plans;

const MINUTE: Duration = Duration::from_secs(60);

/// Acquires a session for a minute, and creates it if needed; `known` is the seq that a resuming caller already knows.
pub(crate) fn acquire(session: &str, holder: &str, known: Option<Option<u64>>) -> Write {
    let acquire = Acquire {
        ttl: MINUTE,
        exited: None,
        create: Some(NewSession::with_id(sid(session))),
        terminal: Vec::new(),
        resumes: known,
    };
    lease_write(session, holder, LeaseRequest::Acquire(Box::new(acquire)))
}

pub(crate) fn release(session: &str, holder: &str, fence: u64) -> Write {
    lease_write(session, holder, LeaseRequest::Release { fence })
}

fn lease_write(session: &str, holder: &str, request: LeaseRequest) -> Write {
    Write::Lease(Box::new(LeaseCommand {
        session_id: sid(session),
        holder: holder.into(),
        request,
    }))
}

pub(crate) fn checkpoint(session: &str, seq: Option<u64>, label: &str, keep: u64) -> Write {
    Write::PutCheckpoint(Box::new(PutCheckpoint {
        session_id: sid(session),
        seq,
        label: Some(label.into()),
        state: json(&format!(r#"{{"state":"{label}","slots":["9h","10h30"]}}"#)),
        keep,
    }))
}

/// A server that uses the database's time.
fn server(url: &str) -> Arc<dyn Ledger> {
    open(filrouge_postgres::Options::new(url, keyring(), Arc::new(OsEntropy)).unwrap())
}

/// Writes as the holder of the session, or without a lease.
async fn write(
    ledger: &dyn Ledger,
    hold: Option<FencingToken>,
    write: Write,
) -> Result<Outcome, Failure> {
    ledger.put(cmd(&anyone().with_fence(hold), write)).await
}

async fn acquire_lease(ledger: &dyn Ledger, session: &str, holder: &str) -> Result<Lease, Failure> {
    match write(ledger, None, acquire(session, holder, None)).await? {
        Outcome::Lease { lease, .. } => Ok(lease),
        other => panic!("expected a lease, got {other:?}"),
    }
}

async fn release_lease(ledger: &dyn Ledger, session: &str, holder: &str, fence: u64) {
    write(ledger, None, release(session, holder, fence))
        .await
        .unwrap();
}

async fn start_turn(ledger: &dyn Ledger, fence: u64, session: &str, request: &str) -> TurnId {
    let start = Write::Start(Arc::new(start(&anyone(), session, request, "q")));
    match write(ledger, Some(FencingToken::new(fence)), start)
        .await
        .unwrap()
    {
        Outcome::Turn(turn, _) => turn.turn_id,
        other => panic!("expected a turn, got {other:?}"),
    }
}

/// The database's time.
fn database_time(database: &Database) -> Timestamp {
    let micros = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let time = database.sql(micros).remove(0).remove(0).unwrap();
    Timestamp::from_micros(time.parse().unwrap())
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_micros(time.as_micros() + i64::try_from(by.as_micros()).unwrap())
}

/// Asserts that a lease passes from one server to the other: the second one learns the holder and the expiry, and wakes
/// when the lease is released.
async fn assert_lease_passes(database: &Database, a: &dyn Ledger, b: &dyn Ledger) {
    let before = database_time(database);
    let held = acquire_lease(a, "s", "a").await.unwrap();
    let after = database_time(database);
    assert_eq!(held.fence, 1);
    let until = held.expires_at.unwrap();
    assert!(later(before, MINUTE) <= until && until <= later(after, MINUTE));

    let refused = acquire_lease(b, "s", "b").await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseTimeout);
    assert_eq!(refused.held.as_deref(), Some(&held));
    let refused = write(
        b,
        None,
        Write::Start(Arc::new(start(&anyone(), "s", "r", "q"))),
    )
    .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::LeaseHeld);
    assert_eq!(refused.held.as_deref(), Some(&held));

    let turn = start_turn(a, 1, "s", "r").await;
    eventually("the second server sees the newest commit", || {
        b.position() == a.position()
    })
    .await;
    let (mut commits, known) = (b.commits(), b.position().commit_count());
    let waits = commits.wait_for(|commits| *commits > known);
    let waits = tokio::time::timeout(TIMEOUT, waits);
    let (woken, ()) = tokio::join!(waits, release_lease(a, "s", "a", 1));
    woken.unwrap().unwrap();
    assert_eq!(acquire_lease(b, "s", "b").await.unwrap().fence, 2);

    // The previous holder can no longer write; the new one continues the open turn.
    let more = || append("s", turn, vec![item(Channel::Plan, "p")], None);
    let late = write(a, Some(FencingToken::new(1)), more())
        .await
        .unwrap_err();
    assert_eq!(late.code, ErrorCode::StaleFence);
    write(b, Some(FencingToken::new(2)), more()).await.unwrap();
}

#[test]
fn a_lease_passes_from_server_to_server() {
    let database = database();
    block_on(async {
        let ledgers = vec![server(&database.url()), server(&database.url())];
        assert_lease_passes(&database, &*ledgers[0], &*ledgers[1]).await;
        close(ledgers).await;
    });
}

#[test]
fn a_lease_passes_from_server_to_server_behind_a_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let url = pool.url(database.name());
        let ledgers = vec![server(&url), server(&url)];
        assert_lease_passes(&database, &*ledgers[0], &*ledgers[1]).await;
        close(ledgers).await;
    });
}

/// Of many callers on several servers that acquire a session at once, one gets the lease, and no fence is issued twice.
#[test]
fn one_of_many_callers_gets_the_lease() {
    let database = database();
    block_on(async {
        let ledgers = vec![server(&database.url()), server(&database.url())];
        for round in 1..=5_u64 {
            let all = (0..12).map(|n| {
                let ledger = ledgers[n % 2].clone();
                tokio::spawn(
                    async move { (n, acquire_lease(&*ledger, "s", &format!("h{n}")).await) },
                )
            });
            let (mut holder, mut fence) = (None, 0);
            for one in all.collect::<Vec<_>>() {
                match one.await.unwrap() {
                    (n, Ok(lease)) => {
                        assert_eq!(holder.replace(n), None, "the lease was granted twice");
                        fence = lease.fence;
                    }
                    (_, Err(refused)) => assert_eq!(refused.code, ErrorCode::LeaseTimeout),
                }
            }
            assert_eq!(fence, round);
            let holder = format!("h{}", holder.unwrap());
            release_lease(&*ledgers[1], "s", &holder, fence).await;
        }
        close(ledgers).await;
    });
}

/// Sets the database's clock ahead of this process's, by replacing the clock function.
fn set_ahead(database: &Database, interval: &str) {
    let rename_once = "DO $$ BEGIN
            IF to_regproc('pg_catalog.real_clock') IS NULL THEN
                ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO real_clock;
            END IF;
        END $$";
    database.sql(&format!(
        "SET allow_system_table_mods = on; {rename_once};
         CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
         AS $$ SELECT pg_catalog.real_clock() + interval '{interval}' $$"
    ));
}

/// Leases end by the database's clock, although the processes' own clocks are an hour behind.
#[test]
fn leases_end_by_the_databases_clock() {
    let database = database();
    set_ahead(&database, "1 hour");
    block_on(async {
        let ledgers = vec![server(&database.url()), server(&database.url())];
        let (a, b) = (&*ledgers[0], &*ledgers[1]);
        assert_lease_passes(&database, a, b).await;
        // The minute has passed on the database, but not in this process.
        set_ahead(&database, "1 hour 2 minutes");
        let start = Write::Start(Arc::new(start(&anyone(), "s", "late", "q")));
        let late = write(b, Some(FencingToken::new(2)), start.clone()).await;
        assert_eq!(late.unwrap_err().code, ErrorCode::LeaseExpired);
        assert_eq!(acquire_lease(a, "s", "a").await.unwrap().fence, 3);
        let stale = write(b, Some(FencingToken::new(2)), start).await;
        assert_eq!(stale.unwrap_err().code, ErrorCode::StaleFence);
        // When the clock is set back, the lease lasts longer, and is not lost.
        set_ahead(&database, "1 hour");
        let refused = acquire_lease(b, "s", "b").await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LeaseTimeout);
        close(ledgers).await;
    });
}

/// A caller that already knows the newest seq causes no event; another one does, once per fence.
#[test]
fn resumes_are_reported_once() {
    let database = database();
    block_on(async {
        let ledger = server(&database.url());
        let resumed = async |holder: &str, known| {
            let outcome = write(&*ledger, None, acquire("s", holder, Some(known))).await;
            match outcome.unwrap() {
                Outcome::Lease { lease, resumed, .. } => (lease.fence, resumed),
                other => panic!("expected a lease, got {other:?}"),
            }
        };
        assert_eq!(resumed("a", None).await, (1, false), "the session is new");
        start_turn(&*ledger, 1, "s", "r").await;
        release_lease(&*ledger, "s", "a", 1).await;
        assert_eq!(
            resumed("b", Some(1)).await,
            (2, false),
            "the caller knows the newest seq"
        );
        release_lease(&*ledger, "s", "b", 2).await;
        for _ in 0..3 {
            assert_eq!(resumed("c", None).await, (3, true));
        }
        // More events than are prefetched, and one that an application has recorded.
        for n in 0..100 {
            let key = if n == 0 {
                "filrouge:resume_from_pg:4".to_owned()
            } else {
                format!("e{n}")
            };
            let new = event("s", &key, "kind");
            write(&*ledger, None, Write::RecordEvent(Box::new(new)))
                .await
                .unwrap();
        }
        assert_eq!(resumed("c", None).await, (3, true));
        release_lease(&*ledger, "s", "c", 3).await;
        assert_eq!(resumed("d", None).await, (4, true));
        release_lease(&*ledger, "s", "d", 4).await;
        assert_eq!(resumed("e", None).await, (5, true));
        let events = ledger.events(&anyone(), &sid("s"), 0, 500).await.unwrap();
        let resumes = events.0.iter().filter(|e| &*e.kind == "resume_from_pg");
        assert_eq!(resumes.count(), 2);
        close(vec![ledger]).await;
    });
}

/// The writes of a complete turn.
fn complete_turn(session: &str, request: &str) -> Vec<Write> {
    let turn = keyring().turn_id(&anyone().tenant, &sid(session), &rid(request));
    vec![
        Write::Start(Arc::new(start(&anyone(), session, request, "q"))),
        append(session, turn, vec![keyed(request, "seen")], None),
        finalize(session, turn, Some("a")),
    ]
}
