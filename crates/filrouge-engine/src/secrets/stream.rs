//! Masks credentials, recognized by shape, in a text that arrives in pieces.

use super::read::Text;
use super::scan::{LOOK_AHEAD, LOOK_BEHIND, scan};
use super::verdict::CredentialTail;

/// The maximum number of bytes from the start of a credential to the end of its anchor (see `scan.rs`).
const ANCHOR_END_MAX: usize = 80;

/// Masks a text that arrives in pieces. The output never contains the beginning of a credential that a later piece
/// completes. All output together equals the entire text as [`crate::mask_text`] masks it.
///
/// At most 4 KiB are held back. A longer credential, such as a private key, is masked as soon as it is recognized, and
/// its remaining bytes are dropped as they arrive.
#[derive(Default)]
pub(crate) struct MaskStream {
    /// The context, which is the last bytes that were output or masked, followed by the text that is held back.
    text: String,
    /// The length of that context.
    done: usize,
    /// Set while the text may continue a credential that is already masked.
    tail: Option<CredentialTail>,
}

impl MaskStream {
    /// Appends to the text; returns what may be shown now, which may be empty.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        // A large text is processed in pieces, so that the memory stays bounded.
        while !rest.is_empty() {
            let piece = char_boundary_before(rest, 64 << 10);
            self.text.push_str(&rest[..piece]);
            rest = &rest[piece..];
            self.process(&mut out, false);
        }
        out
    }

    /// Ends the text. Returns the masked form of what was held back.
    pub(crate) fn finish(mut self) -> String {
        let mut out = String::new();
        self.process(&mut out, true);
        out
    }

    /// Number of bytes held back.
    #[cfg(test)]
    pub(super) fn held_back(&self) -> usize {
        self.text.len() - self.done
    }

    /// Outputs the part of the text in which no further credential can begin.
    fn process(&mut self, out: &mut String, complete: bool) {
        if !self.skip_tail(complete) {
            self.drop_old_context();
            return;
        }
        let text = Text {
            bytes: self.text.as_bytes(),
            complete,
        };
        let (matches, pending) = scan(text, self.done);
        let mut safe_end = if complete {
            self.text.len()
        } else {
            undecided_from(text.bytes)
        };
        if let Some(pending) = pending {
            debug_assert!(self.text.len() - pending <= LOOK_AHEAD + ANCHOR_END_MAX);
            safe_end = safe_end.min(pending);
        }
        safe_end = safe_end.max(self.done);
        for found in matches {
            if found.start >= safe_end.max(self.done) {
                break;
            }
            out.push_str(self.text.get(self.done..found.start).unwrap_or_default());
            out.push_str(&found.shape.mask());
            self.done = found.end;
            self.tail = found.tail;
        }
        if self.tail.is_none() && safe_end > self.done {
            out.push_str(self.text.get(self.done..safe_end).unwrap_or_default());
            self.done = safe_end;
        }
        self.drop_old_context();
    }

    /// Drops further bytes of a masked credential. Returns whether the credential has ended, so that the text after it
    /// may be processed.
    fn skip_tail(&mut self, complete: bool) -> bool {
        let Some(tail) = self.tail else { return true };
        let text = Text {
            bytes: self.text.as_bytes(),
            complete,
        };
        let (end, may_grow) = tail.extend(text, self.done);
        self.done = end;
        if !may_grow {
            self.tail = None;
        }
        !may_grow
    }

    /// Drops text that is not needed as context any more.
    fn drop_old_context(&mut self) {
        if self.done > 4 * LOOK_BEHIND {
            let dropped = char_boundary_before(&self.text, self.done - LOOK_BEHIND);
            self.text.drain(..dropped);
            self.done -= dropped;
        }
    }
}

/// The last character boundary at or before `at`.
fn char_boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// The first position at which a credential may begin whose anchor is not complete yet. It is within the visible ASCII
/// at the end of the text, at most [`ANCHOR_END_MAX`] bytes before the end.
fn undecided_from(bytes: &[u8]) -> usize {
    let length = bytes
        .iter()
        .rev()
        .take(ANCHOR_END_MAX)
        .take_while(|b| b.is_ascii_graphic())
        .count();
    bytes.len() - length
}
