//! `filrouge copy` between kinds of stores, and `filrouge migrate` on PostgreSQL.

use std::process::Stdio;
use std::time::Duration;

use filrouge_testbed::Database;
use serde_json::{Value, json};

use crate::copy::{fill, kill_at, many, url};
use crate::world::{Done, World, fixture};

fn copy(world: &World, from: &str, to: &str) -> Done {
    world.run(&["copy", "--from", from, "--to", to])
}

#[track_caller]
fn copied(done: &Done) {
    assert_eq!(done.code, Some(0), "{done:?}");
    let intact = "intact: the copy is what the source is\n";
    assert!(done.stdout.ends_with(intact), "{done:?}");
}

#[test]
fn there_and_back_again() {
    let world = World::on_sqlite();
    let server = world.serve();
    fill(&server.client());
    let open = json!({ "request_id": "open", "question_neutral": "still open" });
    server.client().post("/s/turns", &open).wrote(201);
    server.stop();
    let folder = fixture("opencode-json");
    world.ok(&["import", "opencode", folder.to_str().unwrap()]);
    world.ok(&["keys", "create", "--role", "service", "--name", "k"]);
    let database = Database::new();
    let (first, last) = (url(&world.store()), url(&world.target()));
    let before = world.tells(&first, "default");

    copied(&copy(&world, &first, &database.url()));
    assert_eq!(world.tells(&database.url(), "default"), before);
    world.verify_at(&database.url());
    copied(&copy(&world, &database.url(), &last));
    assert_eq!(world.tells(&last, "default"), before);
    world.verify_at(&last);

    // Each lives on by itself.
    world.ok(&["keys", "list", "--store", &database.url()]);
    let serve = world.serve_with(&["--store", &database.url()]);
    serve.stop();
    let other = World::at(&database.url(), "buffered");
    std::fs::create_dir_all(other.keyring().parent().unwrap()).unwrap();
    std::fs::copy(world.keyring(), other.keyring()).unwrap();
    let done = copy(&world, &first, &database.url());
    assert!(done.stderr.contains("holds a store already"), "{done:?}");
    // Another server of the same database has an anchor of its own.
    other.verify();
}

#[test]
fn a_copy_to_postgresql_that_is_killed() {
    let world = World::on_sqlite();
    many(&world);
    // One with an open turn is copied again by every run: what an earlier one has of it is taken away.
    let server = world.serve();
    let open = json!({ "request_id": "open", "question_neutral": "still open" });
    server.client().post("/open/turns", &open).wrote(201);
    server.stop();
    let from = url(&world.store());
    let (mut half_made, mut resumed) = (0, 0);
    let stages = ["copying commits", "copying sessions", "verifying the copy"];
    for (stage, more) in stages.into_iter().zip([5, 20, 10]) {
        let database = Database::new();
        for kill in 0..3 {
            let arguments = ["copy", "--from", &from, "--to", &database.url()];
            let mut command = world.command(&arguments);
            let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            if !kill_at(child, stage, Duration::from_millis(more * (kill + 1))) {
                break;
            }
            let done = world.run(&["verify", "--store", &database.url()]);
            if done.stderr.contains("was not finished") {
                half_made += 1;
                // The source goes on, and some sessions have to be copied again.
                let folder = fixture("opencode-json-legacy");
                let tenant = format!("more{half_made}");
                let import = ["import", "opencode", folder.to_str().unwrap()];
                world.ok(&[&import[..], &["--tenant", &tenant]].concat());
            }
        }
        let arguments = ["copy", "--from", &from, "--to", &database.url(), "--json"];
        let done = world.run(&arguments);
        if done.code == Some(0) {
            let told: Value = serde_json::from_str(&done.stdout).unwrap();
            resumed += u32::from(told["resumed"] == true);
        } else {
            assert!(done.stderr.contains("holds a store already"), "{done:?}");
        }
        world.verify_at(&database.url());
        for tenant in ["t1", "default"] {
            let of = |url: &str| world.tells(url, tenant);
            assert_eq!(of(&database.url()), of(&from));
        }
    }
    assert!(half_made > 2 && resumed > 0, "{half_made} {resumed}");
}

#[test]
fn migrations_of_postgresql() {
    let world = World::on_postgres();
    let told = world.json(&["migrate", "status"]);
    assert_eq!((&told["schema"], &told["known"]), (&json!(0), &json!(3)));
    assert_eq!(told["migrations"][0]["state"], "pending");
    let plan = world.ok(&["migrate", "--dry-run"]);
    assert!(plan.contains("CREATE TABLE filrouge.session"), "{plan}");
    assert_eq!(world.json(&["migrate", "status"]), told, "nothing was done");
    assert!(!world.keyring().exists(), "looking needs no keys");

    let applied = "applied 0001 journal\napplied 0002 leases\napplied 0003 search\n";
    assert_eq!(world.ok(&["migrate", "up"]), applied);
    assert_eq!(world.ok(&["migrate", "up"]), "up to date: schema 3\n");
    world.verify();
    // A store that was only made takes a copy.
    let other = World::on_sqlite();
    let server = other.serve();
    fill(&server.client());
    server.stop();
    std::fs::copy(other.keyring(), world.keyring()).unwrap();
    let done = copy(&world, &url(&other.store()), &world.database().url());
    // It was made under another keyring.
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("keyring"), "{done:?}");
}
