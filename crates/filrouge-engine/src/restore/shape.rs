//! Shapes one turn's items into blocks for a model, in an order that every provider accepts (DESIGN §5).

use std::collections::{BTreeMap, BTreeSet};

use filrouge_store::rows::TurnRow;
use filrouge_types::{Channel, Item, JsonText, Role, TurnStatus, Variant};

use super::pieces::Shaper;
use super::plan::{Block, Mark, Message, Pair, PlanTurn, Speaker};
use super::query::Unanswered;
use super::report::Disposition;

/// A turn shaped into blocks, which may be none, and the dispositions of its items.
pub(super) struct ShapedTurn {
    pub(super) turn: PlanTurn,
    pub(super) dispositions: Vec<Disposition>,
}

impl ShapedTurn {
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
    requested: Variant,
    unanswered: Unanswered,
) -> ShapedTurn {
    let mut shaper = Shaper::new(items.len());
    let (mark, ending) = ending_of(row.status, &items).unzip();
    let ending = ending.flatten();
    let with_counterpart = items_with_counterpart(&items, requested);
    // The seq of the last answer: the maximum for a finalized turn, 0 without an answer.
    let last_answer = match row.status {
        TurnStatus::Finalized => u64::MAX,
        _ => row.finals.into_iter().max().unwrap_or_default(),
    };
    for item in &mut items {
        if ending == Some(item.seq) {
            // The item has no piece: a mark is appended to the turn's blocks instead.
            let disposition = Disposition::new(item.seq, 1, None);
            shaper.dispositions.push(disposition);
        } else {
            let other_variant = item.body.variant != requested;
            let speaker = if item.redacted {
                Err("redacted")
            } else if with_counterpart.contains(&item.seq) {
                Err("other_variant")
            } else if item.body.channel == Channel::Partial && item.seq < last_answer {
                // The answer contains the partial answers before it.
                Err("superseded")
            } else {
                speaker(item)
            };
            shaper.add_item(item, other_variant, speaker);
        }
    }
    let (mut blocks, mut dispositions) = shaper.into_blocks(unanswered);
    let is_system =
        |b: &Block| matches!(b, Block::Message(message) if message.speaker == Speaker::System);
    let has_words = !blocks.iter().all(is_system);
    if let Some(mark) = mark {
        if has_words {
            blocks.push(Block::Message(Message::mark(mark, ending)));
        } else if let Some(disposition) = dispositions.iter_mut().find(|f| Some(f.seq) == ending) {
            (disposition.pieces, disposition.reason) = (0, Some("nothing_to_end"));
        }
    } else if has_words && let Some(answer) = redacted_answer(row.status, &items, &dispositions) {
        let after = blocks.iter().position(|b| first_seq(b) > Some(answer));
        let mark = Block::Message(Message::mark(Mark::Redacted, None));
        blocks.insert(after.unwrap_or(blocks.len()), mark);
    }
    let mut shaped = ShapedTurn::empty(row, dispositions);
    shaped.turn.blocks = blocks;
    shaped
}

/// The mark of a turn that ended without an answer, and the seq of the item that records it: the last item of that
/// channel. The seq is `None` if the item was redacted.
fn ending_of(status: TurnStatus, items: &[Item]) -> Option<(Mark, Option<u64>)> {
    let (channel, mark) = match status {
        TurnStatus::Failed => (Channel::Error, Mark::Failed),
        TurnStatus::Cancelled => (Channel::Cancelled, Mark::Cancelled),
        TurnStatus::Interrupted => (Channel::Interrupted, Mark::Interrupted),
        TurnStatus::Open | TurnStatus::Finalized => return None,
    };
    let last = items.iter().rfind(|i| i.body.channel == channel);
    Some((mark, last.filter(|i| !i.redacted).map(|i| i.seq)))
}

/// The seq of a finalized turn's answer that was redacted; `None` if an answer is shown, or none was redacted.
fn redacted_answer(
    status: TurnStatus,
    items: &[Item],
    dispositions: &[Disposition],
) -> Option<u64> {
    let is_shown = |item: &Item| {
        dispositions
            .iter()
            .any(|d| d.seq == item.seq && d.pieces > 0)
    };
    let mut answers = items.iter().filter(|i| i.body.channel == Channel::Final);
    if status != TurnStatus::Finalized || answers.clone().any(is_shown) {
        return None;
    }
    answers.rfind(|i| i.redacted).map(|i| i.seq)
}

/// The seq of a block's first item; `None` for a mark that no item records.
fn first_seq(block: &Block) -> Option<u64> {
    match block {
        Block::Message(message) => message.seq,
        Block::Calls(calls) => calls.calls.first().map(|call| call.seq),
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
fn items_with_counterpart(items: &[Item], requested: Variant) -> BTreeSet<u64> {
    let items_where = |is_requested: bool| {
        items.iter().filter(move |i| {
            let by_id = matches!(i.body.channel, Channel::ToolCall | Channel::ToolResult);
            !by_id && (i.body.variant == requested) == is_requested
        })
    };
    let mut wanted_counts: BTreeMap<(Role, &Channel), usize> = BTreeMap::new();
    for item in items_where(true) {
        *wanted_counts
            .entry((item.body.role, &item.body.channel))
            .or_default() += 1;
    }
    let mut matched = BTreeSet::new();
    for item in items_where(false) {
        if let Some(left) = wanted_counts.get_mut(&(item.body.role, &item.body.channel))
            && *left > 0
        {
            *left -= 1;
            matched.insert(item.seq);
        }
    }
    matched
}

/// Shapes a finalized turn into its question and answer as recorded, and nothing else.
pub(super) fn pair(row: &TurnRow, items: &[Item], variant: Variant) -> ShapedTurn {
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
    let mut shaped = ShapedTurn::empty(row, Vec::new());
    if let (Some(question), Some(answer)) = (question, answer) {
        for (seq, _, change) in [&question, &answer] {
            if let Some(disposition) = dispositions.iter_mut().find(|f| f.seq == *seq) {
                (disposition.pieces, disposition.reason) = (1, *change);
            }
        }
        shaped.turn.pair = Some(Pair {
            question: question.1,
            answer: answer.1,
        });
    }
    shaped.dispositions = dispositions;
    shaped
}

/// The seq and the text of a question or an answer, and the change to report if the item also has other parts than text,
/// which are left out.
fn item_text(item: &Item) -> Option<(u64, JsonText, Option<&'static str>)> {
    let (text, has_other_parts) = item.body.text_and_rest()?;
    let change = has_other_parts.then_some("not_in_format");
    Some((item.seq, text, change))
}
