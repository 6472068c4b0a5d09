//! Splits a turn's items into pieces (DESIGN §5).

use filrouge_types::{Channel, Item, JsonText, Role};

use super::content::{ContentPart, parts};
use super::plan::{Args, Block, CallResult, Content, Provider, Reasoning, Speaker};
use super::query::Unanswered;
use super::report::Disposition;
use super::sound::has_lone_surrogates;

/// One piece of an item. Most variants without a value are pieces that are no longer shown, but still affect others.
pub(super) enum Piece {
    Said(Speaker, Content),
    Thought(Reasoning),
    Call(Box<OpenCall>),
    Result(String, CallResult),
    /// A result that was attached to its call, or that was redacted: it ends the group of calls before it.
    Answered,
    /// A result without a call.
    Stray,
    /// A call of a group that was dropped.
    GroupGone,
    /// A repetition of an earlier call: it neither joins nor ends a group.
    Repeated,
    /// A call that was redacted. Nothing identifies it any more, so its group is dropped.
    RedactedCall,
    /// A redacted item that is neither a call nor a result: the reasoning before it is dropped.
    RedactedStep,
    /// A piece that was removed and affects no other.
    Gone,
}

/// A call whose result may still be missing.
pub(super) struct OpenCall {
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) args: Args,
    pub(super) signature: Option<(Provider, JsonText)>,
    /// The index of the atom that contained the result, `None` if no result was recorded; and the result.
    pub(super) result: Option<(Option<usize>, CallResult)>,
}

/// A piece with the item that it is from.
pub(super) struct Atom {
    /// The index of the item's disposition.
    pub(super) item: usize,
    pub(super) seq: u64,
    /// Whether the item's language is not the requested one.
    pub(super) other_variant: bool,
    pub(super) piece: Piece,
}

impl Atom {
    const fn new(at: usize, item: &Item, other_variant: bool, piece: Piece) -> Self {
        Self {
            item: at,
            seq: item.seq,
            other_variant,
            piece,
        }
    }
}

/// The piece for a redacted item. The piece shows nothing, but pieces that depend on it are dropped. `None` if no other
/// piece depends on the item.
const fn redacted(item: &Item) -> Option<Piece> {
    match (&item.body.channel, item.body.role) {
        (Channel::ToolCall, _) => Some(Piece::RedactedCall),
        (Channel::ToolResult, _) => Some(Piece::Answered),
        (_, Role::System) => None,
        (
            Channel::Question
            | Channel::Final
            | Channel::Plan
            | Channel::Observation
            | Channel::HitlRequest
            | Channel::HitlResponse,
            _,
        ) => Some(Piece::RedactedStep),
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
        ContentPart::Nothing(reason) => Err(reason),
        ContentPart::Content(Content::Text(text)) if item.body.channel == Channel::Thought => {
            Ok(thought(Some(text), None))
        }
        ContentPart::Content(_) if item.body.channel == Channel::ToolResult => Err("orphan_result"),
        ContentPart::Content(content) => Ok(Piece::Said(speaker, content)),
        ContentPart::Reasoning { .. } if speaker != Speaker::Assistant => Err("reasoning_alone"),
        ContentPart::Reasoning { text, sealed } => Ok(thought(text, sealed)),
        ContentPart::Call {
            call_id,
            name,
            args,
            signature,
        } => Ok(Piece::Call(Box::new(OpenCall {
            call_id,
            name,
            args,
            signature,
            result: None,
        }))),
        ContentPart::Result {
            call_id,
            ok,
            content,
        } => {
            let seq = Some(item.seq);
            Ok(Piece::Result(call_id, CallResult { seq, ok, content }))
        }
    }
}

/// Collects a turn's items, and builds its blocks.
pub(super) struct Shaper {
    pub(super) dispositions: Vec<Disposition>,
    pub(super) atoms: Vec<Atom>,
}

impl Shaper {
    pub(super) fn new(items: usize) -> Self {
        Self {
            dispositions: Vec::with_capacity(items),
            atoms: Vec::with_capacity(items),
        }
    }

    /// Adds the item that records how the turn ended. It has no piece here; its turn's last block is a
    /// [`Mark`](super::plan::Mark).
    pub(super) fn add_ending(&mut self, item: &Item) {
        self.dispositions.push(Disposition::new(item.seq, 1, None));
    }

    /// Adds an item. `speaker` is its speaker, or the reason why the item is left out.
    pub(super) fn add_item(
        &mut self,
        item: &mut Item,
        other_variant: bool,
        speaker: Result<Speaker, &'static str>,
    ) {
        let at = self.dispositions.len();
        let mut disposition = Disposition::new(item.seq, 0, None);
        if item.redacted
            && let Some(piece) = redacted(item)
        {
            self.atoms.push(Atom::new(at, item, false, piece));
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
                            self.atoms.push(Atom::new(at, item, other_variant, piece));
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

    /// Replaces a shown piece by `piece`, which is not shown, and notes the reason for its item.
    pub(super) fn omit(&mut self, atom: usize, piece: Piece, reason: &'static str) {
        let atom = &mut self.atoms[atom];
        atom.piece = piece;
        let disposition = &mut self.dispositions[atom.item];
        disposition.pieces = disposition.pieces.saturating_sub(1);
        disposition.reason.get_or_insert(reason);
    }

    /// The blocks, and the dispositions of the items.
    pub(super) fn blocks(mut self, unanswered: Unanswered) -> (Vec<Block>, Vec<Disposition>) {
        self.choose_variants();
        self.answer_calls();
        self.close_groups(unanswered);
        let blocks = self.in_order();
        (blocks, self.dispositions)
    }
}
