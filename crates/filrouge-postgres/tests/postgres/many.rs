//! Several servers on one database: each ledger acts as a separate process.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::command::{Outcome, Write};
use filrouge_store::contract::asks::link;
use filrouge_store::contract::drafts::{delta, put, recorded, stream};
use filrouge_store::contract::fixture::{anyone, cmd, interrupt, operator, sid, start, user};
use filrouge_store::read::{ChangeCursor, SessionChange};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_testbed::{Database, PgBouncer};
use filrouge_types::{ErrorCode, FixedClock, SessionId, Turn};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{NOON, database, keyring};

pub(crate) mod callers;

use callers::{Crowd, Ledgers, PATIENCE, intact, items};

/// The options of a separate server, with the shared keys.
pub(crate) fn separate_server_options(url: &str) -> Options {
    let mut options = Options::new(url, keyring(), Arc::new(OsEntropy)).unwrap();
    options.clock = Some(Arc::new(FixedClock::at(NOON)));
    options
}

pub(crate) fn open(options: Options) -> Arc<dyn Ledger> {
    Arc::new(PostgresLedger::open(options).unwrap())
}

/// Two servers on the database at `url`.
pub(crate) fn two(url: &str) -> Ledgers {
    (0..2).map(|_| open(separate_server_options(url))).collect()
}

pub(crate) fn wait<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(test)
}

pub(crate) async fn close(ledgers: Ledgers) {
    for ledger in ledgers {
        ledger.close().await;
    }
}

pub(crate) async fn started(ledger: &dyn Ledger, session: &str, request: &str) -> Turn {
    let write = Write::Start(Arc::new(start(&anyone(), session, request, request)));
    match ledger.put(cmd(&anyone(), write)).await.unwrap() {
        Outcome::Turn(turn, _) => *turn,
        other => panic!("{other:?}"),
    }
}

/// Reads every change once and in order, alternating between the ledgers, until `writers` have ended.
async fn read_beside(ledgers: Ledgers, mut over: watch::Receiver<bool>) {
    let mut cursor = ChangeCursor::default();
    let mut next: BTreeMap<SessionId, u64> = BTreeMap::new();
    let mut last = false;
    for ledger in ledgers.iter().cycle() {
        let page = ledger.changes(&operator("t"), cursor, 50).await.unwrap();
        cursor = page.next;
        for SessionChange {
            session_id,
            first_seq,
            last_seq,
            ..
        } in page.data
        {
            let expected = next.insert(session_id, last_seq.unwrap() + 1);
            assert_eq!(first_seq, expected.or(Some(1)));
        }
        if page.more {
            continue;
        }
        if last {
            break;
        }
        tokio::select! {
            ended = over.wait_for(|over| *over) => last = ended.is_ok(),
            () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
        }
    }
    for (session, next) in next {
        assert_eq!(
            items(&*ledgers[0], session.as_str()).await.len() as u64 + 1,
            next
        );
    }
}

#[test]
fn acknowledged_writes_are_stored_once_and_in_order() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        let (sender, over) = watch::channel(false);
        let reader = tokio::spawn(read_beside(ledgers.clone(), over));
        let crowd = Crowd::start(&ledgers, 6, 34);
        crowd.continues_for(1_500).await;
        assert_eq!(crowd.finish_and_check().await, 0, "nothing was refused");
        sender.send(true).unwrap();
        reader.await.unwrap();
        close(ledgers).await;
    });
}

#[test]
fn one_start_through_two_servers_is_one_turn() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        for round in 0..8 {
            let session = format!("s{round}");
            let mut tasks = JoinSet::new();
            for n in 0..32 {
                let (ledger, session) = (ledgers[n % 2].clone(), session.clone());
                tasks.spawn(async move { started(&*ledger, &session, "r").await });
            }
            let turns = tasks.join_all().await;
            assert_eq!(turns.iter().filter(|turn| !turn.replayed).count(), 1);
            assert!(turns.iter().all(|turn| turn.turn_id == turns[0].turn_id));
            assert_eq!(items(&*ledgers[1], &session).await.len(), 1);
        }
        intact(&*ledgers[0]).await;
        close(ledgers).await;
    });
}

/// A waiter at one server learns of another's commits.
pub(crate) async fn is_reported(at: &dyn Ledger, by: &dyn Ledger) {
    let mut commits = at.commits();
    for n in 0..10 {
        let turn = started(by, "announced", &format!("r{n}")).await;
        let goal = by.position().commit_no;
        let reported = commits.wait_for(|commit_no| *commit_no >= goal);
        tokio::time::timeout(PATIENCE, reported)
            .await
            .unwrap()
            .unwrap();
        let seen = at.turn(&anyone(), &sid("announced"), turn.turn_id).await;
        assert_eq!(seen.unwrap().turn_id, turn.turn_id);
    }
    assert_eq!(at.position(), by.position());
}

#[test]
fn commits_are_announced_to_other_servers() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        is_reported(&*ledgers[1], &*ledgers[0]).await;
        close(ledgers).await;
    });
}

#[test]
fn commits_are_found_behind_a_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 4);
    wait(async {
        let ledgers = two(&pool.url(database.name()));
        is_reported(&*ledgers[1], &*ledgers[0]).await;
        close(ledgers).await;
    });
}

