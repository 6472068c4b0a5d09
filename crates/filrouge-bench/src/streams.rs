//! Long answers as providers stream them: reasoning, four tool calls, and a text in about two thousand pieces, each
//! with the surrounding members that its provider sends.

use std::fmt::Write as _;

use filrouge_transcode::StreamFormat;

use crate::workload::{Rng, Turns};

mod openai;
mod others;

/// The number of pieces of the answer, of the reasoning, and of the arguments of each call.
const PIECES: [usize; 3] = [2000, 200, 30];
/// The number of tool calls.
const CALLS: usize = 4;

/// One streamed answer.
pub(crate) struct Stream {
    /// The stream as it arrives over the network.
    pub(crate) bytes: String,
    /// The JSON of each event.
    pub(crate) frames: Vec<String>,
}

/// The streamed pieces, each escaped as inside a JSON string.
struct StreamScript {
    reasoning: Vec<String>,
    answer: Vec<String>,
    calls: Vec<Vec<String>>,
    random: Rng,
}

impl StreamScript {
    /// The pieces, whose numbers are divided by `divisor`.
    fn new(seed: u64, divisor: usize) -> Self {
        let (mut turns, mut random) = (Turns::new(seed), Rng::new(seed));
        let [answer, reasoning, arguments] = PIECES.map(|pieces| (pieces / divisor).max(2));
        let calls = (0..CALLS).map(|_| {
            let mut pieces = vec![r#"{\"query\":\""#.to_owned()];
            pieces.extend(random_pieces(&mut turns, &mut random, arguments));
            pieces.push(r#"\"}"#.to_owned());
            pieces
        });
        Self {
            calls: calls.collect(),
            reasoning: random_pieces(&mut turns, &mut random, reasoning),
            answer: random_pieces(&mut turns, &mut random, answer),
            random,
        }
    }

    /// Padding that hides the lengths of events.
    fn padding(&mut self) -> String {
        let alphabet = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        let length = 1 + self.random.below(16);
        let character = |_| char::from(alphabet[self.random.below(alphabet.len())]);
        (0..length).map(character).collect()
    }
}

/// A text in pieces of one to six tokens of about four letters, some with escapes or accents as in real texts.
fn random_pieces(turns: &mut Turns, random: &mut Rng, pieces: usize) -> Vec<String> {
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
    /// The answer in this format, with the number of its pieces divided by `divisor`.
    pub(crate) fn new(format: StreamFormat, divisor: usize) -> Self {
        let script = StreamScript::new(7, divisor);
        let events = match format {
            StreamFormat::OpenaiChat => openai::chat(script),
            StreamFormat::OpenaiResponses => openai::responses(script),
            StreamFormat::Anthropic => others::anthropic(script),
            StreamFormat::Gemini => others::gemini(&script),
            StreamFormat::AgUi => others::ag_ui(&script),
        };
        let has_names = matches!(
            format,
            StreamFormat::OpenaiResponses | StreamFormat::Anthropic
        );
        let line_end = if format == StreamFormat::Gemini {
            "\r\n"
        } else {
            "\n"
        };
        let mut bytes = String::new();
        for event in &events {
            if has_names && let Some(name) = event.split('"').nth(3) {
                // Writing to a string cannot fail.
                let _ = write!(bytes, "event: {name}{line_end}");
            }
            let _ = write!(bytes, "data: {event}{line_end}{line_end}");
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
    use filrouge_engine::stream::StreamEnd;
    use filrouge_transcode::Decoder;

    use super::*;

    #[test]
    fn decoders_know_all_events_and_record_all_pieces() {
        for format in StreamFormat::ALL {
            let stream = Stream::new(format, 50);
            let mut decoder = Decoder::new(format);
            decoder.push(stream.bytes.as_bytes());
            decoder.end();
            let transcript = decoder.transcript_mut();
            assert_eq!(transcript.ended(), Some(&StreamEnd::Continues), "{format}");
            assert_eq!(transcript.events().1, 0, "{format}");
            let items = transcript.take_ready();
            let recorded: String = items.iter().map(|r| r.item.parts.as_str()).collect();
            let script = StreamScript::new(7, 50);
            for text in [script.reasoning.concat(), script.answer.concat()] {
                assert!(recorded.contains(&text), "{format}: {recorded}");
            }
            assert_eq!(items.len(), 2 + CALLS, "{format}");
        }
    }
}
