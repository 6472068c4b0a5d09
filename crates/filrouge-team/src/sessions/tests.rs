//! The first words of a session, as lists of sessions show them.

use super::*;
use crate::message::{Routing, Speaker, SpeakerKind};

fn human_message(content: &str) -> Message {
    Message {
        id: "msg-1".into(),
        at: Timestamp::from_micros(0),
        speaker: Speaker {
            id: "ann".into(),
            name: "Ann".into(),
            kind: SpeakerKind::Human,
        },
        content: content.into(),
        routing: Routing::default(),
        cut: None,
    }
}

#[test]
fn first_words_are_one_short_line() {
    for (content, words) in [
        ("", ""),
        ("  one\n\ttwo  ", "one two"),
        ("a\u{7}b", "ab"),
        (&"é".repeat(80), &*"é".repeat(80)),
        (&"é".repeat(81), &*format!("{}…", "é".repeat(80))),
        (
            &"word ".repeat(1000),
            &*format!("{}…", "word ".repeat(16).trim_end()),
        ),
    ] {
        assert_eq!(&*first_words(&human_message(content)), words, "{content:?}");
    }
}
