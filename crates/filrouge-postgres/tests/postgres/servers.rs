//! Several servers on one database. Each ledger acts as a separate process.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_postgres::{Options, PostgresLedger};
use filrouge_store::command::{Outcome, Write};
use filrouge_store::contract::drafts::{delta, put, recorded, stream};
use filrouge_store::contract::fixture::{anyone, cmd, interrupt, operator, sid, start, user};
use filrouge_store::contract::session_writes::link;
use filrouge_store::read::{ChangeCursor, SessionChange};
use filrouge_store::{Ledger, OsEntropy};
use filrouge_testbed::{Database, PgBouncer, Row};
use filrouge_types::{ErrorCode, FixedClock, SessionId, Turn};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{START_TIME, database, keyring};

pub(crate) mod callers;

use callers::{Ledgers, TIMEOUT, Workload, assert_intact, items};

/// The options of a separate server, with the shared keys.
pub(crate) fn separate_server_options(url: &str) -> Options {
    let mut options = Options::new(url, keyring(), Arc::new(OsEntropy)).unwrap();
    options.clock = Some(Arc::new(FixedClock::at(START_TIME)));
    options
}

pub(crate) fn open(options: Options) -> Arc<dyn Ledger> {
    Arc::new(PostgresLedger::open(options).unwrap())
}

/// Two ledgers on the database at `url`, as two filrouge servers would open them.
pub(crate) fn two_ledgers(url: &str) -> Ledgers {
    (0..2).map(|_| open(separate_server_options(url))).collect()
}

pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
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

/// Starts a turn whose question is its request id.
pub(crate) async fn start_turn(ledger: &dyn Ledger, session: &str, request: &str) -> Turn {
    let write = Write::Start(Arc::new(start(&anyone(), session, request, request)));
    match ledger.put(cmd(&anyone(), write)).await.unwrap() {
        Outcome::Turn(turn, _) => *turn,
        other => panic!("{other:?}"),
    }
}

/// Reads every change once and in order, alternating between the ledgers, until `writers_done` is true.
async fn read_all_changes(ledgers: Ledgers, mut writers_done: watch::Receiver<bool>) {
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
            done = writers_done.wait_for(|done| *done) => last = done.is_ok(),
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
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        let (sender, writers_done) = watch::channel(false);
        let reader = tokio::spawn(read_all_changes(ledgers.clone(), writers_done));
        let workload = Workload::start(&ledgers, 6, 34);
        workload.wait_for_writes(1_500).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        sender.send(true).unwrap();
        reader.await.unwrap();
        close(ledgers).await;
    });
}

/// The number of commits of each lane, whose log must be dense.
fn lengths_of_logs(database: &Database) -> Vec<u64> {
    let logs = database.sql(
        "SELECT lane, count(*), min(commit_no), max(commit_no) FROM filrouge.commit_log GROUP BY lane ORDER BY lane",
    );
    let length = |(lane, row): (u64, Row)| {
        let row: Vec<u64> = row
            .iter()
            .map(|n| n.as_ref().unwrap().parse().unwrap())
            .collect();
        assert_eq!(row, [lane, row[1], 1, row[1]]);
        row[1]
    };
    (0..).zip(logs).map(length).collect()
}

#[test]
fn servers_that_write_many_sessions_leave_a_dense_log_in_every_lane() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        let workload = Workload::start(&ledgers, 8, 16);
        workload.wait_for_writes(1_200).await;
        assert_eq!(workload.finish_and_check().await, 0, "writes were refused");
        let lengths = lengths_of_logs(&database);
        assert_eq!(lengths.len(), 8);
        for ledger in &ledgers {
            let position = ledger.position();
            let known = ledger
                .lanes()
                .iter()
                .map(|lane| position.lane(lane).commit_no);
            assert_eq!(known.collect::<Vec<_>>(), lengths);
        }
        close(ledgers).await;
    });
}

#[test]
fn one_start_through_two_servers_is_one_turn() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        for round in 0..8 {
            let session = format!("s{round}");
            let mut tasks = JoinSet::new();
            for n in 0..32 {
                let (ledger, session) = (ledgers[n % 2].clone(), session.clone());
                tasks.spawn(async move { start_turn(&*ledger, &session, "r").await });
            }
            let turns = tasks.join_all().await;
            assert_eq!(turns.iter().filter(|turn| !turn.replayed).count(), 1);
            assert!(turns.iter().all(|turn| turn.turn_id == turns[0].turn_id));
            assert_eq!(items(&*ledgers[1], &session).await.len(), 1);
        }
        assert_intact(&*ledgers[0]).await;
        close(ledgers).await;
    });
}

/// Asserts that `listener` learns of the commits of `writer` without a query.
pub(crate) async fn assert_commits_are_announced(listener: &dyn Ledger, writer: &dyn Ledger) {
    let mut commits = listener.commits();
    for n in 0..10 {
        let turn = start_turn(writer, "announced", &format!("r{n}")).await;
        let goal = writer.position().commit_count();
        let announced = commits.wait_for(|commits| *commits >= goal);
        tokio::time::timeout(TIMEOUT, announced)
            .await
            .unwrap()
            .unwrap();
        let seen = listener
            .turn(&anyone(), &sid("announced"), turn.turn_id)
            .await;
        assert_eq!(seen.unwrap().turn_id, turn.turn_id);
    }
    assert_eq!(listener.position(), writer.position());
}

