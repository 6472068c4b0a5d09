//! Decodes AG-UI's events (specification 1.1, and earlier shapes): runs, texts, calls with their results, reasoning,
//! activities.
//!
//! Content that the protocol requires a reader to reject is recorded if the user may have seen it. Steps, state and raw
//! events show nothing to a user and are not recorded.

use filrouge_engine::stream::{Ended, StreamError, Transcript};
use filrouge_types::{Channel, Role};
use serde_json::value::RawValue;

use super::json;
use super::provider_error::{error_in, provider_error};

mod content;
mod lanes;
mod snapshot;
mod texts;
mod usage;

use texts::{Kind, Texts};

#[derive(Default)]
pub(super) struct AgUi {
    texts: Texts,
    snapshot: snapshot::Snapshot,
}

json::members! {
    /// The members read from any event. Members are in camel case; some servers send snake case.
    #[serde(rename_all = "camelCase")]
    Event {
        kind = "type", message_id | "message_id", delta, role, name, tool_call_id | "tool_call_id",
        tool_call_name | "tool_call_name", subagent = "subagentRunId" | "subagent_run_id", content, outcome,
        result, usage, run_id | "run_id", entity_id | "entity_id", encrypted_value | "encrypted_value",
        encrypted_value_type | "encrypted_value_type", messages,
    }

    Outcome { kind = "type", interrupts: Option<Vec<&'a RawValue>> }

    Interrupt { message }
}

impl super::Events for AgUi {
    fn event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        let known = json::read::<Event<'_>>(data).is_some_and(|event| {
            let kind = json::inner(event.kind).unwrap_or(name);
            self.take(kind, data, &event, out) || self.foreign_error(name, data, out)
        });
        if !known {
            out.unknown(data);
        }
    }

    /// Records what a run that was cut off has left: its only content may be a snapshot. Without a terminal event, the
    /// response does not end here.
    fn end(&mut self, out: &mut Transcript) {
        self.snapshot.say(&mut self.texts, out);
        self.texts.finish_ended(out);
    }
}

impl AgUi {
    /// Decodes an event; `false` if its type is unknown or its shape is wrong.
    fn take(&mut self, kind: &str, data: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        let texts = &mut self.texts;
        match kind {
            "TEXT_MESSAGE_CONTENT" => texts.grow(Kind::Text, event, out),
            "TOOL_CALL_ARGS" => texts.grow(Kind::Call, event, out),
            "REASONING_MESSAGE_CONTENT" | "THINKING_TEXT_MESSAGE_CONTENT" => {
                texts.grow(Kind::Reasoning, event, out)
            }
            "TEXT_MESSAGE_CHUNK" => texts.chunk(Kind::Text, event, out),
            "TOOL_CALL_CHUNK" => texts.chunk(Kind::Call, event, out),
            "REASONING_MESSAGE_CHUNK" => texts.chunk(Kind::Reasoning, event, out),
            "RAW" | "SUBAGENT_STARTED" => true,
            "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" => {
                content::activity(kind, data, event.subagent, out);
                true
            }
            "REASONING_ENCRYPTED_VALUE" => texts.seal(event, out),
            _ => {
                texts.close_lane(event.subagent, out);
                self.other(kind, data, event, out)
            }
        }
    }

