//! Tests on a disk without space, and on one whose flushes fail. The server refuses writes with the right error,
//! answers reads, and loses nothing.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::json;

use crate::Seed;
use crate::disk::Faults;
use crate::http::{CrashClient, CrashResponse};
use crate::image::{Disk, Unsynced};
use crate::server::{CrashServer, Home};
use crate::workload::{WriteResult, Writer};
use crate::world::{Clock, CrashWorld};

/// The number of writes after which a writer no longer expects a refusal.
const MAX_WRITES: usize = 1_000;

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let seed = Seed::new("a_full_disk_refuses_writes_and_loses_nothing");
    let mut rng = seed.rng(0);
    for space in [
        0,
        rng.random_range(1..50_000),
        rng.random_range(50_000..800_000),
    ] {
        let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, &mut rng));
        let (arm, free) = (home.test_file("arm"), home.test_file("free"));
        let faults = Faults {
            enospc_at: Some(space),
            enospc_off: Some(free.clone()),
            arm: Some(arm.clone()),
            ..Faults::default()
        };
        let mut server =
            CrashServer::start_with_faults(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            world.write_sequentially(server.origin(), 40),
            "the server ended unexpectedly"
        );
        fs::write(&arm, "").expect("arm the fault");
        world.for_each_writer(server.origin(), |writer, client, clock| {
            for _ in 0..5 {
                let response =
                    write_until_refused(writer, client, clock).expect("no write was refused");
                assert_problem(&response, 503..=507);
            }
        });
        assert_acked_readable(&world, server.origin());

        fs::write(&free, "").expect("free the space");
        eprintln!(
            "full after {space} bytes; with space again: {}",
            describe_recovery(&mut world, server.origin())
        );
        server.kill();
        assert_intact_after_restart(&home, &mut world);
    }
}

/// The ledger and its index are two files on the same disk.
#[test]
fn a_redaction_on_a_full_disk_is_507_and_works_when_there_is_room() {
    let _seed = Seed::new("a_redaction_on_a_full_disk_is_507_and_works_when_there_is_room");
    for index in ["true", "false"] {
        let home = Home::new();
        let (arm, free) = (home.test_file("arm"), home.test_file("free"));
        let faults = Faults {
            enospc_at: Some(0),
            enospc_off: Some(free.clone()),
            arm: Some(arm.clone()),
            ..Faults::default()
        };
        let with_index = [("FILROUGE_SEARCH_INDEX", index)];
        let mut server = CrashServer::start_with_env(&home, &faults, &with_index);
        let client = CrashClient::new(server.origin());
        let found = |client: &CrashClient| {
            client.get("/api/v1/search?q=launchcode")["total_sessions"].clone()
        };
        let turn = json!({ "request_id": "r", "question_neutral": "the launchcode?",
            "answer_neutral": "no" });
        let turn = client
            .post("/api/v1/sessions/s/turns", &turn)
            .expect("the server responds");
        let turn = turn.body["turn_id"].as_str().expect("a turn_id");
        let path = format!("/api/v1/sessions/s/turns/{turn}");
        let redact = || {
            let reason = json!({ "reason": "requested" });
            let redacted = client.post(&format!("{path}/redact"), &reason);
            redacted.expect("the server responds")
        };
        assert_eq!(found(&client), 1);
        fs::write(&arm, "").expect("fill the disk");
        for _ in 0..2 {
            let refused = redact();
            assert_problem(&refused, 507..=507);
            assert_eq!(refused.code(), "store_full", "{refused:?}");
        }
        assert_eq!(client.get(&path)["question_neutral"], "the launchcode?");

        fs::write(&free, "").expect("free the space");
        let redacted = redact();
        assert_eq!(redacted.status, 200, "{redacted:?}");
        server.kill();
        let server = CrashServer::start(&home);
        let client = CrashClient::new(server.origin());
        assert!(client.get(&path)["question_neutral"].is_null());
        assert_eq!(found(&client), 0);
        server.stop();
        home.verify();
    }
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    let seed = Seed::new("after_a_failed_flush_nothing_is_acknowledged");
    let mut rng = seed.rng(0);
    for unsynced in [Unsynced::Lost, Unsynced::Torn] {
        let fail_sync_at = Some(rng.random_range(1..20));
        let faults = Faults {
            fail_sync_at,
            ..Faults::default()
        };
        assert!(
            fail_flushes(faults, unsynced, &mut rng),
            "no write was refused"
        );
    }
}

/// The server need not refuse writes after a single failure, which may hit a checkpoint of SQLite. The ledger does not
/// need that flush to keep acknowledged writes.
#[test]
fn a_flush_that_fails_once_loses_nothing() {
    let seed = Seed::new("a_flush_that_fails_once_loses_nothing");
    let mut rng = seed.rng(0);
    for unsynced in [
        Unsynced::Lost,
        Unsynced::Torn,
        Unsynced::Lost,
        Unsynced::Kept,
    ] {
        let fail_sync_at = Some(rng.random_range(1..40));
        let faults = Faults {
            fail_sync_at,
            fail_sync_count: Some(1),
            ..Faults::default()
        };
        let refused = fail_flushes(faults, unsynced, &mut rng);
        eprintln!("flush {fail_sync_at:?} failed; the server refused writes: {refused}");
    }
}

