//! A stream while the disk is full. A short shortage of space has no effect, a long one is reported, and text that was
//! shown is kept.

use std::fs;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::check::{self, ledger_items, question, recorded};
use super::script::{Format, Script};
use super::sender::{Ending, Plan, StreamUpload};
use super::watcher::Shown;
use crate::Seed;
use crate::disk::Faults;
use crate::http::{CrashClient, CrashResponse};
use crate::server::{CrashServer, Home};

/// The longest time until the client has its response: how long a recording waits for a full ledger, with a margin.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// A pause in which a draft is certainly written.
const DRAFT_PAUSE: Duration = Duration::from_millis(800);

/// Starts a turn, and plans its stream.
fn plan(client: &CrashClient, request: &str, format: Format) -> Plan {
    let path = "/api/v1/sessions/s/turns";
    let turn = client
        .post(path, &question(request))
        .unwrap_or_else(|e| panic!("{path}: {}", e.0));
    Plan {
        session: "s".to_owned(),
        request: request.to_owned(),
        turn: turn.body["turn_id"].as_str().expect("a turn_id").to_owned(),
        format,
        calls: false,
        ending: Ending::Never,
        delay: Duration::ZERO,
        pace: Duration::ZERO,
    }
}

/// A stream that the test sends piece by piece.
struct ManualStream {
    script: Script,
    upload: StreamUpload,
    rng: StdRng,
    /// The number of words sent so far.
    words: usize,
    /// The text sent so far.
    text: String,
}

impl ManualStream {
    fn begin(server: &CrashServer, plan: &Plan) -> Self {
        let script = Script::new(plan.format, plan.request.clone());
        let mut upload =
            StreamUpload::begin(server.origin(), plan).expect("the server accepts a connection");
        upload
            .send(&script.begin())
            .expect("the server is connected");
        Self {
            script,
            upload,
            rng: StdRng::seed_from_u64(1),
            words: 0,
            text: String::new(),
        }
    }

    /// Sends this many further words.
    fn send_words(&mut self, words: usize) {
        for n in self.words..self.words + words {
            for piece in self.script.next(n, false, &mut self.rng) {
                self.upload
                    .send(&piece.bytes)
                    .expect("the server is connected");
                self.text += &piece.content;
            }
        }
        self.words += words;
    }

    /// Ends the stream; returns the response and the text of the stream.
    fn finish(mut self) -> (CrashResponse, String) {
        self.upload
            .send(&self.script.finish())
            .and_then(|()| self.upload.end())
            .expect("the server is connected");
        (
            self.upload.response().expect("the server responds"),
            self.text,
        )
    }
}

#[test]
fn a_stream_survives_a_full_disk_or_reports_it() {
    let _seed = Seed::new("a_stream_survives_a_full_disk_or_reports_it");
    let home = Home::new();
    let (arm, free) = (home.test_file("arm"), home.test_file("free"));
    let faults = Faults {
        enospc_at: Some(0),
        enospc_off: Some(free.clone()),
        arm: Some(arm.clone()),
        ..Faults::default()
    };
    let mut server =
        CrashServer::start_with_env(&home, &faults, &[("FILROUGE_STREAM_TIMEOUT_S", "3")]);
    let client = CrashClient::new(server.origin());
    let (kept, lost) = (
        plan(&client, "kept", Format::Anthropic),
        plan(&client, "lost", Format::Responses),
    );
    let origin = server.origin().to_owned();
    let watcher = std::thread::spawn(move || Shown::run(&origin, "s"));

    let mut stream = ManualStream::begin(&server, &kept);
    stream.send_words(20);
    std::thread::sleep(DRAFT_PAUSE);
    fs::write(&arm, "").expect("fill the disk");
    stream.send_words(20);
    std::thread::sleep(DRAFT_PAUSE * 2);
    fs::write(&free, "").expect("make room");
    stream.send_words(20);
    let (response, text) = stream.finish();
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.body["status"], "finalized");
    assert_eq!(response.body["answer_neutral"], text);

    let mut stream = ManualStream::begin(&server, &lost);
    stream.send_words(20);
    std::thread::sleep(DRAFT_PAUSE);
    fs::remove_file(&free).expect("fill the disk again");
    let shown = stream.text.clone();
    let begin = Instant::now();
    stream.send_words(20);
    let response = stream.upload.response().expect("the server responds");
    let took = begin.elapsed();
    assert_eq!(
        (response.status, response.code()),
        (507, "store_full"),
        "{response:?}"
    );
    assert!(
        response
            .content_type
            .starts_with("application/problem+json"),
        "{response:?}"
    );
    assert!(took < RESPONSE_TIMEOUT, "the refusal took {took:?}");
    assert_eq!(client.get(&lost.path())["status"], "open");

    fs::write(&free, "").expect("free the space");
    let begin = Instant::now();
    while client.get(&lost.path())["status"] == "open" {
        assert!(
            begin.elapsed() < RESPONSE_TIMEOUT,
            "the turn is not marked as interrupted"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!(
        "the client was refused after {took:?}; the turn was marked {:?} after space was free",
        begin.elapsed()
    );
    assert_eq!(client.get(&lost.path())["status"], "interrupted");
    assert_eq!(recorded(&ledger_items(&client, "s"), &lost.turn), shown);
    check::assert_restorable(&client, "s");
    check::continue_turn(server.origin(), &lost, "interrupted");
    server.kill();
    let shown_to_watcher = watcher.join().expect("the watcher did not panic");
    let server = CrashServer::start(&home);
    let items = ledger_items(&CrashClient::new(server.origin()), "s");
    check::assert_shown_kept(&items, &shown_to_watcher);
    assert!(
        shown_to_watcher.drafts.len() >= 2,
        "{:?}",
        shown_to_watcher.drafts
    );
    server.stop();
    home.verify();
}
