//! Which lines of a rollout are of the conversation: `{timestamp, ordinal, type, payload}`, in files of the first
//! versions the items themselves.

use memchr::memmem;

/// Whether a line can be of the conversation, by its first bytes. Quotes in texts are escaped, so that none can look
/// like these keys.
pub(super) fn matters(line: &[u8]) -> bool {
    let begin = line.get(..160).unwrap_or(line);
    let aside: [&[u8]; 2] = [b"\"type\":\"world_state\"", b"\"type\":\"ghost_snapshot\""];
    !aside.iter().any(|key| memmem::find(begin, key).is_some())
}
