//! Long answers as providers stream them: reasoning, four calls, and a text in some two thousand pieces, each with the
//! surrounding members that its provider sends.

use std::fmt::Write as _;

use filrouge_transcode::StreamFormat;

use crate::workload::{Rng, Turns};

mod openai;
mod others;

/// The number of pieces of the answer, of the reasoning, and of each call's arguments.
const PIECES: [usize; 3] = [2000, 200, 30];
/// The number of calls.
const CALLS: usize = 4;

/// One streamed answer.
pub(crate) struct Stream {
    /// As it arrives over the network.
    pub(crate) bytes: String,
    /// The JSON of each event.
    pub(crate) frames: Vec<String>,
}

/// The streamed pieces, each escaped as inside a JSON string.
struct Script {
    reasoning: Vec<String>,
    answer: Vec<String>,
    calls: Vec<Vec<String>>,
    random: Rng,
}

impl Script {
    fn new(seed: u64, share: usize) -> Self {
        let (mut turns, mut random) = (Turns::new(seed), Rng::new(seed));
        let [answer, reasoning, arguments] = PIECES.map(|pieces| (pieces / share).max(2));
        let calls = (0..CALLS).map(|_| {
            let mut pieces = vec![r#"{\"query\":\""#.to_owned()];
            pieces.extend(cut(&mut turns, &mut random, arguments));
            pieces.push(r#"\"}"#.to_owned());
            pieces
        });
        Self {
            calls: calls.collect(),
            reasoning: cut(&mut turns, &mut random, reasoning),
            answer: cut(&mut turns, &mut random, answer),
            random,
        }
    }

    /// Padding that hides the lengths of events.
    fn padding(&mut self) -> String {
        let signs = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let length = 1 + self.random.below(16);
        let sign = |_| char::from(signs[self.random.below(signs.len())]);
        (0..length).map(sign).collect()
    }
}

/// A text in pieces of one to six tokens of about four letters, with escapes and accents as in real texts.
fn cut(turns: &mut Turns, random: &mut Rng, pieces: usize) -> Vec<String> {
    let piece = |_| {
        let tokens = 1 + random.below(6);
        let mut text = turns.text(tokens * 4);
        match random.below(24) {
            0 => text.push_str(r"\n\n"),
            1 => text.push_str(r#"\"so\""#),
            2 => text.push('é'),
            3 => text.push_str(r"\u2013"),
            _ => {}
        }
        text
    };
    (0..pieces).map(piece).collect()
}

impl Stream {
    /// The answer in this format, divided by `share`.
    pub(crate) fn new(format: StreamFormat, share: usize) -> Self {
        let script = Script::new(7, share);
        let events = match format {
            StreamFormat::OpenaiChat => openai::chat(script),
            StreamFormat::OpenaiResponses => openai::responses(script),
            StreamFormat::Anthropic => others::anthropic(script),
            StreamFormat::Gemini => others::gemini(&script),
            StreamFormat::AgUi => others::ag_ui(&script),
        };
        let named = matches!(
            format,
            StreamFormat::OpenaiResponses | StreamFormat::Anthropic
        );
        let end = if format == StreamFormat::Gemini {
            "\r\n"
        } else {
            "\n"
        };
        let mut bytes = String::new();
        for event in &events {
            if named && let Some(name) = event.split('"').nth(3) {
                // Writing to a string cannot fail.
                let _ = write!(bytes, "event: {name}{end}");
            }
            let _ = write!(bytes, "data: {event}{end}{end}");
        }
        if format == StreamFormat::OpenaiChat {
            bytes.push_str("data: [DONE]\n\n");
        }
        Self {
            bytes,
            frames: events,
        }
    }
}

#[cfg(test)]
mod tests {
    use filrouge_engine::stream::Ended;
    use filrouge_transcode::Decoder;

    use super::*;

    #[test]
    fn every_event_of_every_stream_is_known_and_every_piece_recorded() {
        for format in StreamFormat::ALL {
            let stream = Stream::new(format, 50);
            let mut decoder = Decoder::new(format);
            decoder.push(stream.bytes.as_bytes());
            decoder.end();
            let transcript = decoder.transcript_mut();
            assert_eq!(transcript.ended(), Some(&Ended::Continues), "{format}");
            assert_eq!(transcript.events().1, 0, "{format}");
            let items = transcript.take_ready();
            let recorded: String = items.iter().map(|r| r.item.parts.as_str()).collect();
            let script = Script::new(7, 50);
            for text in [script.reasoning.concat(), script.answer.concat()] {
                assert!(recorded.contains(&text), "{format}: {recorded}");
            }
            assert_eq!(items.len(), 2 + CALLS, "{format}");
        }
    }
}
