//! Single keys from the terminal.

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
    /// Esc, Ctrl-C, Ctrl-D, or the terminal is gone.
    Cancel,
}

/// Keys one by one, without echo, until this is dropped: then the terminal is as it was.
pub(super) struct Keys {
    before: Termios,
    pressed: mpsc::UnboundedReceiver<Key>,
    is_over: Arc<AtomicBool>,
    reading: Option<std::thread::JoinHandle<()>>,
}

impl Keys {
    pub(super) fn taken() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(stdin.as_fd())?;
        let mut single = before.clone();
        single
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        single.input_modes.insert(InputModes::ICRNL);
        // A read returns after a tenth of a second at the latest: so Esc is told from the sequences of other keys.
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 1;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &single)?;
        let (tell, pressed) = mpsc::unbounded_channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let reading = std::thread::spawn(move || read(&over, &tell));
        Ok(Self {
            before,
            pressed,
            is_over,
            reading: Some(reading),
        })
    }

    pub(super) async fn next(&mut self) -> Key {
        self.pressed.recv().await.unwrap_or(Key::Cancel)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(reading) = self.reading.take() {
            // It takes nothing of what is typed next.
            let _ = reading.join();
        }
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

fn read(over: &AtomicBool, tell: &mpsc::UnboundedSender<Key>) {
    let mut pieces = Pieces::default();
    let mut byte = [0_u8; 1];
    while !over.load(Ordering::Relaxed) {
        let keys = match rustix::io::read(io::stdin().as_fd(), &mut byte) {
            Ok(0) => pieces.silence(),
            Ok(_) => pieces.byte(byte[0]),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => Some(Key::Cancel),
        };
        let Some(key) = keys else { continue };
        // One decision is asked for: what is typed behind it belongs to whoever reads next.
        let last = matches!(key, Key::Cancel);
        if tell.send(key).is_err() || last {
            return;
        }
    }
}

/// Bytes as keys.
#[derive(Debug, Default)]
struct Pieces {
    /// A sequence that has begun with Esc.
    sequence: Vec<u8>,
    /// A character that is not whole.
    character: Vec<u8>,
}

impl Pieces {
    /// Nothing has come for a while.
    fn silence(&mut self) -> Option<Key> {
        let is_alone = self.sequence == [0x1b];
        self.sequence.clear();
        is_alone.then_some(Key::Cancel)
    }

    fn byte(&mut self, byte: u8) -> Option<Key> {
        if !self.sequence.is_empty() {
            self.sequence.push(byte);
            let is_begin = self.sequence.len() == 2 && matches!(byte, b'[' | b'O');
            if !is_begin && (0x40..=0x7e).contains(&byte) {
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
        let mut pieces = Pieces::default();
        let mut keys: Vec<Key> = bytes.iter().filter_map(|b| pieces.byte(*b)).collect();
        keys.extend(pieces.silence());
        keys
    }

    #[test]
    fn escape_is_told_from_arrows() {
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
