//! A real headless browser, and a listener that records requests.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time limit of one run of the browser.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Returns the first of the programs `names` on the path. If there is none and the test runs as root, installs the
/// Debian package.
pub(crate) fn program(names: &[&str], package: &str) -> PathBuf {
    if let Some(found) = find(names) {
        return found;
    }
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout == b"0\n";
    assert!(
        is_root,
        "none of {names:?} is on the path: run `apt-get install {package}` and repeat the test"
    );
    // Several tests may run this at once; apt waits for its own lock.
    for arguments in [
        &["update"][..],
        &["install", "-y", "--no-install-recommends", package],
    ] {
        let status = Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300", "-q"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status()
            .unwrap_or_else(|e| panic!("cannot run apt-get ({e}): install {package} by hand"));
        assert!(
            status.success() || arguments == ["update"],
            "apt-get {arguments:?} failed: install {package} by hand"
        );
    }
    find(names).unwrap_or_else(|| panic!("{package} has none of {names:?}"))
}

/// The first of the programs on the path.
fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|n| folders.iter().map(move |f| f.join(n)))
        .find(|p| p.is_file())
}

/// Opens `page` in the browser with `arguments` and returns the browser's output.
pub(crate) fn browse(page: &Path, arguments: &[&str]) -> String {
    let browser = program(
        &["chromium", "chromium-browser", "google-chrome"],
        "chromium",
    );
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-default-apps",
        ])
        .args([
            "--disable-domain-reliability",
            "--disable-breakpad",
            "--disable-features=OptimizationHints,MediaRouter",
        ])
        .arg(format!(
            "--user-data-dir={}",
            scratch.path().join("profile").display()
        ))
        .args(arguments)
        .arg(format!("file://{}", page.display()));
    run(command, scratch.path())
}

/// Runs a program until it ends or the time limit passes, kills its children and returns its output.
fn run(mut command: Command, scratch: &Path) -> String {
    let (out, err) = (scratch.join("out"), scratch.join("err"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&err).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if start.elapsed() > TIME_LIMIT => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    // Kills the processes of the group that still run. `kill` fails if there are none; the failure is ignored.
    let group = format!("-{}", child.id());
    let _ = Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status();
    let _ = child.wait();
    let stderr = std::fs::read_to_string(&err).unwrap_or_default();
    assert!(
        status.is_some_and(|s| s.success()),
        "the program ended with {status:?} after {:?}: {stderr}",
        start.elapsed()
    );
    String::from_utf8_lossy(&std::fs::read(&out).unwrap()).into_owned()
}

/// A listener on this machine that records its requests.
pub(crate) struct RequestListener {
    pub(crate) port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RequestListener {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut first = [0; 200];
                let mut stream = stream.unwrap();
                recorded.lock().unwrap().push(String::new());
                stream
                    .set_read_timeout(Some(Duration::from_millis(300)))
                    .unwrap();
                let length = stream.read(&mut first).unwrap_or(0);
                *recorded.lock().unwrap().last_mut().unwrap() =
                    String::from_utf8_lossy(&first[..length]).into_owned();
            }
        });
        Self { port, requests }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The first bytes of each request.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}
