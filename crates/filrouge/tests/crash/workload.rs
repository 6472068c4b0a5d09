//! Writers: clients that send writes of all kinds and remember the responses.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::http::{CrashClient, CrashResponse, NoResponse};
use crate::op::{ItemText, Op, Outcome, WriteKind};
use crate::world::Clock;

mod anywhere;

/// A turn that its writer may still append to, or replace.
#[derive(Debug, Clone)]
struct Turn {
    session: String,
    turn_id: String,
    /// Whether it has an answer that is not finalized.
    answered: bool,
}

/// One client. Its random numbers and the responses that it received determine its writes.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    name: String,
    rng: StdRng,
    /// The number of the last generated text or write; it makes their names unique.
    counter: u64,
    sessions: Vec<String>,
    open: Vec<Turn>,
    finalized: Vec<Turn>,
    ops: Vec<Op>,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The outcome is known.
    OutcomeKnown,
    /// The server refused the write for now.
    Refused(CrashResponse),
}

impl Writer {
    pub(crate) fn new(name: String, rng: StdRng) -> Self {
        Self {
            name,
            rng,
            counter: 0,
            sessions: Vec::new(),
            open: Vec::new(),
            finalized: Vec::new(),
            ops: Vec::new(),
        }
    }

    /// Returns all writes, in the order in which they were sent.
    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Uses these sessions from now on; open turns of earlier sessions stay open.
    pub(crate) fn switch_to(&mut self, sessions: &[String]) {
        self.sessions = sessions.to_vec();
        self.open.clear();
        self.finalized.clear();
    }

    /// Writes until the server does not answer, which is an error unless `ending` is set.
    pub(crate) fn write_until_end(
        &mut self,
        client: &CrashClient,
        clock: &Clock,
        ending: &AtomicBool,
    ) {
        loop {
            match self.step(client, clock) {
                Ok(WriteResult::OutcomeKnown) => {}
                Ok(WriteResult::Refused(response)) => panic!("{:?}: {response:?}", self.ops.last()),
                Err(NoResponse(error)) => {
                    assert!(
                        ending.load(Ordering::SeqCst),
                        "the server ended unexpectedly: {error}"
                    );
                    return;
                }
            }
        }
    }

    /// Sends a new write, or repeats one that was acknowledged.
    pub(crate) fn step(
        &mut self,
        client: &CrashClient,
        clock: &Clock,
    ) -> Result<WriteResult, NoResponse> {
        if self.rng.random_bool(0.06) && !self.ops.is_empty() {
            let op = self.rng.random_range(0..self.ops.len());
            return self.repeat(op, client, clock);
        }
        self.write(client, clock)
    }

    /// Sends a new write.
    pub(crate) fn write(
        &mut self,
        client: &CrashClient,
        clock: &Clock,
    ) -> Result<WriteResult, NoResponse> {
        let mut op = self.compose();
        op.sent = clock.tick();
        self.ops.push(op);
        self.send(self.ops.len() - 1, client, clock)
    }

    /// Retries every write of unknown outcome, whose outcome must become known.
    pub(crate) fn resolve_unknown_outcomes(&mut self, client: &CrashClient, clock: &Clock) {
        for op in 0..self.ops.len() {
            if self.ops[op].outcome == Outcome::Unknown {
                match self.send(op, client, clock) {
                    Ok(WriteResult::OutcomeKnown) => {}
                    other => panic!("a retry failed: {other:?}: {:?}", self.ops[op]),
                }
            }
        }
    }

