//! Converts records to messages and parts.
//!
//! | record | becomes |
//! |---|---|
//! | `user`, text or blocks | a message of the user; text that the program injected is synthetic |
//! | `user`, `tool_result` | the output or error of its call's tool part |
//! | `assistant`, all with one `message.id` | one message; of the usages in its records, the largest numbers are kept |
//! | `system/compact_boundary` and the `isCompactSummary` after it | a boundary; a message with a compaction part |
//! | `system/microcompact_boundary` | `pruned` of the tools it names |
//! | `system`, with text | a message of the program |
//! | `attachment/queued_command` | a message of the user, typed while the agent was working |
//! | `cost-state` | the increase of the cost, which is added to the agent's last message |
//!
//! Branches (edited prompts) are kept, in the order of their times.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Context;
use super::agents::SessionAgents;
use super::compaction::PendingCompaction;
use super::parts::{
    api_error, blocks_of, is_from_program, mark_pruned, merge_usage, missing_message, user_part,
};
use super::record::is_outside_conversation;
use super::results::{agent_of, changes_of, text_of};
use crate::jsonl::{LineReader, MessageBuilder, RecordInfo};
use crate::object::{Object, Result};
use crate::{PartKind, Role, SkipReason, Tool, ToolStatus};

/// The state of reading a session, carried from line to line.
#[derive(Default)]
pub(crate) struct RecordState {
    pub(super) builder: MessageBuilder,
    /// The session id in this session's own records; a record with another id is a copy.
    session_id: Box<str>,
    agent: Box<str>,
    /// The agents of this session or, if this session is an agent, of its parent.
    agents: Arc<SessionAgents>,
    /// The ids of the records that were read.
    record_ids: HashSet<Box<str>>,
    /// The agent's messages, as positions among all messages, by message id.
    answers: HashMap<Box<str>, usize>,
    /// The position of the agent's newest message.
    last_answer: Option<usize>,
    /// The session's total cost, as last recorded.
    cost: f64,
    /// A compaction whose summary has not been read yet.
    pub(super) compaction: Option<PendingCompaction>,
    /// The latest time that was read: a record without a time gets it.
    last_time: i64,
}

