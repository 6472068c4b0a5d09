//! Shapes one turn's items into blocks for a model, in an order that every provider accepts (DESIGN §5).

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::TurnRow;
use filrouge_types::{Channel, Item, JsonText, Role, TurnStatus, Variant};

use super::pieces::Shaper;
use super::plan::{Block, Mark, Pair, PlanTurn, Say, Speaker};
use super::query::Unanswered;
use super::report::Disposition;

/// A shaped turn; it has no blocks if nothing of it is for a model.
pub(super) struct Shaped {
    pub(super) turn: PlanTurn,
    pub(super) dispositions: Vec<Disposition>,
}

impl Shaped {
    /// A turn without anything to show.
    pub(super) const fn empty(row: &TurnRow, dispositions: Vec<Disposition>) -> Self {
        Self {
            turn: PlanTurn {
                turn_id: row.turn_id,
                status: row.status,
                blocks: Vec::new(),
                pair: None,
            },
            dispositions,
        }
    }
}

/// The dispositions that drop all items of a turn for `reason`; redacted items have the reason `redacted` instead.
pub(super) fn drop_all(items: &[Item], reason: &'static str) -> Vec<Disposition> {
    let disposition = |item: &Item| {
        let reason = if item.redacted { "redacted" } else { reason };
        Disposition::new(item.seq, 0, Some(reason))
    };
    items.iter().map(disposition).collect()
}

/// Shapes a turn that is neither replaced nor redacted.
pub(super) fn shape(
    row: &TurnRow,
    mut items: Vec<Item>,
    wanted: Variant,
    unanswered: Unanswered,
) -> Shaped {
    let mut shaper = Shaper::new(items.len());
    let mark = mark_item(row.status, &items);
    let view = View::new(row, &items, wanted);
    for item in &mut items {
        if mark == Some(item.seq) {
            shaper.add_ending(item);
        } else {
            let (other_variant, shown) = (item.body.variant != wanted, view.shown(item));
            shaper.add_item(item, other_variant, shown);
        }
    }
    let (mut blocks, mut dispositions) = shaper.blocks(unanswered);
    if let Some(kind) = ending(row.status) {
        if blocks.iter().any(|b| !is_note(b)) {
            blocks.push(Block::Say(Say::mark(kind, mark)));
        } else if let Some(disposition) = dispositions.iter_mut().find(|f| Some(f.seq) == mark) {
            (disposition.pieces, disposition.reason) = (0, Some("nothing_to_end"));
        }
    }
    let mut shaped = Shaped::empty(row, dispositions);
    shaped.turn.blocks = blocks;
    shaped
}

const fn is_note(block: &Block) -> bool {
    matches!(
        block,
        Block::Say(Say {
            speaker: Speaker::System,
            ..
        })
    )
}

/// The item that records how the turn ended without an answer: the last of its kind, unless it was redacted.
fn mark_item(status: TurnStatus, items: &[Item]) -> Option<u64> {
    let channel = match status {
        TurnStatus::Failed => Channel::Error,
        TurnStatus::Cancelled => Channel::Cancelled,
        TurnStatus::Interrupted => Channel::Interrupted,
        TurnStatus::Open | TurnStatus::Finalized => return None,
    };
    let last = items.iter().rfind(|i| i.body.channel == channel)?;
    (!last.redacted).then_some(last.seq)
}

const fn ending(status: TurnStatus) -> Option<Mark> {
    match status {
        TurnStatus::Failed => Some(Mark::Failed),
        TurnStatus::Cancelled => Some(Mark::Cancelled),
        TurnStatus::Interrupted => Some(Mark::Interrupted),
        TurnStatus::Open | TurnStatus::Finalized => None,
    }
}

/// The speaker of an item. The error is the reason why items of this channel are left out.
fn speaker(item: &Item) -> Result<Speaker, &'static str> {
    let by_role = match item.body.role {
        Role::User => Speaker::User,
        Role::Assistant => Speaker::Assistant,
        Role::System => Speaker::System,
        // A tool's text outside a result is input for the agent.
        Role::Tool => Speaker::User,
    };
    match item.body.channel {
        Channel::Question
        | Channel::Final
        | Channel::Partial
        | Channel::Plan
        | Channel::Observation
        | Channel::ToolCall
        | Channel::ToolResult => Ok(by_role),
        Channel::Thought => Ok(Speaker::Assistant),
        Channel::HitlRequest => Ok(Speaker::Assistant),
        Channel::HitlResponse => Ok(Speaker::User),
        Channel::SystemNote => Ok(Speaker::System),
        Channel::Error => Err("error"),
        Channel::Summary => Err("summary_not_needed"),
        Channel::Interrupted | Channel::Cancelled | Channel::Link | Channel::Redaction => {
            Err("bookkeeping")
        }
        Channel::Other(_) => Err("unknown_channel"),
    }
}

