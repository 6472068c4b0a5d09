//! API keys on the command line.

use serde_json::json;

use crate::caller::key_id;
use crate::world::World;

#[test]
fn keys_are_created_listed_and_revoked_on_the_command_line() {
    let world = World::new();
    let created = world.json(&[
        "keys",
        "create",
        "--role",
        "user",
        "--identity",
        "ada",
        "--name",
        "Ada's",
    ]);
    let text = created["key"].as_str().unwrap().to_owned();
    assert_eq!(created["key_id"], key_id(&text));
    let plain = world.run(&["keys", "create", "--role", "service", "--expires", "30d"]);
    assert!(plain.stdout.starts_with("frk_") && plain.stdout.lines().count() == 1);
    assert!(!plain.stderr.contains(plain.stdout.trim_end()), "{plain:?}");
    assert!(
        plain.stderr.starts_with("this is the only time") && plain.stderr.lines().count() == 1,
        "the warning is a sentence, not a log line: {plain:?}"
    );
    assert_eq!(
        world.json(&["--tenant", "other", "keys", "list"])["data"],
        json!([])
    );
    let listed = world.json(&["keys", "list"])["data"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(
        (
            &listed[0]["identity_id"],
            &listed[0]["name"],
            &listed[0]["status"]
        ),
        (&json!("ada"), &json!("Ada's"), &json!("valid"))
    );
    assert!(listed[1]["expires_at"].is_string());
    let in_other_tenant = ["--tenant", "other", "keys", "revoke", key_id(&text)];
    for absent in [&in_other_tenant[..], &["keys", "revoke", "nope"]] {
        let output = world.run(absent);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{output:?}"
        );
        assert!(
            output.stderr.starts_with("error[not_found]: ") && output.stderr.contains("hint:"),
            "{output:?}"
        );
    }
    let revoked = world.json(&["keys", "revoke", key_id(&text)]);
    let at = revoked["revoked_at"].as_str().unwrap();
    let again = world.run(&["keys", "revoke", key_id(&text)]);
    let id = key_id(&text);
    assert_eq!(
        again.stdout,
        format!("revoked: key {id}, role user, {at}  Ada's\n")
    );
    assert_eq!(again.stderr, "running servers refuse it within seconds\n");
    assert_eq!(world.json(&["keys", "revoke", key_id(&text)]), revoked);
    let table = world.ok(&["keys", "list"]);
    assert!(
        table.contains("revoked") && table.contains("service"),
        "{table}"
    );
    let secret = text.rsplit('_').next().unwrap();
    assert!(!format!("{listed}{table}{revoked}").contains(secret));
    world.assert_not_stored(secret);
    for wrong in [
        &["--role", "king"][..],
        &["--role", "user"],
        &["--role", "service", "--identity", "ada"],
        &["--role", "admin", "--expires", "yesterday"],
        &["--role", "admin", "--expires", "2020-01-01T00:00:00Z"],
        &["--role", "admin", "--name", "a\tb"],
        &[],
    ] {
        let output = world.run(&[&["keys", "create"], wrong].concat());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {output:?}"
        );
    }
    world.verify();
}
