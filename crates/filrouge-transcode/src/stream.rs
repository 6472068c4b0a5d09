//! Decodes providers' streams and complete responses while they arrive (DESIGN §4): bytes in chunks of any size become
//! a [`Transcript`].
//!
//! No input makes a decoder fail: unknown events are kept unchanged and counted, and input that is not a stream at all
//! ends as a failed response. How the bytes are split into chunks makes no difference to the result.

use filrouge_engine::stream::{StreamEnd, StreamError, Transcript};

mod ag_ui;
mod anthropic;
mod framing;
mod gemini;
mod json;
mod openai_chat;
mod openai_responses;
mod provider_error;

use framing::{Frame, Framing};

filrouge_types::words!(
    /// The format of a stream.
    pub enum StreamFormat: "format" {
        /// Chunks or a response of OpenAI's Chat Completions.
        OpenaiChat => "openai-chat",
        /// Events or a response of OpenAI's Responses.
        OpenaiResponses => "openai-responses",
        /// Events or a message of Anthropic's Messages.
        Anthropic => "anthropic",
        /// Responses of Gemini's streamGenerateContent or generateContent.
        Gemini => "gemini",
        /// Events of AG-UI.
        AgUi => "ag-ui",
    }
);

/// The decoder of one format's events.
trait EventDecoder: Send {
    /// Decodes one event. `name` is the SSE event name (empty if there is none), `data` its JSON. It is not called for
    /// events after the terminal event.
    fn decode_event(&mut self, name: &str, data: &str, out: &mut Transcript);

    /// Ends the input of a response that had no terminal event. A format without terminal events ends the response
    /// here, if the answer is complete.
    fn end(&mut self, out: &mut Transcript);
}

/// The default limit of one event, in bytes.
const DEFAULT_FRAME_BYTES_MAX: usize = 32 << 20;

/// Decodes one response.
pub struct Decoder {
    format: StreamFormat,
    framing: Framing,
    event_decoder: Box<dyn EventDecoder>,
    transcript: Transcript,
}

impl Decoder {
    /// Creates a decoder for one response in this format.
    pub fn new(format: StreamFormat) -> Self {
        let event_decoder: Box<dyn EventDecoder> = match format {
            StreamFormat::OpenaiChat => Box::<openai_chat::Chat>::default(),
            StreamFormat::OpenaiResponses => Box::<openai_responses::Responses>::default(),
            StreamFormat::Anthropic => Box::<anthropic::Messages>::default(),
            StreamFormat::Gemini => Box::<gemini::Gemini>::default(),
            StreamFormat::AgUi => Box::<ag_ui::AgUi>::default(),
        };
        Self {
            format,
            framing: Framing::new(DEFAULT_FRAME_BYTES_MAX),
            event_decoder,
            transcript: Transcript::default(),
        }
    }

    /// Sets the limit of one event, in bytes.
    #[must_use]
    pub fn with_frame_bytes(mut self, limit: usize) -> Self {
        self.framing = Framing::new(limit);
        self
    }

    /// Decodes the next bytes, in chunks of any size.
    pub fn push(&mut self, bytes: &[u8]) {
        let (decoder, transcript) = (&mut self.event_decoder, &mut self.transcript);
        self.framing.push(bytes, &mut |frame| {
            decode_frame(frame, decoder.as_mut(), transcript);
        });
    }

    /// Ends the input. A response that is incomplete at this point has failed.
    pub fn end(&mut self) {
        let (decoder, transcript) = (&mut self.event_decoder, &mut self.transcript);
        self.framing
            .end(&mut |frame| decode_frame(frame, decoder.as_mut(), transcript));
        if self.transcript.ended().is_none() {
            self.event_decoder.end(&mut self.transcript);
        }
        if self.transcript.ended().is_none() {
            let error = match self.transcript.events() {
                (0, 0) => StreamError::new("stream_empty", "the stream contained no event"),
                (total, unknown) if total == unknown => {
                    let message = format!("no event of the stream has the format {}", self.format);
                    StreamError::new("stream_malformed", &message)
                }
                _ => StreamError::new(
                    "stream_truncated",
                    "the stream ended before its terminal event",
                ),
            };
            self.transcript.end(StreamEnd::Failed(error));
        }
    }

    /// Ends a stream that was cut off for an external reason. `why` is ignored if the response already had its terminal
    /// event.
    pub fn break_off(&mut self, why: StreamEnd) {
        if self.transcript.ended().is_none() {
            self.event_decoder.end(&mut self.transcript);
        }
        self.transcript.end(why);
    }

    /// The transcript so far.
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The transcript so far, for the recording, which takes items out of it.
    pub const fn transcript_mut(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// The approximate number of buffered bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.framing.buffered_bytes() + self.transcript.memory_bytes()
    }
}

/// Passes a frame to the decoder of its format. After the end of the response, frames are ignored.
fn decode_frame(frame: Frame<'_>, decoder: &mut dyn EventDecoder, out: &mut Transcript) {
    match frame {
        Frame::TooLarge => {
            let message = "an event is larger than the limit";
            let error = StreamError::new("stream_too_large", message);
            out.end(StreamEnd::Failed(error));
        }
        _ if out.ended().is_some() => {}
        Frame::Foreign(bytes) => {
            out.event();
            out.unknown(&String::from_utf8_lossy(bytes));
        }
        Frame::Event { name, data } => {
            out.event();
            match std::str::from_utf8(data) {
                Ok(data) => {
                    decoder.decode_event(name, data, out);
                    out.finish_complete_blocks();
                }
                Err(_) => out.unknown(&String::from_utf8_lossy(data)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_a_name_and_the_error_lists_them_all() {
        let error = "chatgpt".parse::<StreamFormat>().unwrap_err();
        for format in StreamFormat::ALL {
            assert_eq!(format.as_str().parse::<StreamFormat>(), Ok(format));
            assert!(error.known.split(", ").any(|w| w == format.as_str()));
        }
    }

    #[test]
    fn input_that_is_not_a_stream_fails() {
        let error_code = |bytes: &[u8]| {
            let mut decoder = Decoder::new(StreamFormat::OpenaiChat);
            decoder.push(bytes);
            decoder.end();
            match decoder.transcript().ended() {
                Some(StreamEnd::Failed(error)) => error.code.to_string(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(error_code(b""), "stream_empty");
        assert_eq!(error_code(b": comment\n\n"), "stream_empty");
        assert_eq!(
            error_code(b"<html>502 Bad Gateway</html>\n"),
            "stream_malformed"
        );
        assert_eq!(error_code(b"\xff\xfe\x00"), "stream_malformed");
    }

    #[test]
    fn foreign_input_fails_with_the_name_of_the_expected_format() {
        for format in StreamFormat::ALL {
            let mut decoder = Decoder::new(format);
            decoder.push(b"<html>502 Bad Gateway</html>\n");
            decoder.end();
            let Some(StreamEnd::Failed(error)) = decoder.transcript().ended() else {
                panic!("{format}");
            };
            let message = format!("no event of the stream has the format {format}");
            assert_eq!(
                (error.message.to_plain(), error.retryable),
                (message, false)
            );
        }
    }
}
