//! `filrouge copy`: a copy has all data of its source, even after concurrent writes or interruptions.

mod stopped;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::receiver::Receiver;
use crate::upload_client::{Upload, turn, wait_for_draft};
use crate::webhooks::{configure, create_session, sessions, with_secret};
use crate::world::{CommandOutput, Server, World, fixture};

pub(crate) fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

impl World {
    /// The path of the copy.
    pub(crate) fn target(&self) -> PathBuf {
        self.path("new/copy.db")
    }

    /// Runs `filrouge copy` from the world's store to [`World::target`].
    pub(crate) fn copy(&self, options: &[&str]) -> CommandOutput {
        let (from, to) = (url(&self.store()), url(&self.target()));
        self.run(&[&["copy", "--from", &from, "--to", &to], options].concat())
    }

    /// Starts the same copy in the background.
    fn spawn_copy(&self) -> Child {
        let (from, to) = (url(&self.store()), url(&self.target()));
        let mut command = self.command(&["copy", "--from", &from, "--to", &to]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn serve_copy(&self) -> Server {
        self.serve_with(&["--store", &url(&self.target())])
    }

    /// Runs a command on the store at `url`, which must succeed; returns its output.
    fn ok_at(&self, url: &str, arguments: &[&str]) -> String {
        self.ok(&[arguments, &["--store", url]].concat())
    }

    fn verify_copy(&self) {
        self.verify_at(&url(&self.target()));
    }

    pub(crate) fn verify_at(&self, url: &str) {
        let output = self.ok_at(url, &["verify", "--json"]);
        let report: Value = serde_json::from_str(&output).unwrap();
        assert_eq!(report["status"], "intact", "{report}");
    }

    /// The output of every command that shows data of a tenant, by command. Sessions and rows of the audit are sorted:
    /// a copy has them in another order.
    pub(crate) fn reports(&self, url: &str, tenant: &str) -> BTreeMap<String, String> {
        let run =
            |arguments: &[&str]| self.ok_at(url, &[arguments, &["--tenant", tenant]].concat());
        let keys = run(&["keys", "list", "--json"]);
        let mut reports = BTreeMap::from([("keys".to_owned(), keys)]);
        reports.insert("audit".to_owned(), self.audit(url, tenant));
        let list = run(&["sessions", "list", "--limit", "500", "--json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        for session in list["data"].as_array().unwrap() {
            let id = session["session_id"].as_str().unwrap();
            reports.insert(format!("list {id}"), session.to_string());
            reports.insert(format!("export {id}"), run(&["export", id]));
        }
        reports
    }

    /// The rows of a tenant's audit, sorted.
    fn audit(&self, url: &str, tenant: &str) -> String {
        let audit = self.ok_at(url, &["audit", "--json", "--tenant", tenant]);
        let mut rows: Vec<&str> = audit.lines().collect();
        rows.sort_unstable();
        rows.join("\n")
    }
}

/// Records data of every kind in three sessions, and erases one of them.
pub(crate) fn record_data(client: &Client) {
    for s in ["s", "a/b", "erased"] {
        let session =
            json!({ "session_id": s, "title": format!("of {s}"), "metadata": { "n": 1.0 } });
        client.post("", &session).wrote(201);
        let at = format!("/{}", s.replace('/', "%2f"));
        for n in 0..6 {
            let body = json!({ "request_id": format!("r{n}"), "question_neutral": "what?", "answer_neutral": "that!",
                "items": [text_item(&format!("i{n}"), "assistant", "thought", &"lorem ipsum ".repeat(n * 200))] });
            let turn = client.post(&format!("{at}/turns"), &body).wrote(201);
            let turn = turn["turn_id"].as_str().unwrap().to_owned();
            if n == 3 {
                let reason = json!({ "reason": "on request" });
                let redact = format!("{at}/turns/{turn}/redact");
                client.post(&redact, &reason).wrote(200);
            }
            if n == 4 {
                let body = json!({ "request_id": "better", "question_neutral": "what?", "answer_neutral": "this!" });
                client
                    .post(&format!("{at}/turns/{turn}/replace"), &body)
                    .wrote(201);
            }
        }
        let event = json!({ "key": "k", "kind": "call_started", "detail": { "a": 1 } });
        client.post(&format!("{at}/events"), &event).wrote(201);
    }
    client.delete("/erased");
}

#[test]
fn a_store_is_copied_while_it_is_used() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    record_data(&client);
    // A session that was imported from another store, with its chain.
    let other = World::on_sqlite();
    let other_server = other.serve();
    let imported = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    other_server
        .client()
        .post("/imported/turns", &imported)
        .wrote(201);
    other_server.stop();
    let bundle = world.path("imported.json");
    std::fs::write(
        &bundle,
        other.ok(&["export", "imported", "--format", "json"]),
    )
    .unwrap();
    world.ok(&["import", "bundle", bundle.to_str().unwrap()]);
    // A stream that is being recorded, and its draft.
    let path = turn(&client, "streamed");
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("It grows ");
    wait_for_draft(&server);

    let command_output = world.copy(&["--json"]);
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    let reported: Value = serde_json::from_str(&command_output.stdout).unwrap();
    let expected = json!({ "status": "intact", "findings": [] });
    assert_eq!(
        (&reported["source"], &reported["copy"]),
        (&expected, &expected)
    );
    assert_eq!(reported["resumed"], false);
    assert_eq!(reported["left_out"], json!([]));
    assert_eq!(reported["events"], 2);
    assert!(
        command_output.stderr.contains("verifying the copy"),
        "{command_output:?}"
    );
    world.verify_copy();

    // Later writes of the source do not reach the copy.
    upload.send_text("on.");
    upload.end().wrote(200);
    server.stop();
    world.verify();
    let copy = world.serve_copy();
    let client = copy.client();
    for (turns, request) in [("/s/turns", "r1"), ("/imported/turns", "r")] {
        let retry = json!({ "request_id": request, "question_neutral": "what?" });
        let replay = client.post(turns, &retry).is(200);
        assert_eq!(replay["replayed"], true, "{turns}");
    }
    let next =
        json!({ "request_id": "next", "question_neutral": "more?", "answer_neutral": "more!" });
    client.post("/a%2fb/turns", &next).wrote(201);
    client.get("/erased").fails(410, "session_erased");
    // No process records the stream of the copy, so its turn is interrupted with the text that had arrived.
    let found = client.all("/s/turns", 50);
    let streamed = found
        .iter()
        .find(|t| t["request_id"] == "streamed")
        .unwrap();
    assert_eq!(streamed["status"], "interrupted", "{streamed}");
    let items = client.all("/s/items", 100);
    assert!(items.iter().any(|i| i["channel"] == "partial"), "{items:?}");
    copy.stop();
    world.verify_copy();
    let doctor = world.ok_at(&url(&world.target()), &["doctor"]);
    assert!(!doctor.contains("FAILED"), "{doctor}");
}

#[test]
fn every_command_prints_the_same_about_a_copy_and_its_source() {
    let world = World::on_sqlite();
    let server = world.serve();
    record_data(&server.client());
    server.stop();
    world.ok(&[
        "import",
        "opencode",
        fixture("opencode-json").to_str().unwrap(),
    ]);
    world.ok(&["keys", "create", "--role", "service", "--name", "k"]);
    let before = std::fs::read(world.store()).unwrap();
    let anchors = || {
        let mut found: Vec<_> = std::fs::read_dir(world.path("state/filrouge/anchor"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "anchor"))
            .map(|p| (std::fs::read(&p).unwrap(), p))
            .collect();
        found.sort();
        found
    };
    let anchors_before = anchors();
    let command_output = world.copy(&[]);
    assert_eq!(command_output.code, Some(0), "{command_output:?}");
    assert!(
        command_output
            .stdout
            .ends_with("intact: the copy equals the source\n"),
        "{command_output:?}"
    );
    assert!(
        std::fs::read(world.store()).unwrap() == before,
        "the copy changed its source"
    );
    let anchors_after = anchors();
    assert_eq!(anchors_after.len(), 2, "the copy has its own anchor");
    assert!(
        anchors_before
            .iter()
            .all(|anchor| anchors_after.contains(anchor))
    );
    assert_eq!(
        world.reports(&url(&world.target()), "default"),
        world.reports(&url(&world.store()), "default")
    );
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.target()), 0o600);
    assert_eq!(mode(world.target().parent().unwrap()), 0o700);
}

