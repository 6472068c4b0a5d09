//! Lines to messages and parts.
//!
//! | record | becomes |
//! |---|---|
//! | `user`, text or blocks | a message of the user; what the program put in is synthetic |
//! | `user`, `tool_result` | output or error of the tool part of its call |
//! | `assistant`, all with one `message.id` | one message; its usage once, the largest numbers told |
//! | `system/compact_boundary` and the `isCompactSummary` behind it | a boundary; a message with a compaction part |
//! | `system/microcompact_boundary` | `pruned` of the tools it names |
//! | `system`, with text | a message of the program |
//! | `attachment/queued_command` | a message of the user, typed while the agent was at work |
//! | `cost-state` | what the cost has grown by, with the agent's last message |
//!
//! Branches (prompts that were edited) stay, in the order of their times.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Context;
use super::compaction::Compaction;
use super::group::Group;
use super::parts::{
    api_error, blocks_of, is_no_person, largest, no_message, prune, trigger_of, user_part,
};
use super::record::is_aside;
use super::results::{agent_of, changes_of, text_of};
use crate::jsonl::{Place, Reader, Talk};
use crate::object::{Object, Refusal};
use crate::{PartKind, Role, SkipReason, Tool, ToolStatus};

/// What has to be remembered from line to line.
pub(crate) struct Lines {
    /// The id that records of this session have.
    own: Box<str>,
    agent: Box<str>,
    group: Arc<Group>,
    /// Records that were read.
    seen: HashSet<Box<str>>,
    /// Messages of the agent by their ids.
    answers: HashMap<Box<str>, usize>,
    last_answer: Option<usize>,
    cost: f64,
    /// A compaction whose summary has not come yet.
    pub(super) compaction: Option<Compaction>,
    last_time: i64,
}

