//! Tests which servers and folders survive the end of a process.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filrouge_testbed::{Database, Options, PgBouncer, Redis, Server};

use rustix::process::Pid;

use crate::{client, until, value};

/// A second process of this test binary, which runs one part of a test; its servers are in `place`.
struct Another {
    child: Child,
    reported: tempfile::TempDir,
}

impl Another {
    fn start(part: &str, place: &Path) -> Self {
        let reported = tempfile::tempdir().expect("a folder");
        let said = File::create(reported.path().join("said")).expect("a file");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--ignored",
                "--nocapture",
                "--exact",
                "processes::child_runs_a_part_of_another_test",
            ])
            .env("FILROUGE_TESTBED_PART", part)
            .env("FILROUGE_TESTBED_TOLD", reported.path().join("told"))
            .env("TMPDIR", place)
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("a process");
        Self { child, reported }
    }

    /// Waits until the process is ready; returns its report.
    fn reported(&mut self) -> String {
        let reported = self.reported.path().join("told");
        until("the other process is ready", || {
            let ended = self.child.try_wait().expect("a child process");
            let said = || std::fs::read_to_string(self.reported.path().join("said"));
            assert!(ended.is_none(), "{ended:?}\n{:?}", said());
            reported.exists()
        });
        std::fs::read_to_string(&reported).expect("reported")
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        // It may have been killed already.
        let killed = self.child.kill();
        drop(killed);
        self.child.wait().expect("killed");
    }
}

#[test]
#[ignore = "other tests start it"]
fn child_runs_a_part_of_another_test() {
    let part = std::env::var("FILROUGE_TESTBED_PART").expect("a part");
    let reported = PathBuf::from(std::env::var("FILROUGE_TESTBED_TOLD").expect("a file"));
    let half = reported.with_extension("half");
    let report = |text: String| {
        std::fs::write(&half, text).expect("reported");
        std::fs::rename(&half, &reported).expect("reported");
        loop {
            std::thread::park();
        }
    };
    match part.as_str() {
        "shared" => {
            let database = Database::new();
            report(database.url());
        }
        "own" => {
            let server = Server::start(Options::default());
            let pool = PgBouncer::before(&server, 1);
            server.pause();
            report(format!(
                "{}\n{}",
                server.url("postgres"),
                pool.socket_url("postgres")
            ));
        }
        "redis" => {
            let server = Redis::start();
            server.pause();
            report(format!("{}\n{}", server.pid(), server.socket_url()));
        }
        other => panic!("{other}"),
    }
}

/// A folder for servers that no other test shares.
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
fn processes_share_one_server_and_a_killed_one_harms_no_other() {
    let own = Database::new();
    let mut other = Another::start("shared", &std::env::temp_dir());
    let foreign = other.reported();
    other.kill();
    assert_eq!(folder(&foreign), folder(&own.url()));
    assert_ne!(foreign, own.url());
    assert_eq!(value(&mut client(&own.url()), "SELECT 1"), "1");
    // Its database exists until the server ends.
    assert_eq!(value(&mut client(&foreign), "SELECT 1"), "1");
}

#[test]
fn the_shared_server_ends_after_its_last_user() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let folder = folder(&first.reported());
    let mut second = Another::start("shared", place.path());
    let url = second.reported();
    first.kill();
    // The file skips the grace period; it does not end a server that is in use.
    std::fs::write(folder.join("end"), "").expect("a file");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(value(&mut client(&url), "SELECT 1"), "1");
    second.kill();
    gone(&folder);
}

#[test]
fn the_shared_server_stays_for_a_grace_period() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let url = first.reported();
    first.kill();
    let mut second = Another::start("shared", place.path());
    assert_eq!(folder(&second.reported()), folder(&url));
    second.kill();
    std::fs::write(folder(&url).join("end"), "").expect("a file");
    gone(&folder(&url));
}

#[test]
fn leftovers_of_a_crashed_machine_are_replaced_and_removed() {
    let place = place();
    let mut first = Another::start("shared", place.path());
    let old = folder(&first.reported());
    for pid in running_in(&old) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
    first.kill();
    until("nothing runs", || running_in(&old).is_empty());
    assert!(old.join("data/postmaster.pid").exists());
    let mut second = Another::start("shared", place.path());
    let url = second.reported();
    assert_ne!(folder(&url), old);
    assert_eq!(value(&mut client(&url), "SELECT 1"), "1");
    gone(&old);
    second.kill();
    std::fs::write(folder(&url).join("end"), "").expect("a file");
    gone(&folder(&url));
}

#[test]
fn paused_servers_of_a_killed_process_end() {
    let mut other = Another::start("own", &std::env::temp_dir());
    let urls = other.reported();
    other.kill();
    for url in urls.lines() {
        gone(&folder(url));
    }
}

/// Waits until a folder is removed and no process runs in it.
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
fn the_redis_of_a_killed_process_ends() {
    let place = place();
    let mut other = Another::start("redis", place.path());
    let reported = other.reported();
    let (pid, url) = reported.split_once('\n').expect("two lines");
    let socket = PathBuf::from(url.strip_prefix("redis+unix://").expect("a socket"));
    let process = Path::new("/proc").join(pid);
    assert!(process.exists() && socket.exists());
    other.kill();
    until("its server has ended", || !process.exists());
    // FOLDER/redis/socket
    let folder = socket.ancestors().nth(2).expect("a folder");
    until("its folder has gone", || !folder.exists());
}
