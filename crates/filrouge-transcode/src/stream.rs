//! Providers' streams and whole responses, decoded while they arrive (DESIGN §4): bytes in any chunks go in, a
//! [`Transcript`] comes out.
//!
//! Nothing that arrives makes a decoder fail: what it does not know is kept as it came and counted, and what is no
//! stream at all ends as one that has failed. The chunks that bytes come in make no difference to what comes out.

use filrouge_engine::stream::{Ended, StreamError, Transcript};

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
    /// What a stream is written in.
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

/// One format's events.
trait Events: Send {
    /// Takes one event: the name that server-sent events give it, or nothing, and its JSON. Events behind the end are
    /// not shown to it.
    fn event(&mut self, name: &str, data: &str, out: &mut Transcript);

    /// No more events will come: a format without a terminal event of its own ends here, if it has told its end.
    fn end(&mut self, out: &mut Transcript);
}

/// Most bytes of one event, unless said otherwise.
const FRAME_BYTES: usize = 32 << 20;

/// Decodes one response.
pub struct Decoder {
    format: StreamFormat,
    framing: Framing,
    events: Box<dyn Events>,
    transcript: Transcript,
}

impl Decoder {
    /// A decoder for one response in this format.
    #[must_use]
    pub fn new(format: StreamFormat) -> Self {
        let events: Box<dyn Events> = match format {
            StreamFormat::OpenaiChat => Box::<openai_chat::Chat>::default(),
            StreamFormat::OpenaiResponses => Box::<openai_responses::Responses>::default(),
            StreamFormat::Anthropic => Box::<anthropic::Messages>::default(),
            StreamFormat::Gemini => Box::<gemini::Gemini>::default(),
            StreamFormat::AgUi => Box::<ag_ui::AgUi>::default(),
        };
        Self {
            format,
            framing: Framing::new(FRAME_BYTES),
            events,
            transcript: Transcript::default(),
        }
    }

    /// Refuses events of more bytes than this.
    #[must_use]
    pub fn with_frame_bytes(mut self, most: usize) -> Self {
        self.framing = Framing::new(most);
        self
    }

    /// Takes the next bytes, however they are cut.
    pub fn push(&mut self, bytes: &[u8]) {
        let (events, transcript) = (&mut self.events, &mut self.transcript);
        self.framing
            .push(bytes, &mut |frame| show(frame, events.as_mut(), transcript));
    }

    /// No more bytes will come. A response that has not told its end has failed.
    pub fn end(&mut self) {
        let (events, transcript) = (&mut self.events, &mut self.transcript);
        self.framing
            .end(&mut |frame| show(frame, events.as_mut(), transcript));
        if self.transcript.ended().is_none() {
            self.events.end(&mut self.transcript);
        }
        if self.transcript.ended().is_none() {
            let error = match self.transcript.events() {
                (0, 0) => StreamError::of_stream("stream_empty", "the stream brought nothing"),
                (known, unknown) if known == unknown => {
                    let what = format!("nothing of what came is of format {}", self.format);
                    StreamError::of_stream("stream_malformed", &what)
                }
                _ => StreamError::of_stream("stream_truncated", "the stream ended before its end"),
            };
            self.transcript.end(Ended::Failed(error));
        }
    }

    /// The stream has broken off for a reason of somebody else's. What has told its end already has ended so.
    pub fn break_off(&mut self, why: Ended) {
        if self.transcript.ended().is_none() {
            self.events.end(&mut self.transcript);
        }
        self.transcript.end(why);
    }

    /// What has come so far.
    #[must_use]
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// What has come so far, to be taken.
    pub const fn transcript_mut(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    /// Bytes that it holds, about.
    #[must_use]
    pub fn held(&self) -> usize {
        self.framing.held() + self.transcript.held()
    }
}

fn show(frame: Frame<'_>, events: &mut dyn Events, out: &mut Transcript) {
    match frame {
        Frame::TooLarge => {
            let what = "an event has more bytes than are taken";
            let error = StreamError::of_stream("stream_too_large", what);
            out.end(Ended::Failed(error));
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
                    events.event(name, data, out);
                    out.settle();
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
    fn every_format_has_a_word_and_the_error_names_them_all() {
        let error = "chatgpt".parse::<StreamFormat>().unwrap_err();
        for format in StreamFormat::ALL {
            assert_eq!(format.as_str().parse::<StreamFormat>(), Ok(format));
            assert!(error.known.split(", ").any(|w| w == format.as_str()));
        }
    }

    #[test]
    fn what_is_no_stream_has_failed() {
        let ended = |bytes: &[u8]| {
            let mut decoder = Decoder::new(StreamFormat::OpenaiChat);
            decoder.push(bytes);
            decoder.end();
            match decoder.transcript().ended() {
                Some(Ended::Failed(error)) => error.code.to_string(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(ended(b""), "stream_empty");
        assert_eq!(ended(b": comment\n\n"), "stream_empty");
        assert_eq!(ended(b"<html>502 Bad Gateway</html>\n"), "stream_malformed");
        assert_eq!(ended(b"\xff\xfe\x00"), "stream_malformed");
    }

    #[test]
    fn what_is_no_stream_is_told_which_format_it_is_not_of() {
        for format in StreamFormat::ALL {
            let mut decoder = Decoder::new(format);
            decoder.push(b"<html>502 Bad Gateway</html>\n");
            decoder.end();
            let Some(Ended::Failed(error)) = decoder.transcript().ended() else {
                panic!("{format}");
            };
            let message = format!("nothing of what came is of format {format}");
            assert_eq!(
                (error.message.to_plain(), error.retryable),
                (message, false)
            );
        }
    }
}