impl RecordState {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            session_id: context.recorded_id.clone(),
            agent: context.agent.clone(),
            agents: context.agents.clone(),
            ..Self::default()
        }
    }

    /// Returns the id and the time of a record, and whether it was copied from another session.
    fn record_info(&mut self, json: &Object<'_>, number: u64) -> RecordInfo {
        let at = json.field("timestamp").time().unwrap_or(self.last_time);
        self.last_time = self.last_time.max(at);
        let id = json.boxed("uuid");
        let is_other = |session: Cow<'_, str>| *session != *self.session_id;
        RecordInfo {
            id: id.unwrap_or_else(|| format!("line-{number}").into()),
            at,
            copied: json.text("sessionId").is_some_and(is_other) || json.has("forkedFrom"),
        }
    }

    fn add_user_record(&mut self, json: &Object<'_>, record: &RecordInfo) -> Result<()> {
        let message = json.field("message").object().ok_or_else(missing_message)?;
        let blocks = blocks_of(message.field("content"));
        if json.is_true("isCompactSummary") {
            self.add_summary(json, record, &blocks);
            return Ok(());
        }
        let mut message = None;
        for (index, block) in blocks.iter().enumerate() {
            if block.text("type").as_deref() == Some("tool_result") {
                self.add_result(json, record, index, block);
                continue;
            }
            let at = *message.get_or_insert_with(|| self.add_message(json, record, Role::User));
            let synthetic = json.is_true("isMeta") || is_from_program(json.field("origin"));
            let kind = user_part(block, synthetic);
            self.builder.add_part(at, record, index, kind);
        }
        if blocks.is_empty() {
            self.add_message(json, record, Role::User);
        }
        Ok(())
    }

    pub(super) fn add_message(
        &mut self,
        json: &Object<'_>,
        record: &RecordInfo,
        role: Role,
    ) -> usize {
        let agent = (role != Role::System).then(|| self.agent_of(json));
        let index = self.builder.add_message(record, role, agent);
        self.builder.messages[index].parent_id = json.boxed("parentUuid");
        index
    }

    fn agent_of(&self, json: &Object<'_>) -> Box<str> {
        let is_subagent = json.is_true("isSidechain") && *self.agent == *super::AGENT;
        let agent = Some("subagent").filter(|_| is_subagent);
        let named = json.boxed("attributionAgent");
        named.unwrap_or_else(|| agent.unwrap_or(&self.agent).into())
    }

    fn add_result(
        &mut self,
        json: &Object<'_>,
        record: &RecordInfo,
        index: usize,
        block: &Object<'_>,
    ) {
        let call_id = block
            .boxed("tool_use_id")
            .unwrap_or_else(|| record.part_id(index));
        if !self.builder.calls.contains_key(&call_id) {
            // The call's record is missing, but its result exists.
            let at = self.add_message(json, record, Role::Assistant);
            let call = Tool::call(call_id.clone(), "unknown".into(), "null".into());
            let kind = PartKind::Tool(Box::new(call));
            self.builder.add_part(at, record, index, kind);
        }
        let tool_result = json.field("toolUseResult").object().unwrap_or_default();
        let Some(tool) = self.builder.tool_mut(&call_id, Some(record.at)) else {
            return;
        };
        let text = Some(text_of(block.field("content")));
        if block.is_true("is_error") {
            (tool.status, tool.error) = (ToolStatus::Error, text);
        } else {
            (tool.status, tool.output) = (ToolStatus::Completed, text);
        }
        tool.child = agent_of(&tool_result)
            .map(|stem| self.agents.id_of(stem))
            .or_else(|| tool.child.take());
        if let Some((changes, file)) = changes_of(&tool_result) {
            tool.changes = Some(changes);
            tool.files = vec![file];
        }
    }

    fn add_assistant_record(&mut self, json: &Object<'_>, record: &RecordInfo) -> Result<()> {
        let answer = json.field("message").object().ok_or_else(missing_message)?;
        let id = answer.boxed("id").unwrap_or_else(|| record.id.clone());
        let index = match self.answers.get(&id) {
            Some(index) => *index,
            None => {
                let index = self.add_message(json, record, Role::Assistant);
                self.builder.messages[index].id = id.clone();
                self.answers.insert(id, index);
                index
            }
        };
        self.last_answer = Some(index);
        for (at, block) in blocks_of(answer.field("content")).iter().enumerate() {
            let kind = self.answer_part(block, record, at);
            self.builder.add_part(index, record, at, kind);
        }
        let message = &mut self.builder.messages[index];
        message.completed = message.completed.max(Some(record.at));
        let finish = answer.boxed("stop_reason");
        message.finish = finish.or_else(|| message.finish.take());
        message.model = answer.boxed("model").filter(|m| !m.starts_with('<'));
        message.cost = json.field("costUSD").float().or(message.cost);
        if let Some(usage) = answer.field("usage").object() {
            message.tokens = Some(merge_usage(message.tokens, &usage));
        }
        if json.is_true("isApiErrorMessage") {
            message.error = Some(api_error(json, &answer));
        }
        Ok(())
    }

    fn answer_part(&self, block: &Object<'_>, record: &RecordInfo, at: usize) -> PartKind {
        match block.text("type").as_deref() {
            Some("thinking") => PartKind::Reasoning {
                text: block.text("thinking").unwrap_or_default().into(),
            },
            Some("redacted_thinking") => PartKind::Reasoning { text: "".into() },
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let id = block.boxed("id").unwrap_or_else(|| record.part_id(at));
                let name = block.boxed("name").unwrap_or_else(|| "unknown".into());
                let input = block.field("input").json().unwrap_or("null");
                let mut tool = Tool::call(id, name, input.into());
                tool.child = self.agents.by_call.get(&tool.call_id).cloned();
                PartKind::Tool(Box::new(tool))
            }
            _ => user_part(block, false),
        }
    }

    fn add_system_record(&mut self, json: &Object<'_>, record: &RecordInfo, line: &str) {
        let subtype = json.text("subtype").unwrap_or_default();
        match &*subtype {
            "compact_boundary" => {
                self.add_boundary_without_summary();
                let metadata = json.field("compactMetadata").object().unwrap_or_default();
                self.compaction = Some(PendingCompaction {
                    record: RecordInfo {
                        copied: false,
                        ..record.clone()
                    },
                    automatic: metadata.text("trigger").as_deref() == Some("auto"),
                });
            }
            "microcompact_boundary" => {
                let metadata = json.field("microcompactMetadata");
                mark_pruned(&mut self.builder, metadata, record.at);
            }
            _ => {
                let kind = match json.boxed("content") {
                    Some(text) => PartKind::Text {
                        text,
                        synthetic: true,
                    },
                    None if subtype == "api_error" => PartKind::Other {
                        name: "api_error".into(),
                        json: line.into(),
                    },
                    // Records without text are the durations of turns and reports of hooks.
                    None => return,
                };
                let index = self.add_message(json, record, Role::System);
                self.builder.add_part(index, record, 0, kind);
            }
        }
    }

    fn add_queued_prompt(&mut self, json: &Object<'_>, record: &RecordInfo) {
        let queued = json.field("attachment").object().unwrap_or_default();
        let blocks = blocks_of(queued.field("prompt"));
        if blocks.is_empty() {
            return;
        }
        let index = self.add_message(json, record, Role::User);
        let synthetic = queued
            .text("commandMode")
            .is_some_and(|mode| mode != "prompt");
        for (at, block) in blocks.iter().enumerate() {
            let kind = user_part(block, synthetic);
            self.builder.add_part(index, record, at, kind);
        }
    }

    /// Adds the increase of the session's total cost to the agent's newest message, because the program records only
    /// the total. If the total has become smaller, it was reset, and the new total is the increase.
    fn add_cost(&mut self, json: &Object<'_>) {
        let is_own = json
            .text("sessionId")
            .is_none_or(|id| *id == *self.session_id);
        let (Some(total), true) = (json.field("totalCostUSD").float(), is_own) else {
            return;
        };
        let counted = if total < self.cost { 0.0 } else { self.cost };
        let increase = total - counted;
        self.cost = total;
        if let Some(at) = self.last_answer.filter(|_| increase > 0.0) {
            let cost = &mut self.builder.messages[at].cost;
            *cost = Some(cost.unwrap_or(0.0) + increase);
        }
    }
}

