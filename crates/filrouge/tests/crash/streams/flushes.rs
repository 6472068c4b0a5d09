//! The number of flushes that the recording of a stream costs.

use std::time::{Duration, Instant};

use rand::Rng;

use super::check::{ledger_items, question, stream_items};
use super::script::{Format, Script};
use super::sender::{Ending, Plan, StreamUpload};
use crate::Seed;
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::image::flushes;
use crate::server::{CrashServer, Home};

/// Flushes other than those of items and drafts: the start and the end of the recording, and one more draft than the
/// duration divided by the interval.
const OTHER_FLUSHES: u64 = 3;
/// The server updates the anchor after writes other than drafts, at most once in this interval.
const ANCHORED_EVERY_MS: u64 = 50;
/// The interval at which the server writes drafts.
const DRAFT_EVERY_MS: u64 = 250;

#[test]
fn a_stream_costs_one_flush_per_item_and_four_per_second() {
    let seed = Seed::new("a_stream_costs_one_flush_per_item_and_four_per_second");
    let mut rng = seed.rng(0);
    for (format, pace) in [(Format::Anthropic, 2..15), (Format::Gemini, 60..200)] {
        let home = Home::new();
        let record = home.test_file("record");
        let faults = Faults {
            record: Some(record.clone()),
            ..Faults::default()
        };
        let server =
            CrashServer::start_with_faults(&home, &faults).unwrap_or_else(|e| panic!("{e:?}"));
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
        // Lets the server finish the background work of its start.
        std::thread::sleep(Duration::from_millis(500));
        let count_flushes = || (flushes(&record, ".db"), flushes(&record, ".anchor"));
        let before = count_flushes();
        let begin = Instant::now();
        let mut script = Script::new(format, "r".to_owned());
        let mut upload =
            StreamUpload::begin(server.origin(), &plan).expect("the server accepts a connection");
        upload
            .send(&script.begin())
            .expect("the server is connected");
        for n in 0.. {
            for piece in script.next(n, true, &mut rng) {
                upload.send(&piece.bytes).expect("the server is connected");
                std::thread::sleep(Duration::from_millis(rng.random_range(pace.clone())));
            }
            if begin.elapsed() > Duration::from_secs(3) {
                break;
            }
        }
        upload
            .send(&script.finish())
            .and_then(|()| upload.end())
            .expect("the server is connected");
        let response = upload.response().expect("the server responds");
        assert_eq!(response.status, 200, "{response:?}");
        let took = begin.elapsed();
        let after = count_flushes();
        let (store_flushes, anchor_flushes) = (after.0 - before.0, after.1 - before.1);
        let items = ledger_items(&client, "s");
        let item_count = u64::try_from(stream_items(&items, &plan.turn).len())
            .expect("the number fits into u64");
        let took = u64::try_from(took.as_millis()).expect("the time fits into u64");
        eprintln!(
            "{}: {store_flushes} flushes of the store and {anchor_flushes} of the anchor for {item_count} items in {took} ms",
            format.name()
        );
        assert!(item_count > 0, "nothing was recorded");
        assert!(
            store_flushes <= item_count + took / DRAFT_EVERY_MS + OTHER_FLUSHES,
            "{store_flushes} flushes of the store for {item_count} items in {took} ms"
        );
        assert!(
            anchor_flushes <= item_count.min(took / ANCHORED_EVERY_MS) + OTHER_FLUSHES,
            "{anchor_flushes} flushes of the anchor for {item_count} items in {took} ms"
        );
        server.stop();
        home.verify();
    }
}
