//! `filrouge mcp install`: it changes other programs' configuration as little as possible, or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{CommandOutput, World, finish};

const BINARY: &str = env!("CARGO_BIN_EXE_filrouge");

fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(&[&["mcp", "install"], arguments].concat());
    for name in ["CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
        command.env_remove(name);
    }
    command
}

fn run(world: &World, arguments: &[&str]) -> CommandOutput {
    finish(command(world, arguments), &format!("{arguments:?}"))
}

#[track_caller]
fn ok(world: &World, arguments: &[&str]) -> CommandOutput {
    let output = run(world, arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Parses a JSON file.
fn parsed(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The path of the binary, as it writes it into configurations.
fn binary() -> String {
    let path = fs::canonicalize(BINARY).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn each_configuration_file_is_created_once() {
    let world = World::new();
    let stdio = json!({ "type": "stdio", "command": binary(), "args": ["mcp"] });
    let local = json!({ "type": "local", "command": [binary(), "mcp"], "enabled": true });
    for (arguments, path, section, entry) in [
        (
            &["--client", "opencode"][..],
            "config/opencode/opencode.json",
            "mcp",
            &local,
        ),
        (
            &["--client", "opencode", "--scope", "project"],
            "opencode.json",
            "mcp",
            &local,
        ),
        (
            &["--client", "claude-code"],
            ".claude.json",
            "mcpServers",
            &stdio,
        ),
        (
            &["--client", "claude-code", "--scope", "project"],
            ".mcp.json",
            "mcpServers",
            &stdio,
        ),
    ] {
        let path = world.path(path);
        let refused = run(&world, arguments);
        assert_eq!(refused.code, Some(2), "without a terminal: {refused:?}");
        assert!(
            refused.stdout.contains("+++") && refused.stdout.contains("filrouge"),
            "{refused:?}"
        );
        assert!(!path.exists());
        let printed = ok(&world, &[arguments, &["--print"]].concat());
        assert_eq!(printed.stdout, refused.stdout);
        assert!(!path.exists());
        ok(&world, &[arguments, &["--yes"]].concat());
        assert_eq!(&parsed(&path)[section]["filrouge"], entry, "{arguments:?}");
        let before = fs::read(&path).unwrap();
        let again = ok(&world, arguments);
        assert!(again.stderr.contains("has it already"), "{again:?}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    ok(&world, &["--client", "codex", "--yes"]);
    let toml: toml::Table = fs::read_to_string(world.path(".codex/config.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let server = &toml["mcp_servers"]["filrouge"];
    assert_eq!(server["command"].as_str(), Some(binary().as_str()));
    assert!(
        ok(&world, &["--client", "codex"])
            .stderr
            .contains("has it already")
    );
    let project = run(
        &world,
        &["--client", "codex", "--scope", "project", "--yes"],
    );
    assert_eq!(project.code, Some(2), "{project:?}");
}

#[test]
fn comments_modes_and_links_are_kept_and_backups_never_overwritten() {
    let world = World::new();
    let real = world.path("dotfiles/opencode.jsonc");
    let old = "{\n  // my model\n  \"model\": \"x/y\", // fast\n  \"mcp\": {\n    \"other\": { \"type\": \"remote\", \"url\": \"https://x\" },\n  },\n}\n";
    write(&real, old);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = world.path("config/opencode/opencode.jsonc");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    write(&world.path("dotfiles/opencode.jsonc.bak.1"), "older");
    let output = ok(&world, &["--client", "opencode", "--yes", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let new = fs::read_to_string(&real).unwrap();
    for line in old.lines() {
        assert!(new.lines().any(|l| l == line), "{line}\n{new}");
    }
    assert!(new.contains(&binary()), "{new}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let backup = world.path("dotfiles/opencode.jsonc.bak.2");
    assert_eq!((mode(&real), mode(&backup)), (0o640, 0o640));
    assert_eq!(fs::read_to_string(&backup).unwrap(), old);
    assert_eq!(report["status"], "written");
    assert!(
        report["backup"]
            .as_str()
            .unwrap()
            .ends_with("opencode.jsonc.bak.2"),
        "{report}"
    );
    let kept = fs::read_to_string(world.path("dotfiles/opencode.jsonc.bak.1"));
    assert_eq!(kept.unwrap(), "older");
    let names = fs::read_dir(world.path("dotfiles")).unwrap().count();
    assert_eq!(names, 3, "the file and two backups");

    let toml = world.path("home-of-codex/config.toml");
    write(
        &toml,
        "# mine\nmodel = \"m\"\n\n[mcp_servers.other] # theirs\ncommand = \"x\"\n",
    );
    let mut codex = command(&world, &["--client", "codex", "--yes"]);
    codex.env("CODEX_HOME", world.path("home-of-codex"));
    assert_eq!(finish(codex, "codex").code, Some(0));
    let text = fs::read_to_string(&toml).unwrap();
    assert!(
        text.starts_with("# mine\n") && text.contains("# theirs\n"),
        "{text}"
    );
    assert!(text.contains("[mcp_servers.filrouge]"), "{text}");
}

#[test]
fn files_that_cannot_be_parsed_are_not_changed() {
    let world = World::new();
    for (client, path, text, place) in [
        (
            "opencode",
            "config/opencode/opencode.json",
            "{\n  \"mcp\": {\n",
            "line 2",
        ),
        (
            "opencode",
            "config/opencode/opencode.json",
            "{\"mcp\": []}",
            "mcp is no object",
        ),
        (
            "claude-code",
            ".claude.json",
            "{ // no comments here\n}",
            "line 1, column 3",
        ),
        ("claude-code", ".claude.json", "\"text\"", "no object"),
        ("codex", ".codex/config.toml", "model = \n", "line 1"),
        (
            "codex",
            ".codex/config.toml",
            "mcp_servers = { a = { command = \"x\" } }\n",
            "one line",
        ),
    ] {
        let file = world.path(path);
        write(&file, text);
        let output = run(&world, &["--client", client, "--yes"]);
        assert_eq!(output.code, Some(2), "{text}: {output:?}");
        assert!(
            output.stderr.contains(place) && output.stderr.contains("nothing was changed"),
            "{output:?}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let files = fs::read_dir(file.parent().unwrap()).unwrap().flatten();
        let backups = files.filter(|e| e.file_name().to_string_lossy().contains(".bak"));
        assert_eq!(backups.count(), 0);
    }
    let folder = world.path("config/opencode/opencode.jsonc");
    fs::create_dir_all(&folder).unwrap();
    assert_eq!(
        run(&world, &["--client", "opencode", "--yes"]).code,
        Some(2),
        "a folder in place of the file"
    );
    fs::remove_dir(&folder).unwrap();
    // A link to a file that does not exist.
    std::os::unix::fs::symlink("/absent/file", world.path(".claude2.json")).unwrap();
    fs::remove_file(world.path(".claude.json")).unwrap();
    fs::rename(world.path(".claude2.json"), world.path(".claude.json")).unwrap();
    let link = run(&world, &["--client", "claude-code", "--yes"]);
    assert_eq!(link.code, Some(2), "{link:?}");
    for wrong in [
        &[][..],
        &["--client", "cursor"],
        &["--client", "codex", "--yes", "--print"],
    ] {
        assert_eq!(run(&world, wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn an_entry_of_the_user_is_never_overwritten() {
    let world = World::new();
    let opencode = |entry: Value| json!({ "mcp": { "filrouge": entry } }).to_string();
    let claude = |entry: Value| json!({ "mcpServers": { "filrouge": entry } }).to_string();
    let codex = |members: &str| format!("[mcp_servers.filrouge]\n{members}\n");
    let with_sources = json!([binary(), "mcp", "--source", "codex"]);
    let (unchanged, own_toml) = ("has it already", format!("command = {:?}", binary()));
    for (client, text, expected) in [
        (
            "opencode",
            opencode(json!({ "type": "local", "command": ["/old/filrouge", "mcp"] })),
            "mcp.filrouge already exists and differs",
        ),
        (
            "opencode",
            opencode(json!({ "type": "remote", "url": "http://127.0.0.1:1/mcp" })),
            "already exists and differs",
        ),
        (
            "opencode",
            opencode(json!({ "type": "local", "command": with_sources, "enabled": false })),
            "is disabled",
        ),
        (
            "opencode",
            opencode(
                json!({ "type": "local", "command": with_sources, "environment": { "FILROUGE_STORE": "x" } }),
            ),
            unchanged,
        ),
        (
            "claude-code",
            claude(json!({ "command": binary(), "args": ["serve"] })),
            "mcpServers.filrouge already exists and differs",
        ),
        (
            "claude-code",
            claude(json!("text")),
            "already exists and differs",
        ),
        (
            "claude-code",
            claude(
                json!({ "command": binary(), "args": ["mcp", "--source", "ledger"], "env": {} }),
            ),
            unchanged,
        ),
        (
            "codex",
            codex("command = \"/old/filrouge\"\nargs = [\"mcp\"]"),
            "[mcp_servers.filrouge] already exists and differs",
        ),
        (
            "codex",
            codex(&format!("{own_toml}\nargs = [\"mcp\"]\nenabled = false")),
            "is disabled",
        ),
        (
            "codex",
            codex(&format!(
                "{own_toml}\nargs = [\"mcp\", \"--source\", \"codex\"]"
            )),
            unchanged,
        ),
    ] {
        let file = world.path(match client {
            "opencode" => "config/opencode/opencode.json",
            "codex" => ".codex/config.toml",
            _ => ".claude.json",
        });
        write(&file, &text);
        let output = run(&world, &["--client", client, "--yes"]);
        let code = if expected == unchanged { 0 } else { 2 };
        assert_eq!(output.code, Some(code), "{text}: {output:?}");
        assert!(output.stderr.contains(expected), "{text}: {output:?}");
        // A refusal shows the lines that the user can add.
        assert!(
            code == 0 || output.stderr.contains(&binary()),
            "{text}: {output:?}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        let files = fs::read_dir(file.parent().unwrap()).unwrap().flatten();
        let backups = files.filter(|e| e.file_name().to_string_lossy().contains(".bak"));
        assert_eq!(backups.count(), 0);
    }
}

#[test]
fn options_that_the_entry_would_not_contain_are_refused() {
    let world = World::new();
    for setting in [
        &["--store", "sqlite:/elsewhere.db"][..],
        &["--tenant", "acme"],
        &["--hot", "memory:"],
        &["--unverified"],
    ] {
        for mode in ["--yes", "--print"] {
            let output = run(
                &world,
                &[&["--client", "claude-code", mode], setting].concat(),
            );
            assert_eq!(
                (output.code, output.stdout.as_str()),
                (Some(2), ""),
                "{output:?}"
            );
            assert!(
                output.stderr.contains(setting[0]) && output.stderr.contains("configuration file"),
                "{output:?}"
            );
            assert!(!world.path(".claude.json").exists());
        }
    }
    let file = world.path("mine.toml");
    write(&file, "tenant = \"acme\"\n");
    let output = run(
        &world,
        &[
            "--client",
            "claude-code",
            "--yes",
            "--config",
            file.to_str().unwrap(),
        ],
    );
    assert!(
        output.code == Some(2) && output.stderr.contains("--config"),
        "{output:?}"
    );
}

#[test]
fn the_change_is_shown_without_the_users_credentials() {
    let world = World::new();
    // The sample key of the AWS documentation.
    let secret = "AKIAIOSFODNN7EXAMPLE";
    let file = world.path(".claude.json");
    let old = format!(
        "{{\n  \"mcpServers\": {{\n    \"aws\": {{ \"command\": \"x\", \"env\": {{ \"KEY\": \"{secret}\" }} }}\n  }}\n}}\n"
    );
    write(&file, &old);
    for options in [
        &["--print"][..],
        &[],
        &["--print", "--json"],
        &["--yes", "--json"],
    ] {
        let output = run(&world, &[&["--client", "claude-code"], options].concat());
        assert!(
            !output.stdout.contains(secret) && !output.stderr.contains(secret),
            "{output:?}"
        );
        assert!(
            output.stdout.contains("masked:") && output.stdout.contains("aws"),
            "{output:?}"
        );
    }
    // The written file still contains it.
    assert_eq!(parsed(&file)["mcpServers"]["aws"]["env"]["KEY"], secret);
    assert_eq!(parsed(&file)["mcpServers"]["filrouge"]["command"], binary());
}
