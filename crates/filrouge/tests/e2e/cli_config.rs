//! Settings with their origins, and invalid usage.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::world::{CommandOutput, World, finish};

/// Runs `config show --json` with the command's options and environment.
fn show(mut command: Command) -> Value {
    command.args(["config", "show", "--json"]);
    let output = finish(command, "config show");
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// A setting's value and origin.
fn setting<'a>(shown: &'a Value, name: &str) -> (&'a str, &'a str) {
    let setting = &shown["settings"][name];
    (
        setting["value"].as_str().unwrap(),
        setting["origin"].as_str().unwrap(),
    )
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let world = World::on_sqlite();
    let shown = show(world.command(&[]));
    let store = format!("sqlite:{}", world.store().display());
    assert_eq!(setting(&shown, "store"), (store.as_str(), "default"));
    assert_eq!(setting(&shown, "listen"), ("127.0.0.1:7717", "default"));
    assert_eq!(setting(&shown, "tenant"), ("default", "default"));
    assert_eq!(
        setting(&shown, "keyring"),
        (world.keyring().to_str().unwrap(), "default")
    );
    assert_eq!(shown["file"], Value::Null);

    let file = world.path("config/filrouge/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "store = \"sqlite:/file.db\"\ntenant = \"file\"\nlisten = \"127.0.0.1:1\"\nturn_timeout_s = 60\nconcurrent_turns = \"reject\"\n").unwrap();
    let path = file.to_str().unwrap();
    let shown = show(world.command(&[]));
    assert_eq!(shown["file"], path);
    for (name, value) in [
        ("store", "sqlite:/file.db"),
        ("tenant", "file"),
        ("turn_timeout_s", "60"),
        ("concurrent_turns", "reject"),
    ] {
        assert_eq!(setting(&shown, name), (value, path));
    }
    let with_env = || {
        let mut command = world.command(&[]);
        command
            .env("FILROUGE_STORE", "memory:")
            .env("FILROUGE_TENANT", "env")
            .env("FILROUGE_LISTEN", "[::1]:2");
        command
    };
    let shown = show(with_env());
    assert_eq!(setting(&shown, "store"), ("memory:", "FILROUGE_STORE"));
    assert_eq!(setting(&shown, "listen"), ("[::1]:2", "FILROUGE_LISTEN"));
    assert_eq!(setting(&shown, "turn_timeout_s"), ("60", path));
    let mut command = with_env();
    command.args(["--store", "sqlite:flag.db", "--tenant", "flag"]);
    let shown = show(command);
    assert_eq!(setting(&shown, "store"), ("sqlite:flag.db", "--store"));
    assert_eq!(setting(&shown, "tenant"), ("flag", "--tenant"));
    let mut command = with_env();
    command.env("FILROUGE_TENANT", "");
    assert_eq!(
        setting(&show(command), "tenant"),
        ("file", path),
        "an empty variable counts as unset"
    );

    let other = world.path("other.toml");
    fs::write(&other, "tenant = \"other\"\n").unwrap();
    let mut command = world.command(&[]);
    command.env("FILROUGE_CONFIG", &other);
    assert_eq!(setting(&show(command), "tenant").0, "other");
    let text = world.ok(&["--config", other.to_str().unwrap(), "config", "show"]);
    let tenant = text.lines().find(|l| l.starts_with("tenant ")).unwrap();
    let cells: Vec<&str> = tenant.split_whitespace().collect();
    assert_eq!(cells[1], "other", "{text}");
}

