//! The README's tour is run as it stands: every `console` block, command by command, against a new home.
//! In what a command is said to print, `…` stands for anything.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Step {
    command: String,
    output: String,
}

/// Whether the shell would ask for another line.
fn goes_on(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

/// The commands of the `console` blocks with what they print.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in text
        .split("```console\n")
        .skip(1)
        .filter_map(|b| b.split("```").next())
    {
        let mut open = false;
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step {
                    command: command.to_owned(),
                    output: String::new(),
                });
                open = goes_on(command);
            } else if open {
                let last = steps.last_mut().unwrap();
                last.command.push('\n');
                last.command.push_str(line);
                open = goes_on(&last.command);
            } else {
                let last = steps.last_mut().expect("a block begins with a command");
                last.output.push_str(line);
                last.output.push('\n');
            }
        }
    }
    steps
}

/// Whether `text` is `pattern`, in which `…` stands for anything and runs of blanks are one.
fn fits(pattern: &str, text: &str) -> bool {
    let fold = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    let (pattern, text) = (fold(pattern), fold(text));
    let mut pieces = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap()) else {
        return false;
    };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else {
        return rest.is_empty();
    };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

struct World {
    home: tempfile::TempDir,
    root: PathBuf,
    server: Option<Child>,
    address: String,
}

impl World {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .unwrap();
        let mut world = Self {
            home: tempfile::tempdir().unwrap(),
            root,
            server: None,
            address: "127.0.0.1:0".to_owned(),
        };
        world.serve();
        world
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let binary = Path::new(env!("CARGO_BIN_EXE_filrouge")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home.path())
            .current_dir(&self.root);
        command
    }

    /// Starts the server at the address it had before, and waits until it listens.
    fn serve(&mut self) {
        let mut child = self
            .command(env!("CARGO_BIN_EXE_filrouge"))
            .args(["serve", "--listen", &self.address])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        line.trim()
            .strip_prefix("listening on http://")
            .expect("the server listens")
            .clone_into(&mut self.address);
        self.server = Some(child);
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.server.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn run(&mut self, step: &Step) -> String {
        if step.command.starts_with("kill -9") {
            self.kill();
            self.serve();
            return String::new();
        }
        let command = step.command.replace("localhost:7717", &self.address);
        let out = self.command("sh").args(["-c", &command]).output().unwrap();
        String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn the_tour_is_true() {
    let mut world = World::new();
    let steps = steps(&std::fs::read_to_string(world.root.join("README.md")).unwrap());
    assert!(steps.len() >= 6, "the tour has {} steps", steps.len());
    for step in steps {
        let output = world.run(&step);
        assert!(
            fits(&step.output, &output),
            "\n$ {}\nis said to print:\n{}\nand prints:\n{output}",
            step.command,
            step.output
        );
    }
}

#[test]
fn patterns_fit_what_they_should() {
    assert!(fits("a … c\n", "a bb  c"));
    assert!(fits("…", "anything"));
    assert!(fits("x", "x\n"));
    assert!(!fits("a … d", "a b c"));
    assert!(!fits("a", "a b"));
}