#[test]
fn commits_are_announced_to_other_servers() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        assert_commits_are_announced(&*ledgers[1], &*ledgers[0]).await;
        close(ledgers).await;
    });
}

#[test]
fn commits_are_announced_behind_a_pooler() {
    let database = database();
    let pool = PgBouncer::before(&database, 4);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(database.name()));
        assert_commits_are_announced(&*ledgers[1], &*ledgers[0]).await;
        close(ledgers).await;
    });
}

/// Interrupts silent turns, as a sweep does; returns how many it has interrupted.
async fn sweep(ledger: Arc<dyn Ledger>) -> usize {
    let later = START_TIME + 1;
    let found = ledger.query(move |snapshot| {
        let before = filrouge_types::Timestamp::from_micros(later);
        let silent = snapshot.view.idle_turns(before, 1_000)?;
        let ids = |(pk, turn): (_, filrouge_store::rows::TurnRow)| {
            let session = snapshot.view.session_by_pk(pk)?.unwrap().row.session_id;
            Ok((session, turn.turn_id))
        };
        silent.into_iter().map(ids).collect::<Result<Vec<_>, _>>()
    });
    let mut interrupted = 0;
    for (session, turn) in found.await.unwrap() {
        let write = interrupt(session.as_str(), turn, later);
        match ledger.put(cmd(&operator("t"), write)).await.unwrap() {
            Outcome::Interrupted(put) => interrupted += usize::from(put.is_some()),
            other => panic!("{other:?}"),
        }
    }
    interrupted
}

#[test]
fn concurrent_sweeps_interrupt_a_silent_turn_once() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        for n in 0..60 {
            start_turn(&*ledgers[0], &format!("s{n}"), "r").await;
        }
        let (a, b) = tokio::join!(sweep(ledgers[0].clone()), sweep(ledgers[1].clone()));
        assert_eq!(a + b, 60, "{a} and {b}");
        for n in 0..60 {
            assert_eq!(items(&*ledgers[1], &format!("s{n}")).await.len(), 2);
        }
        assert_intact(&*ledgers[0]).await;
        close(ledgers).await;
    });
}

#[test]
fn one_identity_is_linked_across_two_servers() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        for round in 0..10 {
            let session = format!("s{round}");
            start_turn(&*ledgers[0], &session, "r").await;
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
        assert_intact(&*ledgers[1]).await;
        close(ledgers).await;
    });
}

/// Tails a draft at one server until its recording has ended; `seen` receives the number of its newest chunk.
async fn tail_draft(
    ledger: Arc<dyn Ledger>,
    session: SessionId,
    seen: watch::Sender<u64>,
) -> String {
    let mut commits = ledger.commits();
    let (mut known, mut shown) = (BTreeMap::new(), String::new());
    let mut begun = false;
    loop {
        let updates = ledger
            .drafts(&anyone(), &session, known.clone())
            .await
            .unwrap();
        if updates.is_empty() && begun {
            return shown;
        }
        for update in updates {
            begun = true;
            known.insert(update.stream, update.chunk);
            if update.complete {
                shown.clear();
            }
            shown.extend(update.deltas.iter().map(|delta| delta.text.as_str()));
            seen.send_replace(update.chunk);
        }
        let changed = tokio::time::timeout(TIMEOUT, commits.changed()).await;
        changed.unwrap().unwrap();
    }
}

async fn assert_draft_is_tailed(ledgers: &Ledgers) {
    let (a, b) = (&ledgers[0], &ledgers[1]);
    let turn = start_turn(&**a, "s", "r").await.turn_id;
    let write = |write| async { a.write(cmd(&anyone(), write)).await.unwrap() };
    write(put("s", turn, stream(1), 0, Vec::new())).await;
    let (sender, mut seen) = watch::channel(0);
    let tail = tokio::spawn(tail_draft(b.clone(), sid("s"), sender));
    let mut recorded_text = String::new();
    for n in 1..=60 {
        let word = format!("word{n} ");
        write(put("s", turn, stream(1), n, vec![delta(0, n == 1, &word)])).await;
        recorded_text.push_str(&word);
        if n % 20 == 0 {
            let caught_up = seen.wait_for(|chunk| *chunk == n);
            tokio::time::timeout(TIMEOUT, caught_up)
                .await
                .unwrap()
                .unwrap();
        }
    }
    write(recorded("s", turn, stream(1), &recorded_text)).await;
    assert_eq!(tail.await.unwrap(), recorded_text);
    assert_eq!(items(&**b, "s").await.len(), 2);
    // A recording at one server excludes others at another server.
    let second = start_turn(&**b, "s", "second").await.turn_id;
    write(put("s", second, stream(2), 0, Vec::new())).await;
    let other = put("s", second, stream(3), 0, Vec::new());
    let refused = b.write(cmd(&anyone(), other)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StreamOpen);
    assert_intact(&**b).await;
}

#[test]
fn a_draft_recorded_at_one_server_is_tailed_at_another() {
    let database = database();
    block_on(async {
        let ledgers = two_ledgers(&database.url());
        assert_draft_is_tailed(&ledgers).await;
        close(ledgers).await;
    });
}

#[test]
fn a_draft_is_tailed_behind_a_pooler() {
    let database: Database = database();
    let pool = PgBouncer::before(&database, 3);
    block_on(async {
        let ledgers = two_ledgers(&pool.url(database.name()));
        assert_draft_is_tailed(&ledgers).await;
        close(ledgers).await;
    });
}