#[test]
fn a_setting_of_the_file_takes_effect() {
    let world = World::new();
    let file = world.path("c.toml");
    fs::write(&file, "concurrent_turns = \"reject\"\n").unwrap();
    let server = world.serve_with(&["--config", file.to_str().unwrap()]);
    let client = server.client();
    let start = |request: &str| {
        client.post_text(
            "/s/turns",
            &format!(r#"{{"request_id":"{request}","question_neutral":"?"}}"#),
        )
    };
    start("a").wrote(201);
    start("a").wrote(200);
    let response = start("b");
    response.fails(409, "turn_open");
    assert_eq!(response.header("retry-after"), Some("1"));
    server.stop();
}

/// Checks for exit code 2, an empty stdout, and `word` on stderr.
fn assert_refused(output: &CommandOutput, word: &str) {
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(output.stderr.contains(word), "{word}: {output:?}");
}

#[test]
fn invalid_usage_is_reported_with_a_hint() {
    let world = World::new();
    let output = world.run(&["--store", "postgres:x", "sessions", "list"]);
    assert_refused(&output, "postgres://user@host:5432/database");
    for store in [
        "redis://x",
        "sqlite:",
        "memory:x",
        "/tmp/x.db",
        "",
        "sqlite",
    ] {
        let output = world.run(&["--store", store, "sessions", "list"]);
        assert_refused(
            &output,
            "known: sqlite:PATH, postgres://user@host/database, memory:",
        );
    }
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let output = world.run(&["serve", "--listen", address]);
        assert_refused(&output, "hint: listen on 127.0.0.1");
    }
    assert_refused(&world.run(&["serve", "--listen", "nowhere"]), "--listen");
    assert_refused(&world.run(&["import", "opencode", "absent"]), "hint:");
    fs::create_dir(world.path("empty")).unwrap();
    assert_refused(&world.run(&["import", "opencode", "empty"]), "hint:");
    assert_refused(&world.run(&["import", "cassette", "empty"]), "opencode");
    assert_refused(
        &world.run(&["--tenant", "a\tb", "sessions", "list"]),
        "--tenant",
    );
    assert_refused(
        &world.run(&["--config", "absent.toml", "sessions", "list"]),
        "absent.toml",
    );
    assert!(!world.store().exists());

    let missing = world.run(&["sessions", "list"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(
        missing.stderr.contains("there is no store at") && missing.stderr.contains("hint:"),
        "{missing:?}"
    );
    for text in [
        "color = 1\n",
        "tenant = 1\n",
        "tenant = \n",
        "concurrent_turns = \"many\"\n",
        "listen = \"x\"\n",
        "turn_timeout_s = -1\n",
        "stream_timeout_s = 0\n",
    ] {
        fs::write(world.path("bad.toml"), text).unwrap();
        let output = world.run(&["--config", "bad.toml", "config", "show"]);
        assert_refused(&output, "bad.toml");
    }
    world.serve().stop();
    assert_refused(&world.run(&["sessions", "list", "--limit", "0"]), "--limit");
    assert_refused(&world.run(&["sessions", "list", "--cursor", "x"]), "cursor");
    assert_refused(&world.run(&["sessions", "show", ""]), "empty");
    assert_refused(&world.run(&["export", ""]), "empty");
}

#[test]
fn doctor_reports_settings_that_serve_refuses() {
    let world = World::new();
    world.serve().stop();
    let webhook = "[[webhooks]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/\"\n";
    for (text, word) in [
        ("[jwt]\n".to_owned(), "[jwt] needs"),
        ("[jwt]\nissuer = \"x\"\n".to_owned(), "[jwt] needs"),
        (format!("{webhook}secret = \"foo\"\n"), "webhook \"crm\""),
        (
            format!("{webhook}secret_file = \"absent\"\n"),
            "webhook \"crm\"",
        ),
        (
            "[jwt]\njwks = \"absent\"\nissuer = \"x\"\naudience = \"x\"\n".to_owned(),
            "absent",
        ),
    ] {
        fs::write(world.path("bad.toml"), &text).unwrap();
        let run = |arguments: &[&str]| world.run(&[&["--config", "bad.toml"], arguments].concat());
        assert_refused(&run(&["serve", "--listen", "127.0.0.1:0"]), word);
        let output = run(&["doctor"]);
        let check = if text.contains("jwks") {
            "issuer"
        } else {
            "configuration"
        };
        let line = output.stdout.lines().find(|l| l.starts_with("FAILED"));
        let line = line.unwrap_or_default();
        assert_eq!(output.code, Some(1), "{text}{output:?}");
        assert!(
            line.starts_with(&format!("FAILED  {check}")) && line.contains(word),
            "{text}{output:?}"
        );
        assert!(!output.stdout.contains("foo"), "{output:?}");
        let shown = run(&["config", "show"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let reported = shown.stderr.contains("`serve` refuses this: ");
        assert_eq!(reported, check == "configuration", "{text}{shown:?}");
    }
    // A disabled webhook needs no secret.
    let off = format!("{webhook}secret = \"foo\"\nenabled = false\n");
    fs::write(world.path("off.toml"), off).unwrap();
    world.ok(&["--config", "off.toml", "doctor"]);
}

#[test]
fn config_show_aligns_its_columns() {
    let world = World::new();
    let text = world.ok(&["config", "show"]);
    let longest = text.lines().map(|l| l.find(' ').unwrap()).max().unwrap();
    for line in text.lines() {
        let (name, value) = line.split_at(longest + 1);
        assert!(
            !name.trim_end().contains(' ') && !value.starts_with(' '),
            "{text}"
        );
    }
}

#[test]
fn an_address_in_use_is_reported_once() {
    let world = World::new();
    let server = world.serve();
    let address = server.origin().strip_prefix("http://").unwrap();
    let output = world.run(&["serve", "--listen", address]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(output.stderr.matches("in use").count(), 1, "{output:?}");
    let reported = format!("error[failed]: cannot listen on {address}: ");
    assert!(output.stderr.contains(&reported), "{output:?}");
}

#[test]
fn every_absent_object_has_the_same_exit_code() {
    let world = World::new();
    world.serve().stop();
    for arguments in [
        &["sessions", "show", "nope"][..],
        &["export", "nope"],
        &["keys", "revoke", "nope"],
        &["doctor", "webhooks", "--redeliver", "nope"],
        &["doctor", "webhooks", "--enable", "nope"],
    ] {
        let output = world.run(arguments);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{arguments:?}: {output:?}"
        );
        assert!(
            output.stderr.contains("_not_found]") || output.stderr.contains("[not_found]"),
            "{output:?}"
        );
    }
}