impl Lines {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            own: context.records_of.clone(),
            agent: context.agent.clone(),
            group: context.group.clone(),
            seen: HashSet::new(),
            answers: HashMap::new(),
            last_answer: None,
            cost: 0.0,
            compaction: None,
            last_time: 0,
        }
    }

    fn place(&mut self, one: &Object<'_>, number: u64) -> Place {
        let at = one.at("timestamp").time().unwrap_or(self.last_time);
        self.last_time = self.last_time.max(at);
        let id = one.boxed("uuid");
        let other = |session: Cow<'_, str>| *session != *self.own;
        Place {
            id: id.unwrap_or_else(|| format!("line-{number}").into()),
            at,
            copied: one.text("sessionId").is_some_and(other) || one.has("forkedFrom"),
        }
    }

    fn said(&mut self, talk: &mut Talk, one: &Object<'_>, place: &Place) -> Result<(), Refusal> {
        let said = one.at("message").object().ok_or_else(no_message)?;
        let blocks = blocks_of(said.at("content"));
        if one.is_true("isCompactSummary") {
            self.summary(talk, one, place, &blocks);
            return Ok(());
        }
        let mut message = None;
        for (index, block) in blocks.iter().enumerate() {
            if block.text("type").as_deref() == Some("tool_result") {
                self.result(talk, one, place, index, block);
                continue;
            }
            let at = *message.get_or_insert_with(|| self.message(talk, one, place, Role::User));
            let aside = one.is_true("isMeta") || is_no_person(one.at("origin"));
            talk.part(at, place.part(index), place.at, user_part(block, aside));
        }
        if blocks.is_empty() {
            self.message(talk, one, place, Role::User);
        }
        Ok(())
    }

    pub(super) fn message(
        &self,
        talk: &mut Talk,
        one: &Object<'_>,
        place: &Place,
        role: Role,
    ) -> usize {
        let agent = (role != Role::System).then(|| self.agent_of(one));
        let index = talk.begin(place, role, agent);
        if let Some(message) = talk.messages.get_mut(index) {
            message.parent_id = one.boxed("parentUuid");
        }
        index
    }

    fn agent_of(&self, one: &Object<'_>) -> Box<str> {
        let side = one.is_true("isSidechain") && *self.agent == *super::AGENT;
        let named = one.boxed("attributionAgent");
        named.unwrap_or_else(|| {
            if side {
                "subagent".into()
            } else {
                self.agent.clone()
            }
        })
    }

    fn result(
        &mut self,
        talk: &mut Talk,
        one: &Object<'_>,
        place: &Place,
        index: usize,
        block: &Object<'_>,
    ) {
        let call_id = block
            .boxed("tool_use_id")
            .unwrap_or_else(|| place.part(index));
        if !talk.calls.contains_key(&call_id) {
            // The call was in a line that is lost; its result is not.
            let at = self.message(talk, one, place, Role::Assistant);
            let lost = Tool::call(call_id.clone(), "unknown".into(), "null".into());
            talk.part(
                at,
                place.part(index),
                place.at,
                PartKind::Tool(Box::new(lost)),
            );
        }
        let told = one.at("toolUseResult").object().unwrap_or_default();
        let Some(tool) = talk.tool(&call_id, Some(place.at)) else {
            return;
        };
        let text = Some(text_of(block.at("content")));
        if block.is_true("is_error") {
            (tool.status, tool.error) = (ToolStatus::Error, text);
        } else {
            (tool.status, tool.output) = (ToolStatus::Completed, text);
        }
        tool.child = agent_of(&told)
            .map(|stem| self.group.id_of(stem))
            .or_else(|| tool.child.take());
        if let Some((changes, file)) = changes_of(&told) {
            tool.changes = Some(changes);
            tool.files = vec![file];
        }
    }

    fn answered(
        &mut self,
        talk: &mut Talk,
        one: &Object<'_>,
        place: &Place,
    ) -> Result<(), Refusal> {
        let said = one.at("message").object().ok_or_else(no_message)?;
        let id = said.boxed("id").unwrap_or_else(|| place.id.clone());
        let index = match self.answers.get(&id) {
            Some(index) => *index,
            None => {
                let index = self.message(talk, one, place, Role::Assistant);
                if let Some(message) = talk.messages.get_mut(index) {
                    message.id = id.clone();
                }
                self.answers.insert(id, index);
                index
            }
        };
        self.last_answer = Some(index);
        for (at, block) in blocks_of(said.at("content")).iter().enumerate() {
            let kind = self.answer_part(block, place, at);
            talk.part(index, place.part(at), place.at, kind);
        }
        if let Some(message) = talk.messages.get_mut(index) {
            message.completed = message.completed.max(Some(place.at));
            message.finish = said.boxed("stop_reason").or_else(|| message.finish.take());
            message.model = said.boxed("model").filter(|m| !m.starts_with('<'));
            message.cost = one.at("costUSD").float().or(message.cost);
            if let Some(usage) = said.at("usage").object() {
                message.tokens = Some(largest(message.tokens, &usage));
            }
        }
        if one.is_true("isApiErrorMessage") {
            talk.fail(index, api_error(one, &said));
        }
        Ok(())
    }

    fn answer_part(&self, block: &Object<'_>, place: &Place, at: usize) -> PartKind {
        match block.text("type").as_deref() {
            Some("thinking") => PartKind::Reasoning {
                text: block.text("thinking").unwrap_or_default().into(),
            },
            Some("redacted_thinking") => PartKind::Reasoning { text: "".into() },
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let id = block.boxed("id").unwrap_or_else(|| place.part(at));
                let name = block.boxed("name").unwrap_or_else(|| "unknown".into());
                let input = block.at("input").json().unwrap_or("null");
                let mut tool = Tool::call(id, name, input.into());
                tool.child = self.group.by_call.get(&tool.call_id).cloned();
                PartKind::Tool(Box::new(tool))
            }
            _ => user_part(block, false),
        }
    }

    fn system(&mut self, talk: &mut Talk, one: &Object<'_>, place: &Place, line: &str) {
        let subtype = one.text("subtype").unwrap_or_default();
        match &*subtype {
            "compact_boundary" => {
                self.bare_boundary(talk);
                self.compaction = Some(Compaction {
                    id: place.id.clone(),
                    at: place.at,
                    automatic: trigger_of(one.at("compactMetadata")).as_deref() == Some("auto"),
                });
            }
            "microcompact_boundary" => prune(talk, one.at("microcompactMetadata"), place.at),
            _ => {
                let kind = match one.boxed("content") {
                    Some(text) => PartKind::Text {
                        text,
                        synthetic: true,
                    },
                    None if subtype == "api_error" => PartKind::Other {
                        name: "api_error".into(),
                        json: line.into(),
                    },
                    // How long a turn took, what hooks did.
                    None => return,
                };
                let index = self.message(talk, one, place, Role::System);
                talk.part(index, place.part(0), place.at, kind);
            }
        }
    }

    fn queued(&mut self, talk: &mut Talk, one: &Object<'_>, place: &Place) {
        let Some(queued) = one.at("attachment").object() else {
            return;
        };
        if queued.text("type").as_deref() != Some("queued_command") {
            return;
        }
        let blocks = blocks_of(queued.at("prompt"));
        if blocks.is_empty() {
            return;
        }
        let index = self.message(talk, one, place, Role::User);
        let aside = queued
            .text("commandMode")
            .is_some_and(|mode| mode != "prompt");
        for (at, block) in blocks.iter().enumerate() {
            talk.part(index, place.part(at), place.at, user_part(block, aside));
        }
    }

    /// The program tells the sum of the session so far; what it has grown by is of the message before.
    fn cost(&mut self, talk: &mut Talk, one: &Object<'_>) {
        let own = one.text("sessionId").is_none_or(|id| *id == *self.own);
        let (Some(total), true) = (one.at("totalCostUSD").float(), own) else {
            return;
        };
        let grown = if total < self.cost {
            total
        } else {
            total - self.cost
        };
        self.cost = total;
        let last = self.last_answer.and_then(|at| talk.messages.get_mut(at));
        if let Some(message) = last.filter(|_| grown > 0.0) {
            message.cost = Some(message.cost.unwrap_or(0.0) + grown);
        }
    }
}

impl Reader for Lines {
    fn line(&mut self, talk: &mut Talk, number: u64, line: &str) -> Result<(), Refusal> {
        let one = Object::parse(line)?;
        let Some(kind) = one.text("type") else {
            let detail = "type is absent or no text";
            return Err((SkipReason::BadField, detail.to_owned()));
        };
        if is_aside(&one, &kind) {
            return Ok(());
        }
        match &*kind {
            "user" | "assistant" | "system" | "attachment" => {}
            "cost-state" => {
                self.cost(talk, &one);
                return Ok(());
            }
            kind => {
                talk.unknown(kind);
                return Ok(());
            }
        }
        let place = self.place(&one, number);
        if !self.seen.insert(place.id.clone()) {
            let detail = "a record with this uuid was read before";
            return Err((SkipReason::DuplicateId, detail.to_owned()));
        }
        match &*kind {
            "user" => self.said(talk, &one, &place),
            "assistant" => self.answered(talk, &one, &place),
            "system" => {
                self.system(talk, &one, &place, line);
                Ok(())
            }
            _ => {
                self.queued(talk, &one, &place);
                Ok(())
            }
        }
    }

    fn end(mut self, talk: &mut Talk) -> Option<Self> {
        self.bare_boundary(talk);
        None
    }
}
