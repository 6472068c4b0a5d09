//! A home folder that contains only a team, and runs of the built binary in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The longest time that a command may take on any machine.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// An agent that writes its prompt to the file `prompt` and answers.
pub(crate) const ANSWERING_AGENT: &str =
    "cat > prompt.new; mv prompt.new prompt; echo 'I hear you.'";

/// An agent that writes half of its answer, then waits for the file `go`. It has a child process that runs much longer;
/// the file `child` contains the child's process id.
pub(crate) const WAITING_AGENT: &str = "cat > prompt; sleep 1000 & echo $! > child; printf 'half of it'; \
                                while [ ! -e go ]; do sleep 0.02; done; kill $!; echo ', and the rest'";

/// A home folder. It is kept if the test fails.
pub(crate) struct TeamWorld {
    dir: TempDir,
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct TeamOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TeamOutput {
    /// Returns the JSON lines of stdout.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the session id in the first JSON line.
    pub(crate) fn session(&self) -> String {
        self.lines()[0]["session_id"].as_str().unwrap().to_owned()
    }
}

impl TeamWorld {
    /// Creates a home with a team: Ann, a person, and Bob, an agent that runs this shell script.
    pub(crate) fn new(script: &str) -> Self {
        let world = Self {
            dir: TempDir::with_prefix("filrouge-team-").unwrap(),
        };
        world.write_team("team.toml", "crew", "Bob", script);
        world
    }

    /// Writes a team file: Ann, and an agent of this name that runs a shell script.
    pub(crate) fn write_team(&self, file: &str, name: &str, agent: &str, script: &str) {
        let text = format!(
            "name = \"{name}\"\ntask = \"Build the bridge.\"\n\
             [[members]]\nname = \"Ann\"\nkind = \"human\"\n\
             [[members]]\nname = \"{agent}\"\nkind = \"agent\"\nrole = \"builds\"\ncommand = \"sh\"\n\
             args = [\"-c\", '''{script}''']\n"
        );
        fs::write(self.path(file), text).unwrap();
    }

    /// Returns the path of a file in the home.
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

    /// Returns a command that runs `filrouge` without stdin.
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

    pub(crate) fn run(&self, arguments: &[&str]) -> TeamOutput {
        to_output(self.command(arguments).output().unwrap())
    }

    /// Runs `filrouge team deploy team.toml` with further arguments.
    pub(crate) fn deploy(&self, arguments: &[&str]) -> TeamOutput {
        self.run(&[&["team", "deploy", "team.toml"], arguments].concat())
    }

    /// Like [`Self::deploy`], with a message and output as JSON lines; the command must succeed.
    pub(crate) fn say(&self, text: &str, arguments: &[&str]) -> TeamOutput {
        let output = self.deploy(&[&["--json", "--message", text], arguments].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        output
    }

    /// Like [`Self::deploy`], with a text on stdin.
    pub(crate) fn pipe(&self, text: &str, arguments: &[&str]) -> TeamOutput {
        let mut command = self.command(&[&["team", "deploy", "team.toml"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        to_output(child.wait_with_output().unwrap())
    }

    /// Runs a command with `--json`, which must succeed; returns its output.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Returns the number of sessions in the ledger.
    pub(crate) fn sessions(&self) -> usize {
        let listed = self.json(&["sessions", "list"]);
        listed["data"].as_array().unwrap().len()
    }

    /// Returns the snapshot files of a team, sorted by name.
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
            eprintln!("files of the failed test: {}", self.dir.path().display());
        }
    }
}

/// Converts the output of a command, which must not have panicked.
pub(crate) fn to_output(output: std::process::Output) -> TeamOutput {
    let output = TeamOutput {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(!output.stderr.contains("panicked"), "{output:?}");
    output
}

/// Waits until `holds` returns true.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {TIME_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether a process still runs; a zombie does not count.
pub(crate) fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Sends the signal of this name, such as `TERM`.
pub(crate) fn signal(name: &str, pid: u32) {
    let kill = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status();
    assert!(kill.unwrap().success());
}
