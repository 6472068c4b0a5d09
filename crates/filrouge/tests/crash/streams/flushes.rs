//! What recording a stream costs.

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

/// The recording's beginning and its end, and that a draft may be written at both ends of the time.
const BESIDES: u64 = 3;
/// The witness outside the store follows what is no draft, at most so often.
const ANCHORED_EVERY_MS: u64 = 50;

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
        let counts = || (flushes(&record, ".db"), flushes(&record, ".anchor"));
        let before = counts();
        let begin = Instant::now();
        let mut script = Script::new(format, "r".to_owned());
        let mut upload = Upload::begin(server.origin(), &plan).expect("a connection");
        upload.send(&script.begin()).expect("a server");
        for n in 0.. {
            for piece in script.next(n, true, &mut rng) {
                upload.send(&piece.bytes).expect("a server");
                std::thread::sleep(Duration::from_millis(rng.random_range(pace.clone())));
            }
            if begin.elapsed() > Duration::from_secs(3) {
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
        let after = counts();
        let (count, anchored) = (after.0 - before.0, after.1 - before.1);
        let items = journal(&client, "s");
        let pieces = u64::try_from(brought(&items, &plan.turn).len()).expect("a small number");
        let took = u64::try_from(took.as_millis()).expect("a short time");
        eprintln!(
            "{}: {count} flushes of the store and {anchored} of the witness for {pieces} pieces in {took} ms",
            format.word()
        );
        assert!(pieces > 0, "nothing was recorded");
        assert!(
            count <= pieces + took / 250 + BESIDES,
            "{count} flushes for {pieces} pieces in {took} ms"
        );
        assert!(
            anchored <= pieces.min(took / ANCHORED_EVERY_MS) + BESIDES,
            "{anchored} of the witness for {pieces} pieces in {took} ms"
        );
        server.stop();
        home.verify();
    }
}
