//! Tests of the servers and folders that a killed process leaves.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use filrouge_testbed::{Database, Options, PgBouncer, Redis, Server};

use rustix::process::Pid;

use crate::{client, query_value, wait_until};

/// The variable that names the part that a child process runs.
const PART: &str = "FILROUGE_TESTBED_PART";
/// The variable that names the file of its report.
const REPORT: &str = "FILROUGE_TESTBED_REPORT";

/// A second process of this test binary. It starts servers, and then waits until it is killed.
struct OtherProcess {
    child: Child,
    /// The folder of its report and its stderr.
    output: tempfile::TempDir,
}

impl OtherProcess {
    /// Starts a process that runs `part` of [`child_runs_a_part_of_another_test`], with its servers in `server_folder`.
    fn start(part: &str, server_folder: &Path) -> Self {
        let output = tempfile::tempdir().expect("a folder");
        let stderr = File::create(output.path().join("stderr")).expect("a file");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--ignored",
                "--nocapture",
                "--exact",
                "processes::child_runs_a_part_of_another_test",
            ])
            .env(PART, part)
            .env(REPORT, output.path().join("report"))
            .env("TMPDIR", server_folder)
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("a process");
        Self { child, output }
    }

    /// Waits until the process is ready; returns its report.
    fn report(&mut self) -> String {
        let report = self.output.path().join("report");
        wait_until("the other process is ready", || {
            let status = self.child.try_wait().expect("a child process");
            let stderr = || std::fs::read_to_string(self.output.path().join("stderr"));
            assert!(status.is_none(), "{status:?}\n{:?}", stderr());
            report.exists()
        });
        std::fs::read_to_string(&report).expect("a report")
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // A test may have killed it already.
        let killed = self.child.kill();
        drop(killed);
        self.child.wait().expect("killed");
    }
}

#[test]
#[ignore = "other tests start it"]
fn child_runs_a_part_of_another_test() {
    let part = std::env::var(PART).expect("a part");
    let report_file = PathBuf::from(std::env::var(REPORT).expect("a file"));
    let partial = report_file.with_extension("partial");
    let report = |text: String| {
        std::fs::write(&partial, text).expect("write the report");
        std::fs::rename(&partial, &report_file).expect("publish the report");
        loop {
            std::thread::park();
        }
    };
    match part.as_str() {
        "shared" => {
            let database = Database::new();
            report(database.url());
        }
        "private" => {
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
        other => panic!("unknown part {other}"),
    }
}

/// Creates a folder for servers that no other test uses.
fn separate_folder() -> tempfile::TempDir {
    let server_folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(&server_folder, Permissions::from_mode(0o755)).expect("permissions");
    server_folder
}

/// Returns the folder of the socket in a URL.
fn socket_folder(url: &str) -> PathBuf {
    let host = url.split(['@', ':']).nth(2).expect("a host");
    PathBuf::from(host.replace("%2F", "/"))
}

#[test]
fn processes_share_one_server_and_a_killed_process_harms_no_other() {
    let database = Database::new();
    let mut other = OtherProcess::start("shared", &std::env::temp_dir());
    let other_url = other.report();
    other.kill();
    assert_eq!(socket_folder(&other_url), socket_folder(&database.url()));
    assert_ne!(other_url, database.url());
    assert_eq!(query_value(&mut client(&database.url()), "SELECT 1"), "1");
    // The database of the killed process exists until the server ends.
    assert_eq!(query_value(&mut client(&other_url), "SELECT 1"), "1");
}

#[test]
fn the_shared_server_ends_after_its_last_user() {
    let server_folder = separate_folder();
    let mut first = OtherProcess::start("shared", server_folder.path());
    let folder = socket_folder(&first.report());
    let mut second = OtherProcess::start("shared", server_folder.path());
    let url = second.report();
    first.kill();
    // The file skips the grace period; it does not end a server that is in use.
    std::fs::write(folder.join("end"), "").expect("a file");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(query_value(&mut client(&url), "SELECT 1"), "1");
    second.kill();
    wait_until_removed(&folder);
}

#[test]
fn the_shared_server_runs_on_for_a_grace_period() {
    let server_folder = separate_folder();
    let mut first = OtherProcess::start("shared", server_folder.path());
    let url = first.report();
    first.kill();
    let mut second = OtherProcess::start("shared", server_folder.path());
    assert_eq!(socket_folder(&second.report()), socket_folder(&url));
    second.kill();
    std::fs::write(socket_folder(&url).join("end"), "").expect("a file");
    wait_until_removed(&socket_folder(&url));
}

#[test]
fn leftovers_of_a_crashed_machine_are_replaced_and_removed() {
    let server_folder = separate_folder();
    let mut first = OtherProcess::start("shared", server_folder.path());
    let old = socket_folder(&first.report());
    for pid in processes_in(&old) {
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    }
    first.kill();
    wait_until("no process of the folder runs", || {
        processes_in(&old).is_empty()
    });
    assert!(old.join("data/postmaster.pid").exists());
    let mut second = OtherProcess::start("shared", server_folder.path());
    let url = second.report();
    assert_ne!(socket_folder(&url), old);
    assert_eq!(query_value(&mut client(&url), "SELECT 1"), "1");
    wait_until_removed(&old);
    second.kill();
    std::fs::write(socket_folder(&url).join("end"), "").expect("a file");
    wait_until_removed(&socket_folder(&url));
}

#[test]
fn paused_servers_of_a_killed_process_end() {
    let mut other = OtherProcess::start("private", &std::env::temp_dir());
    let urls = other.report();
    other.kill();
    for url in urls.lines() {
        wait_until_removed(&socket_folder(url));
    }
}

/// Waits until a folder is removed and no process runs in it.
fn wait_until_removed(folder: &Path) {
    wait_until("the folder is removed", || !folder.exists());
    wait_until("no process of the folder runs", || {
        processes_in(folder).is_empty()
    });
}

/// Returns the processes with this folder in their command line.
fn processes_in(folder: &Path) -> Vec<Pid> {
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
fn a_paused_redis_of_a_killed_process_ends() {
    let server_folder = separate_folder();
    let mut other = OtherProcess::start("redis", server_folder.path());
    let report = other.report();
    let (pid, url) = report.split_once('\n').expect("two lines");
    let socket = PathBuf::from(url.strip_prefix("redis+unix://").expect("a socket"));
    let process = Path::new("/proc").join(pid);
    assert!(process.exists() && socket.exists());
    other.kill();
    wait_until("the server has ended", || !process.exists());
    // The socket is FOLDER/redis/socket.
    let folder = socket.ancestors().nth(2).expect("a folder");
    wait_until("the folder is removed", || !folder.exists());
}
