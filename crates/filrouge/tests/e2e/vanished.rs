//! A store with commits has vanished. No new one replaces it, because the anchor's folder has its record (DESIGN §9).

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::caller::within_five_seconds;
use crate::http::Client;
use crate::world::{World, copy_tree};

/// Records a complete turn of the session `s`.
fn write(client: &Client, request: &str) {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
}

/// Creates the store with a turn and an API key.
fn record_data(world: &World) {
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    world.ok(&["keys", "create", "--role", "service"]);
}

/// Whether the anchor of any store names a commit.
fn is_anchored(world: &World) -> bool {
    let Ok(files) = fs::read_dir(world.path("state/filrouge/anchor")) else {
        return false;
    };
    let mut anchors = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "anchor"));
    anchors.any(|path| {
        !fs::read_to_string(path)
            .unwrap()
            .contains("\"commit_no\":0")
    })
}

/// Checks that the server and all commands refuse the store, and that they change nothing.
#[track_caller]
fn check_refused(world: &World, what: &str, stored: impl Fn() -> String) {
    let before = stored();
    let log = world.try_serve().err().expect(what);
    for message in ["this machine has seen the store", "filrouge anchor accept"] {
        assert!(log.contains(message), "{what}: {log}");
    }
    for command in [
        &["sessions", "list"][..],
        &["verify"],
        &["doctor"],
        &["anchor", "show"],
        &["keys", "create", "--role", "admin"],
    ] {
        let output = world.run(command);
        let text = output.stdout.clone() + &output.stderr;
        assert_ne!(output.code, Some(0), "{what}: {command:?}: {output:?}");
        assert!(text.contains("has seen the store"), "{what}: {output:?}");
    }
    assert_eq!(stored(), before, "{what}: stored data changed");
}

/// Checks that an operator can accept the loss, with a warning about lost API keys.
#[track_caller]
fn check_accepted(world: &World, what: &str) {
    let output = world.run(&["anchor", "accept"]);
    assert_eq!(output.code, Some(0), "{what}: {output:?}");
    assert!(output.stderr.contains("had API keys"), "{what}: {output:?}");
    let audit = fs::read_to_string(world.path("state/filrouge/anchor/audit.jsonl")).unwrap();
    assert!(audit.contains("anchor_accept"), "{what}: {audit}");
    let server = world.serve();
    write(&server.client(), "r2");
    assert_eq!(
        server.client().get_body("/readyz")["status"],
        "ready",
        "{what}"
    );
    server.stop();
    world.verify();
}

