//! Builds a turn's blocks from its remaining pieces, in order. Reasoning is attached to the step that it led to (DESIGN
//! §5).

use super::pieces::{OpenCall, Piece, Shaper};
use super::plan::{Block, Call, Calls, Content, Reasoning, Say, Speaker};

/// The blocks built so far from a turn's pieces.
#[derive(Default)]
struct Steps {
    blocks: Vec<Block>,
    /// The pending reasoning: its step was not reached yet. The numbers are the indexes of its atoms.
    thoughts: Vec<(usize, Reasoning)>,
    /// Whether the next call belongs to the same step as the call before it.
    same_step: bool,
    /// Whether the pending reasoning led to a call that repeats an earlier one.
    repeated: bool,
}

impl Shaper {
    /// The remaining blocks in order. Reasoning is attached to the agent's next step, or dropped if there is none.
    pub(super) fn in_order(&mut self) -> Vec<Block> {
        let mut steps = Steps::default();
        for at in 0..self.atoms.len() {
            let piece = std::mem::replace(&mut self.atoms[at].piece, Piece::Gone);
            if steps.repeated && !matches!(piece, Piece::Call(_) | Piece::Repeated | Piece::Gone) {
                self.drop_thoughts(&mut steps, "reasoning_of_dropped_call");
            }
            self.step(&mut steps, at, piece);
        }
        let reason = if steps.repeated {
            "reasoning_of_dropped_call"
        } else {
            "reasoning_alone"
        };
        self.drop_thoughts(&mut steps, reason);
        steps.blocks
    }

    fn step(&mut self, steps: &mut Steps, at: usize, piece: Piece) {
        let seq = self.atoms[at].seq;
        match piece {
            Piece::Gone | Piece::Result(..) => {}
            Piece::Repeated => steps.repeated = !steps.thoughts.is_empty(),
            Piece::Answered | Piece::Stray => steps.same_step = false,
            Piece::GroupGone | Piece::RedactedCall => {
                self.drop_thoughts(steps, "reasoning_of_dropped_call");
            }
            Piece::RedactedStep => {
                self.drop_thoughts(steps, "reasoning_of_redacted");
                steps.same_step = false;
            }
            Piece::Thought(thought) => {
                steps.thoughts.push((at, thought));
                steps.same_step = false;
            }
            Piece::Said(speaker, content) => {
                steps.same_step = false;
                if speaker == Speaker::User {
                    self.drop_thoughts(steps, "reasoning_alone");
                }
                let leading = if speaker == Speaker::Assistant {
                    std::mem::take(&mut steps.thoughts)
                } else {
                    Vec::new()
                };
                say(&mut steps.blocks, seq, speaker, leading, content);
            }
            Piece::Call(call) => {
                if let Some(call) = answered(seq, *call) {
                    steps.call(call);
                }
            }
        }
    }

    fn drop_thoughts(&mut self, steps: &mut Steps, reason: &'static str) {
        for (at, _) in steps.thoughts.drain(..) {
            self.omit(at, Piece::Gone, reason);
        }
        steps.repeated = false;
    }
}

impl Steps {
    fn call(&mut self, call: Call) {
        match self.blocks.last_mut() {
            Some(Block::Calls(calls)) if self.same_step => calls.calls.push(call),
            _ => self.blocks.push(Block::Calls(Calls {
                reasoning: self.thoughts.drain(..).map(|(_, t)| t).collect(),
                calls: vec![call],
            })),
        }
        (self.same_step, self.repeated) = (true, false);
    }
}

fn say(
    blocks: &mut Vec<Block>,
    seq: u64,
    speaker: Speaker,
    thoughts: Vec<(usize, Reasoning)>,
    content: Content,
) {
    if let Some(Block::Say(last)) = blocks.last_mut()
        && last.seq == Some(seq)
        && last.speaker == speaker
        && thoughts.is_empty()
    {
        last.contents.push(content);
        return;
    }
    blocks.push(Block::Say(Say {
        seq: Some(seq),
        speaker,
        reasoning: thoughts.into_iter().map(|(_, t)| t).collect(),
        contents: vec![content],
    }));
}

fn answered(seq: u64, call: OpenCall) -> Option<Call> {
    let (_, result) = call.result?;
    Some(Call {
        seq,
        call_id: call.call_id.into(),
        name: call.name.into(),
        args: call.args,
        signature: call.signature,
        result,
    })
}
