//! Decodes AG-UI's events (specification 1.1, and earlier shapes): runs, texts, calls with their results, reasoning,
//! activities.
//!
//! Content that the protocol requires a reader to reject is recorded if the user may have seen it. Steps, state and raw
//! events show nothing to a user and are not recorded.

use filrouge_engine::stream::{StreamEnd, StreamError, Transcript};
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

impl super::EventDecoder for AgUi {
    fn decode_event(&mut self, name: &str, data: &str, out: &mut Transcript) {
        let known = json::read::<Event<'_>>(data).is_some_and(|event| {
            let kind = json::string_content(event.kind).unwrap_or(name);
            self.decode(kind, data, &event, out)
                || error_in(name, data).map(|e| self.fail(e, out)).is_some()
        });
        if !known {
            out.unknown(data);
        }
    }

    /// Records what a run that was cut off has left: its only content may be a snapshot. Without a terminal event, the
    /// response does not end here.
    fn end(&mut self, out: &mut Transcript) {
        self.snapshot.record_pending(&mut self.texts, out);
        self.texts.finish_ended(out);
    }
}

impl AgUi {
    /// Decodes an event; `false` if its type is unknown or its shape is wrong.
    fn decode(&mut self, kind: &str, data: &str, event: &Event<'_>, out: &mut Transcript) -> bool {
        let texts = &mut self.texts;
        match kind {
            "TEXT_MESSAGE_CONTENT" => texts.add_text(Kind::Text, event, out),
            "TOOL_CALL_ARGS" => texts.add_text(Kind::Call, event, out),
            "REASONING_MESSAGE_CONTENT" | "THINKING_TEXT_MESSAGE_CONTENT" => {
                texts.add_text(Kind::Reasoning, event, out)
            }
            "TEXT_MESSAGE_CHUNK" => texts.add_chunk(Kind::Text, event, out),
            "TOOL_CALL_CHUNK" => texts.add_chunk(Kind::Call, event, out),
            "REASONING_MESSAGE_CHUNK" => texts.add_chunk(Kind::Reasoning, event, out),
            "RAW" | "SUBAGENT_STARTED" => true,
            "ACTIVITY_SNAPSHOT" | "ACTIVITY_DELTA" => {
                content::record_activity(kind, data, event.subagent, out);
                true
            }
            "REASONING_ENCRYPTED_VALUE" => texts.record_seal(event, out),
            _ => {
                texts.close_lane(event.subagent, out);
                self.decode_boundary_event(kind, data, event, out)
            }
        }
    }

    /// Decodes an event of a type that ends the text or call that chunks were growing; `false` if its type is unknown
    /// or its shape is wrong.
    fn decode_boundary_event(
        &mut self,
        kind: &str,
        data: &str,
        event: &Event<'_>,
        out: &mut Transcript,
    ) -> bool {
        let texts = &mut self.texts;
        match kind {
            "TEXT_MESSAGE_START" => texts.start(Kind::Text, event, out),
            "TOOL_CALL_START" => texts.start(Kind::Call, event, out),
            "REASONING_MESSAGE_START" | "THINKING_TEXT_MESSAGE_START" => {
                texts.start(Kind::Reasoning, event, out)
            }
            "TEXT_MESSAGE_END" => texts.end(Kind::Text, event, out),
            "TOOL_CALL_END" => texts.end(Kind::Call, event, out),
            "REASONING_MESSAGE_END" | "THINKING_TEXT_MESSAGE_END" => {
                texts.end(Kind::Reasoning, event, out)
            }
            "TOOL_CALL_RESULT" => {
                let call = json::string_content(event.tool_call_id);
                call.map(|call| {
                    texts.record_result(call, event.content, None, event.message_id, out);
                })
                .is_some()
            }
            "MESSAGES_SNAPSHOT" => {
                texts.close(out);
                self.snapshot.decode(event.messages, &mut self.texts, out)
            }
            "CUSTOM" => {
                content::record_activity(kind, data, event.subagent, out);
                true
            }
            "RUN_STARTED" => {
                json::set_metadata_string(out, "response_id", event.run_id);
                true
            }
            "RUN_FINISHED" => {
                self.finish_run(event, out);
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

    /// Records what has arrived, and ends the response as failed.
    fn fail(&mut self, error: StreamError, out: &mut Transcript) {
        self.snapshot.record_pending(&mut self.texts, out);
        self.texts.finish_ended(out);
        out.end(StreamEnd::Failed(error));
    }

    /// Ends the response as `RUN_FINISHED` states.
    fn finish_run(&mut self, event: &Event<'_>, out: &mut Transcript) {
        self.texts.close(out);
        self.snapshot.record_pending(&mut self.texts, out);
        usage::record(event.usage, out);
        json::set_metadata([("run_result", event.result)], out);
        // Earlier versions sent outcomes as strings.
        let outcome = json::non_null(event.outcome);
        let outcome = outcome.and_then(json::read::<Outcome<'_>>);
        let outcome_word = match &outcome {
            Some(outcome) => outcome.kind,
            None => event.outcome,
        };
        let interrupts = outcome
            .as_ref()
            .and_then(|outcome| outcome.interrupts.as_ref());
        for interrupt in interrupts.into_iter().flatten() {
            record_interrupt(interrupt, out);
        }
        let (finish, end) = match json::string_content(outcome_word) {
            Some("cancelled" | "canceled") => ("\"cancelled\"", StreamEnd::Cancelled),
            Some("interrupt") => ("\"other\"", StreamEnd::Continues),
            _ if self.texts.has_open_calls() => ("\"tool_calls\"", StreamEnd::Continues),
            _ => ("\"stop\"", StreamEnd::Answered),
        };
        out.set_metadata("finish_reason", finish);
        if let Some(word) = json::string_token(outcome_word).filter(|word| *word != "\"success\"") {
            out.set_metadata("provider_finish_reason", word);
        }
        out.end(end);
    }
}

/// Records a question that a run asks the user before it continues.
fn record_interrupt(interrupt: &RawValue, out: &mut Transcript) {
    let raw = json::storable(interrupt.get());
    let members = json::read::<Interrupt<'_>>(interrupt.get());
    let message = members.and_then(|members| json::string_token(members.message));
    let parts = match message {
        Some(message) => format!(
            r#"[{{"type":"text","text":{message}}},{{"type":"interrupt","interrupt":{raw}}}]"#
        ),
        None => format!(r#"[{{"type":"interrupt","interrupt":{raw}}}]"#),
    };
    out.add_item(Role::Assistant, Channel::HitlRequest, parts);
}
