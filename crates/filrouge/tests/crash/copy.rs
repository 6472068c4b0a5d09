//! A copy that is killed before and during its writes and flushes, and one that runs out of disk space: the next run
//! completes it, and the completed copy is intact.

use std::fs;
use std::process::{Output, Stdio};

use rand::Rng;
use serde_json::Value;

use crate::disk::Faults;
use crate::image;
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, number};

/// A home with a filled store whose server was killed.
fn filled(name: &'static str) -> (Home, Seed) {
    let seed = Seed::of(name);
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), CrashWorld::new(2, 6, &mut rng));
    let mut server = CrashServer::start(&home);
    assert!(
        world.write_some(server.origin(), 120),
        "the server went away"
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

/// The URL of the store, and that of the copy.
fn urls(home: &Home) -> (String, String) {
    let url = |name: &str| format!("sqlite:{}", home.root().join(name).display());
    (url("data/filrouge/filrouge.db"), url("copy/copy.db"))
}

fn copy(home: &Home, faults: &Faults) -> Output {
    let (from, to) = urls(home);
    run(home, &["copy", "--from", &from, "--to", &to], faults)
}

/// The report of `verify` about a store; `None` when the store is refused or missing.
fn verified(home: &Home, url: &str) -> Option<Value> {
    let mut command = home.command_of(url, &["verify", "--json"]);
    let output = command.output().expect("run filrouge verify");
    serde_json::from_slice(&output.stdout).ok()
}

/// Checks that the copy is complete: either the last run succeeded, or an earlier run was killed after it had finished.
fn assert_whole(home: &Home, last: &Output, what: &str) {
    let err = String::from_utf8_lossy(&last.stderr);
    assert!(
        last.status.success() || err.contains("already contains a store"),
        "{what}: {err}"
    );
    let (from, to) = urls(home);
    let report = verified(home, &to).unwrap_or_else(|| panic!("{what}: {err}"));
    assert_eq!(report["status"], "intact", "{what}: {report}");
    assert_eq!(Some(report), verified(home, &from), "{what}");
}

#[test]
fn a_copy_can_be_killed_at_every_step() {
    let (home, seed) = filled("a_copy_can_be_killed_at_every_step");
    let mut rng = seed.rng(1);
    let record = home.beside("record");
    let faults = Faults {
        record: Some(record.clone()),
        ..Faults::default()
    };
    let whole = Home::copy_of(&home);
    assert!(copy(&whole, &faults).status.success());
    let all = image::points(&record);
    let wanted = number("FILROUGE_CRASH_STEPS", 80).div_ceil(4).min(all);
    let (mut died, mut unfinished) = (0, 0);
    for n in 0..wanted {
        let point = rng.random_range(n * all / wanted..(n + 1) * all / wanted) + 1;
        let home = Home::copy_of(&home);
        let faults = Faults {
            kill_at: Some(point),
            ..Faults::default()
        };
        died += u64::from(copy(&home, &faults).status.code().is_none());
        let (_, to) = urls(&home);
        match verified(&home, &to) {
            Some(report) => assert_eq!(report["status"], "intact", "point {point}: {report}"),
            None => unfinished += 1,
        }
        let last = copy(&home, &Faults::default());
        assert_whole(&home, &last, &format!("point {point}"));
    }
    eprintln!("killed at {died} of {all} points, {unfinished} copies were unfinished");
    assert!(
        died * 10 >= wanted * 8,
        "only {died} of {wanted} points were reached"
    );
    assert!(unfinished > 0, "no run found an unfinished copy");
}

#[test]
fn a_copy_that_ran_out_of_space_is_resumed() {
    let (home, seed) = filled("a_copy_that_ran_out_of_space_is_resumed");
    let mut rng = seed.rng(1);
    let mut refused = 0;
    for most in [1, 20_000, 60_000, 150_000] {
        let home = Home::copy_of(&home);
        let space = rng.random_range(0..most);
        let faults = Faults {
            enospc_at: Some(space),
            ..Faults::default()
        };
        let done = copy(&home, &faults);
        let err = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            refused += 1;
            assert_eq!(done.status.code(), Some(1), "{space}: {err}");
            assert!(err.contains("hint: "), "{space}: {err}");
        }
        let last = copy(&home, &Faults::default());
        assert_whole(&home, &last, &format!("{space} bytes"));
        fs::remove_dir_all(home.root().join("copy")).expect("remove the copy");
    }
    assert!(refused > 1, "only {refused} runs were out of space");
}
