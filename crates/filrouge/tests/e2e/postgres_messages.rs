//! Errors of the command line about stores in PostgreSQL, and their hints, which must help.

use serde_json::json;

use crate::copy::url;
use crate::http::Client;
use crate::world::{CommandOutput, World};

/// Records a complete turn.
fn write(client: &Client, session: &str) {
    let body = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    client.post(&format!("/{session}/turns"), &body).wrote(201);
}

/// Checks a failure: its exit code, and parts of its message.
#[track_caller]
fn assert_failed(output: &CommandOutput, code: i32, parts: &[&str]) {
    assert_eq!(output.code, Some(code), "{output:?}");
    for part in parts {
        assert!(output.stderr.contains(part), "{part}: {output:?}");
    }
}

fn hint(output: &CommandOutput) -> &str {
    let hint = output
        .stderr
        .lines()
        .find(|line| line.starts_with("hint: "));
    hint.unwrap_or_else(|| panic!("{output:?}"))
}

/// A role in the database of `world`, without privileges; dropped at the end.
struct Role<'a> {
    world: &'a World,
    name: String,
}

impl<'a> Role<'a> {
    fn new(world: &'a World) -> Self {
        let name = format!("role_{}", world.database().name());
        world.database().sql(&format!("CREATE ROLE {name} LOGIN"));
        Self { world, name }
    }

    /// A world that uses the same store as this role.
    fn world(&self) -> World {
        let url = self.world.database().url();
        World::at(
            &url.replace("//postgres@", &format!("//{}@", self.name)),
            "buffered",
        )
    }

    fn grant(&self, privileges: &str) {
        let statement = format!("GRANT {privileges} TO {}", self.name);
        self.world.database().sql(&statement);
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let name = &self.name;
            let statements = format!("DROP OWNED BY {name}; DROP ROLE {name}");
            self.world.database().sql(&statements);
        }
    }
}

#[test]
fn the_sql_of_a_dry_run_creates_the_schema() {
    let world = World::on_postgres();
    let plan = world.ok(&["migrate", "--dry-run"]);
    world.database().sql(&plan);
    assert_eq!(world.json(&["migrate", "status"])["schema"], 1);
    assert_eq!(
        world.ok(&["migrate", "--dry-run"]),
        "up to date: schema 1\n"
    );
    assert_failed(
        &world.run(&["sessions", "list"]),
        1,
        &["there is no store at"],
    );
    assert!(!world.keyring().exists(), "a command created the keyring");

    let server = world.serve();
    write(&server.client(), "s");
    server.stop();
    world.verify();
    assert_eq!(world.ok(&["migrate", "up"]), "up to date: schema 1\n");
    world.other_machine().verify();

    // The store belongs to the first server's keyring.
    let other = World::at(&world.database().url(), "buffered");
    let output = other.run(&["sessions", "list"]);
    assert_failed(
        &output,
        1,
        &["key_missing", "copy the keyring file from the machine"],
    );
    other.ok(&[
        "--store",
        "sqlite:own.db",
        "keys",
        "create",
        "--role",
        "service",
    ]);
    assert_failed(&other.run(&["sessions", "list"]), 1, &["another keyring"]);
}

#[test]
fn deleted_key_marks_are_not_recreated() {
    let world = World::on_postgres();
    let server = world.serve();
    write(&server.client(), "s");
    server.stop();
    let statement = "DELETE FROM filrouge.store WHERE name LIKE 'key %'";
    world.database().sql(statement);
    assert_failed(&world.run(&["sessions", "list"]), 1, &["integrity_error"]);
    std::fs::remove_file(world.keyring()).unwrap();
    assert_failed(&world.run(&["migrate", "up"]), 1, &["key_missing"]);
    assert!(!world.keyring().exists());
}

#[test]
fn each_missing_privilege_is_named() {
    let world = World::on_postgres();
    let role = Role::new(&world);
    let unprivileged = role.world();
    let migrate = || unprivileged.run(&["migrate", "up"]);
    let output = migrate();
    assert_failed(&output, 1, &["42501", "postgres://role_"]);
    assert!(
        hint(&output).contains("GRANT CREATE ON DATABASE"),
        "{output:?}"
    );

    world.database().sql("CREATE SCHEMA filrouge");
    let output = migrate();
    assert!(
        hint(&output).contains("CREATE ON SCHEMA filrouge"),
        "{output:?}"
    );

    world.database().sql(&world.ok(&["migrate", "--dry-run"]));
    let output = unprivileged.run(&["migrate", "status"]);
    assert!(
        hint(&output).contains("GRANT USAGE ON SCHEMA"),
        "{output:?}"
    );
    role.grant("USAGE ON SCHEMA filrouge");
    let output = unprivileged.run(&["migrate", "status"]);
    assert!(
        hint(&output).contains("ON ALL TABLES IN SCHEMA filrouge"),
        "{output:?}"
    );
    role.grant("SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge");
    let server = unprivileged.serve();
    write(&server.client(), "s");
    server.stop();
    unprivileged.verify();
}

#[test]
fn a_copy_names_the_failed_store() {
    let world = World::on_postgres();
    world.ok(&["keys", "create", "--role", "service"]);
    let copy = |from: &str, to: &str| world.run(&["copy", "--from", from, "--to", to]);
    let store = world.database().url();
    // A reserved port on which no process listens.
    let unreachable = "postgres://u:open-sesame@127.0.0.1:1/d";
    let file = url(&world.path("new.db"));
    let cases = [
        (unreachable, file.as_str(), "--from"),
        (&store, unreachable, "--to"),
    ];
    for (from, to, option) in cases {
        let output = copy(from, to);
        let masked = format!("{option} postgres://u:***@127.0.0.1:1/d: ");
        assert_failed(&output, 1, &["store_unavailable", &masked]);
        assert!(hint(&output).contains(option), "{output:?}");
        assert!(!output.stderr.contains("--store"), "{output:?}");
        assert!(!output.stderr.contains("open-sesame"), "{output:?}");
    }
    let output = copy(&store, &world.database().tcp_url());
    assert_failed(&output, 2, &["--from and --to are the same store"]);

    let empty = World::on_postgres();
    let output = copy(&empty.database().url(), &file);
    assert_failed(&output, 1, &["there is no store at postgres://", "--from"]);
    assert!(!output.stderr.contains("migrate up"), "{output:?}");
    let status = World::at(unreachable, "buffered").run(&["migrate", "status"]);
    assert_failed(&status, 1, &["postgres://u:***@127.0.0.1:1/d"]);
}

#[test]
fn a_fault_that_several_checks_find_is_reported_once() {
    let world = World::on_postgres();
    let server = world.serve();
    for n in 0..5 {
        write(&server.client(), &format!("s{n}"));
    }
    server.stop();
    world.database().sql(
        "SET session_replication_role = replica;
         DELETE FROM filrouge.commit_log WHERE commit_no = (SELECT max(commit_no) FROM filrouge.commit_log)",
    );
    let output = world.run(&["verify"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let mut faults: Vec<_> = output.stdout.lines().skip(1).collect();
    assert!(!faults.is_empty(), "{output:?}");
    let count = faults.len();
    faults.sort_unstable();
    faults.dedup();
    assert_eq!(faults.len(), count, "{output:?}");
}
