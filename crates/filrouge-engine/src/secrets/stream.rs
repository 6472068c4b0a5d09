//! Masking a text that is still growing.

use super::mask::Masked;
use super::read::Text;
use super::scan::{LOOK_BEHIND, REACH, scan};
use super::verdict::Tail;

/// No anchor is longer, together with what may stand of its credential before it.
const TRAIL: usize = 80;

/// A text that is still growing: what is given out is never the beginning of something that becomes a credential, and
/// all of it together is what [`crate::mask_text`] makes of the whole text.
///
/// At most 4 KiB are held back. A credential that is longer, such as a private key, is masked once it is known to be
/// one, and all that belongs to it is left out as it comes.
#[derive(Debug, Default)]
pub struct MaskStream {
    /// What was given out last, to look back at, and what is held back.
    text: String,
    /// How much of it was given out or masked.
    done: usize,
    /// A credential was masked and goes on.
    tail: Option<Tail>,
    masked: Masked,
}

impl MaskStream {
    /// A text of which nothing has come yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more of the text; gives what may be shown now, perhaps nothing.
    pub fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        // In pieces, so that a large one costs no more than many small ones.
        while !rest.is_empty() {
            let piece = floor(rest, 64 << 10);
            self.text.push_str(&rest[..piece]);
            rest = &rest[piece..];
            self.advance(&mut out, false);
        }
        out
    }

    /// Gives what was held back: the text is whole.
    #[must_use]
    pub fn finish(mut self) -> (String, Masked) {
        let mut out = String::new();
        self.advance(&mut out, true);
        (out, self.masked)
    }

    /// What was masked so far.
    #[must_use]
    pub const fn masked(&self) -> &Masked {
        &self.masked
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.text.len() - self.done
    }

    fn advance(&mut self, out: &mut String, whole: bool) {
        if !self.go_on(whole) {
            self.forget();
            return;
        }
        let text = Text {
            bytes: self.text.as_bytes(),
            whole,
        };
        let (all, pending) = scan(text, self.done);
        let mut cut = if whole {
            self.text.len()
        } else {
            trail(text.bytes)
        };
        if let Some(pending) = pending {
            debug_assert!(self.text.len() - pending <= REACH + TRAIL);
            cut = cut.min(pending);
        }
        cut = cut.max(self.done);
        for found in all {
            if found.start >= cut.max(self.done) {
                break;
            }
            out.push_str(self.text.get(self.done..found.start).unwrap_or_default());
            out.push_str(found.shape.mask());
            self.masked.add(found.shape);
            self.done = found.end;
            self.tail = found.tail;
        }
        if self.tail.is_none() && cut > self.done {
            out.push_str(self.text.get(self.done..cut).unwrap_or_default());
            self.done = cut;
        }
        self.forget();
    }

    /// Leaves out what belongs to a credential that was masked; whether there is more than that.
    fn go_on(&mut self, whole: bool) -> bool {
        let Some(tail) = self.tail else { return true };
        let text = Text {
            bytes: self.text.as_bytes(),
            whole,
        };
        let (end, open) = tail.extend(text, self.done);
        self.done = end;
        if !open {
            self.tail = None;
        }
        !open
    }

    /// Lets go of what nobody looks back at.
    fn forget(&mut self) {
        if self.done > 4 * LOOK_BEHIND {
            let gone = floor(&self.text, self.done - LOOK_BEHIND);
            self.text.drain(..gone);
            self.done -= gone;
        }
    }
}

/// The last place between two characters that is not behind `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Where an anchor may have begun of which not all has come: in the visible ASCII that the text ends with.
fn trail(bytes: &[u8]) -> usize {
    let length = bytes
        .iter()
        .rev()
        .take(TRAIL)
        .take_while(|b| b.is_ascii_graphic())
        .count();
    bytes.len() - length
}
