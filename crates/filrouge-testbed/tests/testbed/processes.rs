//! What outlives a process, and what does not.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filrouge_testbed::{Database, Options, PgBouncer, Redis, Server};

use rustix::process::Pid;

use crate::{client, until, value};

/// A second process, this test binary again, with a test that takes the part given here; its servers are in `place`.
struct Another {
    child: Child,
    told: tempfile::TempDir,
}

impl Another {
    fn start(part: &str, place: &Path) -> Self {
        let told = tempfile::tempdir().expect("a folder");
        let said = File::create(told.path().join("said")).expect("a file");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--ignored",
                "--nocapture",
                "--exact",
                "processes::a_part_of_another_test",
            ])
            .env("FILROUGE_TESTBED_PART", part)
            .env("FILROUGE_TESTBED_TOLD", told.path().join("told"))
            .env("TMPDIR", place)
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("a process");
        Self { child, told }
    }

    /// What it tells once it is ready.
    fn told(&mut self) -> String {
        let told = self.told.path().join("told");
        until("the other process is ready", || {
            let ended = self.child.try_wait().expect("a process of one's own");
            let said = || std::fs::read_to_string(self.told.path().join("said"));
            assert!(ended.is_none(), "{ended:?}\n{:?}", said());
            told.exists()
        });
        std::fs::read_to_string(&told).expect("told")
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        // Whether it is killed by now or not.
        let killed = self.child.kill();
        drop(killed);
        self.child.wait().expect("killed");
    }
}

#[test]
#[ignore = "other tests start it"]
fn a_part_of_another_test() {
    let part = std::env::var("FILROUGE_TESTBED_PART").expect("a part");
    let told = PathBuf::from(std::env::var("FILROUGE_TESTBED_TOLD").expect("a file"));
    let half = told.with_extension("half");
    let tell = |text: String| {
        std::fs::write(&half, text).expect("told");
        std::fs::rename(&half, &told).expect("told");
        loop {
            std::thread::park();
        }
    };
    match part.as_str() {
        "shared" => {
            let database = Database::new();
            tell(database.url());
        }
        "own" => {
            let server = Server::start(Options::default());
            let pool = PgBouncer::before(&server, 1);
            server.pause();
            tell(format!(
                "{}\n{}",
                server.url("postgres"),
                pool.socket_url("postgres")
            ));
        }
        "redis" => {
            let server = Redis::start();
            server.pause();
            tell(format!("{}\n{}", server.pid(), server.socket_url()));
        }
        other => panic!("{other}"),
    }
}

/// A place for servers that no other test shares.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("permissions");
    place
}

/// The folder in a URL over a socket.
fn folder(url: &str) -> PathBuf {
    let host = url.split(['@', ':']).nth(2).expect("a host");
    PathBuf::from(host.replace("%2F", "/"))
}

#[test]
fn processes_share_one_server_and_one_that_is_killed_harms_nobody() {
    let own = Database::new();
    let mut other = Another::start("shared", &std::env::temp_dir());
    let foreign = other.told();
    other.kill();
    assert_eq!(folder(&foreign), folder(&own.url()));
    assert_ne!(foreign, own.url());
    assert_eq!(value(&mut client(&own.url()), "SELECT 1"), "1");
    // Its database is there until the server goes.
    assert_eq!(value(&mut client(&foreign), "SELECT 1"), "1");
}

#[test]
fn the_shared_server_ends_after_its_last_user() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let folder = folder(&first.told());
    let mut second = Another::start("shared", place.path());
    let url = second.told();
    first.kill();
    // The file spares the wait for those who might still come; it ends nothing that is in use.
    std::fs::write(folder.join("end"), "").expect("a file");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(value(&mut client(&url), "SELECT 1"), "1");
    second.kill();
    gone(&folder);
}

#[test]
fn the_shared_server_stays_a_while_for_those_who_come_next() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let url = first.told();
    first.kill();
    let mut second = Another::start("shared", place.path());
    assert_eq!(folder(&second.told()), folder(&url));
    second.kill();
    std::fs::write(folder(&url).join("end"), "").expect("a file");
    gone(&folder(&url));
}

#[test]
fn what_a_crashed_machine_left_is_replaced_and_removed() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let old = folder(&first.told());
    for pid in running_in(&old) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
    first.kill();
    until("nothing runs", || running_in(&old).is_empty());
    assert!(old.join("data/postmaster.pid").exists());
    let mut second = Another::start("shared", place.path());
    let url = second.told();
    assert_ne!(folder(&url), old);
    assert_eq!(value(&mut client(&url), "SELECT 1"), "1");
    gone(&old);
    second.kill();
    std::fs::write(folder(&url).join("end"), "").expect("a file");
    gone(&folder(&url));
}

#[test]
fn servers_of_a_killed_process_end_even_paused() {
    let mut other = Another::start("own", &std::env::temp_dir());
    let urls = other.told();
    other.kill();
    for url in urls.lines() {
        gone(&folder(url));
    }
}

/// Waits until a folder and what ran in it have gone.
fn gone(folder: &Path) {
    until("the folder is gone", || !folder.exists());
    until("nothing runs", || running_in(folder).is_empty());
}

/// Processes with this folder in their command line.
fn running_in(folder: &Path) -> Vec<Pid> {
    let name = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let command = |path: &Path| std::fs::read_to_string(path.join("cmdline"));
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| command(path).is_ok_and(|text| text.contains(&name)))
        .filter_map(|path| Pid::from_raw(path.file_name()?.to_str()?.parse().ok()?))
        .collect()
}

#[test]
fn a_killed_process_takes_its_redis_along() {
    let place = place();
    let mut other = Another::start("redis", place.path());
    let told = other.told();
    let (pid, url) = told.split_once('\n').expect("two lines");
    let socket = PathBuf::from(url.strip_prefix("redis+unix://").expect("a socket"));
    let process = Path::new("/proc").join(pid);
    assert!(process.exists() && socket.exists());
    other.kill();
    until("its server has ended", || !process.exists());
    // FOLDER/redis/socket
    let folder = socket.ancestors().nth(2).expect("a folder");
    until("its folder has gone", || !folder.exists());
}
