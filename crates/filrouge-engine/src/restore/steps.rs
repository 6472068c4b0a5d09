//! Builds a turn's blocks from its remaining pieces, in order. Reasoning is attached to the step that it led to (DESIGN
//! §5).

use super::pieces::{Piece, Shaper};
use super::plan::{Block, Call, Calls, Content, Message, Reasoning, Speaker};

/// The blocks built so far from a turn's pieces.
#[derive(Default)]
struct Steps {
    blocks: Vec<Block>,
    /// The pending reasoning: its step was not reached yet. The numbers are the indexes of its pieces.
    thoughts: Vec<(usize, Reasoning)>,
    /// Whether the next call belongs to the same step as the call before it.
    same_step: bool,
    /// Whether the pending reasoning led to a duplicate call.
    led_to_duplicate: bool,
}

impl Shaper {
    /// Builds the blocks from the remaining pieces, in order. Reasoning is attached to the agent's next step, or
    /// dropped if there is none.
    pub(super) fn build_blocks(&mut self) -> Vec<Block> {
        let mut steps = Steps::default();
        for at in 0..self.entries.len() {
            let piece = std::mem::replace(&mut self.entries[at].piece, Piece::Removed);
            if steps.led_to_duplicate
                && !matches!(
                    piece,
                    Piece::Call(_) | Piece::DuplicateCall | Piece::Removed
                )
            {
                self.drop_thoughts(&mut steps, "reasoning_of_dropped_call");
            }
            self.add_piece(&mut steps, at, piece);
        }
        let reason = if steps.led_to_duplicate {
            "reasoning_of_dropped_call"
        } else {
            "reasoning_alone"
        };
        self.drop_thoughts(&mut steps, reason);
        steps.blocks
    }

    fn add_piece(&mut self, steps: &mut Steps, at: usize, piece: Piece) {
        let seq = self.entries[at].seq;
        match piece {
            Piece::Removed | Piece::Result(..) => {}
            Piece::DuplicateCall => steps.led_to_duplicate = !steps.thoughts.is_empty(),
            Piece::GroupEnd | Piece::UnmatchedResult => steps.same_step = false,
            Piece::DroppedCall | Piece::RedactedCall => {
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
            Piece::Message(speaker, content) => {
                steps.same_step = false;
                if speaker == Speaker::User {
                    self.drop_thoughts(steps, "reasoning_alone");
                }
                steps.push_message(seq, speaker, content);
            }
            Piece::Call(call) => {
                let call = *call;
                if let Some((_, result)) = call.result {
                    steps.push_call(Call {
                        seq,
                        call_id: call.call_id.into(),
                        name: call.name.into(),
                        args: call.args,
                        signature: call.signature,
                        result,
                    });
                }
            }
        }
    }

    fn drop_thoughts(&mut self, steps: &mut Steps, reason: &'static str) {
        for (at, _) in steps.thoughts.drain(..) {
            self.omit(at, Piece::Removed, reason);
        }
        steps.led_to_duplicate = false;
    }
}

impl Steps {
    fn push_call(&mut self, call: Call) {
        match self.blocks.last_mut() {
            Some(Block::Calls(calls)) if self.same_step => calls.calls.push(call),
            _ => self.blocks.push(Block::Calls(Calls {
                reasoning: self.thoughts.drain(..).map(|(_, t)| t).collect(),
                calls: vec![call],
            })),
        }
        (self.same_step, self.led_to_duplicate) = (true, false);
    }

    fn push_message(&mut self, seq: u64, speaker: Speaker, content: Content) {
        let thoughts = match speaker {
            Speaker::Assistant => std::mem::take(&mut self.thoughts),
            _ => Vec::new(),
        };
        if let Some(Block::Message(last)) = self.blocks.last_mut()
            && last.seq == Some(seq)
            && last.speaker == speaker
            && thoughts.is_empty()
        {
            last.contents.push(content);
            return;
        }
        self.blocks.push(Block::Message(Message {
            seq: Some(seq),
            speaker,
            reasoning: thoughts.into_iter().map(|(_, t)| t).collect(),
            contents: vec![content],
        }));
    }
}
