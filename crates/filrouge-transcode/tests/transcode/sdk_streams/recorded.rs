//! The recorded answer, in the form of the SDKs' results.

use std::collections::BTreeMap;
use std::time::Duration;

use filrouge_transcode::{GiveUp, RecordStream, Recorder};
use filrouge_types::{Channel, Item, JsonText, RawJson, Role, TurnStatus};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::scenario::{Delivery, Ending};
use crate::test_session::TestSession;

/// The record of an answer.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) status: Option<TurnStatus>,
    pub(crate) text: String,
    pub(crate) refusal: String,
    pub(crate) thoughts: Vec<RecordedThought>,
    pub(crate) calls: Vec<Call>,
    pub(crate) others: BTreeMap<String, String>,
    pub(crate) finish: Option<String>,
    pub(crate) provider_finish: Option<String>,
    pub(crate) usage: Option<Value>,
    /// The counts of the statistics: input, output, reasoning, cache read and cache write.
    pub(crate) counts: [u64; 5],
    pub(crate) models: Vec<String>,
    pub(crate) error: Option<RecordedError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedThought {
    pub(crate) text: String,
    pub(crate) signature: Option<String>,
    pub(crate) sealed: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments as text.
    pub(crate) arguments: String,
    pub(crate) is_partial: bool,
    pub(crate) signature: Option<String>,
}

#[derive(Debug)]
pub(crate) struct RecordedError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) source: String,
    pub(crate) retryable: bool,
    pub(crate) detail: Option<Value>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    signature: Option<String>,
    redacted: Option<String>,
    encrypted_content: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    code: Option<String>,
    message: Option<String>,
    source: Option<String>,
    retryable: Option<bool>,
    detail: Option<Value>,
}

/// Decodes a JSON string. filrouge replaces a lone surrogate by three U+FFFD, one for each byte of its encoding. This
/// function replaces them by a single one, as an SDK does.
fn decode_string(raw: Option<&RawValue>) -> String {
    let Some(raw) = raw else {
        return String::new();
    };
    let token = JsonText::from_raw(RawJson::from_checked(raw.get()));
    let plain = token.unwrap().to_plain();
    plain.replace("\u{fffd}\u{fffd}\u{fffd}", "\u{fffd}")
}

impl Recorded {
    fn add_item(&mut self, item: &Item) {
        let metadata: Value = item.body.metadata.as_ref().map_or(Value::Null, |metadata| {
            serde_json::from_str(metadata.as_str()).unwrap()
        });
        let text_member = |name: &str| metadata[name].as_str().map(str::to_owned);
        self.finish = text_member("finish_reason").or(self.finish.take());
        self.provider_finish =
            text_member("provider_finish_reason").or(self.provider_finish.take());
        if let Some(usage) = &item.body.usage {
            assert_eq!(self.usage, None, "the usage of a response is recorded once");
            self.usage = Some(serde_json::from_str(usage.as_str()).unwrap());
        }
        if let Some(model) = &item.body.model {
            self.models.push(model.to_string());
        }
        let parts: Vec<Part<'_>> = match item.body.channel.as_str() {
            "stream_events" => return,
            _ => serde_json::from_str(item.body.parts.as_str()).unwrap(),
        };
        // An interrupted item does not contain the number of its answer. The tests have only the answers 0 and 1.
        let is_other = item.body.channel.as_str() == "alternative";
        let alternative = is_other.then(|| metadata["choice"].as_u64().unwrap_or(1));
        for part in parts {
            self.add_part(part, alternative, item.body.role);
        }
    }

    fn add_part(&mut self, part: Part<'_>, alternative: Option<u64>, role: Role) {
        match (part.kind.as_str(), alternative) {
            ("text", Some(choice)) => {
                let text = self.others.entry(choice.to_string()).or_default();
                *text += &decode_string(part.text);
            }
            ("text", None) => self.text += &decode_string(part.text),
            ("refusal", None) => self.refusal += &decode_string(part.refusal),
            ("reasoning", None) => self.thoughts.push(RecordedThought {
                text: decode_string(part.text),
                signature: part.signature,
                sealed: part.redacted.or(part.encrypted_content),
            }),
            (kind @ ("tool_call" | "tool_call_partial"), None) => {
                let args = part.args.unwrap().get();
                self.calls.push(Call {
                    id: part.call_id.unwrap(),
                    name: part.name.unwrap(),
                    arguments: if args.starts_with('"') {
                        decode_string(part.args)
                    } else {
                        args.to_owned()
                    },
                    is_partial: kind == "tool_call_partial",
                    signature: part.signature,
                });
            }
            ("error", None) => {
                assert_eq!(role, Role::System);
                self.error = Some(RecordedError {
                    code: part.code.unwrap(),
                    message: part.message.unwrap(),
                    source: part.source.unwrap(),
                    retryable: part.retryable.unwrap(),
                    detail: part.detail,
                });
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Records the chunks of a delivery.
pub(crate) fn record(delivery: &Delivery<'_>) -> Recorded {
    let test = TestSession::paused();
    test.start("r", "?");
    let recording = RecordStream {
        session_id: test.session.clone(),
        turn_id: test.turn_id("r"),
        format: delivery.scenario.format(),
        finalize: true,
        agent: None,
    };
    let recorded = async {
        let mut recorder = Recorder::begin(&test.engine, &test.caller, recording).await?;
        for chunk in &delivery.chunks {
            recorder.push(chunk).await?;
            tokio::time::advance(Duration::from_millis(30)).await;
            recorder.tick().await?;
        }
        match delivery.ending {
            Ending::Lost(_) => recorder.give_up(GiveUp::client_gone()).await,
            Ending::Complete | Ending::Truncated(_) => recorder.end().await,
        }
    };
    let turn = test.runtime.block_on(recorded).unwrap();
    test.assert_intact();
    let statistics = test.engine.stats.of(&test.caller, &test.session);
    let tokens = test.runtime.block_on(statistics).unwrap().own.tokens;
    let mut recorded = Recorded {
        status: Some(turn.status),
        counts: [
            tokens.input,
            tokens.output,
            tokens.reasoning,
            tokens.cache_read,
            tokens.cache_write,
        ],
        ..Recorded::default()
    };
    let items = test.items();
    for item in &items[1..] {
        recorded.add_item(item);
    }
    if recorded.error.is_some() {
        assert_eq!(items.last().unwrap().body.channel, Channel::Error);
    }
    recorded
}
