//! Power cuts: store, keys and anchor restart from the content that a disk would have.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use crate::disk::Faults;
use crate::image::{Disk, Image, Unsynced};
use crate::server::{CrashServer, Home};
use crate::world::CrashWorld;
use crate::{Seed, number};

const KINDS: [Unsynced; 4] = [
    Unsynced::Torn,
    Unsynced::Lost,
    Unsynced::Torn,
    Unsynced::Kept,
];

/// The number of power cuts of one store.
const CUTS_OF_A_STORE: u64 = 5;

#[test]
fn acknowledged_writes_survive_power_cuts() {
    let seed = Seed::of("acknowledged_writes_survive_power_cuts");
    let mut rng = seed.rng(0);
    let mut store = (Home::new(), CrashWorld::new(6, 6, &mut rng));
    for cut in 0..number("FILROUGE_CRASH_CUTS", 12) {
        if cut % CUTS_OF_A_STORE == 0 {
            store = (Home::new(), CrashWorld::new(6, 6, &mut rng));
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
                    // The power is cut while the server starts.
                    CrashServer::start_and_kill(home, faults, life / 8);
                } else {
                    let mut server = CrashServer::start_with(home, faults)
                        .unwrap_or_else(|e| panic!("cut {cut}: {e:?}"));
                    world.write_until_killed(&mut server, life);
                }
            },
        );
        home.replace_by_image(&image);
        let server = CrashServer::start(home);
        world.settle(server.origin());
        world.check_all(server.origin());
        server.stop();
        home.verify();
    }
}

/// Without real flushes writes must be lost; otherwise the test above proves nothing.
#[test]
fn a_disk_that_never_flushes_loses_acknowledged_writes() {
    let seed = Seed::of("a_disk_that_never_flushes_loses_acknowledged_writes");
    let mut rng = seed.rng(0);
    for unsynced in [Unsynced::Lost, Unsynced::Torn] {
        // On a slow machine the kill may precede the first acknowledgement: then the round is repeated with more time.
        let mut write_time = Duration::from_millis(300);
        let (home, world, image) = loop {
            let (home, mut world) = (Home::new(), CrashWorld::new(4, 4, &mut rng));
            let faults = Faults {
                lie: true,
                ..Faults::default()
            };
            let image = run_until_cut(&home, faults, unsynced, &mut rng, |home, faults| {
                let mut server =
                    CrashServer::start_with(home, faults).unwrap_or_else(|e| panic!("{e:?}"));
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
        let Ok(server) = CrashServer::start_with(&home, &Faults::default()) else {
            continue;
        };
        assert!(
            world.lost(server.origin()) > 0,
            "no loss was noticed on a disk that never flushes ({unsynced:?})"
        );
    }
}

/// Changes that the recorder misses would be lost in every image.
#[test]
fn the_record_contains_every_change() {
    let seed = Seed::of("the_record_contains_every_change");
    let mut rng = seed.rng(0);
    let (home, mut world) = (Home::new(), CrashWorld::new(1, 3, &mut rng));
    let image = run_until_cut(
        &home,
        Faults::default(),
        Unsynced::Kept,
        &mut rng,
        |home, faults| {
            let mut server =
                CrashServer::start_with(home, faults).unwrap_or_else(|e| panic!("{e:?}"));
            assert!(
                world.write_some(server.origin(), 200),
                "the server went away"
            );
            // A kill between an operation and its record is no fault of the recorder, so the test waits until the
            // anchor is up to date.
            wait_for_rest(faults.record.as_deref().expect("a record"));
            server.kill();
            CrashServer::start_with(home, faults)
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
            "the record of {} differs from its content",
            name.display()
        );
    }
}

/// Waits until the disk is idle for a while.
fn wait_for_rest(record: &Path) {
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

/// Runs a server on a recorded disk until its end; returns the content that the disk would have.
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
