//! Webhooks for operators: dead letters, receivers that answer 410, and the configuration.

use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::within_five_seconds;
use crate::receiver::{PreparedResponse, Receiver};
use crate::webhooks::{
    NEW_SECRET, SECRET, assert_at_least_once_in_order, configure, create_session, doctor,
    is_signed_by, sessions, with_secret, write_config,
};
use crate::world::World;

#[test]
fn dead_letters_are_shown_and_resent_on_request() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret("max_attempts = 2"));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    receiver.respond_next_with(&[PreparedResponse::Status(500), PreparedResponse::Status(503)]);
    create_session(&client, "lost");
    let messages = receiver.until("both attempts arrive", |messages| messages.len() == 2);
    within_five_seconds("the message becomes a dead letter", || {
        doctor(&world)["dead_letters"]
            .as_array()
            .is_some_and(|l| l.len() == 1)
    });
    create_session(&client, "next");
    receiver.until("the feed continues", |messages| messages.len() == 3);
    let command_output = world.run(&["doctor"]);
    assert_eq!(command_output.code, Some(1), "{command_output:?}");
    assert!(
        command_output.stdout.contains("1 dead letters")
            && command_output.stdout.contains("--redeliver crm"),
        "{command_output:?}"
    );
    let letter = doctor(&world)["dead_letters"][0].clone();
    assert_eq!(
        (&letter["attempts"], &letter["error"]),
        (&json!(2), &json!("status_503"))
    );
    assert!(
        client
            .get("/metrics")
            .text
            .contains("filrouge_webhook_dead_letters_total{webhook=\"crm\"} 1")
    );

    let output = world.ok(&["doctor", "webhooks", "--redeliver", "crm"]);
    assert!(output.starts_with("1 dead letters"), "{output}");
    let all = receiver.until("the dead letter is sent again", |messages| {
        messages.len() == 4
    });
    assert_eq!(
        (&all[3].id, &all[3].body),
        (&messages[0].id, &messages[0].body)
    );
    within_five_seconds("no dead letter is left", || {
        doctor(&world)["dead_letters"] == json!([])
    });
    assert!(world.ok(&["doctor"]).contains("webhook crm"));
    let unknown = world.run(&["doctor", "webhooks", "--redeliver", "other"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

#[test]
fn a_receiver_that_answers_410_is_not_called_until_it_is_enabled() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret(""));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("the webhook runs", || doctor(&world)["cursor"].is_string());
    receiver.respond_next_with(&[PreparedResponse::Status(410)]);
    create_session(&client, "a");
    within_five_seconds("the webhook is disabled", || {
        doctor(&world)["disabled_at"].is_string()
    });
    create_session(&client, "b");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(receiver.received().len(), 1);
    assert!(server.log().contains("the receiver answers 410"));
    assert!(world.run(&["doctor"]).stdout.contains("--enable crm"));
    world.ok(&["doctor", "webhooks", "--enable", "crm"]);
    receiver.until("the change of session b arrives", |messages| {
        sessions(&messages.last().unwrap().changes()).contains(&"b".to_owned())
    });
    assert_at_least_once_in_order(&client, &receiver.changes());
}

#[test]
fn a_wrong_configuration_is_refused_without_showing_secrets() {
    let world = World::new();
    let valid = format!(
        "[[webhooks]]\nname = \"a\"\nurl = \"https://example.org/x\"\nsecret = \"{SECRET}\"\n"
    );
    let short = "whsec_c2hvcnQ=";
    for (text, error) in [
        (valid.repeat(2), "twice"),
        (valid.replace("secret = ", "secrets = "), "it is invalid"),
        (
            valid.replace(&format!("\"{SECRET}\""), &SECRET.replace("whsec_", "")),
            "it is invalid",
        ),
        (valid.replace(SECRET, short), "24 to 64 bytes"),
        (
            valid.replace("secret = ", "secret_env = \"FILROUGE_TEST_SECRET\"\n#"),
            "FILROUGE_TEST_SECRET is not set",
        ),
        (
            valid.replace("secret = ", "secret_file = \"none\"\n#"),
            "none",
        ),
        (valid.replace("secret = ", "#"), "needs one of"),
        (
            valid.replace("https://example.org/x", "ftp://example.org/hidden"),
            "http",
        ),
        (valid.replace("\"a\"", "\"a/b\""), "letters"),
        (format!("{valid}batch = 0\n"), "batch"),
        (format!("{valid}timeout_ms = 60001\n"), "timeout_ms"),
        (format!("{valid}max_attempts = 0\n"), ""),
        (
            format!("{valid}kinds = [\"items\", \"x\"]\n"),
            "known: created",
        ),
        (format!("{valid}from = \"now\"\n"), "beginning"),
        (format!("{valid}color = 1\n"), ""),
    ] {
        write_config(&world, &text);
        let command_output = world.run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(
            (command_output.code, command_output.stdout.as_str()),
            (Some(2), ""),
            "{text}{command_output:?}"
        );
        assert!(
            command_output.stderr.contains(error),
            "{text}{command_output:?}"
        );
        for hidden in [&SECRET[6..], &short[6..], "hidden"] {
            assert!(
                !command_output.stderr.contains(hidden),
                "{text}{command_output:?}"
            );
        }
    }
    assert!(world.is_empty(), "a refused start created the store");
}

#[test]
fn secrets_are_read_from_files_and_the_environment_and_a_webhook_may_be_disabled() {
    let world = World::new();
    let receiver = Receiver::start();
    let section = |name: &str, more: &str| {
        format!(
            "[[webhooks]]\nname = \"{name}\"\nurl = \"{}\"\n{more}\n",
            receiver.url()
        )
    };
    write_config(
        &world,
        &[
            section("file", "secret_file = \"crm.secret\""),
            section("environment", "secret_env = \"FILROUGE_CRM_SECRET\""),
            section("off", &with_secret("enabled = false")),
            section("elsewhere", &with_secret("tenant = \"other\"")),
        ]
        .concat(),
    );
    std::fs::write(
        world.path("config/filrouge/crm.secret"),
        format!("{SECRET}\n"),
    )
    .unwrap();
    let server = world.serve_with_env(
        &[
            ("FILROUGE_CRM_SECRET", NEW_SECRET),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    within_five_seconds("the three enabled webhooks run", || {
        let report = world.json(&["doctor", "webhooks"]);
        report["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|w| w["cursor"].is_string())
            .count()
            == 3
    });
    create_session(&server.client(), "s");
    let messages = receiver.until(
        "the messages of this tenant's two webhooks arrive",
        |messages| messages.len() == 2,
    );
    for message in &messages {
        let secret = if message.json()["webhook"] == "file" {
            SECRET
        } else {
            NEW_SECRET
        };
        assert!(is_signed_by(message, secret), "{message:?}");
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(receiver.received().len(), 2);
    let report = world.json(&["doctor", "webhooks"]);
    assert_eq!(
        (
            &report["webhooks"][2]["enabled"],
            &report["webhooks"][2]["cursor"]
        ),
        (&json!(false), &Value::Null)
    );
}
