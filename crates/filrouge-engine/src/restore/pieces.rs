//! Splits a turn's items into pieces (DESIGN §5).

use filrouge_types::{Channel, Item, JsonText, Role};

use super::content::{ContentPart, parts};
use super::plan::{Args, Block, CallResult, Content, Provider, Reasoning, Speaker};
use super::query::Unanswered;
use super::report::Disposition;
use super::sound::has_lone_surrogates;

/// One piece of an item. Variants without a value are pieces that are not shown, but may decide whether others are.
pub(super) enum Piece {
    Message(Speaker, Content),
    Thought(Reasoning),
    Call(Box<OpenCall>),
    Result(String, CallResult),
    /// A result that was attached to its call, or that was redacted. It ends the group of calls before it.
    GroupEnd,
    /// A result without a call, or a second result of a call.
    UnmatchedResult,
    /// A call of a group that was dropped.
    DroppedCall,
    /// A call with the id of an earlier call. It neither joins nor ends a group.
    DuplicateCall,
    /// A call that was redacted. Nothing identifies it any more, so its group is dropped.
    RedactedCall,
    /// A redacted item that is neither a call nor a result. The reasoning before it is dropped.
    RedactedStep,
    /// A piece that was removed and affects no other.
    Removed,
}

/// A call whose result may still be missing.
pub(super) struct OpenCall {
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) args: Args,
    pub(super) signature: Option<(Provider, JsonText)>,
    /// The result, and the index of its entry; the index is `None` for a result that no item records.
    pub(super) result: Option<(Option<usize>, CallResult)>,
}

/// A piece, with data of the item that contains it.
pub(super) struct PieceEntry {
    /// The index of the item's disposition.
    pub(super) item: usize,
    pub(super) seq: u64,
    /// Whether the item's language is not the requested one.
    pub(super) other_variant: bool,
    pub(super) piece: Piece,
}

/// The piece for a redacted item. The piece shows nothing, but pieces that depend on it are dropped. `None` if no other
/// piece depends on the item.
const fn redacted_piece(item: &Item) -> Option<Piece> {
    match &item.body.channel {
        Channel::ToolCall => Some(Piece::RedactedCall),
        Channel::ToolResult => Some(Piece::GroupEnd),
        _ if matches!(item.body.role, Role::System) => None,
        Channel::Question
        | Channel::Final
        | Channel::Plan
        | Channel::Observation
        | Channel::HitlRequest
        | Channel::HitlResponse => Some(Piece::RedactedStep),
        _ => None,
    }
}

/// The piece that a part becomes in an item of `speaker`. The error is the reason why the part is left out.
fn piece(part: ContentPart, speaker: Speaker, item: &Item) -> Result<Piece, &'static str> {
    let thought = |text, sealed| {
        Piece::Thought(Reasoning {
            seq: item.seq,
            text,
            sealed,
        })
    };
    match part {
        ContentPart::Omitted(reason) => Err(reason),
        ContentPart::Content(Content::Text(text)) if item.body.channel == Channel::Thought => {
            Ok(thought(Some(text), None))
        }
        ContentPart::Content(_) if item.body.channel == Channel::ToolResult => Err("orphan_result"),
        ContentPart::Content(content) => Ok(Piece::Message(speaker, content)),
        ContentPart::Reasoning { .. } if speaker != Speaker::Assistant => Err("reasoning_alone"),
        ContentPart::Reasoning { text, sealed } => Ok(thought(text, sealed)),
        ContentPart::Call(call) => Ok(Piece::Call(call)),
        ContentPart::Result(call_id, result) => {
            let seq = Some(item.seq);
            Ok(Piece::Result(call_id, CallResult { seq, ..result }))
        }
    }
}

/// Collects a turn's items, and builds its blocks.
pub(super) struct Shaper {
    pub(super) dispositions: Vec<Disposition>,
    pub(super) entries: Vec<PieceEntry>,
}

impl Shaper {
    pub(super) fn new(items: usize) -> Self {
        Self {
            dispositions: Vec::with_capacity(items),
            entries: Vec::with_capacity(items),
        }
    }

    /// Adds an item. `speaker` is its speaker, or the reason why the item is left out.
    pub(super) fn add_item(
        &mut self,
        item: &mut Item,
        other_variant: bool,
        speaker: Result<Speaker, &'static str>,
    ) {
        let (item_index, seq) = (self.dispositions.len(), item.seq);
        let entry = |other_variant, piece| PieceEntry {
            item: item_index,
            seq,
            other_variant,
            piece,
        };
        let mut disposition = Disposition::new(item.seq, 0, None);
        if item.redacted
            && let Some(piece) = redacted_piece(item)
        {
            self.entries.push(entry(false, piece));
        }
        let decoded = speaker.and_then(|speaker| {
            let parts = parts(&mut item.body).ok_or("malformed_parts")?;
            Ok((speaker, parts))
        });
        if has_lone_surrogates(item.body.parts.as_str()) {
            disposition.change = Some("surrogates_replaced");
        }
        match decoded {
            Err(reason) => disposition.reason = Some(reason),
            Ok((speaker, parts)) => {
                for part in parts {
                    match piece(part, speaker, item) {
                        Ok(piece) => {
                            disposition.pieces += 1;
                            self.entries.push(entry(other_variant, piece));
                        }
                        Err(reason) => {
                            disposition.reason.get_or_insert(reason);
                        }
                    }
                }
            }
        }
        self.dispositions.push(disposition);
    }

    /// Replaces a shown piece by `piece`, which is not shown, and records the reason in its item's disposition.
    pub(super) fn omit(&mut self, entry: usize, piece: Piece, reason: &'static str) {
        let entry = &mut self.entries[entry];
        entry.piece = piece;
        let disposition = &mut self.dispositions[entry.item];
        disposition.pieces = disposition.pieces.saturating_sub(1);
        disposition.reason.get_or_insert(reason);
    }

    /// Builds the turn's blocks; also returns the dispositions of the items.
    pub(super) fn into_blocks(mut self, unanswered: Unanswered) -> (Vec<Block>, Vec<Disposition>) {
        self.choose_variants();
        self.attach_results();
        self.close_groups(unanswered);
        let blocks = self.build_blocks();
        (blocks, self.dispositions)
    }
}
