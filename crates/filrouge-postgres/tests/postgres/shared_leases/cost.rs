//! The cost of leases and checkpoints on the server.

use filrouge_store::command::{FencingToken, NewEvent, NewSession, Write};
use filrouge_store::contract::fixture::{append, item, keyed, sid};
use filrouge_store::contract::lanes::session_in;
use filrouge_store::contract::session_writes::event;
use filrouge_store::{Lane, Ledger};
use filrouge_testbed::{Options, Server};
use filrouge_types::{Channel, Timestamp};

use super::{
    acquire, acquire_lease, checkpoint, complete_turn, release_lease, server, start_turn, write,
};
use crate::servers::callers::eventually;
use crate::servers::{block_on, close};
use crate::statements::settled_count;
use crate::{START_TIME, database, one_lane};

fn releasing(fence: u64) -> FencingToken {
    FencingToken {
        release: true,
        ..FencingToken::new(fence)
    }
}

/// The numbers of commits and statements of `work`.
async fn cost(ledger: &dyn Ledger, work: impl AsyncFnOnce()) -> (u64, u64) {
    let (commits, statements) = (
        ledger.position().commit_count(),
        settled_count(ledger).await,
    );
    work().await;
    let statements = settled_count(ledger).await - statements;
    (ledger.position().commit_count() - commits, statements)
}

/// Acquiring, writing a turn and releasing needs two commits more than the turn alone, or one if the turn's last write
/// releases.
#[test]
fn a_lease_adds_at_most_two_commits_to_a_turn() {
    let database = database();
    block_on(async {
        let server = server(&database.url());
        let ledger = &*server;
        let run_turn = async |hold: fn(bool) -> Option<FencingToken>, request: &str| {
            let writes = complete_turn("s", request);
            let last = writes.len() - 1;
            for (n, one) in writes.into_iter().enumerate() {
                write(ledger, hold(n == last), one).await.unwrap();
            }
        };
        for n in 0..3 {
            run_turn(|_| None, &format!("warm {n}")).await;
        }
        let bare = cost(ledger, async || run_turn(|_| None, "bare").await).await;
        assert_eq!(bare.0, 3);

        let (mut fence, held) = (0, |_| Some(FencingToken::new(1)));
        let acquire_cost = cost(ledger, async || {
            fence = acquire_lease(ledger, "s", "worker").await.unwrap().fence;
        })
        .await;
        assert_eq!((fence, acquire_cost.0), (1, 1));
        // One round trip sends BEGIN and the queries; a second one sends the rows, COMMIT and the notification.
        assert!(acquire_cost.1 <= 8, "{acquire_cost:?}");
        let turn = cost(ledger, async || run_turn(held, "held").await).await;
        assert_eq!(turn, bare, "a holder's writes cost the same");
        let release_cost = cost(ledger, async || {
            release_lease(ledger, "s", "worker", 1).await;
        })
        .await;
        assert_eq!(release_cost.0, 1);
        assert!(release_cost.1 <= 8, "{release_cost:?}");

        acquire_lease(ledger, "s", "worker").await.unwrap();
        let release = |last| {
            Some(if last {
                releasing(2)
            } else {
                FencingToken::new(2)
            })
        };
        let releasing_turn = cost(ledger, async || run_turn(release, "releasing").await).await;
        assert_eq!(releasing_turn, bare, "the last write also releases");
        assert_eq!(acquire_lease(ledger, "s", "other").await.unwrap().fence, 3);
        close(vec![server]).await;
    });
}

