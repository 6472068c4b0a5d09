//! A terminal that a test controls: it presses keys and reads the screen.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::{TIME_LIMIT, TeamWorld};

/// Ann's prompt.
pub(crate) const PROMPT: &str = "Ann> ";
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const ESC: &str = "\u{1b}";

/// A terminal that runs `filrouge team deploy`. Dropping it kills the program.
pub(crate) struct TeamTerminal {
    keys: File,
    /// Receives what the program prints.
    printed: Receiver<Vec<u8>>,
    /// Everything printed so far.
    screen: String,
    /// How many bytes of the screen earlier calls have read.
    seen: usize,
    child: Child,
}

impl TeamTerminal {
    /// Runs `filrouge team deploy team.toml` with further arguments.
    pub(crate) fn deploy(world: &TeamWorld, arguments: &[&str]) -> Self {
        Self::deploy_with_env(world, arguments, &[])
    }

    /// Like [`Self::deploy`], with further environment variables.
    pub(crate) fn deploy_with_env(
        world: &TeamWorld,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        // `setsid` starts a session with this controlling terminal, so that Ctrl-C arrives as a signal.
        let mut command = Command::new("setsid");
        world.environment(&mut command);
        let stream = || -> OwnedFd { slave.try_clone().unwrap() };
        command
            .args(["--ctty", env!("CARGO_BIN_EXE_filrouge")])
            .args(["team", "deploy", "team.toml"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream());
        let child = command.spawn().expect("run setsid (Debian: util-linux)");
        drop((command, slave));
        let keys = File::from(master);
        let mut reader = keys.try_clone().unwrap();
        let (sender, printed) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read fails once no process has the terminal open.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keys,
            printed,
            screen: String::new(),
            seen: 0,
            child,
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and presses Enter.
    pub(crate) fn send_line(&mut self, text: &str) {
        self.press(&format!("{text}\r"));
    }

    /// Reads until `text` appears in the unread part of the screen; returns the part before it.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(at) = self.screen[self.seen..].find(text) {
                let before = self.screen[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.printed.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!(
                    "{text:?} does not appear ({why}); the screen:\n{}",
                    self.screen
                ),
            }
        }
    }

    /// Returns whether the unread part of the screen contains `text` now.
    pub(crate) fn unread_contains(&mut self, text: &str) -> bool {
        for bytes in self.printed.try_iter() {
            self.screen.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.screen[self.seen..].contains(text)
    }

    /// Types a message and waits for Ann's next prompt; returns what appears in between.
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) -> String {
        self.send_line(text);
        self.expect("\n");
        self.expect(PROMPT)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the program exits; returns its exit code and the unread part of the screen.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + TIME_LIMIT;
        while let Ok(bytes) = self
            .printed
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.screen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let status = self.child.try_wait().unwrap();
        let Some(status) =
            status.or_else(|| (Instant::now() < end).then(|| self.child.wait().unwrap()))
        else {
            panic!("the program does not exit; the screen:\n{}", self.screen);
        };
        assert!(!self.screen.contains("panicked"), "{}", self.screen);
        (status.code(), self.screen[self.seen..].to_owned())
    }
}

impl Drop for TeamTerminal {
    fn drop(&mut self) {
        // These calls fail if the test has already waited for the exit.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
