//! Refusals by the server: a full disk, and other errors by their SQLSTATE.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use filrouge_store::Ledger;
use filrouge_testbed::{Database, Server};
use filrouge_types::{ErrorCode, TurnId};

use super::{durable, put, texts, until_taken};
use crate::database;
use crate::many::callers::intact;
use crate::many::{close, open, separate_server_options, started, two, wait};

/// A small file system for a server's tables.
struct Small(PathBuf);

impl Small {
    fn mounted(server: &Server) -> Self {
        let owner = std::fs::metadata(format!("/proc/{}", server.pid())).unwrap();
        let folder = std::env::temp_dir().join(format!("filrouge-small-{}", server.pid()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = format!("size=24m,mode=0700,uid={},gid={}", owner.uid(), owner.gid());
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &options, "filrouge"])
            .arg(&folder);
        let made = mount.output().unwrap();
        if !made.status.success() {
            std::fs::remove_dir(&folder).unwrap();
            let why = String::from_utf8_lossy(&made.stderr);
            panic!(
                "this test mounts a small file system, so it must run as a user that may mount: {why}"
            );
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let ended = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let ended = ended.is_ok_and(|status| status.success());
        assert!(ended || std::thread::panicking());
        drop(std::fs::remove_dir(&self.0));
    }
}

/// Fills the disk until the ledger reports it.
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
fn a_full_disk_refuses_until_there_is_room() {
    let server = durable();
    let small = Small::mounted(&server);
    let room = small.path().join("room");
    std::fs::write(&room, vec![0; 6 << 20]).unwrap();
    let folder = small.path().join("tables");
    std::fs::create_dir(&folder).unwrap();
    let owner = std::fs::metadata(small.path()).unwrap();
    std::os::unix::fs::chown(&folder, Some(owner.uid()), Some(owner.gid())).unwrap();
    let sql = format!("CREATE TABLESPACE small LOCATION '{}'", folder.display());
    server.sql("postgres", &sql);
    server.sql(
        "postgres",
        "CREATE DATABASE small TEMPLATE template0 TABLESPACE small",
    );
    wait(async {
        let ledgers = two(&server.url("small"));
        let ledger = &*ledgers[0];
        let turn = started(ledger, "s", "r").await.turn_id;
        let mut expected = fill(ledger, turn).await;
        assert!(ledger.health().read_only.is_some());
        // Existing items can be read.
        assert_eq!(texts(&*ledgers[1]).await, expected);
        std::fs::remove_file(&room).unwrap();
        until_taken(ledger, turn, "again").await;
        expected.push("again".to_owned());
        assert_eq!(ledger.health().read_only, None);
        assert_eq!(texts(ledger).await, expected);
        intact(&*ledgers[1]).await;
        close(ledgers).await;
    });
    drop(server);
}

/// Has the database refuse new items with `state`, up to `times` times.
fn refuse(database: &Database, state: &str, times: u32) {
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

fn refuse_no_more(database: &Database) {
    database.sql("DROP FUNCTION refuse CASCADE; DROP SEQUENCE refusals;");
}

#[test]
fn a_transient_refusal_is_retried() {
    let database = database();
    wait(async {
        let ledger = open(separate_server_options(&database.url()));
        let turn = started(&*ledger, "s", "r").await.turn_id;
        // Serialization failure, deadlock, a shutdown, a standby that is being promoted.
        let states = ["40001", "40P01", "57P01", "25006"];
        for (n, state) in states.into_iter().enumerate() {
            refuse(&database, state, 3);
            let put = put(&*ledger, turn, state).await.unwrap();
            assert_eq!(put, (2 + n as u64, false), "{state}");
            refuse_no_more(&database);
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, states);
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}

#[test]
fn a_lasting_refusal_is_reported_with_its_code() {
    use ErrorCode::{StoreFull, StoreReadOnly, StoreUnavailable};
    let database = database();
    wait(async {
        let mut options = separate_server_options(&database.url());
        options.settle_timeout = std::time::Duration::from_secs(1);
        let ledger = open(options);
        let turn = started(&*ledger, "s", "r").await.turn_id;
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
            refuse(&database, state, 1_000_000);
            let refused = put(&*ledger, turn, state).await.unwrap_err();
            assert_eq!(refused.code, code, "{refused:?}");
            assert!(refused.detail.contains(state), "{refused:?}");
            assert!(ledger.health().read_only.is_some(), "{state}");
            refuse_no_more(&database);
            until_taken(&*ledger, turn, state).await;
            assert_eq!(ledger.health().read_only, None);
        }
        assert_eq!(texts(&*ledger).await, states.map(|(state, _)| state));
        intact(&*ledger).await;
        close(vec![ledger]).await;
    });
}
