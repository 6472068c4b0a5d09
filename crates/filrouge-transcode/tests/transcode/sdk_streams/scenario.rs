//! Scripted answers of providers.

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::streams::Answer;
use filrouge_transcode::StreamFormat;
use serde_json::Value;

/// The error that is expected in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedError {
    /// The code, which the SDK's exception also contains.
    pub(crate) code: &'static str,
    /// Whether a retry may succeed.
    pub(crate) retryable: bool,
}

/// An answer and its expected error.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) provider: Provider,
    pub(crate) stream: bool,
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// The error with which the answer ends; `None` if it has none.
    pub(crate) error: Option<ExpectedError>,
}

impl Scenario {
    pub(crate) fn streamed(provider: Provider, name: &'static str, body: String) -> Self {
        Self {
            name,
            provider,
            stream: true,
            status: 200,
            content_type: "text/event-stream",
            body: body.into_bytes(),
            error: None,
        }
    }

    pub(crate) fn complete(provider: Provider, name: &'static str, body: &Value) -> Self {
        Self {
            stream: false,
            content_type: "application/json",
            ..Self::streamed(provider, name, body.to_string())
        }
    }

    /// A request for a stream that is answered by an HTTP error.
    pub(crate) fn refused(
        provider: Provider,
        name: &'static str,
        status: u16,
        body: &Value,
        error: ExpectedError,
    ) -> Self {
        Self {
            stream: true,
            status,
            ..Self::complete(provider, name, body).with_error(error)
        }
    }

    /// The same answer, which must end with this error.
    pub(crate) fn with_error(mut self, error: ExpectedError) -> Self {
        self.error = Some(error);
        self
    }

    pub(crate) fn format(&self) -> StreamFormat {
        self.provider.as_str().parse().unwrap()
    }
}

/// The answer of a gateway that cannot reach the provider.
pub(crate) fn bad_gateway(provider: Provider) -> Scenario {
    let html = "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>\n<center><h1>502 Bad Gateway</h1></center>\n</body>\n</html>\n";
    Scenario {
        status: 502,
        content_type: "text/html",
        ..Scenario::streamed(provider, "a page of a gateway", html.to_owned())
    }
    .with_error(ExpectedError {
        code: "stream_malformed",
        retryable: false,
    })
}

pub(crate) const fn retryable(code: &'static str) -> ExpectedError {
    ExpectedError {
        code,
        retryable: true,
    }
}

pub(crate) const fn permanent(code: &'static str) -> ExpectedError {
    ExpectedError {
        code,
        retryable: false,
    }
}

/// Events without names, as in OpenAI's Chat Completions and Gemini.
pub(crate) fn unnamed(events: &[Value]) -> String {
    let events = events.iter();
    events.map(|event| format!("data: {event}\n\n")).collect()
}

/// Events named after their type.
pub(crate) fn named(events: &[Value]) -> String {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}

/// The bytes of an answer that arrive: in chunks, and possibly cut.
pub(crate) struct Delivery<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) chunks: Vec<&'s [u8]>,
    pub(crate) ending: Ending,
}

/// The end of an answer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All bytes arrived.
    Complete,
    /// The connection was lost after this many bytes.
    Lost(usize),
    /// The body ended after this many bytes, as if it were complete.
    Truncated(usize),
}

impl<'s> Delivery<'s> {
    pub(crate) fn new(scenario: &'s Scenario, chunk_size: usize, ending: Ending) -> Self {
        let (Ending::Lost(end) | Ending::Truncated(end)) = ending else {
            let chunks = scenario.body.chunks(chunk_size).collect();
            return Self {
                scenario,
                chunks,
                ending,
            };
        };
        let chunks = scenario.body[..end].chunks(chunk_size).collect();
        Self {
            scenario,
            chunks,
            ending,
        }
    }

    pub(crate) fn answer(&self) -> Answer {
        Answer {
            provider: self.scenario.provider,
            stream: self.scenario.stream,
            status: self.scenario.status,
            content_type: self.scenario.content_type.to_owned(),
            chunks: self.chunks.iter().map(|chunk| chunk.to_vec()).collect(),
            disconnects: matches!(self.ending, Ending::Lost(_)),
        }
    }
}