/// A write costs the same late in a session, with many events and checkpoints.
#[test]
fn late_writes_cost_as_much_as_early_ones() {
    let database = database();
    block_on(async {
        let server = server(&database.url());
        let ledger = &*server;
        let mut fence = 0;
        let mut early = None;
        for n in 0..60 {
            fence += 1;
            let resume = acquire("s", "worker", Some(None));
            let taken = cost_if(n > 1, ledger, async || {
                drop(write(ledger, None, resume).await.unwrap());
            })
            .await;
            let turn = start_turn(ledger, fence, "s", &format!("r{n}")).await;
            let more = append("s", turn, vec![item(Channel::Plan, "p")], None);
            write(ledger, Some(FencingToken::new(fence)), more)
                .await
                .unwrap();
            let put = checkpoint("s", None, &format!("STATE {n}"), 3);
            let put = cost_if(n > 4, ledger, async || {
                drop(
                    write(ledger, Some(FencingToken::new(fence)), put)
                        .await
                        .unwrap(),
                );
            })
            .await;
            release_lease(ledger, "s", "worker", fence).await;
            if n == 5 {
                early = Some((taken, put));
            }
            if n == 59 {
                assert_eq!(Some((taken, put)), early);
            }
        }
        let (taken, put) = early.unwrap();
        assert!(taken.1 <= 10 && put.1 <= 12, "{early:?}");
        let kept = database.sql("SELECT count(*) FROM filrouge.checkpoint");
        assert_eq!(kept[0][0].as_deref(), Some("3"));
        close(vec![server]).await;
    });
}

/// One statement deletes all rows of a table that a write deletes.
#[test]
fn deleting_many_rows_costs_as_much_as_deleting_one() {
    let database = database();
    block_on(async {
        let server = server(&database.url());
        let ledger = &*server;
        let fence = acquire_lease(ledger, "s", "worker").await.unwrap().fence;
        let put = async |seq: u64, keep: u64| {
            let put = checkpoint("s", Some(seq), "STATE", keep);
            let written = write(ledger, Some(FencingToken::new(fence)), put).await;
            drop(written.unwrap());
        };
        for n in 0..20 {
            start_turn(ledger, fence, "s", &format!("r{n}")).await;
        }
        for seq in 1..=10 {
            put(seq, 10).await;
        }
        let one = cost(ledger, async || put(11, 10).await).await;
        let many = cost(ledger, async || put(12, 2).await).await;
        assert_eq!(one, many);
        let kept = database.sql("SELECT seq FROM filrouge.checkpoint ORDER BY seq");
        let kept: Vec<_> = kept.iter().map(|row| row[0].as_deref()).collect();
        assert_eq!(kept, [Some("11"), Some("12")]);
        close(vec![server]).await;
    });
}

/// A new session gets its number from the rows of its own lane.
#[test]
fn a_new_session_costs_the_same_in_a_store_of_many_lanes() {
    let costs = [one_lane::database(), database()].map(|database| {
        block_on(async {
            let server = server(&database.url());
            let ledger = &*server;
            let create = async |prefix: &str| {
                let session = session_in(ledger.lanes(), Lane::FIRST, prefix);
                let new = Write::CreateSession(NewSession::with_id(sid(&session)));
                drop(write(ledger, None, new).await.unwrap());
            };
            create("first").await;
            let second = cost(ledger, async || create("second").await).await;
            close(vec![server]).await;
            second
        })
    });
    assert_eq!(costs[0], costs[1]);
}

async fn cost_if(counts: bool, ledger: &dyn Ledger, work: impl AsyncFnOnce()) -> (u64, u64) {
    if counts {
        return cost(ledger, work).await;
    }
    work().await;
    (0, 0)
}

/// Acquires, writes to and releases every session, once per fence; fence 0 creates the session.
async fn use_sessions(url: &str, holder: &str, fences: std::ops::RangeInclusive<u64>) {
    let ledger = server(url);
    for fence in fences {
        for n in 0..60 {
            use_session(&*ledger, &format!("s{n}"), holder, fence).await;
        }
    }
    ledger.close().await;
}

async fn use_session(ledger: &dyn Ledger, s: &str, holder: &str, fence: u64) {
    if fence == 0 {
        let create = Write::CreateSession(NewSession::with_id(sid(s)));
        write(ledger, None, create).await.unwrap();
        return;
    }
    acquire_lease(ledger, s, holder).await.unwrap();
    let turn = start_turn(ledger, fence, s, &format!("r{fence}")).await;
    let more = append(s, turn, vec![keyed(&format!("k{fence}"), "x")], None);
    write(ledger, Some(releasing(fence)), more).await.unwrap();
}

