//! A disk without space for the spool: the server refuses writes with `spool_full`, and loses no acknowledged write.

use std::fs;

use filrouge_testbed::{Options, Server as Database};

use super::call::{Call, wait_until_drained};
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};

#[test]
fn a_spool_without_disk_space_refuses_writes_and_loses_nothing() {
    let database = Database::start(Options::default());
    let home = Home::with_store(&database.url(&database.database()));
    let (arm, free) = (home.test_file("arm"), home.test_file("free"));
    let faults = Faults {
        enospc_at: Some(4_000),
        enospc_off: Some(free.clone()),
        arm: Some(arm.clone()),
        ..Faults::default()
    };
    let spool_after = [("FILROUGE_SPOOL_AFTER_MS", "150")];
    let server = CrashServer::start_with_env(&home, &faults, &spool_after);
    let client = CrashClient::new(server.origin());
    let mut call = Call::begin(&client, "call");
    database.stop_immediate();
    fs::write(&arm, "").expect("arm the fault");
    let refused = (0..1_000)
        .map(|_| call.write(&client))
        .find(|response| !response.is_success());
    let refused = refused.expect("no write was refused");
    assert_eq!(
        (refused.status, refused.code()),
        (503, "spool_full"),
        "{refused:?}"
    );
    assert!(call.spooled() > 0, "no write was spooled");
    assert_eq!(call.write(&client).code(), "spool_full");
    fs::write(&free, "").expect("make room");
    assert_eq!(call.write(&client).status, 202);
    database.restart();
    wait_until_drained(&client);
    call.check(&client);
    server.stop();
    home.verify();
}
