//! Events: verdicts on calls, errors, sessions that were started; texts where nothing else has them.

use super::outputs::{fail, joined};
use super::talk::{Lines, Mode};
use crate::jsonl::{Place, Talk};
use crate::object::Object;
use crate::raw::Raw;
use crate::{MessageError, PartKind, Role};

impl Lines {
    pub(super) fn take_event(&mut self, talk: &mut Talk, event: &Object<'_>, number: u64, at: i64) {
        let kind = event.text("type").unwrap_or_default();
        match &*kind {
            "item_completed" => self.completed(talk, event, number, at),
            "user_message" | "agent_message" | "agent_reasoning" => {
                self.seen[2] = true;
                if self.mode == Mode::Events {
                    let text = event.boxed("message").or_else(|| event.boxed("text"));
                    self.said(talk, event, number, at, &kind, text);
                }
            }
            "exec_command_end" => {
                let failed = event.at("exit_code").json().is_some_and(|code| code != "0");
                self.verdict(talk, event.at("call_id"), failed);
            }
            "patch_apply_end" => {
                let failed = event.at("success").json() == Some("false");
                self.verdict(talk, event.at("call_id"), failed);
            }
            "collab_agent_spawn_end" => {
                if let (Some(call), Some(child)) =
                    (event.boxed("call_id"), event.boxed("new_thread_id"))
                {
                    if let Some(tool) = talk.tool(&call, None) {
                        tool.child = Some(child.clone());
                    }
                    self.children.insert(call, child);
                }
            }
            "task_started" | "turn_started" => self.answer = None,
            "task_complete" | "turn_complete" => {
                let last = self.answer.and_then(|index| talk.messages.get_mut(index));
                if let Some(message) = last {
                    message.finish = Some("stop".into());
                    message.completed = message.completed.max(Some(at));
                }
                self.close();
            }
            "error" | "turn_aborted" => self.failed(talk, event, number, at, &kind),
            _ => {}
        }
    }

    /// A call has failed, as the program says. The event can come before the output and behind it.
    fn verdict(&mut self, talk: &mut Talk, call_id: Raw<'_>, failed: bool) {
        let Some(id) = call_id.boxed().filter(|_| failed) else {
            return;
        };
        match talk.tool(&id, None) {
            Some(tool) if tool.output.is_some() => fail(tool),
            _ => {
                self.failed.insert(id);
            }
        }
    }

    fn completed(&mut self, talk: &mut Talk, event: &Object<'_>, number: u64, at: i64) {
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
                self.verdict(talk, done.at("id"), failed);
                return;
            }
        };
        self.seen[1] = true;
        if self.mode == Mode::Completed {
            let texts: Option<Vec<Object<'_>>> = done.at("content").objects();
            let summary: Option<Vec<Raw<'_>>> = done.at("summary_text").list();
            let summary = summary.map(|texts| {
                let texts = texts.iter().filter_map(|text| text.text());
                texts.collect::<Vec<_>>().join("\n\n")
            });
            let text = texts.map(|pieces| joined(&pieces)).or(summary);
            self.said(talk, event, number, at, word, text.map(Into::into));
        }
    }

    fn said(
        &mut self,
        talk: &mut Talk,
        event: &Object<'_>,
        number: u64,
        at: i64,
        kind: &str,
        text: Option<Box<str>>,
    ) {
        let Some(text) = text else { return };
        let place = self.event_place(event, number, at);
        match kind {
            "user_message" => {
                self.spoken();
                let index = talk.begin(&place, Role::User, Some(self.agent.clone()));
                let synthetic = super::items::is_put_in(None, &text);
                talk.part(index, place.id, at, PartKind::Text { text, synthetic });
            }
            "agent_reasoning" => self.wrote(talk, &place, PartKind::Reasoning { text }),
            _ => {
                let synthetic = false;
                self.wrote(talk, &place, PartKind::Text { text, synthetic });
            }
        }
    }

    fn failed(&mut self, talk: &mut Talk, event: &Object<'_>, number: u64, at: i64, kind: &str) {
        let place = self.event_place(event, number, at);
        let index = match self.answer {
            Some(index) => index,
            None => self.answer(talk, &place),
        };
        let text = event.boxed("message").or_else(|| event.boxed("reason"));
        let info = event.at("codex_error_info");
        // A word, or an object with the word as its only key.
        let word = info
            .boxed()
            .or_else(|| info.object()?.key().map(Into::into));
        let error = MessageError {
            name: word.unwrap_or_else(|| kind.into()),
            message: text.unwrap_or_default(),
            retryable: false,
        };
        talk.fail(index, error);
        self.close();
    }

    fn event_place(&mut self, event: &Object<'_>, number: u64, at: i64) -> Place {
        let turn = event.text("turn_id");
        let copied = self.is_copy(turn.as_deref(), at);
        let id = self.unique(None, number);
        Place { id, at, copied }
    }
}
