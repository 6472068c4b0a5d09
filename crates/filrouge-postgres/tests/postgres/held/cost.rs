//! What leases and checkpoints ask of the server.

use filrouge_store::Ledger;
use filrouge_store::command::{Hold, NewSession, Write};
use filrouge_store::contract::fixture::{append, item, keyed, sid};
use filrouge_types::Channel;

use super::{acquire, acquired, checkpoint, released, server, started, whole, write};
use crate::database;
use crate::many::callers::eventually;
use crate::many::{close, wait};
use crate::statements::settled_count;

fn releasing(fence: u64) -> Hold {
    Hold {
        release: true,
        ..Hold::by(fence)
    }
}

/// Commits and statements of some work.
async fn cost(by: &dyn Ledger, work: impl AsyncFnOnce()) -> (u64, u64) {
    let (commits, statements) = (by.position().commit_no, settled_count(by).await);
    work().await;
    let statements = settled_count(by).await - statements;
    (by.position().commit_no - commits, statements)
}

/// Taking a session, a whole turn and giving it free: two commits beyond the turn's, one when its last write releases.
#[test]
fn a_turn_under_a_lease() {
    let database = database();
    wait(async {
        let by = server(&database.url());
        let by = &*by;
        // As often as the sessions are compared with the log, the watch asks as well.
        let each = async |hold: fn(bool) -> Option<Hold>, request: &str| {
            let writes = whole("s", request);
            let last = writes.len() - 1;
            for (n, one) in writes.into_iter().enumerate() {
                write(by, hold(n == last), one).await.unwrap();
            }
        };
        for n in 0..3 {
            each(|_| None, &format!("warm {n}")).await;
        }
        let bare = cost(by, async || each(|_| None, "bare").await).await;
        assert_eq!(bare.0, 3);

        let (mut fence, held) = (0, |_| Some(Hold::by(1)));
        let taken = cost(by, async || {
            fence = acquired(by, "s", "worker").await.unwrap().fence;
        })
        .await;
        assert_eq!((fence, taken.0), (1, 1));
        // BEGIN with its questions in one go, then what was put with COMMIT in another.
        assert!(taken.1 <= 8, "{taken:?}");
        let turn = cost(by, async || each(held, "held").await).await;
        assert_eq!(turn.0, bare.0, "who holds a session writes as often");
        let gone = cost(by, async || released(by, "s", "worker", 1).await).await;
        assert_eq!(gone.0, 1);
        assert!(gone.1 <= 8, "{gone:?}");

        acquired(by, "s", "worker").await.unwrap();
        let release = |last| Some(if last { releasing(2) } else { Hold::by(2) });
        let whole = cost(by, async || each(release, "releasing").await).await;
        assert_eq!(whole.0, bare.0, "the last write gives it free as well");
        assert_eq!(acquired(by, "s", "other").await.unwrap().fence, 3);
        close(vec![server(&database.url())]).await;
    });
}

/// What a write asks is the same late in a session, beside many events and checkpoints.
#[test]
fn late_ones_ask_as_much_as_early_ones() {
    let database = database();
    wait(async {
        let ledger = server(&database.url());
        let by = &*ledger;
        let mut fence = 0;
        let mut early = None;
        for n in 0..60 {
            fence += 1;
            let resume = acquire("s", "worker", Some(None));
            let taken = cost_if(n > 1, by, async || {
                drop(write(by, None, resume).await.unwrap())
            })
            .await;
            let turn = started(by, fence, "s", &format!("r{n}")).await;
            let more = append("s", turn, vec![item(Channel::Plan, "p")], None);
            write(by, Some(Hold::by(fence)), more).await.unwrap();
            let put = checkpoint("s", None, &format!("STATE {n}"), 3);
            let put = cost_if(n > 4, by, async || {
                drop(write(by, Some(Hold::by(fence)), put).await.unwrap());
            })
            .await;
            released(by, "s", "worker", fence).await;
            if n == 5 {
                early = Some((taken, put));
            }
            if n == 59 {
                assert_eq!(Some((taken, put)), early);
            }
        }
        let (taken, put) = early.unwrap();
        assert!(taken.1 <= 9 && put.1 <= 11, "{early:?}");
        let kept = database.sql("SELECT count(*) FROM filrouge.checkpoint");
        assert_eq!(kept[0][0].as_deref(), Some("3"));
        close(vec![ledger]).await;
    });
}

async fn cost_if(counts: bool, by: &dyn Ledger, work: impl AsyncFnOnce()) -> (u64, u64) {
    if counts {
        return cost(by, work).await;
    }
    work().await;
    (0, 0)
}

/// Every session is taken, written to and given free in the same commit, under each of these fences; the first one makes it.
async fn calls(url: &str, holder: &str, fences: std::ops::RangeInclusive<u64>) {
    let ledger = server(url);
    for fence in fences {
        // Few at once: old versions go once nobody sees them.
        let at_once = 0..20;
        for first in (0..200).step_by(at_once.len()) {
            let all = at_once.clone().map(|n| {
                let (ledger, s) = (ledger.clone(), format!("s{}", first + n));
                let holder = holder.to_owned();
                tokio::spawn(async move { call(&*ledger, &s, &holder, fence).await })
            });
            for one in all.collect::<Vec<_>>() {
                one.await.unwrap();
            }
        }
    }
    ledger.close().await;
}

async fn call(by: &dyn Ledger, s: &str, holder: &str, fence: u64) {
    if fence == 0 {
        let made = Write::CreateSession(NewSession::bare(sid(s)));
        write(by, None, made).await.unwrap();
        return;
    }
    acquired(by, s, holder).await.unwrap();
    let turn = started(by, fence, s, &format!("r{fence}")).await;
    let more = append(s, turn, vec![keyed(&format!("k{fence}"), "x")], None);
    write(by, Some(releasing(fence)), more).await.unwrap();
}

/// The head grows by the holder's name, and stays within its page nevertheless: but for the first time, when pages are
/// still packed as heads without leases are.
#[test]
fn heads_under_leases_are_updated_in_place() {
    for (holder, first) in [("h".repeat(40), 90), ("h".repeat(256), 50)] {
        let database = database();
        let url = database.url();
        wait(async {
            calls(&url, &holder, 0..=0).await;
            for (fences, least) in [(1..=1, first), (2..=3, 95)] {
                database.sql("SELECT pg_stat_reset()");
                let writes = 600 * (fences.end() - fences.start() + 1);
                calls(&url, &holder, fences.clone()).await;
                let counted = || -> (u64, u64) {
                    let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
                         WHERE schemaname = 'filrouge' AND relname = 'head'";
                    let row = database.sql(sql).remove(0);
                    let [all, hot] =
                        [0, 1].map(|n: usize| row[n].as_ref().unwrap().parse().unwrap());
                    (all, hot)
                };
                // A server process tells of its work when it ends, at the latest.
                eventually("the server tells", || counted().0 >= writes).await;
                let (all, hot) = counted();
                assert!(
                    hot * 100 >= all * least,
                    "{} {fences:?}: {hot} of {all} within the page",
                    holder.len()
                );
            }
        });
    }
}
