//! The number of flushes that the recording of a stream costs.

use std::time::{Duration, Instant};

use rand::Rng;

use super::check::{journal, question, stream_items};
use super::script::{Format, Script};
use super::sender::{Ending, Plan, StreamUpload};
use crate::Seed;
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::image::flushes;
use crate::server::{CrashServer, Home};

/// Flushes in addition to those of pieces and drafts: the start and the end of the recording, and one draft more than the
/// time suggests.
const OTHER_FLUSHES: u64 = 3;
/// The anchor outside the store is updated after writes other than drafts, at most once in this interval.
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
        let server = CrashServer::start_with(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
        let client = CrashClient::new(server.origin());
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
        // The background work of the server's start is finished.
        std::thread::sleep(Duration::from_millis(500));
        let counts = || (flushes(&record, ".db"), flushes(&record, ".anchor"));
        let before = counts();
        let begin = Instant::now();
        let mut script = Script::new(format, "r".to_owned());
        let mut upload = StreamUpload::begin(server.origin(), &plan).expect("a connection");
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
        let pieces = u64::try_from(stream_items(&items, &plan.turn).len()).expect("a small number");
        let took = u64::try_from(took.as_millis()).expect("a short time");
        eprintln!(
            "{}: {count} flushes of the store and {anchored} of the witness for {pieces} pieces in {took} ms",
            format.word()
        );
        assert!(pieces > 0, "nothing was recorded");
        assert!(
            count <= pieces + took / 250 + OTHER_FLUSHES,
            "{count} flushes for {pieces} pieces in {took} ms"
        );
        assert!(
            anchored <= pieces.min(took / ANCHORED_EVERY_MS) + OTHER_FLUSHES,
            "{anchored} of the witness for {pieces} pieces in {took} ms"
        );
        server.stop();
        home.verify();
    }
}
