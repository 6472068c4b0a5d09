//! Durable sessions while Redis has faults.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use filrouge_testbed::{Redis, RedisCluster};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{
    Site, Worker, inject_cluster_faults, inject_single_redis_faults, run_during, wait_for_progress,
};
use crate::http::CrashClient;
use crate::workload::{WriteResult, Writer};
use crate::world::Clock;
use crate::{Seed, model};

const WRITERS: u32 = 4;
const SESSIONS: usize = 12;

#[test]
fn faults_of_redis_do_not_affect_durable_sessions() {
    let seed = Seed::new("faults_of_redis_do_not_affect_durable_sessions");
    let redis = Redis::start();
    let site = Site::new(&redis.socket_url(), &[]);
    assert_unaffected(&seed, &site, |rng, wait_for_load| {
        inject_single_redis_faults(&redis, rng, wait_for_load);
    });
}

#[test]
fn faults_of_a_cluster_do_not_affect_durable_sessions() {
    let seed = Seed::new("faults_of_a_cluster_do_not_affect_durable_sessions");
    let cluster = RedisCluster::with_replicas();
    let site = Site::new(&cluster.url(), &[]);
    assert_unaffected(&seed, &site, |rng, wait_for_load| {
        inject_cluster_faults(&cluster, rng, wait_for_load);
    });
}

/// Checks during `inject_faults` that no write is refused, and that readers see the ledger's data.
fn assert_unaffected(seed: &Seed, site: &Site, inject_faults: impl FnOnce(&mut StdRng, &dyn Fn())) {
    let clock = Clock::default();
    let sessions: Vec<String> = (1..=SESSIONS).map(|n| format!("session-{n}")).collect();
    let mut writers: Vec<Writer> = (1..=WRITERS)
        .map(|n| Writer::new(format!("writer-{n}"), seed.rng(n.into())))
        .collect();
    let (written, compared) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut workers: Vec<Worker<'_>> = Vec::new();
    for (n, writer) in writers.iter_mut().enumerate() {
        writer.switch_to(&sessions);
        let (clock, written) = (&clock, &written);
        workers.push(Box::new(move |ending| {
            let clients = [site.client(n), site.client(n + 1)];
            let mut sent = n;
            while !ending.load(Ordering::SeqCst) {
                sent += 1;
                match writer.step(&clients[sent % 2], clock) {
                    Ok(WriteResult::OutcomeKnown) => written.fetch_add(1, Ordering::SeqCst),
                    other => panic!("a write failed: {other:?}: {:?}", writer.ops().last()),
                };
            }
        }));
    }
    let (rng, all, count) = (seed.rng(100), &sessions, &compared);
    workers.push(Box::new(move |ending| {
        compare(site, rng, all, count, ending);
    }));
    run_during(workers, || {
        let wait_for_load = || {
            wait_for_progress(&written, 40);
            wait_for_progress(&compared, 3);
        };
        inject_faults(&mut seed.rng(0), &wait_for_load);
    });
    for server in [0, 1] {
        let client = site.client(server);
        for session in &sessions {
            if let Some(expected) = finalized(&client, session) {
                assert_eq!(recent(&client, session), Some(expected), "{session}");
            }
        }
        model::check(&client, writers.iter().flat_map(|w| w.ops()));
    }
    site.home.verify();
}

/// Compares sessions' newest finalized turns from the hot store with those from the ledger. They must be equal unless
/// a write happened in between.
fn compare(
    site: &Site,
    mut rng: StdRng,
    sessions: &[String],
    compared: &AtomicUsize,
    ending: &AtomicBool,
) {
    let clients = [site.client(0), site.client(1)];
    while !ending.load(Ordering::SeqCst) {
        let session = &sessions[rng.random_range(0..sessions.len())];
        let reader = &clients[rng.random_range(0..2)];
        let before = finalized(&clients[0], session);
        let shown = recent(reader, session);
        let after = finalized(&clients[0], session);
        if before.is_some() && before == after {
            assert_eq!(
                shown.as_deref().map(names),
                after.as_deref().map(names),
                "{session}"
            );
            assert_eq!(shown, after, "{session}");
            compared.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Returns short names of turns, for a readable failure.
fn names(turns: &[Value]) -> Vec<String> {
    let name = |turn: &Value| format!("{} {}", turn["ordinal"], turn["request_id"]);
    turns.iter().map(name).collect()
}

/// The number of turns that are compared.
const NEWEST: usize = 5;

/// Reads the newest finalized turns, from the hot store or the ledger as the server chooses; `None` if the session does
/// not exist.
fn recent(client: &CrashClient, session: &str) -> Option<Vec<Value>> {
    let path = format!("/api/v1/sessions/{session}/turns?status=finalized&limit={NEWEST}");
    data(client, &path)
}

/// Reads the same turns from the list of all turns, which the server always answers from the ledger.
fn finalized(client: &CrashClient, session: &str) -> Option<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/sessions/{session}/turns?limit=500{cursor}");
        let response = client
            .try_get(&path)
            .unwrap_or_else(|e| panic!("{path}: {}", e.0));
        if response.status == 404 {
            return None;
        }
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        all.extend(response.body["data"].as_array().expect("a list").clone());
        match response.body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    all.retain(|turn| turn["status"] == "finalized" && turn["replaced_by_turn_id"].is_null());
    Some(all.split_off(all.len().saturating_sub(NEWEST)))
}

/// Reads the list at a path; `None` if the session does not exist.
fn data(client: &CrashClient, path: &str) -> Option<Vec<Value>> {
    let response = client
        .try_get(path)
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    match response.status {
        404 => None,
        200 => Some(response.body["data"].as_array().expect("a list").clone()),
        other => panic!("{path}: {other}: {}", response.body),
    }
}
