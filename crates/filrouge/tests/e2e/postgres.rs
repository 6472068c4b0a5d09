//! One server on PostgreSQL: connection errors, passwords, keys, durability, and a database that was rolled back.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use filrouge_testbed::{Options, Server as PostgresServer};
use serde_json::{Value, json};

use crate::http::Client;
use crate::world::{CommandOutput, World};

const PASSWORD: &str = "open-sesame-7";

/// Records a complete turn of the session `s`.
fn write(client: &Client, request: &str) {
    let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &body).wrote(201);
}

/// Starts a PostgreSQL server that requires passwords over TCP; returns it with a database and the file of its rules.
///
/// The role `app` owns the database, the role `poor` has no privileges in it.
fn server_with_passwords() -> (PostgresServer, String, tempfile::NamedTempFile) {
    let mut rules = tempfile::NamedTempFile::new().unwrap();
    rules
        .write_all(b"local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        .unwrap();
    // The PostgreSQL server runs as another user.
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(rules.path(), mode).unwrap();
    let file = rules.path().display().to_string();
    let postgres = PostgresServer::start(Options {
        durable: false,
        settings: vec![("hba_file".to_owned(), file)],
    });
    let name = postgres.database();
    let roles = format!(
        "CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE poor LOGIN PASSWORD '{PASSWORD}';
         ALTER DATABASE {name} OWNER TO app"
    );
    postgres.sql("postgres", &roles);
    (postgres, name, rules)
}

/// Runs a command with its most detailed log; neither its output nor its log may contain a password.
#[track_caller]
fn run_without_secrets(world: &World, arguments: &[&str]) -> CommandOutput {
    let mut command = world.command(arguments);
    command.env("FILROUGE_LOG", "trace");
    let command_output = crate::world::finish(command, &format!("{arguments:?}"));
    for secret in [PASSWORD, "wrong-pass"] {
        let output = format!("{}{}", command_output.stdout, command_output.stderr);
        assert!(!output.contains(secret), "{arguments:?}: {output}");
    }
    command_output
}

#[test]
fn a_connection_error_is_reported_with_a_hint_but_no_password() {
    let (postgres, name, _rules) = server_with_passwords();
    let (address, port) = (postgres.tcp(), postgres.tcp().port());
    // A reserved port on which no process listens.
    let closed_port = 1;
    // The wrong part of the URL, the URL, and a part of the error.
    let cases = [
        (
            "the password",
            format!("app:wrong-pass@{address}/{name}"),
            "28P01",
        ),
        (
            "the role",
            format!("nobody:{PASSWORD}@{address}/{name}"),
            "28P01",
        ),
        ("no password", format!("app@{address}/{name}"), "password"),
        (
            "the host",
            format!("app:{PASSWORD}@no-such-host.invalid:{port}/{name}"),
            "no-such-host",
        ),
        (
            "the port",
            format!("app:{PASSWORD}@127.0.0.1:{closed_port}/{name}"),
            "127.0.0.1",
        ),
        (
            "the database",
            format!("app:{PASSWORD}@{address}/absent"),
            "3D000",
        ),
        (
            "privileges",
            format!("poor:{PASSWORD}@{address}/{name}"),
            "42501",
        ),
        ("a user", format!("{address}/{name}"), "user"),
    ];
    for (what, url, expected) in cases {
        let world = World::at(&format!("postgres://{url}"), "buffered");
        for arguments in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["keys", "create", "--role", "service"],
            &["sessions", "list"],
            &["verify"],
        ] {
            let command_output = run_without_secrets(&world, arguments);
            if what == "privileges" && matches!(arguments[0], "sessions" | "verify") {
                // The store does not exist yet, and checking this needs no privileges.
                assert!(
                    command_output.stderr.contains("there is no store"),
                    "{command_output:?}"
                );
                continue;
            }
            assert!(
                matches!(command_output.code, Some(1 | 2)),
                "{what}: {arguments:?}: {command_output:?}"
            );
            assert!(
                command_output.stdout.is_empty(),
                "{what}: {command_output:?}"
            );
            let error = command_output
                .stderr
                .lines()
                .find(|l| l.starts_with("error"));
            let error = error.unwrap_or_else(|| panic!("{what}: {command_output:?}"));
            assert!(error.contains(expected), "{what}: {arguments:?}: {error}");
            assert!(
                command_output.stderr.contains("hint:"),
                "{what}: {arguments:?}: {command_output:?}"
            );
        }
        let doctor = run_without_secrets(&world, &["doctor"]);
        assert_eq!(doctor.code, Some(1), "{what}: {doctor:?}");
        assert!(
            doctor.stdout.contains("FAILED  store"),
            "{what}: {doctor:?}"
        );
        let shown = run_without_secrets(&world, &["config", "show"]);
        assert!(shown.stdout.contains("postgres://"), "{what}: {shown:?}");
    }
}