impl LineReader for RecordState {
    fn builder(&mut self) -> &mut MessageBuilder {
        &mut self.builder
    }

    fn read_line(&mut self, number: u64, line: &str) -> Result<()> {
        let json = Object::parse(line)?;
        let Some(kind) = json.text("type") else {
            let detail = "type is absent or no text";
            return Err((SkipReason::BadField, detail.to_owned()));
        };
        if is_outside_conversation(&json, &kind) {
            return Ok(());
        }
        match &*kind {
            "user" | "assistant" | "system" | "attachment" => {}
            "cost-state" => {
                self.add_cost(&json);
                return Ok(());
            }
            kind => {
                self.builder.count_unknown(kind);
                return Ok(());
            }
        }
        let record = self.record_info(&json, number);
        if !self.record_ids.insert(record.id.clone()) {
            let detail = "a record with this uuid was read before";
            return Err((SkipReason::DuplicateId, detail.to_owned()));
        }
        match &*kind {
            "user" => self.add_user_record(&json, &record)?,
            "assistant" => self.add_assistant_record(&json, &record)?,
            "system" => self.add_system_record(&json, &record, line),
            _ => self.add_queued_prompt(&json, &record),
        }
        Ok(())
    }

    fn finish(&mut self) -> Option<Self> {
        self.add_boundary_without_summary();
        None
    }
}