    fn send(
        &mut self,
        op: usize,
        client: &CrashClient,
        clock: &Clock,
    ) -> Result<WriteResult, NoResponse> {
        let op = &mut self.ops[op];
        let response = op.send(client)?;
        if !op.apply_response(&response, clock.tick()) {
            return Ok(WriteResult::Refused(response));
        }
        if let Some(turn_id) = op
            .turn_id()
            .filter(|_| op.acked().is_some() && self.sessions.contains(&op.session))
        {
            let turn = Turn {
                session: op.session.clone(),
                turn_id: turn_id.to_owned(),
                answered: false,
            };
            match op.kind {
                WriteKind::Start => self.open.push(turn),
                WriteKind::Complete | WriteKind::Replace | WriteKind::Finalize => {
                    self.finalized.push(turn);
                }
                WriteKind::Append if op.texts.iter().any(|t| t.channel == "final") => {
                    self.open.push(Turn {
                        answered: true,
                        ..turn
                    });
                }
                WriteKind::Append => self.open.push(turn),
                WriteKind::Create | WriteKind::Fail | WriteKind::Cancel => {}
            }
        } else if op.outcome == Outcome::Rejected {
            let turn_id = op.turn.clone().unwrap_or_default();
            self.open.push(Turn {
                session: op.session.clone(),
                turn_id,
                answered: false,
            });
        }
        Ok(WriteResult::OutcomeKnown)
    }

    /// Repeats an acknowledged write, which must return the first response.
    fn repeat(
        &self,
        op: usize,
        client: &CrashClient,
        clock: &Clock,
    ) -> Result<WriteResult, NoResponse> {
        let op = &self.ops[op];
        if op.acked().is_none() {
            return Ok(WriteResult::OutcomeKnown);
        }
        let response = op.send(client)?;
        if response.status >= 500 {
            return Ok(WriteResult::Refused(response));
        }
        assert!(
            response.is_success() && op.agrees_with(&op.parse_ack(&response, clock.tick())),
            "the response to a repeated write differs: {op:?}: {response:?}"
        );
        Ok(WriteResult::OutcomeKnown)
    }

    /// Composes the next write. The turn that it changes is not in the lists until the response arrives.
    fn compose(&mut self) -> Op {
        let choice = self.rng.random_range(0..100);
        if choice < 8 && !self.finalized.is_empty() {
            let turn = self
                .finalized
                .swap_remove(self.rng.random_range(0..self.finalized.len()));
            return self.replace(turn);
        }
        if choice < 70 && !self.open.is_empty() {
            let turn = self
                .open
                .swap_remove(self.rng.random_range(0..self.open.len()));
            return match choice {
                0..50 if !turn.answered => self.append(turn),
                0..58 => self.finalize(turn),
                58..64 => self.fail(turn),
                _ => self.cancel(turn),
            };
        }
        match choice {
            0..75 => self.create(),
            75..88 => self.start(),
            _ => self.complete_turn(),
        }
    }

    fn create(&mut self) -> Op {
        let session = format!("{}-{}-{}", self.session(), self.name, self.counter);
        let body = json!({"session_id": session, "title": format!("title of {session}")});
        self.op(WriteKind::Create, session, None, body, Vec::new())
    }

    fn start(&mut self) -> Op {
        let session = self.session();
        let question = self.text("question");
        let body = json!({"question_neutral": question.text});
        self.op(WriteKind::Start, session, None, body, vec![question])
    }

    fn complete_turn(&mut self) -> Op {
        let session = self.session();
        let (question, answer) = (self.text("question"), self.text("final"));
        let mut body = json!({"question_neutral": question.text, "answer_neutral": answer.text});
        let mut texts = vec![question];
        if self.rng.random_bool(0.5) {
            let items = self.items();
            body["items"] = items.iter().map(item_json).collect();
            texts.extend(items);
        }
        texts.push(answer);
        self.op(WriteKind::Complete, session, None, body, texts)
    }

    fn append(&mut self, turn: Turn) -> Op {
        let items = if self.rng.random_bool(0.1) {
            vec![self.item("final")]
        } else {
            self.items()
        };
        let mut body = json!({"items": items.iter().map(item_json).collect::<Value>()});
        if self.rng.random_bool(0.05) {
            // The newest seq that this writer knows: the write is refused if others have written since.
            let newest_known = self
                .ops
                .iter()
                .filter(|o| o.session == turn.session)
                .filter_map(|o| Some(o.acked()?.last_seq));
            body["expected_seq"] = json!(newest_known.max().unwrap_or(0));
        }
        self.op(
            WriteKind::Append,
            turn.session,
            Some(turn.turn_id),
            body,
            items,
        )
    }