#[test]
fn the_password_appears_only_in_the_configuration() {
    let (postgres, name, _rules) = server_with_passwords();
    let address = postgres.tcp();
    let url = format!("postgres://app:{PASSWORD}@{address}/{name}");
    let world = World::at(&url, "buffered");
    let server = world.serve_with_env(
        &[
            ("FILROUGE_LOG", "trace"),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
            ("FILROUGE_STORE_DIRECT", &url),
        ],
        &[],
    );
    write(&server.client(), "r");
    for path in ["/readyz", "/metrics", "/api/v1/info"] {
        assert!(!server.client().get(path).text.contains(PASSWORD));
    }
    postgres.stop_immediate();
    let refused = server.client().get("/s");
    assert!(!refused.text.contains(PASSWORD));
    refused.fails(503, "store_unavailable");
    postgres.restart();
    for arguments in [
        &["doctor"][..],
        &["config", "show"],
        &["migrate", "status"],
        &["sessions", "list"],
    ] {
        let command_output = run_without_secrets(&world, arguments);
        assert_eq!(
            command_output.code,
            Some(0),
            "{arguments:?}: {command_output:?}"
        );
    }
    let doctor = run_without_secrets(&world, &["doctor"]);
    let masked = format!("postgres://app:***@{address}/{name}");
    assert!(doctor.stdout.contains(&masked), "{doctor:?}");
    server.ask_to_stop();
    let log = server.wait_for_exit();
    assert!(log.contains("TRACE") && !log.contains(PASSWORD), "{log}");
}

#[test]
fn another_machine_needs_the_keys_of_the_first() {
    let first = World::on_postgres();
    let server = first.serve();
    write(&server.client(), "r");
    let other = first.other_machine();
    let copied = std::fs::read(other.keyring()).unwrap();
    std::fs::remove_file(other.keyring()).unwrap();
    let refused = |arguments: &[&str]| {
        let command_output = other.run(arguments);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(1), ""),
            "{command_output:?}"
        );
        assert!(
            command_output.stderr.contains("key_missing"),
            "{command_output:?}"
        );
        assert!(
            command_output.stderr.contains("hint:"),
            "{command_output:?}"
        );
    };
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    refused(&serve);
    refused(&["sessions", "list"]);
    assert!(
        !other.keyring().exists(),
        "a keyring was created for a store that has keys already"
    );
    let read = other.ok(&["sessions", "list", "--unverified"]);
    assert!(read.contains('s'), "{read}");
    // A keyring of another store does not open this one.
    other.ok(&[
        "keys",
        "create",
        "--role",
        "service",
        "--store",
        "sqlite:other.db",
    ]);
    assert!(other.keyring().exists());
    refused(&serve);
    refused(&["sessions", "list"]);
    assert_eq!(other.run(&["doctor"]).code, Some(1));
    std::fs::write(other.keyring(), copied).unwrap();
    assert_eq!(other.serve().client().all("/s/turns", 50).len(), 1);
    // This machine has no anchor of the store yet.
    assert_eq!(other.run(&["doctor"]).code, Some(1));
    other.ok(&["anchor", "accept"]);
    other.ok(&["doctor"]);
    first.verify();
}

#[test]
fn writes_are_flushed_with_fsync_and_buffered_without() {
    let postgres = PostgresServer::start(Options {
        durable: true,
        ..Options::default()
    });
    let world = World::at(&postgres.url(&postgres.database()), "flushed");
    let server = world.serve();
    write(&server.client(), "r");
    assert!(!server.log().contains("fsync"));
    let other = World::on_postgres();
    let server = other.serve();
    assert!(server.log().contains("fsync=off"), "{}", server.log());
    let body = json!({ "request_id": "r", "question_neutral": "?" });
    let response = server.client().post("/s/turns", &body);
    assert_eq!(response.header("filrouge-durability"), Some("buffered"));
}

#[test]
fn a_database_that_was_rolled_back_is_refused_until_it_is_accepted() {
    let postgres = PostgresServer::start(Options::default());
    let name = postgres.database();
    let world = World::at(&postgres.url(&name), "buffered");
    let server = world.serve();
    write(&server.client(), "r1");
    server.stop();
    postgres.sql(
        "postgres",
        &format!("CREATE DATABASE older TEMPLATE {name}"),
    );
    let server = world.serve();
    write(&server.client(), "r2");
    server.stop();
    let swap = format!("DROP DATABASE {name} WITH (FORCE); ALTER DATABASE older RENAME TO {name}");
    postgres.sql("postgres", &swap);

    let server = world.serve();
    let client = server.client();
    for path in ["/s", "/s/items", ""] {
        client.get(path).fails(500, "integrity_error");
    }
    let body = json!({ "request_id": "r3", "question_neutral": "?" });
    client.post("/s/turns", &body).fails(500, "integrity_error");
    let ready = client.get_body("/readyz");
    assert!(
        ready["integrity"]
            .as_str()
            .unwrap()
            .contains("older than its anchor"),
        "{ready}"
    );
    server.stop();
    assert_eq!(world.run(&["verify"]).code, Some(1));
    let doctor = world.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("filrouge anchor accept"),
        "{doctor:?}"
    );
    let accepted: Value = world.json(&["anchor", "accept"]);
    assert_eq!(accepted["holds"], true);
    world.verify();
    let server = world.serve();
    write(&server.client(), "r2");
    assert_eq!(server.client().all("/s/turns", 50).len(), 2);
}
