//! A copy that dies before and in the middle of its writes and flushes, and one that finds no room: the next run finishes
//! it, and what it finishes is whole.

use std::fs;
use std::process::{Output, Stdio};

use rand::Rng;
use serde_json::Value;

use crate::disk::Faults;
use crate::image;
use crate::server::{Home, Server};
use crate::world::World;
use crate::{Seed, number};

/// A home whose store was filled, and left by a kill.
fn filled(name: &'static str) -> (Home, Seed) {
    let seed = Seed::of(name);
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), World::new(2, 6, &mut rng));
    let mut server = Server::start(&home);
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

/// The store's own URL, and the copy's.
fn urls(home: &Home) -> (String, String) {
    let url = |name: &str| format!("sqlite:{}", home.root().join(name).display());
    (url("data/filrouge/filrouge.db"), url("copy/copy.db"))
}

fn copy(home: &Home, faults: &Faults) -> Output {
    let (from, to) = urls(home);
    run(home, &["copy", "--from", &from, "--to", &to], faults)
}

/// What `verify` says of a store; `None` when it is refused or not there.
fn verified(home: &Home, url: &str) -> Option<Value> {
    let mut command = home.command_of(url, &["verify", "--json"]);
    let output = command.output().expect("run filrouge verify");
    serde_json::from_slice(&output.stdout).ok()
}

/// The copy is whole: finished by the last run, or by one that was killed behind its end.
fn assert_whole(home: &Home, last: &Output, what: &str) {
    let err = String::from_utf8_lossy(&last.stderr);
    assert!(
        last.status.success() || err.contains("holds a store already"),
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
    let (mut died, mut half_made) = (0, 0);
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
            None => half_made += 1,
        }
        let last = copy(&home, &Faults::default());
        assert_whole(&home, &last, &format!("point {point}"));
    }
    eprintln!("killed at {died} of {all} points, {half_made} were half made");
    assert!(died * 10 >= wanted * 8, "only {died} of {wanted} were met");
    assert!(half_made > 0, "no copy was met half made");
}

#[test]
fn a_copy_without_room_is_gone_on_with() {
    let (home, seed) = filled("a_copy_without_room_is_gone_on_with");
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
    assert!(refused > 1, "only {refused} found no room");
}
