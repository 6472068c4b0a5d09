//! The settings of the hot store, and those that limit what the ledger stores.

use std::fs;

use serde_json::Value;

use crate::world::World;

/// The settings that `config show` prints.
fn show(world: &World, variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let mut command = world.command(&[arguments, &["config", "show", "--json"]].concat());
    command.envs(variables.iter().copied());
    let output = crate::world::finish(command, "config show");
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str::<Value>(&output.stdout).unwrap()["settings"].take()
}

fn value<'a>(settings: &'a Value, name: &str) -> &'a str {
    settings[name]["value"].as_str().unwrap()
}

#[test]
fn settings_have_layers_and_defaults() {
    let world = World::new();
    let settings = show(&world, &[], &[]);
    assert_eq!(value(&settings, "metadata_allow"), "*");
    let settings = show(&world, &[("FILROUGE_DURABLE", "authenticated")], &[]);
    let allowed = value(&settings, "metadata_allow");
    assert!(
        allowed.starts_with("channel,device_type,ip_hash,"),
        "{allowed}"
    );
    assert_eq!(settings["metadata_allow"]["origin"], "default");

    let file = world.path("c.toml");
    let text = "hot = \"redis://ada:s3cr3t-w0rd@h:1/2\"\nhot_ttl_s = 60\nmetadata_allow = [\"a\", \"b\"]\n\
        record = \"conversation\"\n\n[tenants.acme]\nrecord = \"all\"\n";
    fs::write(&file, text).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let settings = show(&world, &[], &config);
    for (name, expected) in [
        ("hot", "redis://ada:***@h:1/2"),
        ("hot_ttl_s", "60"),
        ("metadata_allow", "a,b"),
        ("record", "conversation"),
        ("tenants.acme.record", "all"),
    ] {
        assert_eq!(value(&settings, name), expected);
        assert_eq!(settings[name]["origin"], file.to_str().unwrap());
    }
    let variables = [
        ("FILROUGE_HOT", "memory:"),
        ("FILROUGE_METADATA_ALLOW", "none"),
    ];
    let settings = show(&world, &variables, &config);
    assert_eq!(value(&settings, "hot"), "memory:");
    assert_eq!(value(&settings, "metadata_allow"), "none");
    let flag = [&config[..], &["--hot", "rediss://x"]].concat();
    let settings = show(&world, &variables, &flag);
    assert_eq!(value(&settings, "hot"), "rediss://x");
    assert_eq!(settings["hot"]["origin"], "--hot");
}

#[test]
fn errors_are_reported_without_passwords() {
    let world = World::new();
    for (line, word) in [
        (
            "hot = \"postgres://u:s3cr3t-w0rd@h\"",
            "known: memory:, redis://",
        ),
        (
            "hot = \"redis:/u:s3cr3t-w0rd@h\"",
            "redis://user:password@host",
        ),
        (
            "hot = \"redis://u:s3cr3t-w0rd@h/x\"",
            "redis://user:password@host",
        ),
        ("hot = [\"redis://u:s3cr3t-w0rd@h\"]", "line 1"),
        ("hot = \"memory\"", "known: memory:"),
        ("hot_ttl_s = 0", "hot_ttl_s"),
        (
            "hot_turns = 0",
            "hot_turns: \"0\" is no whole number from 1 up",
        ),
        ("hot_bytes = 0", "hot_bytes"),
        (
            "hot_bytes = 65535",
            "hot_bytes: \"65535\" is no whole number from 65536 up",
        ),
        ("hot = \"u:s3cr3t-w0rd@h\"", "known: memory:, redis://"),
        ("hot = \"s3cr3t-w0rd@h:6379\"", "known: memory:, redis://"),
        ("hot = \"s3cr3t-w0rd\"", "known: memory:, redis://"),
        ("hot = \"redi:x\"", "\"redi\" is no kind of hot store"),
        ("hot_timeout_ms = 60001", "hot_timeout_ms"),
        ("hot_prefix = \"a{b}\"", "hot_prefix"),
        ("durable = \"some\"", "known: all, authenticated"),
        ("record = \"some\"", "known: all, conversation"),
        ("metadata_allow = [\"a\", \"\"]", "metadata_allow"),
        ("metadata_allow = [\"a\", \"*\"]", "* alone for all"),
        ("metadata_allow = [\"none\", \"a\"]", "none alone"),
        (
            "metadata_allow = [\"a\", \"Client-IP\"]",
            "recorded only as ip_hash",
        ),
        (
            "hot_memory_bytes = 1048575",
            "hot_memory_bytes: \"1048575\" is no whole number from 1048576 up",
        ),
        ("[tenants.acme]\nrecord = \"some\"", "[tenants.acme]"),
        ("[tenants.\"\\u0001\"]\nrecord = \"all\"", "[tenants."),
        ("[tenants.acme]\ncolor = 1", "color"),
    ] {
        fs::write(world.path("bad.toml"), line).unwrap();
        let output = world.run(&["--config", "bad.toml", "config", "show"]);
        assert_eq!(output.code, Some(2), "{line}: {output:?}");
        assert!(
            output.stderr.contains("bad.toml") && output.stderr.contains(word),
            "{line}: {output:?}"
        );
        assert!(!output.stderr.contains("s3cr3t"), "{output:?}");
    }
}
