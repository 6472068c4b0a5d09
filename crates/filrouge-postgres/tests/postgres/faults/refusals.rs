//! Writes that the server refuses: on a full disk, and with other errors, classified by their SQLSTATE.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use filrouge_store::Ledger;
use filrouge_testbed::{Database, Server};
use filrouge_types::{ErrorCode, TurnId};

use super::{durable_server, put, retry_until_written, texts};
use crate::database;
use crate::servers::callers::assert_intact;
use crate::servers::{block_on, close, open, separate_server_options, start_turn, two_ledgers};

/// A small file system for a server's tables.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(server: &Server) -> Self {
        let owner = std::fs::metadata(format!("/proc/{}", server.pid())).unwrap();
        let folder = std::env::temp_dir().join(format!("filrouge-small-{}", server.pid()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = format!("size=24m,mode=0700,uid={},gid={}", owner.uid(), owner.gid());
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &options, "filrouge"])
            .arg(&folder);
        let mounted = mount.output().unwrap();
        if !mounted.status.success() {
            std::fs::remove_dir(&folder).unwrap();
            let stderr = String::from_utf8_lossy(&mounted.stderr);
            panic!(
                "this test mounts a small file system, so it must run as a user that may mount: {stderr}"
            );
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let unmounted = unmounted.is_ok_and(|status| status.success());
        assert!(
            unmounted || std::thread::panicking(),
            "cannot unmount {:?}",
            self.0
        );
        drop(std::fs::remove_dir(&self.0));
    }
}

/// Writes items until the ledger reports that the disk is full; returns the keys of the written items.
async fn fill(ledger: &dyn Ledger, turn: TurnId) -> Vec<String> {
    let mut written = Vec::new();
    for n in 0..1_000 {
        // Random text does not compress.
        let random: String = (0..250_000)
            .map(|_| rand::random_range('a'..='z'))
            .collect();
        let words = format!("k{n}");
        let mut item = filrouge_store::contract::fixture::keyed(&words, &random);
        item.model = Some("m".into());
        let write = filrouge_store::contract::fixture::append("s", turn, vec![item], None);
        let who = filrouge_store::contract::fixture::anyone();
        let put = ledger.write(filrouge_store::contract::fixture::cmd(&who, write));
        match put.await {
            Ok(_) => written.push(words),
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::StoreFull, "{failure:?}");
                assert!(failure.detail.contains("53100"), "{failure:?}");
                return written;
            }
        }
    }
    panic!("the disk never filled up");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let server = durable_server();
    let disk = SmallDisk::mount(&server);
    // Deleting this file makes room later.
    let reserve = disk.path().join("reserve");
    std::fs::write(&reserve, vec![0; 6 << 20]).unwrap();
    let folder = disk.path().join("tables");
    std::fs::create_dir(&folder).unwrap();
    let owner = std::fs::metadata(disk.path()).unwrap();
    std::os::unix::fs::chown(&folder, Some(owner.uid()), Some(owner.gid())).unwrap();
    let sql = format!("CREATE TABLESPACE small LOCATION '{}'", folder.display());
    server.sql("postgres", &sql);
    server.sql(
        "postgres",
        "CREATE DATABASE small TEMPLATE template0 TABLESPACE small",
    );
    block_on(async {
        let ledgers = two_ledgers(&server.url("small"));
        let ledger = &*ledgers[0];
        let turn = start_turn(ledger, "s", "r").await.turn_id;
        let mut expected = fill(ledger, turn).await;
        assert!(ledger.health().read_only.is_some());
        // Existing items can be read.
        assert_eq!(texts(&*ledgers[1]).await, expected);
        std::fs::remove_file(&reserve).unwrap();
        retry_until_written(ledger, turn, "again").await;
        expected.push("again".to_owned());
        assert_eq!(ledger.health().read_only, None);
        assert_eq!(texts(ledger).await, expected);
        assert_intact(&*ledgers[1]).await;
        close(ledgers).await;
    });
    drop(server);
}

/// Makes the database refuse new items with the SQLSTATE `state`, up to `times` times.
fn refuse_items(database: &Database, state: &str, times: u32) {
    database.sql(&format!(
        "CREATE SEQUENCE refusals;
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
         BEGIN
             IF nextval('refusals') <= {times} THEN
                 RAISE EXCEPTION 'refused' USING ERRCODE = '{state}';
             END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON filrouge.record FOR EACH ROW EXECUTE FUNCTION refuse();"
    ));
}

fn accept_items(database: &Database) {
    database.sql("DROP FUNCTION refuse CASCADE; DROP SEQUENCE refusals;");
}

#[test]
fn a_transient_refusal_is_retried() {
    let database = database();
    block_on(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        // Serialization failure, deadlock, a shutdown, a standby that is being promoted.
        let states = ["40001", "40P01", "57P01", "25006"];
        for (n, state) in states.into_iter().enumerate() {
            refuse_items(&database, state, 3);
            let put = put(&*ledger, turn, state).await.unwrap();
            assert_eq!(put, (2 + n as u64, false), "{state}");
            accept_items(&database);
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, states);
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

#[test]
fn a_lasting_refusal_is_reported_with_its_code() {
    use ErrorCode::{StoreFull, StoreReadOnly, StoreUnavailable};
    let database = database();
    block_on(async {
        let mut options = separate_server_options(&database.url());
        options.settle_timeout = std::time::Duration::from_secs(1);
        let ledger = open(options);
        let turn = start_turn(&*ledger, "s", "r").await.turn_id;
        let states = [
            ("53100", StoreFull),
            ("53200", StoreUnavailable),
            ("40001", StoreUnavailable),
            ("42501", StoreUnavailable),
            ("25006", StoreReadOnly),
            ("57P01", StoreUnavailable),
            ("57014", StoreUnavailable),
        ];
        for (state, code) in states {
            refuse_items(&database, state, 1_000_000);
            let refused = put(&*ledger, turn, state).await.unwrap_err();
            assert_eq!(refused.code, code, "{refused:?}");
            assert!(refused.detail.contains(state), "{refused:?}");
            assert!(ledger.health().read_only.is_some(), "{state}");
            accept_items(&database);
            retry_until_written(&*ledger, turn, state).await;
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, states.map(|(state, _)| state));
        assert_intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
