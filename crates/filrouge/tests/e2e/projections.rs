//! Projections whose target never answers: the ledger works, and everything reports what waits.

use serde_json::json;

use crate::caller::within_five_seconds;
use crate::projected::tables;
use crate::webhooks::write_config;
use crate::world::World;

/// A projection whose target does not exist.
const AWAY: &str = r#"
[[projections]]
name = "copy"
kind = "opensearch"
url = "http://127.0.0.1:9/"
clean_timeout_ms = 200
"#;

#[test]
fn without_its_target_a_projection_is_reported_and_the_ledger_works() {
    let world = World::new();
    write_config(&world, AWAY);
    let server = world.serve();
    let client = server.client();
    let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    client.post("/s/turns", &turn).wrote(201);
    within_five_seconds("the failure is noticed", || {
        client.get_body("/readyz")["status"] == "degraded"
    });
    let ready = client.get_body("/readyz");
    let reason = ready["projections"].as_str().unwrap();
    assert!(reason.starts_with("copy: "), "{ready}");
    let metrics = client.get("/metrics").text;
    let lag = "filrouge_projection_lag_commits{projection=\"copy\"}";
    assert!(metrics.contains(lag), "{metrics}");

    let receipt = client.delete("/s").is(200);
    let pending = json!({ "store": "projection", "name": "copy", "status": "pending" });
    let stores = receipt["stores"].as_array().unwrap();
    assert_eq!(stores.last(), Some(&pending));
    let status = world.run(&["project", "status", "--json"]);
    assert_eq!(status.code, Some(1), "{status:?}");
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["projections"][0]["uncleaned"], 1);
    assert!(status["projections"][0]["generation"].is_null());
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains("projection copy"), "{doctor:?}");
    let verified = world.run(&["project", "verify", "copy"]);
    assert_eq!(verified.code, Some(1), "{verified:?}");
    let once = world.run(&["project", "run", "--once"]);
    assert_eq!(once.code, Some(1), "{once:?}");
    server.stop();
    world.verify();
}

#[test]
fn wrong_settings_of_projections_are_refused() {
    let world = World::new();
    for (text, word) in [
        (
            AWAY.replace("opensearch", "nothing"),
            "is no kind of projection",
        ),
        (
            AWAY.replace("\"copy\"", "\"Copy\""),
            "a projection's name has",
        ),
        (format!("{AWAY}{AWAY}"), "the name is used twice"),
        (
            // Both have the prefix `filrouge_a_b`.
            ["a-b", "a_b"]
                .map(|name| AWAY.replace("copy", name))
                .concat(),
            "another projection has the same url and prefix",
        ),
        (format!("{AWAY}prefix = \"a-b\""), "prefix is"),
        (format!("{AWAY}tenants = []"), "tenants is empty"),
        (format!("{AWAY}channels = []"), "channels is empty"),
        (format!("{AWAY}without = [\"all\"]"), "unknown field"),
        (format!("{AWAY}timeout_ms = 50001"), "timeout_ms is 50001"),
        (
            format!("{AWAY}secret = \"a\"\nsecret_env = \"B\""),
            "more than one",
        ),
        (format!("{AWAY}secret_file = \"absent\""), "absent"),
        (format!("{AWAY}user = \"u\""), "a user and no secret"),
        (format!("{AWAY}schema = \"s\""), "unknown field"),
        (
            format!("{AWAY}reporting_role = \"r\""),
            "reporting_role is no setting of the kind opensearch",
        ),
        (
            format!("{AWAY}vectors = true"),
            "search.embedder.kind is none",
        ),
        (
            AWAY.replace("opensearch", "tables"),
            "the url is neither sqlite:PATH nor postgres://",
        ),
        (
            format!("{}vectors = true", tables("")),
            "vectors is no setting of the kind tables",
        ),
        (
            tables("tenant_ids = { a = 1, b = 1 }"),
            "the same number for two tenants",
        ),
        (
            tables("source = \"nothing\""),
            "is no source; known: opencode",
        ),
        (
            tables("source = \"opencode\"\ntenant_ids = { a = 1 }"),
            "tenant_ids needs the source ledger",
        ),
        (
            tables("source = \"codex:/x\"\nclean_timeout_ms = 1"),
            "clean_timeout_ms needs the source ledger",
        ),
        (
            tables("source = \"opencode\"\ntenants = [\"a\", \"b\"]"),
            "has no tenants",
        ),
        (
            tables("reporting_role = \"r\""),
            "a SQLite file has neither a secret nor a reporting_role",
        ),
    ] {
        write_config(&world, &text);
        let output = world.run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(output.code, Some(2), "{text}{output:?}");
        assert!(output.stderr.contains(word), "{word}: {output:?}");
    }
    write_config(&world, AWAY);
    let unknown = world.run(&["project", "rebuild", "other"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(world.ok(&["config", "show"]).contains("projections.copy"));
    write_config(&world, &tables("tenant_ids = { acme = 7 }"));
    let shown = world.ok(&["config", "show"]);
    assert!(shown.contains("tenant_ids acme=7"), "{shown}");
    // Nothing was opened.
    assert!(!world.path("config/filrouge/copy.db").exists());
}
