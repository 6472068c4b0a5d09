//! Copies that are killed, stopped, or run at once.

use std::process::Command;

use super::*;

/// The maximum number of rounds until enough copies were killed midway.
const ROUNDS_MAX: u64 = 60;

#[test]
fn a_killed_copy_is_finished_by_the_next_run() {
    let world = World::on_sqlite();
    fill_tenants(&world);
    let stages = ["copying sessions", "writing commits", "verifying the copy"];
    let (mut killed_midway, mut resumed) = (0, 0);
    for round in 0..ROUNDS_MAX {
        // Up to three consecutive kills; the source receives writes in between.
        for kill in 0..=(round % 3) {
            let delay = Duration::from_millis(round % 9 * 5 + kill);
            let stage = stages[usize::try_from((round + kill) % 3).unwrap()];
            if kill_during(world.spawn_copy(), stage, delay) {
                let store = url(&world.target());
                let command_output = world.run(&["verify", "--store", &store]);
                if command_output.code == Some(0) {
                    continue;
                }
                killed_midway += 1;
                assert!(
                    command_output.stderr.contains("was not finished"),
                    "{command_output:?}"
                );
                if killed_midway == 1 {
                    assert_unfinished_copy_is_refused(&world);
                }
                let (folder, request) = (world.path("more"), format!("{round} {kill}"));
                add_session(&folder, &request);
                let import = ["import", "opencode", folder.to_str().unwrap()];
                world.ok(&[&import[..], &["--tenant", "t0"]].concat());
            }
        }
        let command_output = world.copy(&["--json"]);
        if command_output.code == Some(0) {
            let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
            resumed += u32::from(reported["resumed"] == true);
        } else {
            assert!(
                command_output.stderr.contains("already contains a store"),
                "{command_output:?}"
            );
        }
        world.verify_copy();
        let audit = |path: &Path| world.audit(&url(path), "t0");
        assert_eq!(audit(&world.target()), audit(&world.store()), "{round}");
        // The moment of a kill depends on the machine, so rounds are repeated until enough kills hit a running copy.
        if round >= 8 && killed_midway > 3 && resumed > 2 {
            break;
        }
        assert!(
            round + 1 < ROUNDS_MAX,
            "too few: {killed_midway} killed midway, {resumed} resumed"
        );
        std::fs::remove_dir_all(world.target().parent().unwrap()).unwrap();
    }
    for tenant in ["t0", "t3"] {
        assert_eq!(
            world.reports(&url(&world.target()), tenant),
            world.reports(&url(&world.store()), tenant)
        );
    }
    world.verify();
}

/// Writes a session that `import opencode` can read.
fn add_session(folder: &Path, title: &str) {
    let id = format!("ses_{:0>26}", title.replace(' ', "x"));
    let project = folder.join("storage/session/p");
    std::fs::create_dir_all(&project).unwrap();
    let info = json!({ "id": id, "projectID": "p", "directory": "/d", "title": title, "version": "1.1.65",
        "time": { "created": 1_700_000_000_000_u64, "updated": 1_700_000_000_000_u64 } });
    std::fs::write(project.join(format!("{id}.json")), info.to_string()).unwrap();
}

/// Stops a copy by a signal when it reports a stage; `None` if it finished before the signal arrived.
fn stop_during(mut child: Child, stage: &str, signal: &str) -> Option<()> {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut reported = String::new();
    for line in lines.map(Result::unwrap) {
        if line.starts_with(stage) && !reported.contains(stage) {
            let mut kill = Command::new("kill");
            let sent = kill.args([signal, &child.id().to_string()]).status();
            assert!(sent.unwrap().success());
        }
        reported += &format!("{line}\n");
    }
    let ended = child.wait().unwrap();
    if ended.success() {
        return None;
    }
    assert_eq!(ended.code(), Some(1), "{stage}: {ended} {reported}");
    assert!(
        reported.contains("resumes where it stopped"),
        "{stage}: {reported}"
    );
    Some(())
}

#[test]
fn a_copy_that_was_stopped_can_be_resumed() {
    let world = World::on_sqlite();
    fill_tenants(&world);
    let mut stopped = 0;
    for round in 0..ROUNDS_MAX {
        let stages = ["copying sessions", "writing commits", "verifying the copy"];
        let (stage, signal) = (stages[stopped % 3], ["-INT", "-TERM"][stopped % 2]);
        match stop_during(world.spawn_copy(), stage, signal) {
            Some(()) => stopped += 1,
            None => std::fs::remove_dir_all(world.target().parent().unwrap()).unwrap(),
        }
        // The moment of a signal depends on the machine, as for kills.
        if stopped == 6 {
            break;
        }
        assert!(round + 1 < ROUNDS_MAX, "only {stopped} stopped midway");
    }
    let command_output = world.copy(&["--json"]);
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    world.verify_copy();
}

#[test]
fn concurrent_copies_yield_one_intact_copy() {
    let world = World::on_sqlite();
    fill_tenants(&world);
    let children = [world.spawn_copy(), world.spawn_copy(), world.spawn_copy()];
    let outputs: Vec<_> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    for output in &outputs {
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success()
                || reported.contains("has since written")
                || reported.contains("already contains a store"),
            "{reported}"
        );
    }
    let command_output = world.copy(&[]);
    let finished = command_output.code == Some(0)
        || command_output.stderr.contains("already contains a store");
    assert!(finished, "{command_output:?}");
    world.verify_copy();
}