/// A sweep: finds silent turns, and marks them.
async fn sweep(ledger: Arc<dyn Ledger>) -> usize {
    let later = NOON + 1;
    let found = ledger.query(move |snapshot| {
        let before = filrouge_types::Timestamp::from_micros(later);
        let silent = snapshot.view.silent_turns(before, 1_000)?;
        let of = |(pk, turn): (_, filrouge_store::rows::TurnRow)| {
            let session = snapshot.view.session_by_pk(pk)?.unwrap().row.session_id;
            Ok((session, turn.turn_id))
        };
        silent.into_iter().map(of).collect::<Result<Vec<_>, _>>()
    });
    let mut marked = 0;
    for (session, turn) in found.await.unwrap() {
        let write = interrupt(session.as_str(), turn, later);
        match ledger.put(cmd(&operator("t"), write)).await.unwrap() {
            Outcome::Interrupted(put) => marked += usize::from(put.is_some()),
            other => panic!("{other:?}"),
        }
    }
    marked
}

#[test]
fn two_sweeps_at_once_end_a_silent_turn_once() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        for n in 0..60 {
            started(&*ledgers[0], &format!("s{n}"), "r").await;
        }
        let (a, b) = tokio::join!(sweep(ledgers[0].clone()), sweep(ledgers[1].clone()));
        assert_eq!(a + b, 60, "{a} and {b}");
        for n in 0..60 {
            assert_eq!(items(&*ledgers[1], &format!("s{n}")).await.len(), 2);
        }
        intact(&*ledgers[0]).await;
        close(ledgers).await;
    });
}

#[test]
fn the_first_identity_is_kept_across_two_servers() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        for round in 0..10 {
            let session = format!("s{round}");
            started(&*ledgers[0], &session, "r").await;
            let mut tasks = JoinSet::new();
            for n in 0..8 {
                let (ledger, session) = (ledgers[n % 2].clone(), session.clone());
                tasks.spawn(async move {
                    let name = format!("user{n}");
                    let linked = ledger.write(cmd(&user(&name), link(&session, &name)));
                    (linked.await, name)
                });
            }
            let mut winners = Vec::new();
            for (outcome, name) in tasks.join_all().await {
                match outcome {
                    Ok(_) => winners.push(name),
                    Err(refused) => assert_eq!(refused.code, ErrorCode::SessionLinked),
                }
            }
            assert_eq!(winners.len(), 1, "{winners:?}");
            for ledger in &ledgers {
                let now = ledger
                    .session(&operator("t"), &sid(&session))
                    .await
                    .unwrap();
                assert_eq!(now.identity_id.unwrap().as_str(), winners[0]);
            }
        }
        intact(&*ledgers[1]).await;
        close(ledgers).await;
    });
}

/// Tails a draft at one server until its recording has ended; `seen` is its newest chunk.
async fn tailed(ledger: Arc<dyn Ledger>, session: SessionId, seen: watch::Sender<u64>) -> String {
    let mut commits = ledger.commits();
    let (mut known, mut shown) = (BTreeMap::new(), String::new());
    let mut begun = false;
    loop {
        let news = ledger
            .drafts(&anyone(), &session, known.clone())
            .await
            .unwrap();
        if news.is_empty() && begun {
            return shown;
        }
        for one in news {
            begun = true;
            known.insert(one.stream, one.chunk);
            if one.complete {
                shown.clear();
            }
            shown.extend(one.deltas.iter().map(|delta| delta.text.as_str()));
            seen.send_replace(one.chunk);
        }
        let reported = tokio::time::timeout(PATIENCE, commits.changed()).await;
        reported.unwrap().unwrap();
    }
}

async fn a_draft_is_tailed(ledgers: &Ledgers) {
    let (a, b) = (&ledgers[0], &ledgers[1]);
    let turn = started(&**a, "s", "r").await.turn_id;
    let write = |write| async { a.write(cmd(&anyone(), write)).await.unwrap() };
    write(put("s", turn, stream(1), 0, Vec::new())).await;
    let (sender, mut seen) = watch::channel(0);
    let tail = tokio::spawn(tailed(b.clone(), sid("s"), sender));
    let mut said = String::new();
    for n in 1..=60 {
        let word = format!("word{n} ");
        write(put("s", turn, stream(1), n, vec![delta(0, n == 1, &word)])).await;
        said.push_str(&word);
        if n % 20 == 0 {
            let caught_up = seen.wait_for(|chunk| *chunk == n);
            tokio::time::timeout(PATIENCE, caught_up)
                .await
                .unwrap()
                .unwrap();
        }
    }
    write(recorded("s", turn, stream(1), &said)).await;
    assert_eq!(tail.await.unwrap(), said);
    assert_eq!(items(&**b, "s").await.len(), 2);
    // A recording at one server excludes others at another server.
    let second = started(&**b, "s", "second").await.turn_id;
    write(put("s", second, stream(2), 0, Vec::new())).await;
    let other = put("s", second, stream(3), 0, Vec::new());
    let refused = b.write(cmd(&anyone(), other)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StreamOpen);
    intact(&**b).await;
}

#[test]
fn a_draft_recorded_at_one_server_is_tailed_at_another() {
    let database = database();
    wait(async {
        let ledgers = two(&database.url());
        a_draft_is_tailed(&ledgers).await;
        close(ledgers).await;
    });
}

#[test]
fn a_draft_is_tailed_behind_a_pooler() {
    let database: Database = database();
    let pool = PgBouncer::before(&database, 3);
    wait(async {
        let ledgers = two(&pool.url(database.name()));
        a_draft_is_tailed(&ledgers).await;
        close(ledgers).await;
    });
}
