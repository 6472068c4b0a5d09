//! A stream while the disk is full: a short shortage has no effect, a long one is reported, and shown text is kept.

use std::fs;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::check::{self, journal, question, recorded};
use super::script::{Format, Script};
use super::sender::{Ending, Plan, StreamUpload};
use super::watcher::Shown;
use crate::Seed;
use crate::disk::Faults;
use crate::http::{CrashClient, CrashReply};
use crate::server::{CrashServer, Home};

/// How long a recorder waits for a ledger that does not answer, plus some time for the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the interval between drafts.
const A_WHILE: Duration = Duration::from_millis(800);

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
struct Hand {
    script: Script,
    upload: StreamUpload,
    rng: StdRng,
    words: usize,
    text: String,
}

impl Hand {
    fn begin(server: &CrashServer, plan: &Plan) -> Self {
        let script = Script::new(plan.format, plan.request.clone());
        let mut upload = StreamUpload::begin(server.origin(), plan).expect("a connection");
        upload.send(&script.begin()).expect("a server");
        Self {
            script,
            upload,
            rng: StdRng::seed_from_u64(1),
            words: 0,
            text: String::new(),
        }
    }

    fn say(&mut self, words: usize) {
        for n in self.words..self.words + words {
            for piece in self.script.next(n, false, &mut self.rng) {
                self.upload.send(&piece.bytes).expect("a server");
                self.text += &piece.says;
            }
        }
        self.words += words;
    }

    fn finish(mut self) -> (CrashReply, String) {
        self.upload
            .send(&self.script.finish())
            .and_then(|()| self.upload.end())
            .expect("a server");
        (self.upload.reply().expect("an answer"), self.text)
    }
}

#[test]
fn a_stream_survives_a_full_disk_or_reports_its_failure() {
    let _seed = Seed::of("a_stream_survives_a_full_disk_or_reports_its_failure");
    let home = Home::new();
    let (arm, free) = (home.beside("arm"), home.beside("free"));
    let faults = Faults {
        enospc_at: Some(0),
        enospc_off: Some(free.clone()),
        arm: Some(arm.clone()),
        ..Faults::default()
    };
    let mut server = CrashServer::start_set(&home, &faults, &[("FILROUGE_STREAM_TIMEOUT_S", "3")]);
    let client = CrashClient::new(server.origin());
    let (kept, lost) = (
        plan(&client, "kept", Format::Anthropic),
        plan(&client, "lost", Format::Responses),
    );
    let origin = server.origin().to_owned();
    let watcher = std::thread::spawn(move || Shown::run(&origin, "s"));

    let mut hand = Hand::begin(&server, &kept);
    hand.say(20);
    std::thread::sleep(A_WHILE);
    fs::write(&arm, "").expect("fill the disk");
    hand.say(20);
    std::thread::sleep(A_WHILE * 2);
    fs::write(&free, "").expect("make room");
    hand.say(20);
    let (reply, text) = hand.finish();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.body["status"], "finalized");
    assert_eq!(reply.body["answer_neutral"], text);

    let mut hand = Hand::begin(&server, &lost);
    hand.say(20);
    std::thread::sleep(A_WHILE);
    fs::remove_file(&free).expect("fill the disk again");
    let shown = hand.text.clone();
    let begin = Instant::now();
    hand.say(20);
    let reply = hand.upload.reply().expect("an answer");
    let took = begin.elapsed();
    assert_eq!(
        (reply.status, reply.code()),
        (507, "store_full"),
        "{reply:?}"
    );
    assert!(
        reply.content_type.starts_with("application/problem+json"),
        "{reply:?}"
    );
    assert!(took < ANSWER_TIMEOUT, "{took:?}");
    assert_eq!(client.get(&lost.path())["status"], "open");

    fs::write(&free, "").expect("free the space");
    let begin = Instant::now();
    while client.get(&lost.path())["status"] == "open" {
        assert!(begin.elapsed() < ANSWER_TIMEOUT, "the turn stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!(
        "the client had its answer after {took:?}, the turn was marked {:?} after space was free",
        begin.elapsed()
    );
    assert_eq!(client.get(&lost.path())["status"], "interrupted");
    assert_eq!(recorded(&journal(&client, "s"), &lost.turn), shown);
    check::restores(&client, "s");
    check::again(server.origin(), &lost, "interrupted");
    server.kill();
    let watched = watcher.join().expect("a watcher");
    let server = CrashServer::start(&home);
    let items = journal(&CrashClient::new(server.origin()), "s");
    check::shown(&items, &watched);
    assert!(watched.drafts.len() >= 2, "{:?}", watched.drafts);
    server.stop();
    home.verify();
}
