//! A disk without space for what waits: said plainly, and nothing that was answered is lost.

use std::fs;

use filrouge_testbed::{Options, Server as Database};

use super::call::{Call, drained};
use crate::disk::Faults;
use crate::http::Client;
use crate::server::{Home, Server};

#[test]
fn a_disk_without_space_is_said_and_loses_nothing() {
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
    let server = Server::start_set(&home, &faults, &after);
    let client = Client::new(server.origin());
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
    database.start_again();
    drained(&client);
    call.check(&client);
    server.stop();
    home.verify();
}