/// A head grows by the holder's name, and still stays within its page, except when a turn begins: this changes the
/// indexed time of the session's last activity. The test needs a server of its own, because
/// snapshots of other databases would keep old versions for a while.
#[test]
fn heads_under_leases_are_updated_in_place() {
    let dedicated = Server::start(Options::default());
    for (holder, first) in [("h".repeat(40), 60), ("h".repeat(256), 50)] {
        let name = dedicated.database();
        let url = dedicated.url(&name);
        block_on(async {
            use_sessions(&url, &holder, 0..=0).await;
            for (fences, minimum_percent) in [(1..=1, first), (2..=3, 60)] {
                dedicated.sql(&name, "SELECT pg_stat_reset()");
                let writes = 180 * (fences.end() - fences.start() + 1);
                use_sessions(&url, &holder, fences.clone()).await;
                let updates = || -> (u64, u64) {
                    let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                         WHERE schemaname = 'filrouge' AND relname = 'head'";
                    let row = dedicated.sql(&name, sql).remove(0);
                    let [all, hot] =
                        [0, 1].map(|n: usize| row[n].as_ref().unwrap().parse().unwrap());
                    (all, hot)
                };
                // A server process reports its counters when it ends, at the latest.
                eventually("the server reports its counters", || updates().0 >= writes).await;
                let (all, hot) = updates();
                assert!(
                    hot * 100 >= all * minimum_percent,
                    "{} {fences:?}: {hot} of {all} within the page",
                    holder.len()
                );
            }
        });
    }
}

/// An index finds the events of a time range, however many others exist, as the server's own counters prove.
#[test]
fn events_of_a_time_range_are_found_by_an_index() {
    let database = database();
    block_on(async {
        let ledger = server(&database.url());
        let at = |n: i64| Some(Timestamp::from_micros(START_TIME + n));
        for n in 0..4 {
            let new = NewEvent {
                at: at(-n),
                ..event("s", &format!("e{n}"), "kind")
            };
            if n == 0 {
                acquire_lease(&*ledger, "s", "worker").await.unwrap();
            }
            let new = Write::RecordEvent(Box::new(new));
            write(&*ledger, None, new).await.unwrap();
        }
        database.sql(
            "INSERT INTO filrouge.event SELECT n % 8, n, 1, gen_random_uuid(), e.data, e.at
             FROM generate_series(1000, 21000) AS n, (SELECT data, at FROM filrouge.event WHERE number = 1) e;
             ANALYZE filrouge.event",
        );
        // Runs after that connection has ended and reported its counters.
        database.sql("SELECT pg_stat_reset()");
        let counts = ledger.query(move |snapshot| {
            let span = [-2, 0].map(|n| Timestamp::from_micros(START_TIME + n));
            let found = snapshot.view.events_at(span[0], span[1], None, 1024)?;
            let after = found
                .first()
                .map(|(pk, row)| (row.event.at, *pk, row.number));
            let rest = snapshot.view.events_at(span[0], span[1], after, 1024)?;
            Ok((found.len(), rest.len()))
        });
        assert_eq!(counts.await.unwrap(), (2, 1));
        close(vec![ledger]).await;
        let index_use = || {
            let sql = "SELECT i.idx_scan, i.idx_tup_read, t.seq_scan
                 FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid) WHERE i.indexrelname = 'event_at'";
            let row = database.sql(sql).remove(0);
            [0, 1, 2].map(|n: usize| row[n].as_ref().unwrap().parse::<u64>().unwrap())
        };
        eventually("the server reports its counters", || index_use()[0] >= 2).await;
        let [_, read, table_scans] = index_use();
        assert!(
            read <= 8 && table_scans == 0,
            "{read} rows, {table_scans} table scans"
        );
    });
}
