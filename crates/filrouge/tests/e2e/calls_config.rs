//! The section `[calls]` of the configuration file.

use std::fs;

use crate::world::World;

#[test]
fn each_value_shows_its_origin() {
    let world = World::new();
    let file = world.path("calls.toml");
    let text = "[calls]\njournal = \"shadow\"\nlease_ttl_ms = 5000\nterminal_states = [\"TRANSFERRED\", \"CONFIRMED\"]\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let mut command = world.command(&["config", "show", "--json", "--config", file]);
    command.env("FILROUGE_JOURNAL", "off");
    let output = crate::world::finish(command, "config show");
    let shown: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for (name, value, origin) in [
        ("calls.journal", "off", "FILROUGE_JOURNAL"),
        ("calls.lease_ttl_ms", "5000", file),
        ("calls.terminal_states", "TRANSFERRED,CONFIRMED", file),
        ("calls.lease_wait_ms", "2000", "default"),
    ] {
        let setting = &shown["settings"][name];
        assert_eq!(
            (&setting["value"], &setting["origin"]),
            (&value.into(), &origin.into())
        );
    }
}

#[test]
fn invalid_values_are_refused_with_an_explanation() {
    let world = World::new();
    for (section, words) in [
        ("journal = \"maybe\"", "known: off, shadow, on"),
        ("lease_ttl_ms = 0", "lease_ttl_ms"),
        ("lease_ttl_ms = 700000", "calls.lease_ttl_max_ms is 600000"),
        ("lease_wait_ms = 60001", "from 0 to 60000"),
        ("checkpoints_kept = 0", "from 1 to 1000"),
        ("tail_items = 501", "from 1 to 500"),
        ("terminal_states = [\"\", \"A\"]", "states between commas"),
        ("lease = 1", "unknown field"),
    ] {
        let file = world.path("wrong.toml");
        fs::write(&file, format!("[calls]\n{section}\n")).unwrap();
        let output = world.run(&["config", "show", "--config", file.to_str().unwrap()]);
        assert_eq!(output.code, Some(2), "{section}: {output:?}");
        assert!(output.stderr.contains(words), "{section}: {output:?}");
    }
}