/// All stored data, for comparison.
fn files(world: &World) -> String {
    format!("{:?}", world.stored_data())
}

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[test]
fn a_vanished_file_is_not_replaced_by_an_empty_store() {
    let other = World::on_sqlite();
    record_data(&other);
    type LossAction<'a> = &'a dyn Fn(&World);
    let losses: [(&str, LossAction<'_>); 4] = [
        ("the data folder was removed", &|world| {
            fs::remove_dir_all(world.path("data")).unwrap();
        }),
        ("the file was removed", &|world| remove(&world.store())),
        ("the file is empty", &|world| {
            fs::write(world.store(), "").unwrap();
        }),
        ("another store's file", &|world| {
            fs::copy(other.store(), world.store()).unwrap();
            fs::copy(other.keyring(), world.keyring()).unwrap();
        }),
    ];
    for (what, lose) in losses {
        let world = World::on_sqlite();
        record_data(&world);
        lose(&world);
        check_refused(&world, what, || files(&world));
        if what.starts_with("another") {
            world.ok(&["anchor", "accept"]);
            world.verify();
        } else {
            check_accepted(&world, what);
        }
    }
}

/// After a kill, most of a new store is in its write-ahead log.
#[test]
fn a_store_without_its_write_ahead_log_is_refused() {
    let world = World::on_sqlite();
    let mut server = world.serve();
    write(&server.client(), "r1");
    within_five_seconds("the anchor names the commit", || is_anchored(&world));
    server.kill();
    for suffix in ["-wal", "-shm"] {
        let mut name = world.store().into_os_string();
        name.push(suffix);
        remove(Path::new(&name));
    }
    check_refused(&world, "without a write-ahead log", || files(&world));
}

#[test]
fn a_vanished_schema_is_not_replaced_by_an_empty_store() {
    for what in ["the schema is dropped", "its tables are dropped"] {
        let world = World::on_postgres();
        record_data(&world);
        let drop = "DROP SCHEMA filrouge CASCADE";
        let sql = match what {
            "the schema is dropped" => drop.to_owned(),
            _ => format!("{drop}; CREATE SCHEMA filrouge"),
        };
        world.database().sql(&sql);
        check_refused(&world, what, || {
            let tables = "SELECT count(*)::text FROM pg_class WHERE relnamespace = to_regnamespace('filrouge')";
            format!("{:?}", world.database().sql(tables))
        });
        check_accepted(&world, what);
    }
}

#[test]
fn another_store_in_the_database_is_refused() {
    let world = World::on_postgres();
    record_data(&world);
    let id = "UPDATE filrouge.store SET value = gen_random_uuid()::text WHERE name = 'store_id'";
    world.database().sql(id);
    check_refused(&world, "another store id", || {
        let rows = "SELECT * FROM filrouge.store ORDER BY name";
        format!("{:?}", world.database().sql(rows))
    });
}

/// A store without commits has nothing to lose.
#[test]
fn an_empty_store_may_be_removed() {
    let world = World::on_sqlite();
    world.serve().stop();
    fs::remove_dir_all(world.path("data")).unwrap();
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    world.verify();
}

#[test]
fn a_loss_can_be_accepted_even_if_the_record_is_damaged() {
    let world = World::on_sqlite();
    record_data(&world);
    fs::remove_dir_all(world.path("data")).unwrap();
    let files = fs::read_dir(world.path("state/filrouge/anchor")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let record = files.find(|path| path.extension().is_some_and(|e| e == "store"));
    fs::write(record.unwrap(), "{}").unwrap();
    let log = world.try_serve().err().expect("a damaged record");
    assert!(log.contains("was changed"), "{log}");
    world.ok(&["anchor", "accept"]);
    world.serve().stop();
}

/// A relative path names the same store as an absolute one.
#[test]
fn the_record_does_not_depend_on_the_working_directory() {
    let world = World::on_sqlite();
    record_data(&world);
    remove(&world.store());
    let mut command = world.command(&["sessions", "list", "--store", "sqlite:filrouge.db"]);
    command.current_dir(world.store().parent().unwrap());
    let output = crate::world::finish(command, "sessions list");
    assert!(output.stderr.contains("has seen the store"), "{output:?}");
}

#[test]
fn without_an_anchor_the_status_is_degraded_until_the_store_is_accepted() {
    let world = World::new();
    record_data(&world);
    let (folder, moved) = (world.path("state/filrouge/anchor"), world.path("moved"));
    copy_tree(&folder, &moved);
    fs::remove_dir_all(&folder).unwrap();
    let shown = world.run(&["anchor", "show"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.stderr.contains("there is no anchor"), "{shown:?}");
    for _ in 0..2 {
        let server = world.serve();
        let ready = server.client().get_body("/readyz");
        assert_eq!(ready["status"], "degraded", "{ready}");
        server.stop();
    }
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(
        doctor.stdout.contains("filrouge anchor accept"),
        "{doctor:?}"
    );
    world.ok(&["anchor", "accept"]);
    let server = world.serve();
    assert_eq!(server.client().get_body("/readyz")["status"], "ready");
    server.stop();
    assert_eq!(world.run(&["doctor"]).code, Some(0));
}

/// Nothing but the keyring is left, and it may belong to many stores. The new store is reachable from this machine only.
#[test]
fn without_data_and_state_an_empty_local_store_begins_that_the_witness_does_not_know() {
    let world = World::on_sqlite();
    record_data(&world);
    let witness = world.path("witness.jsonl");
    fs::write(&witness, world.ok(&["anchor", "witness"])).unwrap();
    let file = witness.display().to_string();
    let verify = ["verify", "--witness", &file];
    world.ok(&verify);
    for folder in ["data", "state"] {
        fs::remove_dir_all(world.path(folder)).unwrap();
    }
    let public = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(public.code, Some(2), "{public:?}");
    let server = world.serve();
    assert_eq!(server.client().get_body("")["data"], json!([]));
    write(&server.client(), "r1");
    server.stop();
    let output = world.run(&verify);
    assert_eq!(output.code, Some(2), "{output:?}");
    let words = "has no statement about the store";
    assert!(output.stderr.contains(words), "{output:?}");
}
