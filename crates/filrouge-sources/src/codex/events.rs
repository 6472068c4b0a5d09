//! Reads events: failed calls, errors, and sessions that calls started. The texts of events are used only for a file
//! whose other records do not contain them.

use super::convert::{Mode, RolloutState};
use super::outputs::{join_texts, set_output};
use crate::jsonl::RecordInfo;
use crate::object::Object;
use crate::raw::Raw;
use crate::{MessageError, PartKind, Role};

impl RolloutState {
    /// Reads an event. `number` is the line's number, `at` its time.
    pub(super) fn read_event(&mut self, event: &Object<'_>, number: u64, at: i64) {
        let kind = event.text("type").unwrap_or_default();
        match &*kind {
            "item_completed" => self.add_completed_item(event, number, at),
            "user_message" | "agent_message" | "agent_reasoning" => {
                self.modes_with_text[Mode::Events as usize] = true;
                if self.mode == Mode::Events {
                    let text = event.boxed("message").or_else(|| event.boxed("text"));
                    self.add_message(event, number, at, &kind, text);
                }
            }
            "exec_command_end" => {
                let failed = event.get("exit_code").is_some_and(|code| code != "0");
                self.mark_failed(event.field("call_id"), failed);
            }
            "patch_apply_end" => {
                let failed = event.field("success").json() == Some("false");
                self.mark_failed(event.field("call_id"), failed);
            }
            "collab_agent_spawn_end" => {
                if let (Some(call), Some(child)) =
                    (event.boxed("call_id"), event.boxed("new_thread_id"))
                {
                    if let Some(tool) = self.builder.tool_mut(&call, None) {
                        tool.child = Some(child.clone());
                    }
                    self.child_by_call.insert(call, child);
                }
            }
            "task_started" | "turn_started" => self.current_answer = None,
            "task_complete" | "turn_complete" => {
                if let Some(index) = self.current_answer {
                    let message = &mut self.builder.messages[index];
                    message.finish = Some("stop".into());
                    message.completed = message.completed.max(Some(at));
                }
                self.open_message = None;
            }
            "error" | "turn_aborted" => self.add_error(event, number, at, &kind),
            _ => {}
        }
    }

    /// Marks a call as failed if `failed` is true. The event can be recorded before or after the call's output.
    fn mark_failed(&mut self, call_id: Raw<'_>, failed: bool) {
        let Some(id) = call_id.boxed().filter(|_| failed) else {
            return;
        };
        let tool = self.builder.tool_mut(&id, None);
        // The output becomes the call's error.
        match tool.and_then(|tool| Some((tool.output.take()?, tool))) {
            Some((text, tool)) => set_output(tool, text, true),
            None => {
                self.failed_calls.insert(id);
            }
        }
    }

    fn add_completed_item(&mut self, event: &Object<'_>, number: u64, at: i64) {
        let Some(item) = event.field("item").object() else {
            return;
        };
        let kind = item.text("type").unwrap_or_default();
        let name = match &*kind {
            "UserMessage" => "user_message",
            "AgentMessage" => "agent_message",
            "Reasoning" => "agent_reasoning",
            _ => {
                let status = item.text("status");
                let failed = matches!(status.as_deref(), Some("failed" | "declined"));
                self.mark_failed(item.field("id"), failed);
                return;
            }
        };
        self.modes_with_text[Mode::Completed as usize] = true;
        if self.mode == Mode::Completed {
            let texts: Option<Vec<Object<'_>>> = item.field("content").objects();
            let summary: Option<Vec<Raw<'_>>> = item.field("summary_text").list();
            let summary = summary.map(|texts| {
                let texts = texts.iter().filter_map(|text| text.text());
                texts.collect::<Vec<_>>().join("\n\n")
            });
            let text = texts.map(|pieces| join_texts(&pieces)).or(summary);
            self.add_message(event, number, at, name, text.map(Into::into));
        }
    }

    fn add_message(
        &mut self,
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
                self.end_answer();
                let agent = Some(self.agent.clone());
                let index = self.builder.add_message(&record, Role::User, agent);
                let synthetic = super::items::is_injected(None, &text);
                let kind = PartKind::Text { text, synthetic };
                self.builder.add_part(index, &record, 0, kind);
            }
            "agent_reasoning" => {
                self.add_answer_part(&record, PartKind::Reasoning { text });
            }
            _ => {
                let synthetic = false;
                self.add_answer_part(&record, PartKind::Text { text, synthetic });
            }
        }
    }

    fn add_error(&mut self, event: &Object<'_>, number: u64, at: i64, kind: &str) {
        let record = self.event_info(event, number, at);
        let current = self.current_answer;
        let index = current.unwrap_or_else(|| self.open_or_begin_answer(&record));
        let text = event.boxed("message").or_else(|| event.boxed("reason"));
        let info = event.field("codex_error_info");
        // The name of the error is either this string, or the only key of this object.
        let name = info
            .boxed()
            .or_else(|| info.object()?.first_key().map(Into::into));
        self.builder.messages[index].error = Some(MessageError {
            name: name.unwrap_or_else(|| kind.into()),
            message: text.unwrap_or_default(),
            retryable: false,
        });
        self.open_message = None;
    }

    /// Returns the id and the time of an event, and whether it was copied from another session.
    fn event_info(&mut self, event: &Object<'_>, number: u64, at: i64) -> RecordInfo {
        self.record_info(None, event.text("turn_id").as_deref(), number, at)
    }
}
