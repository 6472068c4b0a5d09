//! Builds a conversation while its file is read.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::object::Refusal;
use crate::{
    Boundary, Conversation, Message, Part, PartKind, Role, SkipReason, Skipped, TokenRule, Tool,
};

/// The maximum number of skipped lines that are reported individually for each reason, and of unknown kinds of records
/// that are counted separately. The others of each kind are only counted together.
const REPORTED_MAX: usize = 20;

/// The position of a part: the index of its message in the order of the file, and its index in that message.
pub(crate) type PartPosition = (usize, usize);

/// The facts about a record (a line of the file) that its message and its parts share.
#[derive(Clone)]
pub(crate) struct RecordInfo {
    pub(crate) id: Box<str>,
    /// The time of the record, in milliseconds since 1970.
    pub(crate) at: i64,
    /// [`Message::copied`].
    pub(crate) copied: bool,
}

impl RecordInfo {
    /// The id of the record's part at `index`: the record's own id for the first part, with the index appended for all
    /// others.
    pub(crate) fn part_id(&self, index: usize) -> Box<str> {
        match index {
            0 => self.id.clone(),
            index => format!("{}-{index}", self.id).into(),
        }
    }
}

/// The part of a conversation that has been read so far. Messages are in the order of the file, and [`Message::seq`] is
/// the position in that order.
#[derive(Default)]
pub(crate) struct MessageBuilder {
    pub(crate) messages: Vec<Message>,
    /// Positions of tool calls, by call id.
    pub(crate) calls: HashMap<Box<str>, PartPosition>,
    /// Compactions in the order of the file; [`Boundary::at`] is an index in that order until [`Self::finish`].
    boundaries: Vec<Boundary>,
    skipped: Vec<Skipped>,
    /// The number of skipped lines for each reason.
    skipped_lines: BTreeMap<SkipReason, usize>,
    /// The number of records of each unknown kind.
    unknown_kinds: BTreeMap<Box<str>, usize>,
}

impl MessageBuilder {
    /// Adds the message of a record, without parts, and returns its index.
    pub(crate) fn add_message(
        &mut self,
        record: &RecordInfo,
        role: Role,
        agent: Option<Box<str>>,
    ) -> usize {
        let index = self.messages.len();
        self.messages.push(Message {
            completed: Some(record.at),
            seq: Some(index as u64),
            agent,
            copied: record.copied,
            ..Message::new(record.id.clone(), role, record.at)
        });
        index
    }

    /// Adds the record's part at `index` to a message.
    pub(crate) fn add_part(
        &mut self,
        message: usize,
        record: &RecordInfo,
        index: usize,
        kind: PartKind,
    ) {
        let owner = &mut self.messages[message];
        let position = (message, owner.parts.len());
        if let PartKind::Tool(tool) = &kind {
            self.calls.insert(tool.call_id.clone(), position);
        }
        let end = (!matches!(kind, PartKind::Tool(_))).then_some(record.at);
        owner.parts.push(Part {
            id: record.part_id(index),
            seq: None,
            start: Some(record.at),
            end,
            kind,
        });
    }

    /// Adds a compaction that dropped the messages before `message`, the message of the record: a part with the
    /// summary, and a boundary. The message itself is the summary if [`Message::summary`] is set.
    pub(crate) fn add_compaction(
        &mut self,
        message: usize,
        record: &RecordInfo,
        created: i64,
        automatic: Option<bool>,
        summary: Option<Box<str>>,
    ) {
        self.boundaries.push(Boundary {
            at: message,
            created,
            automatic,
            summary_id: self.messages[message].summary.then(|| record.id.clone()),
        });
        let automatic = automatic.unwrap_or(false);
        let kind = PartKind::Compaction { automatic, summary };
        self.add_part(message, record, 0, kind);
    }

    /// Returns the tool call with this id, so that the caller can change it; `None` if no such call was read. Sets the
    /// end of the call's part to `ended`, if given.
    pub(crate) fn tool_mut(&mut self, call_id: &str, ended: Option<i64>) -> Option<&mut Tool> {
        let (message, part) = *self.calls.get(call_id)?;
        let part = &mut self.messages[message].parts[part];
        part.end = ended.or(part.end);
        match &mut part.kind {
            PartKind::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Reports a line of the file `path` that was left out.
    pub(crate) fn report_skipped(&mut self, path: &Path, line: u64, (reason, detail): Refusal) {
        let count = self.skipped_lines.entry(reason).or_insert(0);
        *count += 1;
        if *count <= REPORTED_MAX {
            let detail = format!("line {line}: {detail}");
            self.skipped.push(Skipped::new(path, reason, detail));
        }
    }

    /// Counts a record of an unknown kind.
    pub(crate) fn count_unknown(&mut self, kind: &str) {
        if let Some(count) = self.unknown_kinds.get_mut(kind) {
            *count += 1;
        } else if self.unknown_kinds.len() < REPORTED_MAX {
            let short = kind.chars().take(64).collect::<String>();
            *self.unknown_kinds.entry(short.into()).or_insert(0) += 1;
        } else {
            *self.unknown_kinds.entry("others".into()).or_insert(0) += 1;
        }
    }

    /// Returns the conversation of the file `path` with its messages ordered by time; a message's `seq` is still its
    /// position in the file.
    pub(crate) fn finish(mut self, path: &Path, token_rule: TokenRule) -> Conversation {
        self.complete_answers();
        self.report_counts(path);
        let order = |m: &Message| (m.created, m.seq);
        if !self.messages.is_sorted_by_key(order) {
            self.messages.sort_by_key(order);
        }
        for boundary in &mut self.boundaries {
            let seq = Some(boundary.at as u64);
            let index = self.messages.iter().position(|m| m.seq == seq);
            boundary.at = index.unwrap_or(self.messages.len());
        }
        self.boundaries.sort_by_key(|b| (b.at, b.created));
        self.skipped.sort();
        Conversation {
            messages: self.messages,
            boundaries: self.boundaries,
            reverted_at: None,
            token_rule,
            skipped: self.skipped,
        }
    }

    /// Sets the completion time of each message of the agent to the latest end of its parts, if that is later. The
    /// agent's last message stays unfinished while one of its tool calls is open.
    fn complete_answers(&mut self) {
        let last = self
            .messages
            .iter()
            .rposition(|m| m.role == Role::Assistant);
        for (index, message) in self.messages.iter_mut().enumerate() {
            if message.role != Role::Assistant {
                continue;
            }
            let ends = message.parts.iter().filter_map(|part| part.end);
            message.completed = ends.chain(message.completed).max();
            if Some(index) == last && message.parts.iter().any(is_open) {
                message.completed = None;
            }
        }
    }

    /// Adds reports of the lines and records that were only counted.
    fn report_counts(&mut self, path: &Path) {
        for (reason, count) in &self.skipped_lines {
            if let Some(more) = count.checked_sub(REPORTED_MAX).filter(|more| *more > 0) {
                let detail = format!("{more} more lines");
                self.skipped.push(Skipped::new(path, *reason, detail));
            }
        }
        for (kind, count) in &self.unknown_kinds {
            let detail = format!("{count} records of kind {kind:?}");
            let reason = SkipReason::UnknownKind;
            self.skipped.push(Skipped::new(path, reason, detail));
        }
    }
}

fn is_open(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Tool(tool) if tool.status.is_open())
}