    fn finalize(&mut self, turn: Turn) -> Op {
        if turn.answered {
            return self.op(
                WriteKind::Finalize,
                turn.session,
                Some(turn.turn_id),
                json!({}),
                Vec::new(),
            );
        }
        let answer = self.text("final");
        let body = json!({"answer_neutral": answer.text});
        self.op(
            WriteKind::Finalize,
            turn.session,
            Some(turn.turn_id),
            body,
            vec![answer],
        )
    }

    fn fail(&mut self, turn: Turn) -> Op {
        let error = self.text("error");
        let mut body =
            json!({"error": {"code": "provider_gone", "message": error.text, "retryable": true}});
        let partial = self.partial(&mut body);
        self.op(
            WriteKind::Fail,
            turn.session,
            Some(turn.turn_id),
            body,
            partial.into_iter().chain([error]).collect(),
        )
    }

    fn cancel(&mut self, turn: Turn) -> Op {
        let mut body = json!({});
        let partial = self.partial(&mut body);
        self.op(
            WriteKind::Cancel,
            turn.session,
            Some(turn.turn_id),
            body,
            partial.into_iter().collect(),
        )
    }

    fn replace(&mut self, turn: Turn) -> Op {
        let (question, answer) = (self.text("question"), self.text("final"));
        let body = json!({"question_neutral": question.text, "answer_neutral": answer.text});
        self.op(
            WriteKind::Replace,
            turn.session,
            Some(turn.turn_id),
            body,
            vec![question, answer],
        )
    }

    fn op(
        &mut self,
        kind: WriteKind,
        session: String,
        turn: Option<String>,
        mut body: Value,
        texts: Vec<ItemText>,
    ) -> Op {
        self.counter += 1;
        let key = format!("{}-request-{}", self.name, self.counter);
        if matches!(
            kind,
            WriteKind::Start | WriteKind::Complete | WriteKind::Replace
        ) {
            body["request_id"] = json!(key);
        }
        Op {
            kind,
            key,
            session,
            turn,
            body,
            texts,
            sent: 0,
            outcome: Outcome::Unknown,
        }
    }

    fn session(&mut self) -> String {
        self.sessions[self.rng.random_range(0..self.sessions.len())].clone()
    }

    fn partial(&mut self, body: &mut Value) -> Option<ItemText> {
        let partial = self.rng.random_bool(0.5).then(|| self.text("partial"))?;
        body["partial_text"] = json!(partial.text);
        Some(partial)
    }

    fn items(&mut self) -> Vec<ItemText> {
        const CHANNELS: [&str; 4] = ["thought", "plan", "observation", "system_note"];
        let count = self.rng.random_range(1..=4);
        let mut random_item = || {
            let channel = CHANNELS[self.rng.random_range(0..CHANNELS.len())];
            self.item(channel)
        };
        (0..count).map(|_| random_item()).collect()
    }

    fn item(&mut self, channel: &'static str) -> ItemText {
        let text = self.text(channel);
        ItemText {
            item_id: Some(format!("{}-item-{}", self.name, self.counter)),
            ..text
        }
    }

    /// Generates a text that no other item has: mostly short, sometimes longer than several pages of the database.
    fn text(&mut self, channel: &'static str) -> ItemText {
        self.counter += 1;
        let words = if self.rng.random_bool(0.03) {
            5_000
        } else {
            self.rng.random_range(0..60)
        };
        let mut text = format!("{} {} of {}", channel, self.counter, self.name);
        for _ in 0..words {
            text.push_str(
                [" red", " thread", " through", " the", " story"][self.rng.random_range(0..5)],
            );
        }
        ItemText {
            channel,
            item_id: None,
            text,
        }
    }
}

/// Returns an item as a request writes it.
fn item_json(text: &ItemText) -> Value {
    let role = if text.channel == "system_note" {
        "system"
    } else {
        "assistant"
    };
    let parts = json!([{"type": "text", "text": text.text}]);
    json!({"item_id": text.item_id, "role": role, "channel": text.channel, "parts": parts})
}
