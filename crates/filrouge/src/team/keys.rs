//! Reads single keys from the terminal.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::sync::mpsc;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    Enter,
    Backspace,
    /// Esc, Ctrl-C, Ctrl-D, or a closed terminal.
    Cancel,
}

/// Reads keys one by one, without echo. Dropping the reader restores the terminal.
pub(super) struct KeyReader {
    initial_mode: Termios,
    pressed: mpsc::UnboundedReceiver<Key>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl KeyReader {
    pub(super) fn start() -> io::Result<Self> {
        let stdin = io::stdin();
        let initial_mode = tcgetattr(stdin.as_fd())?;
        let mut raw = initial_mode.clone();
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.input_modes.insert(InputModes::ICRNL);
        // A read returns after a tenth of a second at most, even without input. Such a pause distinguishes the Esc key
        // from the sequences of other keys, which begin with the same byte.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 1;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &raw)?;
        let (sender, pressed) = mpsc::unbounded_channel();
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = stop.clone();
        let thread = std::thread::spawn(move || read_keys(&thread_stop, &sender));
        Ok(Self {
            initial_mode,
            pressed,
            stop,
            thread: Some(thread),
        })
    }

    pub(super) async fn next(&mut self) -> Key {
        self.pressed.recv().await.unwrap_or(Key::Cancel)
    }
}

impl Drop for KeyReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // After the join the thread reads no further input.
            let _ = thread.join();
        }
        // A failure means that the terminal is closed.
        let _ = tcsetattr(
            io::stdin().as_fd(),
            OptionalActions::Now,
            &self.initial_mode,
        );
    }
}

fn read_keys(stop: &AtomicBool, sender: &mpsc::UnboundedSender<Key>) {
    let mut decoder = KeyDecoder::default();
    let mut byte = [0_u8; 1];
    while !stop.load(Ordering::Relaxed) {
        let key = match rustix::io::read(io::stdin().as_fd(), &mut byte) {
            Ok(0) => decoder.handle_pause(),
            Ok(_) => decoder.decode(byte[0]),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => Some(Key::Cancel),
        };
        let Some(key) = key else { continue };
        // Nothing is read after a cancellation: later input belongs to the next reader.
        let is_last = matches!(key, Key::Cancel);
        if sender.send(key).is_err() || is_last {
            return;
        }
    }
}

/// Decodes bytes as keys.
#[derive(Debug, Default)]
struct KeyDecoder {
    /// The bytes so far of a sequence that began with Esc; empty outside a sequence.
    sequence: Vec<u8>,
    /// The bytes so far of an incomplete UTF-8 character.
    character: Vec<u8>,
}

impl KeyDecoder {
    /// Handles a pause in the input: an Esc byte without a sequence is the Esc key.
    fn handle_pause(&mut self) -> Option<Key> {
        let is_escape_key = self.sequence == [0x1b];
        self.sequence.clear();
        is_escape_key.then_some(Key::Cancel)
    }

    fn decode(&mut self, byte: u8) -> Option<Key> {
        if !self.sequence.is_empty() {
            self.sequence.push(byte);
            // `[` or `O` directly after Esc begins a longer sequence; a byte from 0x40 to 0x7e ends it.
            let is_introducer = self.sequence.len() == 2 && matches!(byte, b'[' | b'O');
            if !is_introducer && (0x40..=0x7e).contains(&byte) {
                self.sequence.clear();
            }
            return None;
        }
        match byte {
            0x1b => {
                self.sequence.push(byte);
                None
            }
            0x03 | 0x04 => Some(Key::Cancel),
            b'\n' | b'\r' => Some(Key::Enter),
            0x08 | 0x7f => Some(Key::Backspace),
            0x20.. => {
                self.character.push(byte);
                let text = match std::str::from_utf8(&self.character) {
                    Ok(text) => text.chars().next(),
                    Err(error) if error.error_len().is_none() => return None,
                    Err(_) => None,
                };
                self.character.clear();
                text.map(Key::Character)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut decoder = KeyDecoder::default();
        let mut keys: Vec<Key> = bytes.iter().filter_map(|b| decoder.decode(*b)).collect();
        keys.extend(decoder.handle_pause());
        keys
    }

    #[test]
    fn escape_is_distinguished_from_arrows() {
        assert_eq!(keys(b"\x1b"), [Key::Cancel]);
        assert_eq!(keys(b"\x1b[A"), []);
        assert_eq!(keys(b"\x1bOPr"), [Key::Character('r')]);
        assert_eq!(keys(b"\x1b[1;5Cn\n"), [Key::Character('n'), Key::Enter]);
        assert_eq!(keys(b"\x03"), [Key::Cancel]);
        assert_eq!(keys(b"\x04"), [Key::Cancel]);
        assert_eq!(
            keys("é1\x7f".as_bytes()),
            [Key::Character('é'), Key::Character('1'), Key::Backspace]
        );
    }
}