/// The items of the other language that have a counterpart in the requested one. Items of the same role and channel are
/// matched in order. A redacted item counts as a counterpart, because showing its translation would reveal it. Calls
/// and results are excluded: they are matched by id elsewhere.
fn doubled(items: &[Item], wanted: Variant) -> BTreeSet<u64> {
    let paired = |i: &&Item| !matches!(i.body.channel, Channel::ToolCall | Channel::ToolResult);
    let mut wanted_counts: BTreeMap<(Role, &Channel), usize> = BTreeMap::new();
    for item in items
        .iter()
        .filter(paired)
        .filter(|i| i.body.variant == wanted)
    {
        *wanted_counts
            .entry((item.body.role, &item.body.channel))
            .or_default() += 1;
    }
    let mut doubled = BTreeSet::new();
    for item in items
        .iter()
        .filter(paired)
        .filter(|i| i.body.variant != wanted)
    {
        if let Some(left) = wanted_counts.get_mut(&(item.body.role, &item.body.channel))
            && *left > 0
        {
            *left -= 1;
            doubled.insert(item.seq);
        }
    }
    doubled
}

/// Decides which of a turn's items are shown.
struct View {
    /// Items of the other language with a counterpart in the requested one.
    doubled: BTreeSet<u64>,
    /// The seq of the last answer, which contains the partial answers before it. The maximum for a finalized turn, 0 if
    /// there is no answer.
    answer: u64,
}

impl View {
    fn new(row: &TurnRow, items: &[Item], wanted: Variant) -> Self {
        let answer = match row.status {
            TurnStatus::Finalized => u64::MAX,
            _ => row.finals.into_iter().max().unwrap_or_default(),
        };
        Self {
            doubled: doubled(items, wanted),
            answer,
        }
    }

    /// The speaker of an item. The error is the reason why the item is left out.
    fn shown(&self, item: &Item) -> Result<Speaker, &'static str> {
        if item.redacted {
            Err("redacted")
        } else if self.doubled.contains(&item.seq) {
            Err("other_variant")
        } else if item.body.channel == Channel::Partial && item.seq < self.answer {
            Err("superseded")
        } else {
            speaker(item)
        }
    }
}

/// Shapes a finalized turn into its question and answer as recorded, and nothing else.
pub(super) fn pair(row: &TurnRow, items: &[Item], variant: Variant) -> Shaped {
    let question = items.iter().find(|i| {
        i.body.role == Role::User
            && i.body.channel == Channel::Question
            && i.body.variant == variant
            && !i.redacted
    });
    let last = row.finals[variant.slot()];
    let answer = items
        .iter()
        .find(|i| last != 0 && i.seq == last && !i.redacted);
    let question = question.and_then(item_text);
    let answer = answer.and_then(item_text);
    let complete = question.is_some() && answer.is_some();
    let mut dispositions = drop_all(items, if complete { "not_in_format" } else { "no_text" });
    let mut shaped = Shaped::empty(row, Vec::new());
    if let (Some(question), Some(answer)) = (question, answer) {
        for shown in [&question, &answer] {
            let disposition = |f: &&mut Disposition| f.seq == shown.seq;
            if let Some(disposition) = dispositions.iter_mut().find(disposition) {
                (disposition.pieces, disposition.reason) = (1, shown.rest);
            }
        }
        shaped.turn.pair = Some(Pair {
            question: question.text,
            answer: answer.text,
        });
    }
    shaped.dispositions = dispositions;
    shaped
}

/// The text of a question or an answer.
struct ItemText {
    seq: u64,
    text: JsonText,
    /// The change to report if the item also has parts other than text, which are left out.
    rest: Option<&'static str>,
}

fn item_text(item: &Item) -> Option<ItemText> {
    let (text, rest) = item.body.text_and_rest()?;
    Some(ItemText {
        seq: item.seq,
        text,
        rest: rest.then_some("not_in_format"),
    })
}
