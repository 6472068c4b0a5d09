//! Sums over some of a session's messages.

use std::collections::{BTreeMap, HashSet};

use super::Spans;
use crate::library::sums::{ModelUse, Sums};
use crate::{Changes, Message, Part, PartKind, Role, ToolStatus};

/// The length of a day, in milliseconds.
pub(in crate::library) const DAY_MILLIS: i64 = 86_400_000;

/// Sums over some messages of a session.
#[derive(Debug, Clone, Default)]
pub(in crate::library) struct Tally {
    /// The sums. `sessions` and `active` stay 0; `changes` are those that tool calls and patches report.
    pub(in crate::library) sums: Sums,
    /// The time spans in which agents worked on the messages.
    pub(in crate::library) spans: Spans,
    /// The sums of each day with messages, in order. The number is that of the day, from 1970-01-01 UTC.
    pub(in crate::library) days: Box<[(i64, DaySums)]>,
}

/// The sums over the messages of one day, which consist of the same numbers as the use of a model.
pub(in crate::library) type DaySums = ModelUse;

impl Tally {
    /// Sums over `messages`.
    pub(in crate::library) fn new<'a>(messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut tally = Self::default();
        let mut days: BTreeMap<i64, DaySums> = BTreeMap::new();
        let mut changes = ChangeSum::default();
        for message in messages {
            let day = days
                .entry(message.created.div_euclid(DAY_MILLIS))
                .or_default();
            let usage = ModelUse {
                messages: 1,
                tokens: message.tokens.unwrap_or_default(),
                cost: message.cost.unwrap_or_default(),
            };
            day.add(&usage);
            tally.add(message, &usage);
            message.parts.iter().for_each(|part| changes.add(part));
        }
        tally.spans.merge();
        tally.days = days.into_iter().collect();
        tally.sums.changes = changes.sum();
        tally
    }

    /// Adds a message; `usage` are its tokens and its cost.
    fn add(&mut self, message: &Message, usage: &ModelUse) {
        let sums = &mut self.sums;
        sums.message_count += 1;
        sums.user_messages += u64::from(message.role == Role::User);
        sums.tokens.add(&usage.tokens);
        sums.cost += usage.cost;
        sums.errors += u64::from(message.error.is_some());
        if message.role == Role::Assistant {
            if let Some(agent) = &message.agent {
                update_entry(&mut sums.agents, agent, |n| *n += 1);
            }
            if let Some(model) = &message.model {
                update_entry(&mut sums.models, model, |sum| sum.add(usage));
            }
        }
        sums.part_count += message.parts.len() as u64;
        for part in &message.parts {
            update_entry(&mut sums.parts_by_type, part.kind.name(), |n| *n += 1);
            if let PartKind::Tool(tool) = &part.kind {
                update_entry(&mut sums.tools, &tool.name, |usage| {
                    usage.calls += 1;
                    usage.errors += u64::from(tool.status == ToolStatus::Error);
                });
            }
        }
        self.spans.add(message);
    }

    pub(super) fn weight(&self) -> usize {
        let sums = &self.sums;
        let counts = sums.agents.len() + sums.parts_by_type.len() + sums.tools.len();
        // The maps allocate memory in nodes of eleven entries.
        512 + 96 * counts + 160 * sums.models.len() + 64 * self.days.len() + self.spans.weight()
    }
}

/// Updates the value of a key with `update`; a new key has the default value. Copies the key only if it is new.
pub(in crate::library) fn update_entry<V: Default>(
    map: &mut BTreeMap<String, V>,
    key: &str,
    update: impl FnOnce(&mut V),
) {
    if let Some(value) = map.get_mut(key) {
        return update(value);
    }
    let mut value = V::default();
    update(&mut value);
    map.insert(key.to_owned(), value);
}

/// The changes that tool calls and patches report: the sum of all changed lines, and the number of different files.
pub(in crate::library) fn changes_of(messages: &[Message]) -> Changes {
    let mut changes = ChangeSum::default();
    let parts = messages.iter().flat_map(|m| &m.parts);
    parts.for_each(|part| changes.add(part));
    changes.sum()
}

/// Adds `more`; saturates on overflow.
pub(in crate::library) const fn add_changes(changes: &mut Changes, more: &Changes) {
    changes.additions = changes.additions.saturating_add(more.additions);
    changes.deletions = changes.deletions.saturating_add(more.deletions);
    changes.files = changes.files.saturating_add(more.files);
}

/// Sums up changes. `files` contains the files that parts name; `changes` counts the lines, and only those files that
/// are not named.
#[derive(Default)]
struct ChangeSum<'a> {
    changes: Changes,
    files: HashSet<&'a str>,
}

impl<'a> ChangeSum<'a> {
    fn add(&mut self, part: &'a Part) {
        match &part.kind {
            PartKind::Patch { files } => self.files.extend(files.iter().map(|f| &**f)),
            PartKind::Tool(tool) if tool.status == ToolStatus::Completed => {
                let mut changes = tool.changes.unwrap_or_default();
                if !tool.files.is_empty() {
                    changes.files = 0;
                    self.files.extend(tool.files.iter().map(|f| &**f));
                }
                add_changes(&mut self.changes, &changes);
            }
            _ => {}
        }
    }

    fn sum(self) -> Changes {
        let files = self.changes.files.saturating_add(self.files.len() as u64);
        Changes {
            files,
            ..self.changes
        }
    }
}
