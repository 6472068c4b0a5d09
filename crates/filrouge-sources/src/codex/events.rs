//! Reads events: failed calls, errors, and sessions that calls started. The texts of events are used only for a file
//! whose other records do not contain them.

use super::convert::{Mode, RolloutState};
use super::outputs::{fail, joined};
use crate::jsonl::{MessageBuilder, RecordInfo};
use crate::object::Object;
use crate::raw::Raw;
use crate::{MessageError, PartKind, Role};

impl RolloutState {
    pub(super) fn take_event(
        &mut self,
        builder: &mut MessageBuilder,
        event: &Object<'_>,
        number: u64,
        at: i64,
    ) {
        let kind = event.text("type").unwrap_or_default();
        match &*kind {
            "item_completed" => self.add_completed_item(builder, event, number, at),
            "user_message" | "agent_message" | "agent_reasoning" => {
                self.modes_with_text[2] = true;
                if self.mode == Mode::Events {
                    let text = event.boxed("message").or_else(|| event.boxed("text"));
                    self.add_message(builder, event, number, at, &kind, text);
                }
            }
            "exec_command_end" => {
                let failed = event.at("exit_code").json().is_some_and(|code| code != "0");
                self.mark_failed(builder, event.at("call_id"), failed);
            }
            "patch_apply_end" => {
                let failed = event.at("success").json() == Some("false");
                self.mark_failed(builder, event.at("call_id"), failed);
            }
            "collab_agent_spawn_end" => {
                if let (Some(call), Some(child)) =
                    (event.boxed("call_id"), event.boxed("new_thread_id"))
                {
                    if let Some(tool) = builder.tool(&call, None) {
                        tool.child = Some(child.clone());
                    }
                    self.children.insert(call, child);
                }
            }
            "task_started" | "turn_started" => self.answer = None,
            "task_complete" | "turn_complete" => {
                let last = self
                    .answer
                    .and_then(|index| builder.messages.get_mut(index));
                if let Some(message) = last {
                    message.finish = Some("stop".into());
                    message.completed = message.completed.max(Some(at));
                }
                self.close();
            }
            "error" | "turn_aborted" => self.add_error(builder, event, number, at, &kind),
            _ => {}
        }
    }

    /// Marks a call as failed if `failed` is true. The event can be recorded before or after the call's output.
    fn mark_failed(&mut self, builder: &mut MessageBuilder, call_id: Raw<'_>, failed: bool) {
        let Some(id) = call_id.boxed().filter(|_| failed) else {
            return;
        };
        match builder.tool(&id, None) {
            Some(tool) if tool.output.is_some() => fail(tool),
            _ => {
                self.failed.insert(id);
            }
        }
    }

    fn add_completed_item(
        &mut self,
        builder: &mut MessageBuilder,
        event: &Object<'_>,
        number: u64,
        at: i64,
    ) {
        let Some(done) = event.at("item").object() else {
            return;
        };
        let kind = done.text("type").unwrap_or_default();
        let word = match &*kind {
            "UserMessage" => "user_message",
            "AgentMessage" => "agent_message",
            "Reasoning" => "agent_reasoning",
            _ => {
                let status = done.text("status");
                let failed = matches!(status.as_deref(), Some("failed" | "declined"));
                self.mark_failed(builder, done.at("id"), failed);
                return;
            }
        };
        self.modes_with_text[1] = true;
        if self.mode == Mode::Completed {
            let texts: Option<Vec<Object<'_>>> = done.at("content").objects();
            let summary: Option<Vec<Raw<'_>>> = done.at("summary_text").list();
            let summary = summary.map(|texts| {
                let texts = texts.iter().filter_map(|text| text.text());
                texts.collect::<Vec<_>>().join("\n\n")
            });
            let text = texts.map(|pieces| joined(&pieces)).or(summary);
            self.add_message(builder, event, number, at, word, text.map(Into::into));
        }
    }

    fn add_message(
        &mut self,
        builder: &mut MessageBuilder,
        event: &Object<'_>,
        number: u64,
        at: i64,
        kind: &str,
        text: Option<Box<str>>,
    ) {
        let Some(text) = text else { return };
        let record = self.event_info(event, number, at);
        match kind {
            "user_message" => {
                self.user_spoke();
                let index = builder.begin(&record, Role::User, Some(self.agent.clone()));
                let synthetic = super::items::is_injected(None, &text);
                builder.part(index, record.id, at, PartKind::Text { text, synthetic });
            }
            "agent_reasoning" => {
                self.add_answer_part(builder, &record, PartKind::Reasoning { text });
            }
            _ => {
                let synthetic = false;
                self.add_answer_part(builder, &record, PartKind::Text { text, synthetic });
            }
        }
    }

    fn add_error(
        &mut self,
        builder: &mut MessageBuilder,
        event: &Object<'_>,
        number: u64,
        at: i64,
        kind: &str,
    ) {
        let record = self.event_info(event, number, at);
        let index = match self.answer {
            Some(index) => index,
            None => self.open_answer(builder, &record),
        };
        let text = event.boxed("message").or_else(|| event.boxed("reason"));
        let info = event.at("codex_error_info");
        // The name of the error is either this string, or the only key of this object.
        let word = info
            .boxed()
            .or_else(|| info.object()?.key().map(Into::into));
        let error = MessageError {
            name: word.unwrap_or_else(|| kind.into()),
            message: text.unwrap_or_default(),
            retryable: false,
        };
        builder.fail(index, error);
        self.close();
    }

    /// Returns the id and the time of an event, and whether it was copied from another session.
    fn event_info(&mut self, event: &Object<'_>, number: u64, at: i64) -> RecordInfo {
        let turn = event.text("turn_id");
        let copied = self.is_copy(turn.as_deref(), at);
        let id = self.unique(None, number);
        RecordInfo { id, at, copied }
    }
}
