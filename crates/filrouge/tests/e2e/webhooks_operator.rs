//! Webhooks for operators: dead letters, a receiver that is gone, and the configuration.

use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::within_five_seconds;
use crate::receiver::{Answer, Receiver};
use crate::webhooks::{
    NEWER, SECRET, at_least_once_in_order, configure, doctor, make, names, secret, signed_by,
    write_config,
};
use crate::world::World;

#[test]
fn dead_letters_are_shown_and_resent_on_request() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &secret("max_attempts = 2"));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    receiver.will(&[Answer::Status(500), Answer::Status(503)]);
    make(&client, "lost");
    let got = receiver.until("both attempts", |got| got.len() == 2);
    within_five_seconds("the message becomes a dead letter", || {
        doctor(&world)["dead_letters"]
            .as_array()
            .is_some_and(|l| l.len() == 1)
    });
    make(&client, "next");
    receiver.until("the feed continues", |got| got.len() == 3);
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stdout.contains("1 dead letters") && done.stdout.contains("--redeliver crm"),
        "{done:?}"
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

    let reported = world.ok(&["doctor", "webhooks", "--redeliver", "crm"]);
    assert!(reported.starts_with("1 dead letters"), "{reported}");
    let all = receiver.until("the lost one", |got| got.len() == 4);
    assert_eq!((&all[3].id, &all[3].body), (&got[0].id, &got[0].body));
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
    configure(&world, &receiver, &secret(""));
    let server = world.serve();
    let client = server.client();
    within_five_seconds("it begins", || doctor(&world)["cursor"].is_string());
    receiver.will(&[Answer::Status(410)]);
    make(&client, "a");
    within_five_seconds("the webhook is disabled", || {
        doctor(&world)["disabled_at"].is_string()
    });
    make(&client, "b");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(receiver.got().len(), 1);
    assert!(server.log().contains("the receiver answers 410"));
    assert!(world.run(&["doctor"]).stdout.contains("--enable crm"));
    world.ok(&["doctor", "webhooks", "--enable", "crm"]);
    receiver.until("the rest", |got| {
        names(&got.last().unwrap().changes()).contains(&"b".to_owned())
    });
    at_least_once_in_order(&client, &receiver.changes());
}

#[test]
fn a_wrong_configuration_is_refused_without_showing_secrets() {
    let world = World::new();
    let fine = format!(
        "[[webhooks]]\nname = \"a\"\nurl = \"https://example.org/x\"\nsecret = \"{SECRET}\"\n"
    );
    let short = "whsec_c2hvcnQ=";
    for (text, reported) in [
        (fine.repeat(2), "twice"),
        (fine.replace("secret = ", "secrets = "), "it is invalid"),
        (
            fine.replace(&format!("\"{SECRET}\""), &SECRET.replace("whsec_", "")),
            "it is invalid",
        ),
        (fine.replace(SECRET, short), "24 to 64 bytes"),
        (
            fine.replace("secret = ", "secret_env = \"FILROUGE_TEST_SECRET\"\n#"),
            "FILROUGE_TEST_SECRET is not set",
        ),
        (
            fine.replace("secret = ", "secret_file = \"none\"\n#"),
            "none",
        ),
        (fine.replace("secret = ", "#"), "needs one of"),
        (
            fine.replace("https://example.org/x", "ftp://example.org/hidden"),
            "http",
        ),
        (fine.replace("\"a\"", "\"a/b\""), "letters"),
        (format!("{fine}batch = 0\n"), "batch"),
        (format!("{fine}timeout_ms = 60001\n"), "timeout_ms"),
        (format!("{fine}max_attempts = 0\n"), ""),
        (
            format!("{fine}kinds = [\"items\", \"x\"]\n"),
            "known: created",
        ),
        (format!("{fine}from = \"now\"\n"), "beginning"),
        (format!("{fine}color = 1\n"), ""),
    ] {
        write_config(&world, &text);
        let done = world.run(&["serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (Some(2), ""),
            "{text}{done:?}"
        );
        assert!(done.stderr.contains(reported), "{text}{done:?}");
        for hidden in [&SECRET[6..], &short[6..], "hidden"] {
            assert!(!done.stderr.contains(hidden), "{text}{done:?}");
        }
    }
    assert!(world.is_empty(), "nothing was created");
}

#[test]
fn secrets_are_read_from_files_and_the_environment_and_a_webhook_may_be_off() {
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
            section("off", &secret("enabled = false")),
            section("elsewhere", &secret("tenant = \"other\"")),
        ]
        .concat(),
    );
    std::fs::write(
        world.path("config/filrouge/crm.secret"),
        format!("{SECRET}\n"),
    )
    .unwrap();
    let server = world.serve_where(
        &[
            ("FILROUGE_CRM_SECRET", NEWER),
            ("FILROUGE_LISTEN", "127.0.0.1:0"),
        ],
        &[],
    );
    within_five_seconds("both begin", || {
        let reported = world.json(&["doctor", "webhooks"]);
        reported["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|w| w["cursor"].is_string())
            .count()
            == 3
    });
    make(&server.client(), "s");
    let got = receiver.until("both", |got| got.len() == 2);
    for message in &got {
        let secret = if message.json()["webhook"] == "file" {
            SECRET
        } else {
            NEWER
        };
        assert!(signed_by(message, secret), "{message:?}");
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(receiver.got().len(), 2);
    let reported = world.json(&["doctor", "webhooks"]);
    assert_eq!(
        (
            &reported["webhooks"][2]["enabled"],
            &reported["webhooks"][2]["cursor"]
        ),
        (&json!(false), &Value::Null)
    );
}
