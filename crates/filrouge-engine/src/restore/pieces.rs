//! A turn's items as pieces (DESIGN §5).

use filrouge_types::{Channel, Item, JsonText, Role};

use super::content::{Part, parts};
use super::plan::{Args, Block, CallResult, Content, Provider, Reasoning, Speaker};
use super::query::Unanswered;
use super::report::Fate;
use super::sound::has_lone_surrogates;

/// One piece of an item.
pub(super) enum Piece {
    Said(Speaker, Content),
    Thought(Reasoning),
    Call(Box<OpenCall>),
    Result(String, CallResult),
    /// A result that its call has taken, or one that was redacted: it ends the step that calls were made in.
    Answered,
    /// A result that no call takes.
    Stray,
    /// A call of a group that is left out.
    GroupGone,
    /// A call that was there already: the step that it was repeated in says nothing by it.
    Repeated,
    /// A call that was redacted: nothing is left to say which, so its group goes.
    RedactedCall,
    /// Something else of the agent's that was redacted: what it was thought for goes with it.
    RedactedStep,
    Gone,
}

pub(super) struct OpenCall {
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) args: Args,
    pub(super) signature: Option<(Provider, JsonText)>,
    /// The answer, and which atom it was.
    pub(super) result: Option<(Option<usize>, CallResult)>,
}

pub(super) struct Atom {
    /// Index of its item's fate.
    pub(super) item: usize,
    pub(super) seq: u64,
    /// Whether it is in another language than the one asked for.
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

/// What a redacted item leaves behind: nothing to show, but what belongs to it goes as well.
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

/// What a part is in an item of `speaker`; a part that is not for a model tells why.
fn piece(part: Part, speaker: Speaker, item: &Item) -> Result<Piece, &'static str> {
    let thought = |text, sealed| {
        Piece::Thought(Reasoning {
            seq: item.seq,
            text,
            sealed,
        })
    };
    match part {
        Part::Nothing(reason) => Err(reason),
        Part::Content(Content::Text(text)) if item.body.channel == Channel::Thought => {
            Ok(thought(Some(text), None))
        }
        Part::Content(_) if item.body.channel == Channel::ToolResult => Err("orphan_result"),
        Part::Content(content) => Ok(Piece::Said(speaker, content)),
        Part::Reasoning { .. } if speaker != Speaker::Assistant => Err("reasoning_alone"),
        Part::Reasoning { text, sealed } => Ok(thought(text, sealed)),
        Part::Call {
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
        Part::Result {
            call_id,
            ok,
            answer,
        } => {
            let seq = Some(item.seq);
            Ok(Piece::Result(call_id, CallResult { seq, ok, answer }))
        }
    }
}

/// Takes a turn's items one by one and gives its blocks.
pub(super) struct Shaper {
    pub(super) fates: Vec<Fate>,
    pub(super) atoms: Vec<Atom>,
}

impl Shaper {
    pub(super) fn new(items: usize) -> Self {
        Self {
            fates: Vec::with_capacity(items),
            atoms: Vec::with_capacity(items),
        }
    }

    /// Takes an item that filrouge speaks for.
    pub(super) fn keep(&mut self, item: &Item) {
        self.fates.push(Fate::new(item.seq, 1, None));
    }

    /// Takes an item with its speaker, or with the reason why it is left out.
    pub(super) fn take(
        &mut self,
        item: &mut Item,
        other_variant: bool,
        read: Result<Speaker, &'static str>,
    ) {
        let at = self.fates.len();
        let mut fate = Fate::new(item.seq, 0, None);
        if item.redacted
            && let Some(piece) = redacted(item)
        {
            self.atoms.push(Atom::new(at, item, false, piece));
        }
        let read = read.and_then(|speaker| {
            let parts = parts(&mut item.body).ok_or("malformed_parts")?;
            Ok((speaker, parts))
        });
        if has_lone_surrogates(item.body.parts.as_str()) {
            fate.change = Some("surrogates_replaced");
        }
        match read {
            Err(reason) => fate.reason = Some(reason),
            Ok((speaker, parts)) => {
                for part in parts {
                    match piece(part, speaker, item) {
                        Ok(piece) => {
                            fate.pieces += 1;
                            self.atoms.push(Atom::new(at, item, other_variant, piece));
                        }
                        Err(reason) => {
                            fate.reason.get_or_insert(reason);
                        }
                    }
                }
            }
        }
        self.fates.push(fate);
    }

    /// Takes a piece out again.
    pub(super) fn lose(&mut self, atom: usize, piece: Piece, reason: &'static str) {
        let atom = &mut self.atoms[atom];
        atom.piece = piece;
        let fate = &mut self.fates[atom.item];
        fate.pieces = fate.pieces.saturating_sub(1);
        fate.reason.get_or_insert(reason);
    }

    /// The blocks, and what became of the items.
    pub(super) fn blocks(mut self, unanswered: Unanswered) -> (Vec<Block>, Vec<Fate>) {
        self.choose_variants();
        self.answer_calls();
        self.close_groups(unanswered);
        let blocks = self.in_order();
        (blocks, self.fates)
    }
}
