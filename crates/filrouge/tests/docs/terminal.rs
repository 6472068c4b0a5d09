//! An empty home, a server, and one shell that runs a page's commands.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::page::root;

/// The address in the documents.
const DOCUMENTED_ADDRESS: &str = "localhost:7717";
/// The command that simulates a power cut: the server is killed and restarted.
const KILL: &str = "kill -9 $(pidof filrouge)";
/// The longest time that a command or a start may take on any machine.
const WITHIN: Duration = Duration::from_secs(120);
/// Marks the end of a command's output.
const END: &str = "\u{1e}end of the command\u{1e}";

/// The terminal of a reader who follows a page: variables and jobs last as long as the page.
pub(crate) struct PageTerminal {
    home: tempfile::TempDir,
    address: String,
    server: Option<Child>,
    shell: Child,
    keys: ChildStdin,
    screen: Receiver<String>,
}

/// A program in an isolated environment; the built binary is on the path.
fn program(name: &str, home: &Path) -> Command {
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
        let mut shell = program("bash", home.path())
            .args(["--noprofile", "--norc", "-c", "exec 2>&1; exec bash -s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut terminal = Self {
            keys: shell.stdin.take().unwrap(),
            screen: lines(shell.stdout.take().unwrap()),
            address: "127.0.0.1:0".to_owned(),
            server: None,
            home,
            shell,
        };
        terminal.serve();
        terminal
    }

    /// The file with the server's log.
    fn log(&self) -> PathBuf {
        self.home.path().join("filrouge.log")
    }

    /// Starts the server at its earlier address, and waits until it listens.
    fn serve(&mut self) {
        let log = File::options().create(true).append(true).open(self.log());
        let mut child = program(env!("CARGO_BIN_EXE_filrouge"), self.home.path())
            .args(["serve", "--listen", &self.address])
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        let said = lines(child.stdout.take().unwrap()).recv_timeout(WITHIN);
        self.server = Some(child);
        let address = said.ok().and_then(|line| {
            let address = line.trim().strip_prefix("listening on http://")?;
            Some(address.to_owned())
        });
        self.address = address.unwrap_or_else(|| {
            panic!(
                "the server does not listen: {}",
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
        fs::write(folder.join("config.toml"), text).unwrap();
        self.serve();
    }

    /// Runs a command; returns its output, stdout and stderr together.
    pub(crate) fn run(&mut self, command: &str) -> String {
        if command == KILL {
            self.kill();
            self.serve();
            return String::new();
        }
        let typed = command.replace(DOCUMENTED_ADDRESS, &self.address);
        let keys = format!("{{ {typed}\n}} </dev/null\nprintf '\\n%s\\n' '{END}'\n");
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        let (mut printed, until) = (String::new(), Instant::now() + WITHIN);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(line) if line == END => break,
                Ok(line) => printed.push_str(&(line + "\n")),
                Err(_) => panic!("{command}\ndoes not end; it has printed:\n{printed}"),
            }
        }
        printed.replace(&self.address, DOCUMENTED_ADDRESS)
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