/// A webhook begins at the end of the copy's feed: its receiver knows the sessions that were copied.
#[test]
fn a_webhook_of_a_copy_sends_only_later_changes() {
    let world = World::on_sqlite();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret("from = \"beginning\""));
    let server = world.serve();
    create_session(&server.client(), "old");
    receiver.until("the session is reported", |messages| messages.len() == 1);
    server.stop();
    assert_eq!(world.copy(&[]).code, Some(0));
    let copy = world.serve_copy();
    create_session(&copy.client(), "new");
    receiver.until("the next session is reported", |messages| {
        messages.len() == 2
    });
    assert_eq!(sessions(&receiver.changes()), ["old", "new"]);
    copy.stop();
    world.verify_copy();
}

/// Checks that every command that opens a store refuses an unfinished copy.
fn assert_unfinished_copy_is_refused(world: &World) {
    let store = url(&world.target());
    for command in [
        &["sessions", "list"][..],
        &["export", "s"],
        &["verify"],
        &["keys", "list"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["anchor", "accept"],
        &["migrate", "up"],
    ] {
        let command_output = world.run(&[command, &["--store", &store]].concat());
        assert_ne!(
            command_output.code,
            Some(0),
            "{command:?}: {command_output:?}"
        );
        assert!(
            command_output.stderr.contains("was not finished"),
            "{command:?}: {command_output:?}"
        );
        assert!(
            command_output.stderr.contains("hint: "),
            "{command:?}: {command_output:?}"
        );
    }
}

/// Imports histories into several tenants, so that a copy takes long enough to be interrupted.
pub(crate) fn fill_tenants(world: &World) {
    for tenant in 0..4 {
        let tenant = format!("t{tenant}");
        for name in ["opencode-json", "opencode-json-legacy"] {
            let folder = fixture(name);
            world.ok(&[
                "import",
                "opencode",
                folder.to_str().unwrap(),
                "--tenant",
                &tenant,
            ]);
        }
    }
}

/// Kills a copy some time after it reports a stage; returns `false` if the copy had finished before.
pub(crate) fn kill_during(mut child: Child, stage: &str, delay: Duration) -> bool {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reached = lines.map_while(Result::ok).find(|l| l.starts_with(stage));
    std::thread::sleep(delay);
    child.kill().unwrap();
    let killed = child.wait().unwrap().code().is_none();
    killed && reached.is_some()
}
