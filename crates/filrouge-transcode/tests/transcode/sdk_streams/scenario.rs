//! Answers of providers, as they write them.

use filrouge_provider_rules::Provider;
use filrouge_provider_rules::sdk::streams::Answer;
use filrouge_transcode::StreamFormat;
use serde_json::Value;

/// The error that an answer tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// Its word, which the SDK's exception has, too.
    pub(crate) code: &'static str,
    /// Whether asking again can help.
    pub(crate) retryable: bool,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) provider: Provider,
    pub(crate) stream: bool,
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
    /// The error it ends with; `None` of an answer without one.
    pub(crate) error: Option<Told>,
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

    pub(crate) fn whole(provider: Provider, name: &'static str, body: &Value) -> Self {
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
        error: Told,
    ) -> Self {
        Self {
            stream: true,
            status,
            ..Self::whole(provider, name, body).failing(error)
        }
    }

    pub(crate) fn failing(mut self, error: Told) -> Self {
        self.error = Some(error);
        self
    }

    pub(crate) fn format(&self) -> StreamFormat {
        self.provider.as_str().parse().unwrap()
    }
}

/// What a gateway answers that cannot reach the provider.
pub(crate) fn bad_gateway(provider: Provider) -> Scenario {
    let page = "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>\n<center><h1>502 Bad Gateway</h1></center>\n</body>\n</html>\n";
    Scenario {
        status: 502,
        content_type: "text/html",
        ..Scenario::streamed(provider, "a page of a gateway", page.to_owned())
    }
    .failing(Told {
        code: "stream_malformed",
        retryable: false,
    })
}

pub(crate) const fn passing(code: &'static str) -> Told {
    Told {
        code,
        retryable: true,
    }
}

pub(crate) const fn lasting(code: &'static str) -> Told {
    Told {
        code,
        retryable: false,
    }
}

/// Events without names, as OpenAI's Chat Completions and Gemini have them.
pub(crate) fn unnamed(events: &[Value]) -> String {
    let events = events.iter();
    events.map(|event| format!("data: {event}\n\n")).collect()
}

/// Events that have their type for a name.
pub(crate) fn named(events: &[Value]) -> String {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap();
        format!("event: {name}\ndata: {event}\n\n")
    };
    events.iter().map(event).collect()
}

/// An answer as it is given: cut into chunks, and perhaps broken off.
pub(crate) struct Play<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) chunks: Vec<&'s [u8]>,
    pub(crate) ending: Ending,
}

/// How an answer's bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All of them came.
    Whole,
    /// The connection was lost behind so many.
    Lost(usize),
    /// A body ended behind so many as if that were all.
    Short(usize),
}

impl<'s> Play<'s> {
    pub(crate) fn new(scenario: &'s Scenario, size: usize, ending: Ending) -> Self {
        let (Ending::Lost(end) | Ending::Short(end)) = ending else {
            let chunks = scenario.body.chunks(size).collect();
            return Self {
                scenario,
                chunks,
                ending,
            };
        };
        let chunks = scenario.body[..end].chunks(size).collect();
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
            dropped: matches!(self.ending, Ending::Lost(_)),
        }
    }
}
