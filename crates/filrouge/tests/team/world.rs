//! A home that contains only a team, and the built binary in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The maximum time of a command; enough for a slow machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(60);

/// An agent that keeps its prompt and answers.
pub(crate) const ANSWERING_AGENT: &str =
    "cat > prompt.new; mv prompt.new prompt; echo 'I hear you.'";

/// An agent that says something, then waits for the file `go`; it has a child that runs much longer.
pub(crate) const WAITING_AGENT: &str = "cat > prompt; sleep 1000 & echo $! > child; printf 'half of it'; \
                                while [ ! -e go ]; do sleep 0.02; done; kill $!; echo ', and the rest'";

/// A home; kept when a test fails.
pub(crate) struct TeamWorld {
    dir: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct TeamDone {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TeamDone {
    /// The JSON lines of stdout.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The session of the first JSON line.
    pub(crate) fn session(&self) -> String {
        self.lines()[0]["session_id"].as_str().unwrap().to_owned()
    }
}

impl TeamWorld {
    /// A home with a team: Ann, and Bob, whose agent is this shell script.
    pub(crate) fn new(bob: &str) -> Self {
        let world = Self {
            dir: TempDir::with_prefix("filrouge-team-").unwrap(),
        };
        world.team("team.toml", "crew", "Bob", bob);
        world
    }

    /// Writes a team file.
    pub(crate) fn team(&self, file: &str, name: &str, agent: &str, script: &str) {
        let text = format!(
            "name = \"{name}\"\ntask = \"Build the bridge.\"\n\
             [[members]]\nname = \"Ann\"\nkind = \"human\"\n\
             [[members]]\nname = \"{agent}\"\nkind = \"agent\"\nrole = \"builds\"\ncommand = \"sh\"\n\
             args = [\"-c\", '''{script}''']\n"
        );
        fs::write(self.path(file), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Sets the environment of a command.
    pub(crate) fn environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("USER", "ann")
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("FILROUGE_LEASE_WAIT_MS", "0")
            .current_dir(self.dir.path());
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_filrouge"));
        self.environment(&mut command);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> TeamDone {
        finish(self.command(arguments))
    }

    /// Runs `filrouge team deploy team.toml` with further arguments.
    pub(crate) fn deploy(&self, arguments: &[&str]) -> TeamDone {
        self.run(&[&["team", "deploy", "team.toml"], arguments].concat())
    }

    /// As [`Self::deploy`], with a message and JSON lines; this must succeed.
    pub(crate) fn say(&self, text: &str, arguments: &[&str]) -> TeamDone {
        let done = self.deploy(&[&["--json", "--message", text], arguments].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done
    }

    /// As [`Self::deploy`], with this text on stdin.
    pub(crate) fn pipe(&self, text: &str, arguments: &[&str]) -> TeamDone {
        let mut command = self.command(&[&["team", "deploy", "team.toml"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        done(child.wait_with_output().unwrap())
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let done = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// The number of sessions in the ledger.
    pub(crate) fn sessions(&self) -> usize {
        let listed = self.json(&["sessions", "list"]);
        listed["data"].as_array().unwrap().len()
    }

    /// Snapshot files of a team.
    pub(crate) fn snapshot_files(&self, team: &str) -> Vec<PathBuf> {
        let folder = self.path(".agent-chatter/sessions").join(team);
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        files
    }
}

impl Drop for TeamWorld {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("kept for inspection: {}", self.dir.path().display());
        }
    }
}

fn finish(mut command: Command) -> TeamDone {
    done(command.output().unwrap())
}

pub(crate) fn done(output: std::process::Output) -> TeamDone {
    let done = TeamDone {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(!done.stderr.contains("panicked"), "{done:?}");
    done
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + WITHIN;
    while !holds() {
        assert!(Instant::now() < end, "did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process still runs: a zombie does not count.
pub(crate) fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

pub(crate) fn signal(name: &str, pid: u32) {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status();
    assert!(kill.unwrap().success());
}