    /// Decodes an event of a type that ends the text or call that chunks were growing; `false` if its type is unknown
    /// or its shape is wrong.
    fn other(&mut self, kind: &str, data: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        let texts = &mut self.texts;
        match kind {
            "TEXT_MESSAGE_START" => texts.start(Kind::Text, event, out),
            "TOOL_CALL_START" => texts.start(Kind::Call, event, out),
            "REASONING_MESSAGE_START" | "THINKING_TEXT_MESSAGE_START" => {
                texts.start(Kind::Reasoning, event, out)
            }
            "TEXT_MESSAGE_END" => texts.stop(Kind::Text, event, out),
            "TOOL_CALL_END" => texts.stop(Kind::Call, event, out),
            "REASONING_MESSAGE_END" | "THINKING_TEXT_MESSAGE_END" => {
                texts.stop(Kind::Reasoning, event, out)
            }
            "TOOL_CALL_RESULT" => {
                let call = json::inner(event.tool_call_id);
                call.map(|call| texts.result(call, event.content, None, event.message_id, out))
                    .is_some()
            }
            "MESSAGES_SNAPSHOT" => {
                texts.close(out);
                self.snapshot.take(event.messages, &mut self.texts, out)
            }
            "CUSTOM" => {
                content::activity(kind, data, event.subagent, out);
                true
            }
            "RUN_STARTED" => {
                if let Some(id) = json::token(event.run_id) {
                    out.set_metadata("response_id", id);
                }
                true
            }
            "RUN_FINISHED" => {
                self.finished(event, out);
                true
            }
            "RUN_ERROR" => {
                usage::record(event.usage, out);
                self.fail(provider_error(data), out);
                true
            }
            "STEP_STARTED" | "STEP_FINISHED" | "STATE_SNAPSHOT" | "STATE_DELTA"
            | "REASONING_START" | "THINKING_START" | "REASONING_END" | "THINKING_END"
            | "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => true,
            _ => false,
        }
    }

    /// Decodes an error that does not follow the protocol; `false` if the event is not an error.
    fn foreign_error(&mut self, name: &str, data: &str, out: &mut Transcript) -> bool {
        let error = error_in(name, data);
        error.map(|error| self.fail(error, out)).is_some()
    }

    /// Records what has arrived, and ends the response as failed.
    fn fail(&mut self, error: StreamError, out: &mut Transcript) {
        self.snapshot.say(&mut self.texts, out);
        self.texts.finish_ended(out);
        out.end(Ended::Failed(error));
    }

    /// Ends the response as `RUN_FINISHED` states.
    fn finished(&mut self, event: &Event<'_>, out: &mut Transcript) {
        self.texts.close(out);
        self.snapshot.say(&mut self.texts, out);
        usage::record(event.usage, out);
        if let Some(result) = json::value(event.result) {
            out.set_metadata("run_result", &json::kept(result));
        }
        // Earlier versions sent outcomes as strings.
        let outcome = json::value(event.outcome);
        let outcome = outcome.and_then(json::read::<Outcome<'_>>);
        let word = match &outcome {
            Some(outcome) => outcome.kind,
            None => event.outcome,
        };
        let interrupts = outcome
            .as_ref()
            .and_then(|outcome| outcome.interrupts.as_ref());
        for interrupt in interrupts.into_iter().flatten() {
            record_interrupt(interrupt, out);
        }
        let (finish, ended) = match json::inner(word) {
            Some("cancelled" | "canceled") => ("\"cancelled\"", Ended::Cancelled),
            Some("interrupt") => ("\"other\"", Ended::Continues),
            _ if self.texts.waits() => ("\"tool_calls\"", Ended::Continues),
            _ => ("\"stop\"", Ended::Answered),
        };
        out.set_metadata("finish_reason", finish);
        if let Some(word) = json::token(word).filter(|word| *word != "\"success\"") {
            out.set_metadata("provider_finish_reason", word);
        }
        out.end(ended);
    }
}

/// Records a question that a run asks the user before it continues.
fn record_interrupt(interrupt: &RawValue, out: &mut Transcript) {
    let raw = json::kept(interrupt.get());
    let members = json::read::<Interrupt<'_>>(interrupt.get());
    let message = members.and_then(|members| json::token(members.message));
    let parts = match message {
        Some(message) => format!(
            r#"[{{"type":"text","text":{message}}},{{"type":"interrupt","interrupt":{raw}}}]"#
        ),
        None => format!(r#"[{{"type":"interrupt","interrupt":{raw}}}]"#),
    };
    out.whole(Role::Assistant, Channel::HitlRequest, parts);
}
