//! What recording a stream costs.

use std::fs;
use std::time::{Duration, Instant};

use rand::Rng;

use super::check::{brought, journal, question};
use super::script::{Format, Script};
use super::sender::{Ending, Plan, Upload};
use crate::Seed;
use crate::disk::Faults;
use crate::http::Client;
use crate::image::flushes;
use crate::server::{Home, Server};

/// The recording's beginning, the item it ends with, and what the witness outside the store may take.
const BESIDES: u64 = 4;

#[test]
fn a_stream_costs_a_flush_for_each_piece_and_four_a_second() {
    let seed = Seed::of("a_stream_costs_a_flush_for_each_piece_and_four_a_second");
    let mut rng = seed.rng(0);
    for (format, pace) in [(Format::Anthropic, 2..15), (Format::Gemini, 60..200)] {
        let home = Home::new();
        let record = home.beside("record");
        let faults = Faults {
            record: Some(record.clone()),
            ..Faults::default()
        };
        let server = Server::start_with(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        let client = Client::new(server.origin());
        let path = "/api/v1/sessions/s/turns";
        let turn = client
            .post(path, &question("r"))
            .unwrap_or_else(|e| panic!("{path}: {}", e.0));
        let plan = Plan {
            session: "s".to_owned(),
            request: "r".to_owned(),
            turn: turn.body["turn_id"].as_str().expect("a turn_id").to_owned(),
            format,
            calls: true,
            ending: Ending::Never,
            delay: Duration::ZERO,
            pace: Duration::ZERO,
        };
        // What goes on behind the server's start is over.
        std::thread::sleep(Duration::from_millis(500));
        let before = flushes(&record);
        let begin = Instant::now();
        let mut script = Script::new(format, "r".to_owned());
        let mut upload = Upload::begin(server.origin(), &plan).expect("a connection");
        upload.send(&script.begin()).expect("a server");
        for n in 0.. {
            for piece in script.next(n, true, &mut rng) {
                upload.send(&piece.bytes).expect("a server");
                std::thread::sleep(Duration::from_millis(rng.random_range(pace.clone())));
            }
            if begin.elapsed() > Duration::from_secs(4) {
                break;
            }
        }
        upload
            .send(&script.finish())
            .and_then(|()| upload.end())
            .expect("a server");
        let reply = upload.reply().expect("an answer");
        assert_eq!(reply.status, 200, "{reply:?}");
        let took = begin.elapsed();
        let count = flushes(&record) - before;
        let items = journal(&client, "s");
        let pieces = brought(&items, &plan.turn).len() as u64;
        let drafts = took.as_millis() as u64 / 250;
        eprintln!(
            "{}: {count} flushes for {pieces} pieces in {took:?}",
            format.word()
        );
        assert!(pieces > 3, "{pieces}");
        assert!(
            count <= pieces + drafts + BESIDES,
            "{count} flushes for {pieces} pieces in {took:?}"
        );
        server.stop();
        home.verify();
        fs::remove_file(record).expect("the record");
    }
}