/// Writes while flushes of the store fail, then restarts from the disk's content. Returns whether the server began to
/// refuse writes.
fn fail_flushes(faults: Faults, unsynced: Unsynced, rng: &mut StdRng) -> bool {
    let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, rng));
    let (arm, record) = (home.test_file("arm"), home.test_file("record"));
    let faults = Faults {
        sync_only: Some(".db"),
        record: Some(record.clone()),
        arm: Some(arm.clone()),
        ..faults
    };
    let disk = Disk::new(&home.root());
    let mut server =
        CrashServer::start_with_faults(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(
        world.write_sequentially(server.origin(), 40),
        "the server ended unexpectedly"
    );
    fs::write(&arm, "").expect("arm the fault");
    let first_refusal = AtomicU64::new(u64::MAX);
    world.for_each_writer(server.origin(), |writer, client, clock| {
        let Some(response) = write_until_refused(writer, client, clock) else {
            return;
        };
        first_refusal.fetch_min(clock.tick(), Ordering::SeqCst);
        assert_problem(&response, 503..=503);
        for _ in 0..10 {
            let response = write_until_refused(writer, client, clock)
                .expect("a write after a refused one must be refused too");
            assert_problem(&response, 503..=503);
            assert_eq!(response.code(), "store_read_only", "{response:?}");
        }
    });
    let first_refusal = first_refusal.into_inner();
    let late_ack = world
        .ops()
        .find(|op| op.sent > first_refusal && op.acked().is_some());
    assert!(
        late_ack.is_none(),
        "acknowledged after a flush had failed: {late_ack:?}"
    );
    assert_acked_readable(&world, server.origin());
    let refused = first_refusal < u64::MAX;
    let ready = CrashClient::new(server.origin())
        .try_get("/readyz")
        .unwrap_or_else(|e| panic!("/readyz: {e:?}"));
    assert!(
        !refused || ready.body.to_string().contains("read_only"),
        "{ready:?}"
    );

    // The kernel still returns data that it could not flush, but the disk does not have it.
    server.kill();
    home.replace_by_image(&disk.after_cut(&record, unsynced, rng));
    assert_intact_after_restart(&home, &mut world);
    refused
}

/// Writes until the first refusal, which it returns, if any.
fn write_until_refused(
    writer: &mut Writer,
    client: &CrashClient,
    clock: &Clock,
) -> Option<CrashResponse> {
    (0..MAX_WRITES).find_map(|_| match writer.step(client, clock) {
        Ok(WriteResult::OutcomeKnown) => None,
        Ok(WriteResult::Refused(response)) => Some(response),
        Err(error) => panic!("the server ended unexpectedly: {error:?}"),
    })
}

/// Checks that a refusal is a problem document with one of these statuses.
fn assert_problem(response: &CrashResponse, statuses: RangeInclusive<u16>) {
    assert!(statuses.contains(&response.status), "{response:?}");
    assert!(
        response
            .content_type
            .starts_with("application/problem+json"),
        "{response:?}"
    );
    assert!(!response.code().is_empty(), "{response:?}");
    assert_eq!(
        response.durability, None,
        "a refusal names a durability: {response:?}"
    );
}

/// Checks that every acknowledged write can be read.
fn assert_acked_readable(world: &CrashWorld, origin: &str) {
    let client = CrashClient::new(origin);
    for op in world.ops() {
        if let Some(reported) = op.acked() {
            let session = client.get(&format!("/api/v1/sessions/{}", op.session));
            assert!(
                session["last_seq"].as_u64() >= Some(reported.last_seq),
                "{session}: {op:?}"
            );
            let after = reported.last_seq.saturating_sub(1);
            let page = client.get(&format!(
                "/api/v1/sessions/{}/items?after={after}&limit=1",
                op.session
            ));
            assert!(
                reported.last_seq == 0
                    || page["data"][0]["seq"].as_u64() == Some(reported.last_seq),
                "{page}: {op:?}"
            );
        }
    }
}

/// Describes how the server recovers: whether it accepts writes again without a restart.
fn describe_recovery(world: &mut CrashWorld, origin: &str) -> String {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        if world.accepts_a_write(origin) {
            return format!("writes are accepted again after {:?}", begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    "writes need a restart".to_owned()
}

/// Restarts the server on a disk without faults, and checks that no acknowledged write is missing.
fn assert_intact_after_restart(home: &Home, world: &mut CrashWorld) {
    let server = CrashServer::start(home);
    world.resolve_unknown_outcomes(server.origin());
    world.check_all(server.origin());
    server.stop();
    home.verify();
}
