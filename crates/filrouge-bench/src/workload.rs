//! The turns that the workloads write: question 400 B, tool call about 100 B, tool result 600 B, answer 1.2 kB, from
//! seeded pseudo-words.

use anyhow::{Context, Result};
use filrouge_engine::StartTurn;
use filrouge_types::{Channel, ItemBody, JsonText, RawJson, RequestId, Role, SessionId};

/// The number of words in the vocabulary of the texts.
const VOCABULARY: usize = 4000;

const SYLLABLES: &[&str] = &[
    "ka", "lo", "mi", "ter", "von", "pra", "sel", "du", "ri", "nak", "esh", "ol", "tum", "ba",
    "fen", "gor", "ix", "ju", "quan", "wy", "zet", "ha", "ne", "cor",
];

/// A small seeded generator of random numbers (splitmix64), sufficient for pseudo-words.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform random number from 0 to `n`, exclusive.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// The texts of one turn, and its idempotency key: a random UUID, as most callers use.
#[derive(Debug, Clone)]
pub(crate) struct TurnText {
    pub(crate) key: [u8; 16],
    pub(crate) question: String,
    pub(crate) tool_call: String,
    pub(crate) tool_result: String,
    pub(crate) answer: String,
}

/// Generates turns, always the same ones for a seed.
pub(crate) struct Turns {
    rng: Rng,
    words: Vec<String>,
}

impl Turns {
    pub(crate) fn new(seed: u64) -> Self {
        // All seeds share one vocabulary.
        let mut rng = Rng::new(42);
        let words = (0..VOCABULARY)
            .map(|_| {
                (0..1 + rng.below(4))
                    .map(|_| SYLLABLES[rng.below(SYLLABLES.len())])
                    .collect()
            })
            .collect();
        Self {
            rng: Rng::new(seed),
            words,
        }
    }

    /// A text of this size. The index of a word is the product of two uniform numbers, so that some words are common.
    pub(crate) fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let draw = self.rng.below(VOCABULARY) * self.rng.below(VOCABULARY) / VOCABULARY;
            text.push_str(&self.words[draw]);
            text.push(' ');
        }
        text.truncate(bytes);
        text
    }

    /// The next turn.
    pub(crate) fn next_turn(&mut self) -> TurnText {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.rng.next().to_be_bytes());
        key[8..].copy_from_slice(&self.rng.next().to_be_bytes());
        TurnText {
            key,
            question: self.text(400),
            tool_call: self.text(60),
            tool_result: self.text(600),
            answer: self.text(1200),
        }
    }

    /// The next `n` turns.
    pub(crate) fn next_turns(&mut self, n: usize) -> Vec<TurnText> {
        (0..n).map(|_| self.next_turn()).collect()
    }
}

impl TurnText {
    pub(crate) fn request_id(&self) -> String {
        let hex: String = self.key.iter().map(|b| format!("{b:02x}")).collect();
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }

    fn call_id(&self) -> String {
        format!(
            "call_{:02x}{:02x}{:02x}",
            self.key[0], self.key[1], self.key[2]
        )
    }

    /// The four items' parts as JSON, in order.
    pub(crate) fn parts(&self) -> [String; 4] {
        let text = |t: &str| format!(r#"[{{"type":"text","text":"{t}"}}]"#);
        let id = self.call_id();
        let (query, result) = (&self.tool_call, &self.tool_result);
        [
            text(&self.question),
            format!(
                r#"[{{"type":"tool_call","call_id":"{id}","name":"search","args":{{"query":"{query}"}}}}]"#
            ),
            format!(
                r#"[{{"type":"tool_result","call_id":"{id}","ok":true,"content":"{result}"}}]"#
            ),
            text(&self.answer),
        ]
    }

    /// The library's request: a complete turn in one call.
    pub(crate) fn request(&self) -> Result<StartTurn> {
        let [_, call, result, _] = self.parts();
        let items = vec![
            ItemBody::new(Role::Assistant, Channel::ToolCall, RawJson::parse(&call)?),
            ItemBody::new(Role::Tool, Channel::ToolResult, RawJson::parse(&result)?),
        ];
        Ok(StartTurn {
            question_neutral: Some(JsonText::from_plain(&self.question)),
            items,
            answer_neutral: Some(JsonText::from_plain(&self.answer)),
            ..StartTurn::new(RequestId::new(self.request_id())?)
        })
    }

    /// The body of `POST …/turns` for the same turn.
    pub(crate) fn body(&self) -> String {
        let [_, call, result, _] = self.parts();
        let (id, question, answer) = (self.request_id(), &self.question, &self.answer);
        format!(
            r#"{{"request_id":"{id}","question_neutral":"{question}","items":[{{"role":"assistant","channel":"tool_call","parts":{call}}},{{"role":"tool","channel":"tool_result","parts":{result}}}],"answer_neutral":"{answer}"}}"#
        )
    }
}

/// The requests of `turns`.
pub(crate) fn requests(turns: &[TurnText]) -> Result<Vec<StartTurn>> {
    turns.iter().map(TurnText::request).collect()
}

/// The id of session number `n`.
pub(crate) fn session_id(n: usize) -> Result<SessionId> {
    SessionId::new(format!("session-{n:04}")).context("an invalid session id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_have_their_sizes_and_are_deterministic() {
        let turn = Turns::new(1).next_turn();
        assert_eq!(turn.body(), Turns::new(1).next_turn().body());
        let [question, call, result, answer] = turn.parts().map(|p| p.len());
        assert!((400..450).contains(&question) && (90..150).contains(&call));
        assert!((600..700).contains(&result) && (1200..1250).contains(&answer));
        serde_json::from_str::<StartTurn>(&turn.body()).unwrap();
        turn.request().unwrap();
    }
}
