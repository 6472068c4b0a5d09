//! Power cuts: the server restarts from the store, keys and anchor that the disk would have after the cut.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::image::{Disk, Image, Unsynced};
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, env_number};

/// The effects of a cut, from which one is chosen at random.
const EFFECTS: [Unsynced; 4] = [
    Unsynced::Torn,
    Unsynced::Lost,
    Unsynced::Torn,
    Unsynced::Kept,
];

/// The number of successive power cuts on one store.
const CUTS_PER_STORE: u64 = 5;

#[test]
fn acknowledged_writes_survive_power_cuts() {
    let seed = Seed::new("acknowledged_writes_survive_power_cuts");
    let mut rng = seed.rng(0);
    let mut store = (Home::new(), CrashWorld::new(6, 6, &mut rng));
    for cut in 0..env_number("FILROUGE_CRASH_CUTS", 12) {
        if cut % CUTS_PER_STORE == 0 {
            store = (Home::new(), CrashWorld::new(6, 6, &mut rng));
        }
        let (home, world) = &mut store;
        let unsynced = EFFECTS[rng.random_range(0..EFFECTS.len())];
        let life = Duration::from_millis(rng.random_range(20..400));
        let during_start = rng.random_bool(0.2);
        let image = run_until_cut(
            home,
            Faults::default(),
            unsynced,
            &mut rng,
            |home, faults| {
                if during_start {
                    CrashServer::start_and_kill(home, faults, life / 8);
                } else {
                    let mut server = CrashServer::start_with_faults(home, faults)
                        .unwrap_or_else(|e| panic!("cut {cut}: {e:?}"));
                    world.write_until_killed(&mut server, life);
                }
            },
        );
        home.replace_by_image(&image);
        let server = CrashServer::start(home);
        world.resolve_unknown_outcomes(server.origin());
        world.check_all(server.origin());
        server.stop();
        home.verify();
    }
}

/// Shows that the test above detects losses: without real flushes, acknowledged writes must be lost.
#[test]
fn a_disk_that_never_flushes_loses_acknowledged_writes() {
    let seed = Seed::new("a_disk_that_never_flushes_loses_acknowledged_writes");
    let mut rng = seed.rng(0);
    for unsynced in [Unsynced::Lost, Unsynced::Torn] {
        // If the kill precedes the first acknowledgement on a slow machine, the round is repeated with more time.
        let mut write_time = Duration::from_millis(300);
        let (home, world, image) = loop {
            let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, &mut rng));
            let faults = Faults {
                fake_sync: true,
                ..Faults::default()
            };
            let image = run_until_cut(&home, faults, unsynced, &mut rng, |home, faults| {
                let mut server = CrashServer::start_with_faults(home, faults)
                    .unwrap_or_else(|e| panic!("{e:?}"));
                world.write_until_killed(&mut server, write_time);
            });
            if world.acked() > 0 {
                break (home, world, image);
            }
            write_time *= 2;
            assert!(
                write_time < Duration::from_secs(60),
                "nothing was acknowledged"
            );
        };
        home.replace_by_image(&image);
        let Ok(server) = CrashServer::start_with_faults(&home, &Faults::default()) else {
            continue;
        };
        assert!(
            world.count_lost(server.origin()) > 0,
            "no loss was detected on a disk that never flushes ({unsynced:?})"
        );
    }
}

/// Shows that the recorder misses no change: it would be lost in every image.
#[test]
fn the_record_contains_every_change() {
    let seed = Seed::new("the_record_contains_every_change");
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), CrashWorld::new(1, 3, &mut rng));
    let image = run_until_cut(
        &home,
        Faults::default(),
        Unsynced::Kept,
        &mut rng,
        |home, faults| {
            let mut server =
                CrashServer::start_with_faults(home, faults).unwrap_or_else(|e| panic!("{e:?}"));
            assert!(
                world.write_sequentially(server.origin(), 200),
                "the server ended unexpectedly"
            );
            // A kill between a change and its record would look like a missed change, so the test waits until the
            // server writes no more.
            wait_until_idle(faults.record.as_deref().expect("a record"));
            server.kill();
            CrashServer::start_with_faults(home, faults)
                .unwrap_or_else(|e| panic!("{e:?}"))
                .stop();
        },
    );
    let live =
        Disk::new(&home.root()).after_cut(&home.test_file("nothing"), Unsynced::Kept, &mut rng);
    assert!(
        live.files().keys().eq(image.files().keys()),
        "{:?} != {:?}",
        live.files().keys(),
        image.files().keys()
    );
    for (name, content) in live.files() {
        assert!(
            image.files()[name] == *content,
            "the record of {} differs from its content",
            name.display()
        );
    }
}

/// Waits until the server has written nothing for 300 ms.
fn wait_until_idle(record: &Path) {
    let length = || fs::metadata(record).map(|m| m.len()).expect("the record");
    for _ in 0..600 {
        let before = length();
        std::thread::sleep(Duration::from_millis(300));
        if length() == before {
            return;
        }
    }
    panic!("the server does not stop writing");
}

/// Runs `run` on a recorded disk; returns the content that the disk would have after a power cut at its end.
fn run_until_cut(
    home: &Home,
    faults: Faults,
    unsynced: Unsynced,
    rng: &mut StdRng,
    run: impl FnOnce(&Home, &Faults),
) -> Image {
    let record = home.test_file("record");
    if record.exists() {
        fs::remove_file(&record).expect("remove the old record");
    }
    let disk = Disk::new(&home.root());
    run(
        home,
        &Faults {
            record: Some(record.clone()),
            ..faults
        },
    );
    disk.after_cut(&record, unsynced, rng)
}
