//! Power cuts: the store, the keys and the anchor start again from what a disk would hold.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::image::{Disk, Image, Unsynced};
use crate::server::{Home, Server};
use crate::world::World;
use crate::{Seed, number};

const KINDS: [Unsynced; 4] = [
    Unsynced::Torn,
    Unsynced::Lost,
    Unsynced::Torn,
    Unsynced::Kept,
];

/// Cuts after which a new store is begun.
const CUTS_OF_A_STORE: u64 = 5;

#[test]
fn acknowledged_writes_survive_power_cuts() {
    let seed = Seed::of("acknowledged_writes_survive_power_cuts");
    let mut rng = seed.rng(0);
    let mut store = (Home::new(), World::new(6, 6, &mut rng));
    for cut in 0..number("FILROUGE_CRASH_CUTS", 12) {
        if cut % CUTS_OF_A_STORE == 0 {
            store = (Home::new(), World::new(6, 6, &mut rng));
        }
        let (home, world) = &mut store;
        let unsynced = KINDS[rng.random_range(0..KINDS.len())];
        let life = Duration::from_millis(rng.random_range(20..400));
        let asleep = rng.random_bool(0.2);
        let image = run_until_cut(
            home,
            Faults::default(),
            unsynced,
            &mut rng,
            |home, faults| {
                if asleep {
                    // The power goes while the server starts.
                    Server::start_and_kill(home, faults, life / 8);
                } else {
                    let mut server = Server::start_with(home, faults)
                        .unwrap_or_else(|e| panic!("cut {cut}: {e:?}"));
                    world.write_until_killed(&mut server, life);
                }
            },
        );
        home.replace_by_image(&image);
        let server = Server::start(home);
        world.settle(server.origin());
        world.check_all(server.origin());
        server.stop();
        home.verify();
    }
}

/// Without real flushes writes must be lost, or the test above proves nothing.
#[test]
fn the_test_bites() {
    let seed = Seed::of("the_test_bites");
    let mut rng = seed.rng(0);
    for unsynced in [Unsynced::Lost, Unsynced::Torn] {
        // On a slow machine nothing may be acknowledged before the kill: then it is tried again, with more time.
        let mut patience = Duration::from_millis(300);
        let (home, world, image) = loop {
            let (home, mut world) = (Home::new(), World::new(4, 4, &mut rng));
            let faults = Faults {
                lie: true,
                ..Faults::default()
            };
            let image = run_until_cut(&home, faults, unsynced, &mut rng, |home, faults| {
                let mut server =
                    Server::start_with(home, faults).unwrap_or_else(|e| panic!("{e:?}"));
                world.write_until_killed(&mut server, patience);
            });
            if world.acked() > 0 {
                break (home, world, image);
            }
            patience *= 2;
            assert!(
                patience < Duration::from_secs(60),
                "nothing is acknowledged"
            );
        };
        home.replace_by_image(&image);
        let Ok(server) = Server::start_with(&home, &Faults::default()) else {
            continue;
        };
        assert!(
            world.lost(server.origin()) > 0,
            "no loss was noticed on a disk that never flushes ({unsynced:?})"
        );
    }
}

/// Whatever the recorder does not see would be lost in every image.
#[test]
fn the_record_is_complete() {
    let seed = Seed::of("the_record_is_complete");
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), World::new(1, 3, &mut rng));
    let image = run_until_cut(
        &home,
        Faults::default(),
        Unsynced::Kept,
        &mut rng,
        |home, faults| {
            let mut server = Server::start_with(home, faults).unwrap_or_else(|e| panic!("{e:?}"));
            assert!(
                world.write_some(server.origin(), 200),
                "the server went away"
            );
            // A kill between an operation and its record is nobody's fault: the anchor is let to catch up.
            wait_for_rest(faults.record.as_deref().expect("a record"));
            server.kill();
            Server::start_with(home, faults)
                .unwrap_or_else(|e| panic!("{e:?}"))
                .stop();
        },
    );
    let live = Disk::new(&home.root()).after_cut(&home.beside("nothing"), Unsynced::Kept, &mut rng);
    assert!(
        live.files().keys().eq(image.files().keys()),
        "{:?} != {:?}",
        live.files().keys(),
        image.files().keys()
    );
    for (name, content) in live.files() {
        assert!(
            image.files()[name] == *content,
            "the record of {} is not what it contains",
            name.display()
        );
    }
}

/// Waits until nothing was written to the disk for a while.
fn wait_for_rest(record: &Path) {
    let length = || fs::metadata(record).map(|m| m.len()).expect("the record");
    for _ in 0..600 {
        let before = length();
        std::thread::sleep(Duration::from_millis(300));
        if length() == before {
            return;
        }
    }
    panic!("the server writes and writes");
}

/// Runs a server on a recorded disk until its end, and returns what the disk would hold.
fn run_until_cut(
    home: &Home,
    faults: Faults,
    unsynced: Unsynced,
    rng: &mut StdRng,
    run: impl FnOnce(&Home, &Faults),
) -> Image {
    let record = home.beside("record");
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
