//! One turn's items to its blocks: what goes to a model, in an order that every provider takes (DESIGN §5).

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::TurnRow;
use filrouge_types::{Channel, Item, JsonText, Role, TurnStatus, Variant};

use super::pieces::Shaper;
use super::plan::{Block, Mark, Pair, PlanTurn, Say, Speaker};
use super::query::Unanswered;
use super::report::Fate;

/// A turn, shaped; without blocks when nothing of it is for a model.
pub(super) struct Shaped {
    pub(super) turn: PlanTurn,
    pub(super) fates: Vec<Fate>,
}

impl Shaped {
    /// A turn that shows nothing.
    pub(super) const fn empty(row: &TurnRow, fates: Vec<Fate>) -> Self {
        Self {
            turn: PlanTurn {
                turn_id: row.turn_id,
                status: row.status,
                blocks: Vec::new(),
                pair: None,
            },
            fates,
        }
    }
}

/// Drops all items of a turn for one reason.
pub(super) fn drop_all(items: &[Item], reason: &'static str) -> Vec<Fate> {
    let fate = |item: &Item| {
        let reason = if item.redacted { "redacted" } else { reason };
        Fate::new(item.seq, 0, Some(reason))
    };
    items.iter().map(fate).collect()
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
            shaper.keep(item);
        } else {
            let (other_variant, shown) = (item.body.variant != wanted, view.shown(item));
            shaper.take(item, other_variant, shown);
        }
    }
    let (mut blocks, mut fates) = shaper.blocks(unanswered);
    if let Some(kind) = ending(row.status) {
        if blocks.iter().any(|b| !is_note(b)) {
            blocks.push(Block::Say(Say::mark(kind, mark)));
        } else if let Some(fate) = fates.iter_mut().find(|f| Some(f.seq) == mark) {
            (fate.pieces, fate.reason) = (0, Some("nothing_to_end"));
        }
    }
    let mut shaped = Shaped::empty(row, fates);
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

/// The item that tells how the turn ended without an answer: the last of its kind, unless it was redacted.
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

/// Who says what stands in a channel; `None` for channels that are not for a model.
fn speaker(item: &Item) -> Result<Speaker, &'static str> {
    let by_role = match item.body.role {
        Role::User => Speaker::User,
        Role::Assistant => Speaker::Assistant,
        Role::System => Speaker::System,
        // What a tool says outside a result is something the agent was given to read.
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

/// The items of the other language that have their like in the one asked for: of each role and channel the first with
/// the first, the second with the second. What was redacted counts as there, or its translation would tell it. Calls and
/// answers are told apart by their ids instead.
fn doubled(items: &[Item], wanted: Variant) -> BTreeSet<u64> {
    let paired = |i: &&Item| !matches!(i.body.channel, Channel::ToolCall | Channel::ToolResult);
    let mut there: BTreeMap<(Role, &Channel), usize> = BTreeMap::new();
    for item in items
        .iter()
        .filter(paired)
        .filter(|i| i.body.variant == wanted)
    {
        *there
            .entry((item.body.role, &item.body.channel))
            .or_default() += 1;
    }
    let mut doubled = BTreeSet::new();
    for item in items
        .iter()
        .filter(paired)
        .filter(|i| i.body.variant != wanted)
    {
        if let Some(left) = there.get_mut(&(item.body.role, &item.body.channel))
            && *left > 0
        {
            *left -= 1;
            doubled.insert(item.seq);
        }
    }
    doubled
}

/// Which of a turn's items stand for the others.
struct View {
    /// Items of the other language whose like is there in the one asked for.
    doubled: BTreeSet<u64>,
    /// The seq of the last answer; what was shown before it was a part of it.
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

    /// Whether an item is for a model at all, and in whose words.
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

/// The question and the answer of a finalized turn as they were recorded, and nothing else of it.
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
    let question = question.and_then(said);
    let answer = answer.and_then(said);
    let whole = question.is_some() && answer.is_some();
    let mut fates = drop_all(items, if whole { "not_in_format" } else { "no_text" });
    let mut shaped = Shaped::empty(row, Vec::new());
    if let (Some(question), Some(answer)) = (question, answer) {
        for said in [&question, &answer] {
            let fate = |f: &&mut Fate| f.seq == said.seq;
            if let Some(fate) = fates.iter_mut().find(fate) {
                (fate.pieces, fate.reason) = (1, said.rest);
            }
        }
        shaped.turn.pair = Some(Pair {
            question: question.text,
            answer: answer.text,
        });
    }
    shaped.fates = fates;
    shaped
}

/// The text of a question or an answer.
struct Said {
    seq: u64,
    text: JsonText,
    /// What is told of parts that are no text, if there are any.
    rest: Option<&'static str>,
}

fn said(item: &Item) -> Option<Said> {
    let (text, rest) = item.body.text_and_rest()?;
    Some(Said {
        seq: item.seq,
        text,
        rest: rest.then_some("not_in_format"),
    })
}
