//! A disk without space, and one whose flushes fail: writes are refused with the right error, reads continue, and
//! nothing is lost.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;

use crate::Seed;
use crate::disk::Faults;
use crate::http::{CrashClient, CrashReply};
use crate::image::{Disk, Unsynced};
use crate::server::{CrashServer, Home};
use crate::workload::{WriteStep, Writer};
use crate::world::{Clock, CrashWorld};

/// A writer that is not refused within this many writes never will be.
const PATIENCE: usize = 1_000;

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let seed = Seed::of("a_full_disk_refuses_writes_and_loses_nothing");
    let mut rng = seed.rng(0);
    for space in [
        0,
        rng.random_range(1..50_000),
        rng.random_range(50_000..800_000),
    ] {
        let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, &mut rng));
        let (arm, free) = (home.beside("arm"), home.beside("free"));
        let faults = Faults {
            enospc_at: Some(space),
            enospc_off: Some(free.clone()),
            arm: Some(arm.clone()),
            ..Faults::default()
        };
        let mut server =
            CrashServer::start_with(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(
            world.write_some(server.origin(), 40),
            "the server went away"
        );
        fs::write(&arm, "").expect("arm the fault");
        world.each(server.origin(), |writer, client, clock| {
            for _ in 0..5 {
                let reply =
                    write_until_refused(writer, client, clock).expect("no write was refused");
                assert_problem(&reply, 503..=507);
            }
        });
        assert_reads(&world, server.origin());

        fs::write(&free, "").expect("free the space");
        eprintln!(
            "full after {space} bytes; with space again: {}",
            recovery(&mut world, server.origin())
        );
        server.kill();
        assert_all_is_well(&home, &mut world);
    }
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged() {
    let seed = Seed::of("after_a_failed_flush_nothing_is_acknowledged");
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

/// A single failure may affect a checkpoint of SQLite, where the ledger does not need the flush. It must never cause a
/// loss.
#[test]
fn a_flush_that_fails_once_loses_nothing() {
    let seed = Seed::of("a_flush_that_fails_once_loses_nothing");
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
        eprintln!("flush {fail_sync_at:?} failed; writes were refused: {refused}");
    }
}

/// Writes while flushes of the store fail, then restarts from the disk's content. Returns whether the server began to
/// refuse writes.
fn fail_flushes(faults: Faults, unsynced: Unsynced, rng: &mut StdRng) -> bool {
    let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, rng));
    let (arm, record) = (home.beside("arm"), home.beside("record"));
    let faults = Faults {
        sync_only: Some(".db"),
        record: Some(record.clone()),
        arm: Some(arm.clone()),
        ..faults
    };
    let disk = Disk::new(&home.root());
    let mut server = CrashServer::start_with(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(
        world.write_some(server.origin(), 40),
        "the server went away"
    );
    fs::write(&arm, "").expect("arm the fault");
    let first_refusal = AtomicU64::new(u64::MAX);
    world.each(server.origin(), |writer, client, clock| {
        let Some(reply) = write_until_refused(writer, client, clock) else {
            return;
        };
        first_refusal.fetch_min(clock.tick(), Ordering::SeqCst);
        assert_problem(&reply, 503..=503);
        for _ in 0..10 {
            let reply = write_until_refused(writer, client, clock)
                .expect("a write after a refused one is refused too");
            assert_problem(&reply, 503..=503);
            assert_eq!(reply.code(), "store_read_only", "{reply:?}");
        }
    });
    let first_refusal = first_refusal.into_inner();
    let late = world
        .ops()
        .find(|op| op.sent > first_refusal && op.acked().is_some());
    assert!(
        late.is_none(),
        "acknowledged after a flush had failed: {late:?}"
    );
    assert_reads(&world, server.origin());
    let refused = first_refusal < u64::MAX;
    let ready = CrashClient::new(server.origin())
        .try_get("/readyz")
        .unwrap_or_else(|e| panic!("/readyz: {e:?}"));
    assert!(
        !refused || ready.body.to_string().contains("read_only"),
        "{ready:?}"
    );

    // Data that could not be flushed is lost for good, although the kernel still returns it.
    server.kill();
    home.replace_by_image(&disk.after_cut(&record, unsynced, rng));
    assert_all_is_well(&home, &mut world);
    refused
}

/// Writes until the first refusal, which it returns, if any.
fn write_until_refused(
    writer: &mut Writer,
    client: &CrashClient,
    clock: &Clock,
) -> Option<CrashReply> {
    (0..PATIENCE).find_map(|_| match writer.step(client, clock) {
        Ok(WriteStep::Settled) => None,
        Ok(WriteStep::Refused(reply)) => Some(reply),
        Err(error) => panic!("the server went away: {error:?}"),
    })
}

fn assert_problem(reply: &CrashReply, statuses: RangeInclusive<u16>) {
    assert!(statuses.contains(&reply.status), "{reply:?}");
    assert!(
        reply.content_type.starts_with("application/problem+json"),
        "{reply:?}"
    );
    assert!(!reply.code().is_empty(), "{reply:?}");
    assert_eq!(
        reply.durability, None,
        "a refusal names no durability: {reply:?}"
    );
}

/// Checks that every acknowledged write can be read.
fn assert_reads(world: &CrashWorld, origin: &str) {
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

/// Reports how the server recovers: whether it accepts writes again without a restart.
fn recovery(world: &mut CrashWorld, origin: &str) -> String {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        if world.accepts_a_write(origin) {
            return format!("writes are accepted again after {:?}", begin.elapsed());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    "writes need a restart".to_owned()
}

fn assert_all_is_well(home: &Home, world: &mut CrashWorld) {
    let server = CrashServer::start(home);
    world.settle(server.origin());
    world.check_all(server.origin());
    server.stop();
    home.verify();
}
