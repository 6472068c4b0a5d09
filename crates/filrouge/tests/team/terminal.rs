//! A terminal whose keys a test presses and whose screen it reads.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::world::{TeamWorld, WITHIN};

/// The prompt of Ann.
pub(crate) const PROMPT: &str = "Ann> ";
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const ESC: &str = "\u{1b}";

/// A terminal that runs `filrouge team deploy`; killed when dropped.
pub(crate) struct TeamTerminal {
    keys: File,
    shown: Receiver<Vec<u8>>,
    screen: String,
    /// The number of bytes of the screen that earlier calls have read.
    seen: usize,
    child: Child,
}

impl TeamTerminal {
    /// Runs `filrouge team deploy team.toml` with further arguments.
    pub(crate) fn deploy(world: &TeamWorld, arguments: &[&str]) -> Self {
        Self::deploy_in(world, arguments, &[])
    }

    pub(crate) fn deploy_in(world: &TeamWorld, arguments: &[&str], set: &[(&str, &str)]) -> Self {
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
            .envs(set.iter().copied())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream());
        let child = command.spawn().expect("setsid, of util-linux");
        drop((command, slave));
        let keys = File::from(master);
        let mut reader = keys.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The read ends once no process has the terminal open.
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keys,
            shown,
            screen: String::new(),
            seen: 0,
            child,
        }
    }

    /// Sends keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.press(&format!("{text}\r"));
    }

    /// Waits until `text` appears in the unread part of the screen; returns the text before it.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let end = Instant::now() + WITHIN;
        loop {
            if let Some(at) = self.screen[self.seen..].find(text) {
                let before = self.screen[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(why) => panic!("{text:?} is not shown ({why}):\n{}", self.screen),
            }
        }
    }

    /// Whether the unread part of the screen contains `text` now.
    pub(crate) fn unread_contains(&mut self, text: &str) -> bool {
        for bytes in self.shown.try_iter() {
            self.screen.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.screen[self.seen..].contains(text)
    }

    /// Sends a message and waits until Ann has the floor; returns the text shown in between.
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) -> String {
        self.line(text);
        self.expect("\n");
        self.expect(PROMPT)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end; returns the exit code and the unread part of the screen.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + WITHIN;
        while let Ok(bytes) = self
            .shown
            .recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.screen.push_str(&String::from_utf8_lossy(&bytes));
        }
        let status = self.child.try_wait().unwrap();
        let Some(status) =
            status.or_else(|| (Instant::now() < end).then(|| self.child.wait().unwrap()))
        else {
            panic!("the program does not end:\n{}", self.screen);
        };
        assert!(!self.screen.contains("panicked"), "{}", self.screen);
        (status.code(), self.screen[self.seen..].to_owned())
    }
}

impl Drop for TeamTerminal {
    fn drop(&mut self) {
        // The process has already ended if the test waited for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
