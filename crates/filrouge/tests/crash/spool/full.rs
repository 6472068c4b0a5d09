//! A disk without space for the spool: writes are refused with a clear error, and no acknowledged write is lost.

use std::fs;

use filrouge_testbed::{Options, Server as Database};

use super::call::{Call, drained};
use crate::disk::Faults;
use crate::http::CrashClient;
use crate::server::{CrashServer, Home};

#[test]
fn a_disk_without_space_is_reported_and_loses_nothing() {
    let database = Database::start(Options::default());
    let home = Home::with_store(&database.url(&database.database()));
    let (arm, free) = (home.beside("arm"), home.beside("free"));
    let faults = Faults {
        enospc_at: Some(4_000),
        enospc_off: Some(free.clone()),
        arm: Some(arm.clone()),
        ..Faults::default()
    };
    let after = [("FILROUGE_SPOOL_AFTER_MS", "150")];
    let server = CrashServer::start_set(&home, &faults, &after);
    let client = CrashClient::new(server.origin());
    let mut call = Call::begin(&client, "call");
    database.stop_immediate();
    fs::write(&arm, "").expect("arm the fault");
    let refused = (0..1_000)
        .map(|_| call.write(&client))
        .find(|reply| !reply.is_success());
    let refused = refused.expect("a write without space");
    assert_eq!(
        (refused.status, refused.code()),
        (503, "spool_full"),
        "{refused:?}"
    );
    assert!(call.spooled() > 0);
    assert_eq!(call.write(&client).code(), "spool_full");
    fs::write(&free, "").expect("make room");
    assert_eq!(call.write(&client).status, 202);
    database.restart();
    drained(&client);
    call.check(&client);
    server.stop();
    home.verify();
}
