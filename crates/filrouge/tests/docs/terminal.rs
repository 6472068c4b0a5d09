//! Runs a page's commands in one shell, with an empty home folder and a server.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::page::root;
use crate::servers::StandIns;

/// The server's address in the documents.
const DOCUMENTED_ADDRESS: &str = "localhost:7717";
/// The command that kills and restarts the server.
const KILL_COMMAND: &str = "kill -9 $(pidof filrouge)";
/// The longest time that a command or a start may take on any machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// A line that marks the end of a command's output.
const END_MARK: &str = "\u{1e}end of the command\u{1e}";

/// The shell and the server of a reader who follows a page. Variables and jobs last as long as the page.
pub(crate) struct PageTerminal {
    home: tempfile::TempDir,
    address: String,
    server: Option<Child>,
    shell: Child,
    input: ChildStdin,
    output: Receiver<String>,
    /// What replaces texts of the page in commands and in the configuration; reversed in outputs.
    pub(crate) stand_ins: StandIns,
}

/// Returns a command in an isolated environment, with the built binary in its `PATH`.
fn isolated_command(name: &str, home: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_filrouge")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .current_dir(root());
    command
}

/// Reads lines on a separate thread.
fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from).split(b'\n').map_while(Result::ok);
        while let Some(line) = lines.next() {
            let line = String::from_utf8_lossy(&line).into_owned();
            if sender.send(line).is_err() {
                lines.by_ref().for_each(drop);
            }
        }
    });
    receiver
}

impl PageTerminal {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut shell = isolated_command("bash", home.path())
            .args(["--noprofile", "--norc", "-c", "exec 2>&1; exec bash -s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut terminal = Self {
            input: shell.stdin.take().unwrap(),
            output: lines(shell.stdout.take().unwrap()),
            address: "127.0.0.1:0".to_owned(),
            server: None,
            stand_ins: StandIns::new(),
            home,
            shell,
        };
        terminal.serve();
        terminal
    }

    /// Returns the path of the server's log.
    fn log(&self) -> PathBuf {
        self.home.path().join("filrouge.log")
    }

    /// Starts the server at its earlier address, and waits until it listens.
    fn serve(&mut self) {
        let log = File::options().create(true).append(true).open(self.log());
        let mut child = isolated_command(env!("CARGO_BIN_EXE_filrouge"), self.home.path())
            .args(["serve", "--listen", &self.address])
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let first_line = lines(child.stdout.take().unwrap()).recv_timeout(TIME_LIMIT);
        self.server = Some(child);
        let address = first_line.ok().and_then(|line| {
            let address = line.trim().strip_prefix("listening on http://")?;
            Some(address.to_owned())
        });
        self.address = address.unwrap_or_else(|| {
            panic!(
                "the server does not start: {}",
                fs::read_to_string(self.log()).unwrap()
            )
        });
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Writes the configuration file, and starts the server with it.
    pub(crate) fn configure(&mut self, text: &str) {
        self.kill();
        let folder = self.home.path().join(".config/filrouge");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), self.with_stand_ins(text)).unwrap();
        self.serve();
    }

    fn with_stand_ins(&self, text: &str) -> String {
        let replace = |text: String, (shown, here): &(&str, String)| text.replace(shown, here);
        self.stand_ins.iter().fold(text.to_owned(), replace)
    }

    fn without_stand_ins(&self, text: String) -> String {
        let replace = |text: String, (shown, here): &(&str, String)| text.replace(here, shown);
        self.stand_ins.iter().fold(text, replace)
    }

    /// Runs a command; returns its output, stdout and stderr together.
    pub(crate) fn run(&mut self, command: &str) -> String {
        if command == KILL_COMMAND {
            self.kill();
            self.serve();
            return String::new();
        }
        let command_here = self.with_stand_ins(command);
        let command_here = command_here.replace(DOCUMENTED_ADDRESS, &self.address);
        let input = format!("{{ {command_here}\n}} </dev/null\nprintf '\\n%s\\n' '{END_MARK}'\n");
        self.input.write_all(input.as_bytes()).unwrap();
        self.input.flush().unwrap();
        let (mut printed, deadline) = (String::new(), Instant::now() + TIME_LIMIT);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(line) if line == END_MARK => break,
                Ok(line) => printed.push_str(&(line + "\n")),
                Err(_) => panic!("the command does not end: {command}\nit has printed:\n{printed}"),
            }
        }
        self.without_stand_ins(printed.replace(&self.address, DOCUMENTED_ADDRESS))
    }
}

impl Drop for PageTerminal {
    fn drop(&mut self) {
        self.kill();
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

#[test]
fn a_shell_keeps_its_variables_and_its_jobs() {
    let mut terminal = PageTerminal::new();
    assert_eq!(terminal.run("word=thread; cat"), "\n");
    assert_eq!(terminal.run("echo $word >&2").trim(), "thread");
    terminal.run("(sleep 0.2; echo late > ~/late) &");
    assert_eq!(terminal.run("wait; cat ~/late").trim(), "late");
    assert_eq!(terminal.run("false || echo 'a\n'").trim(), "a");
}
