//! `filrouge copy`: a store is copied with all its data, under concurrent writes and after any interruption.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{Client, text_item};
use crate::upload_client::{Upload, drafted, turn};
use crate::world::{Done, Server, World, fixture};

pub(crate) fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

impl World {
    /// The path of the copy.
    pub(crate) fn target(&self) -> PathBuf {
        self.path("new/copy.db")
    }

    pub(crate) fn copy(&self, more: &[&str]) -> Done {
        let (from, to) = (url(&self.store()), url(&self.target()));
        self.run(&[&["copy", "--from", &from, "--to", &to], more].concat())
    }

    fn copying(&self) -> Child {
        let (from, to) = (url(&self.store()), url(&self.target()));
        let mut command = self.command(&["copy", "--from", &from, "--to", &to]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn serve_copy(&self) -> Server {
        self.serve_with(&["--store", &url(&self.target())])
    }

    /// Runs a command on the store at `url`, which must succeed; returns its output.
    fn reported(&self, url: &str, arguments: &[&str]) -> String {
        self.ok(&[arguments, &["--store", url]].concat())
    }

    fn verify_copy(&self) {
        self.verify_at(&url(&self.target()));
    }

    pub(crate) fn verify_at(&self, url: &str) {
        let reported = self.reported(url, &["verify", "--json"]);
        let report: Value = serde_json::from_str(&reported).unwrap();
        assert_eq!(report["status"], "intact", "{report}");
    }

    /// Everything that commands show of a tenant in the store, by command.
    pub(crate) fn reports(&self, url: &str, tenant: &str) -> BTreeMap<String, String> {
        let of =
            |arguments: &[&str]| self.reported(url, &[arguments, &["--tenant", tenant]].concat());
        let list = of(&["sessions", "list", "--limit", "500", "--json"]);
        let sessions: Value = serde_json::from_str(&list).unwrap();
        let mut reported = BTreeMap::from([("list".to_owned(), list)]);
        reported.insert("audit".to_owned(), of(&["audit", "--json"]));
        reported.insert("keys".to_owned(), of(&["keys", "list", "--json"]));
        for session in sessions["data"].as_array().unwrap() {
            let id = session["session_id"].as_str().unwrap();
            reported.insert(format!("export {id}"), of(&["export", id]));
        }
        reported
    }
}

/// Records data of every kind.
pub(crate) fn fill(client: &Client) {
    for s in ["s", "a/b", "gone"] {
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
                let reason = json!({ "reason": "asked to" });
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
    client.delete("/gone");
}

#[test]
fn a_store_is_copied_while_it_is_used() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    fill(&client);
    // A session that was imported from another store, with its chain.
    let far = World::on_sqlite();
    let server_far = far.serve();
    let session = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    server_far.client().post("/far/turns", &session).wrote(201);
    server_far.stop();
    let brought = world.path("far.json");
    std::fs::write(&brought, far.ok(&["export", "far", "--format", "json"])).unwrap();
    world.ok(&["import", "bundle", brought.to_str().unwrap()]);
    // A stream that is being recorded, and its draft.
    let path = turn(&client, "streamed");
    let mut upload = Upload::chat(&server, &path, "");
    upload.say("It grows ");
    drafted(&server);

    let done = world.copy(&["--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let reported: Value = serde_json::from_str(&done.stdout).unwrap();
    let expected = json!({ "status": "intact", "findings": [] });
    assert_eq!(
        (&reported["source"], &reported["copy"]),
        (&expected, &expected)
    );
    assert_eq!(reported["resumed"], false);
    assert_eq!(reported["left_out"], json!([]));
    assert_eq!(reported["events"], 2);
    assert!(done.stderr.contains("verifying the copy"), "{done:?}");
    world.verify_copy();

    // The source continues; the copy does not follow it.
    upload.say("on.");
    upload.end().wrote(200);
    server.stop();
    world.verify();
    let copy = world.serve_copy();
    let client = copy.client();
    let again = json!({ "request_id": "r1", "question_neutral": "what?" });
    for at in ["/s/turns", "/far/turns"] {
        let mut again = again.clone();
        if at == "/far/turns" {
            again["request_id"] = json!("r");
        }
        let again = client.post(at, &again).is(200);
        assert_eq!(again["replayed"], true, "{at}");
    }
    let items =
        json!({ "request_id": "next", "question_neutral": "more?", "answer_neutral": "more!" });
    client.post("/a%2fb/turns", &items).wrote(201);
    client.get("/gone").fails(410, "session_erased");
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
    let doctor = world.reported(&url(&world.target()), &["doctor"]);
    assert!(!doctor.contains("FAILED"), "{doctor}");
}

#[test]
fn a_copy_gives_the_answers_of_its_source() {
    let world = World::on_sqlite();
    let server = world.serve();
    fill(&server.client());
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
    let old = anchors();
    let done = world.copy(&[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout
            .ends_with("intact: the copy equals the source\n"),
        "{done:?}"
    );
    assert!(
        std::fs::read(world.store()).unwrap() == before,
        "the source is untouched"
    );
    let new = anchors();
    assert_eq!(new.len(), 2, "the copy has an anchor of its own");
    assert!(old.iter().all(|anchor| new.contains(anchor)));
    assert_eq!(
        world.reports(&url(&world.target()), "default"),
        world.reports(&url(&world.store()), "default")
    );
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.target()), 0o600);
    assert_eq!(mode(world.target().parent().unwrap()), 0o700);
}

/// Commands that open a store must refuse an unfinished copy.
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
        let done = world.run(&[command, &["--store", &store]].concat());
        assert_ne!(done.code, Some(0), "{command:?}: {done:?}");
        assert!(
            done.stderr.contains("was not finished"),
            "{command:?}: {done:?}"
        );
        assert!(done.stderr.contains("hint: "), "{command:?}: {done:?}");
    }
}

/// Fills several tenants, so that a copy lasts some time.
pub(crate) fn many(world: &World) {
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

/// Kills a copy after `more` time in a stage; `false` when the copy had finished before.
pub(crate) fn kill_at(mut child: Child, stage: &str, more: Duration) -> bool {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let at = lines.map_while(Result::ok).find(|l| l.starts_with(stage));
    std::thread::sleep(more);
    child.kill().unwrap();
    let killed = child.wait().unwrap().code().is_none();
    killed && at.is_some()
}

/// The maximum number of rounds until enough copies were killed midway.
const ROUNDS_MAX: u64 = 60;

#[test]
fn a_killed_copy_is_finished_by_the_next() {
    let world = World::on_sqlite();
    many(&world);
    let stages = ["copying commits", "copying sessions", "verifying the copy"];
    let (mut killed_midway, mut resumed) = (0, 0);
    for round in 0..ROUNDS_MAX {
        // Up to three consecutive kills; the source receives writes in between.
        for kill in 0..=(round % 3) {
            let more = Duration::from_millis(round % 9 * 5 + kill);
            let stage = stages[usize::try_from((round + kill) % 3).unwrap()];
            if kill_at(world.copying(), stage, more) {
                let store = url(&world.target());
                let done = world.run(&["verify", "--store", &store]);
                if done.code == Some(0) {
                    continue;
                }
                killed_midway += 1;
                assert!(done.stderr.contains("was not finished"), "{done:?}");
                if killed_midway == 1 {
                    assert_unfinished_copy_is_refused(&world);
                }
                let (folder, request) = (world.path("more"), format!("{round} {kill}"));
                session(&folder, &request);
                let import = ["import", "opencode", folder.to_str().unwrap()];
                world.ok(&[&import[..], &["--tenant", "t0"]].concat());
            }
        }
        let done = world.copy(&["--json"]);
        if done.code == Some(0) {
            let reported: Value = serde_json::from_str(&done.stdout).unwrap();
            resumed += u32::from(reported["resumed"] == true);
        } else {
            assert!(done.stderr.contains("already contains a store"), "{done:?}");
        }
        world.verify_copy();
        let audit =
            |path: &Path| world.reported(&url(path), &["audit", "--json", "--tenant", "t0"]);
        assert_eq!(audit(&world.target()), audit(&world.store()), "{round}");
        // The moment of a kill depends on the machine, so rounds are repeated until enough kills hit a running copy.
        if round >= 8 && killed_midway > 3 && resumed > 2 {
            break;
        }
        assert!(round + 1 < ROUNDS_MAX, "{killed_midway} {resumed}");
        std::fs::remove_dir_all(world.target().parent().unwrap()).unwrap();
    }
    for tenant in ["t0", "t3"] {
        assert_eq!(
            world.reports(&url(&world.target()), tenant),
            world.reports(&url(&world.store()), tenant)
        );
    }
    world.verify();
}

/// Adds one more session for `import opencode`, in its own folder.
fn session(folder: &Path, title: &str) {
    let id = format!("ses_{:0>26}", title.replace(' ', "x"));
    let project = folder.join("storage/session/p");
    std::fs::create_dir_all(&project).unwrap();
    let info = json!({ "id": id, "projectID": "p", "directory": "/d", "title": title, "version": "1.1.65",
        "time": { "created": 1_700_000_000_000_u64, "updated": 1_700_000_000_000_u64 } });
    std::fs::write(project.join(format!("{id}.json")), info.to_string()).unwrap();
}

/// Signals a copy to end when it reports a stage; `None` when it had finished before the signal arrived.
fn end_at(mut child: Child, stage: &str, signal: &str) -> Option<()> {
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut reported = String::new();
    for line in lines.map(Result::unwrap) {
        if line.starts_with(stage) && !reported.contains(stage) {
            let mut kill = Command::new("kill");
            let asked = kill.args([signal, &child.id().to_string()]).status();
            assert!(asked.unwrap().success());
        }
        reported += &format!("{line}\n");
    }
    let ended = child.wait().unwrap();
    if ended.success() {
        return None;
    }
    assert_eq!(ended.code(), Some(1), "{stage}: {ended} {reported}");
    assert!(
        reported.contains("resumes where it stopped"),
        "{stage}: {reported}"
    );
    Some(())
}

#[test]
fn a_copy_that_was_stopped_can_be_resumed() {
    let world = World::on_sqlite();
    many(&world);
    let mut stopped = 0;
    for round in 0..ROUNDS_MAX {
        let stages = [
            "verifying the source",
            "copying sessions",
            "verifying the copy",
        ];
        let (stage, signal) = (stages[stopped % 3], ["-INT", "-TERM"][stopped % 2]);
        match end_at(world.copying(), stage, signal) {
            Some(()) => stopped += 1,
            None => std::fs::remove_dir_all(world.target().parent().unwrap()).unwrap(),
        }
        // The moment of a signal depends on the machine, as for kills.
        if stopped == 6 {
            break;
        }
        assert!(round + 1 < ROUNDS_MAX, "{stopped}");
    }
    let done = world.copy(&["--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    world.verify_copy();
}

#[test]
fn concurrent_copies_yield_one_intact_copy() {
    let world = World::on_sqlite();
    many(&world);
    let children = [world.copying(), world.copying(), world.copying()];
    let ends: Vec<_> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    for end in &ends {
        let reported = String::from_utf8_lossy(&end.stderr);
        assert!(
            end.status.success()
                || reported.contains("has begun")
                || reported.contains("already contains a store"),
            "{reported}"
        );
    }
    let done = world.copy(&[]);
    let finished = done.code == Some(0) || done.stderr.contains("already contains a store");
    assert!(finished, "{done:?}");
    world.verify_copy();
}
