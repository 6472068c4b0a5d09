//! Tests of `filrouge copy` when it is killed before and during its writes and flushes, or runs out of disk space. The
//! next run completes the copy, which is intact.

use std::fs;
use std::process::{Output, Stdio};

use rand::Rng;
use serde_json::Value;

use crate::disk::Faults;
use crate::image;
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, env_number};

/// Creates a home with a filled store, whose server was killed.
fn home_with_store(name: &'static str) -> (Home, Seed) {
    let seed = Seed::new(name);
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), CrashWorld::new(2, 6, &mut rng));
    let mut server = CrashServer::start(&home);
    assert!(
        world.write_sequentially(server.origin(), 120),
        "the server ended unexpectedly"
    );
    server.kill();
    (home, seed)
}

fn run(home: &Home, arguments: &[&str], faults: &Faults) -> Output {
    let mut command = home.command(arguments);
    let environment = faults.environment(&home.root());
    let command = command.envs(environment).stdin(Stdio::null());
    command.output().expect("run filrouge")
}

/// Returns the URLs of the store and of the copy.
fn urls(home: &Home) -> (String, String) {
    let url = |name: &str| format!("sqlite:{}", home.root().join(name).display());
    (url("data/filrouge/filrouge.db"), url("copy/copy.db"))
}

fn copy(home: &Home, faults: &Faults) -> Output {
    let (from, to) = urls(home);
    run(home, &["copy", "--from", &from, "--to", &to], faults)
}

/// Returns the report of `filrouge verify` on a store; `None` if the store is refused or missing.
fn verify(home: &Home, url: &str) -> Option<Value> {
    let mut command = home.command_for_store(url, &["verify", "--json"]);
    let output = command.output().expect("run filrouge verify");
    serde_json::from_slice(&output.stdout).ok()
}

/// Checks that the copy is complete. The last run succeeded, or it was refused because an earlier run was killed after
/// it had completed the copy.
fn assert_complete(home: &Home, last: &Output, what: &str) {
    let err = String::from_utf8_lossy(&last.stderr);
    assert!(
        last.status.success() || err.contains("already contains a store"),
        "{what}: {err}"
    );
    let (from, to) = urls(home);
    let reports = [&from, &to].map(|url| {
        let report = verify(home, url);
        let mut report = report.unwrap_or_else(|| panic!("{what}: {err}"));
        assert_eq!(report["status"], "intact", "{what}: {report}");
        // A copy has its own commit log.
        report["commits"] = Value::Null;
        report
    });
    assert_eq!(reports[0], reports[1], "{what}");
}

#[test]
fn a_copy_can_be_killed_at_every_step() {
    let (home, seed) = home_with_store("a_copy_can_be_killed_at_every_step");
    let mut rng = seed.rng(1);
    let record = home.test_file("record");
    let faults = Faults {
        record: Some(record.clone()),
        ..Faults::default()
    };
    let undisturbed = Home::copy_of(&home);
    assert!(copy(&undisturbed, &faults).status.success());
    let points = image::points(&record);
    let runs = env_number("FILROUGE_CRASH_STEPS", 80)
        .div_ceil(4)
        .min(points);
    let (mut killed, mut unfinished) = (0, 0);
    for n in 0..runs {
        let point = rng.random_range(n * points / runs..(n + 1) * points / runs) + 1;
        let home = Home::copy_of(&home);
        let faults = Faults {
            kill_at: Some(point),
            ..Faults::default()
        };
        killed += u64::from(copy(&home, &faults).status.code().is_none());
        let (_, to) = urls(&home);
        match verify(&home, &to) {
            Some(report) => assert_eq!(report["status"], "intact", "point {point}: {report}"),
            None => unfinished += 1,
        }
        let last = copy(&home, &Faults::default());
        assert_complete(&home, &last, &format!("point {point}"));
    }
    eprintln!(
        "{killed} runs killed, at {points} possible points; {unfinished} left an unfinished copy"
    );
    assert!(
        killed * 10 >= runs * 8,
        "only {killed} of {runs} runs reached their point"
    );
    assert!(unfinished > 0, "no killed run left an unfinished copy");
}

#[test]
fn a_copy_that_ran_out_of_space_is_resumed() {
    let (home, seed) = home_with_store("a_copy_that_ran_out_of_space_is_resumed");
    let mut rng = seed.rng(1);
    let mut refused = 0;
    for max_space in [1, 20_000, 60_000, 150_000] {
        let home = Home::copy_of(&home);
        let space = rng.random_range(0..max_space);
        let faults = Faults {
            enospc_at: Some(space),
            ..Faults::default()
        };
        let output = copy(&home, &faults);
        let err = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            refused += 1;
            assert_eq!(
                output.status.code(),
                Some(1),
                "space for {space} bytes: {err}"
            );
            assert!(err.contains("hint: "), "space for {space} bytes: {err}");
        }
        let last = copy(&home, &Faults::default());
        assert_complete(&home, &last, &format!("space for {space} bytes"));
        fs::remove_dir_all(home.root().join("copy")).expect("remove the copy");
    }
    assert!(refused > 1, "only {refused} runs ran out of space");
}
