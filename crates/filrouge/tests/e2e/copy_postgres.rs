//! `filrouge copy` between kinds of stores, and `filrouge migrate` on PostgreSQL.

use std::process::Stdio;
use std::time::Duration;

use filrouge_testbed::Database;
use serde_json::{Value, json};

use crate::copy::{fill_tenants, kill_during, record_data, url};
use crate::webhooks::write_config;
use crate::world::{CommandOutput, World, fixture};

fn copy(world: &World, from: &str, to: &str) -> CommandOutput {
    world.run(&["copy", "--from", from, "--to", to])
}

#[track_caller]
fn assert_copied(output: &CommandOutput) {
    assert_eq!(output.code, Some(0), "{output:?}");
    let intact = "intact: the copy equals the source\n";
    assert!(output.stdout.ends_with(intact), "{output:?}");
}

#[test]
fn a_store_is_copied_to_postgresql_and_back() {
    let world = World::on_sqlite();
    let server = world.serve();
    record_data(&server.client());
    let open = json!({ "request_id": "open", "question_neutral": "still open" });
    server.client().post("/s/turns", &open).wrote(201);
    server.stop();
    let folder = fixture("opencode-json");
    world.ok(&["import", "opencode", folder.to_str().unwrap()]);
    world.ok(&["keys", "create", "--role", "service", "--name", "k"]);
    let database = Database::new();
    let (first, last) = (url(&world.store()), url(&world.target()));
    let before = world.reports(&first, "default");

    write_config(&world, "lanes = 3\n");
    assert_copied(&copy(&world, &first, &database.url()));
    let lanes = database.sql("SELECT count(*) FROM filrouge.lane");
    assert_eq!(lanes[0][0].as_deref(), Some("3"));
    assert_eq!(world.reports(&database.url(), "default"), before);
    world.verify_at(&database.url());
    assert_copied(&copy(&world, &database.url(), &last));
    assert_eq!(world.reports(&last, "default"), before);
    world.verify_at(&last);

    // The copy is a store of its own: a server starts on it, and no copy overwrites it.
    world.ok(&["keys", "list", "--store", &database.url()]);
    let server = world.serve_with(&["--store", &database.url()]);
    server.stop();
    let other = World::at(&database.url(), "buffered");
    std::fs::create_dir_all(other.keyring().parent().unwrap()).unwrap();
    std::fs::copy(world.keyring(), other.keyring()).unwrap();
    let output = copy(&world, &first, &database.url());
    assert!(
        output.stderr.contains("already contains a store"),
        "{output:?}"
    );
    // Another machine has its own anchor for the same database.
    other.verify();
}

#[test]
fn a_killed_copy_to_postgresql_is_resumed() {
    let world = World::on_sqlite();
    fill_tenants(&world);
    // A session with an open turn is copied again by every run, which first removes the earlier copy.
    let server = world.serve();
    let open = json!({ "request_id": "open", "question_neutral": "still open" });
    server.client().post("/open/turns", &open).wrote(201);
    server.stop();
    let from = url(&world.store());
    let (mut killed_midway, mut resumed) = (0, 0);
    let stages = ["copying sessions", "writing commits", "verifying the copy"];
    for (stage, delay_ms) in stages.into_iter().zip([5, 20, 10]) {
        let database = Database::new();
        for kill in 0..3 {
            let arguments = ["copy", "--from", &from, "--to", &database.url()];
            let mut command = world.command(&arguments);
            let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            if !kill_during(child, stage, Duration::from_millis(delay_ms * (kill + 1))) {
                break;
            }
            let output = world.run(&["verify", "--store", &database.url()]);
            if output.stderr.contains("was not finished") {
                killed_midway += 1;
                // The source receives more writes, so some sessions must be copied again.
                let folder = fixture("opencode-json-legacy");
                let tenant = format!("more{killed_midway}");
                let import = ["import", "opencode", folder.to_str().unwrap()];
                world.ok(&[&import[..], &["--tenant", &tenant]].concat());
            }
        }
        let arguments = ["copy", "--from", &from, "--to", &database.url(), "--json"];
        let output = world.run(&arguments);
        if output.code == Some(0) {
            let reported: Value = serde_json::from_str(&output.stdout).unwrap();
            resumed += u32::from(reported["resumed"] == true);
        } else {
            assert!(
                output.stderr.contains("already contains a store"),
                "{output:?}"
            );
        }
        world.verify_at(&database.url());
        for tenant in ["t1", "default"] {
            let reports = |url: &str| world.reports(url, tenant);
            assert_eq!(reports(&database.url()), reports(&from));
        }
    }
    assert!(
        killed_midway > 2 && resumed > 0,
        "too few: {killed_midway} killed midway, {resumed} resumed"
    );
}

#[test]
fn a_store_on_postgresql_is_migrated() {
    let world = World::on_postgres();
    let reported = world.json(&["migrate", "status"]);
    assert_eq!(
        (&reported["schema"], &reported["known"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(reported["migrations"][0]["state"], "pending");
    let plan = world.ok(&["migrate", "--dry-run"]);
    assert!(plan.contains("CREATE TABLE filrouge.session"), "{plan}");
    assert_eq!(
        world.json(&["migrate", "status"]),
        reported,
        "the dry run changed the schema"
    );
    assert!(
        !world.keyring().exists(),
        "a command that only reads created a keyring"
    );

    assert_eq!(world.ok(&["migrate", "up"]), "applied 0001 ledger\n");
    assert_eq!(world.ok(&["migrate", "up"]), "up to date: schema 1\n");
    world.verify();
    // A copy into a store that was created under another keyring is refused, even if the store is empty.
    let other = World::on_sqlite();
    let server = other.serve();
    record_data(&server.client());
    server.stop();
    std::fs::copy(other.keyring(), world.keyring()).unwrap();
    let output = copy(&world, &url(&other.store()), &world.database().url());
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("keyring"), "{output:?}");
}
