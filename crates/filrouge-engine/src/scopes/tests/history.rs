//! Random histories of one session.

use std::collections::BTreeMap;

use filrouge_store::Scope;
use filrouge_store::command::{Command, Interrupt, RedactionTarget, Write};
use filrouge_store::record::Seqs;
use filrouge_types::{
    Channel, ErrorCode, ItemBody, JsonText, RawJson, Role, SessionId, Timestamp, TurnId, TurnStatus,
};

use super::world::TierProcess;
use crate::caller::Caller;
use crate::{
    AppendItems, CancelTurn, Engine, ErrorBody, FailTurn, FinalizeTurn, PatchSession, StartTurn,
};

/// Reproducible random numbers by xorshift; the seed must not be 0.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit as u64).unwrap()
    }

    fn words(&mut self) -> JsonText {
        let words = [
            "",
            "żółw",
            "\u{1f422}",
            "a \"quote\"",
            "line\nbreak",
            "x".repeat(700).leak(),
        ];
        JsonText::from_plain(words[self.below(words.len())])
    }
}

/// The effect of a write on the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyEffect {
    /// The copy is updated, and stays usable.
    Updates,
    /// The copy is removed, or no longer equals the ledger's history.
    Invalidates,
    /// Nothing was written.
    Nothing,
}

/// A random history in progress.
pub(super) struct TestedHistory<'a> {
    pub(super) process: &'a TierProcess,
    pub(super) bypass: Engine,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) random: Random,
    pub(super) requests: usize,
    pub(super) turns: BTreeMap<TurnId, TurnStatus>,
}

impl TestedHistory<'_> {
    fn start(&mut self, with_answer: bool) -> StartTurn {
        self.requests += 1;
        let metadata = r#"{"n":1.0,"nested":{"a":[1,2]},"é":"\u00e9"}"#;
        let thought = RawJson::parse(r#"[{"type":"text","text":"hm"}]"#).unwrap();
        StartTurn {
            question_neutral: (self.random.below(4) > 0).then(|| self.random.words()),
            question_translated: Some(JsonText::from_plain(&format!("{} ?", self.requests))),
            application: filrouge_types::Application {
                translate_chat: self.random.below(3) == 0,
                pipeline_name: (self.random.below(2) == 0).then(|| "p\"ipe".into()),
                ..Default::default()
            },
            metadata: (self.random.below(2) == 0).then(|| RawJson::parse(metadata).unwrap()),
            items: vec![
                ItemBody::new(Role::Assistant, Channel::Thought, thought);
                self.random.below(3)
            ],
            answer_neutral: with_answer.then(|| self.random.words()),
            ..StartTurn::new(format!("r{}", self.requests).parse().unwrap())
        }
    }

    fn random_turn(&mut self, status: TurnStatus) -> Option<TurnId> {
        let candidates: Vec<TurnId> = self
            .turns
            .iter()
            .filter(|(_, s)| **s == status)
            .map(|(t, _)| *t)
            .collect();
        (!candidates.is_empty()).then(|| candidates[self.random.below(candidates.len())])
    }

    /// Executes a random write. Some writes go through the bypass, a process without a hot store.
    pub(super) async fn step(&mut self) -> CopyEffect {
        let is_bypassed = self.random.below(12) == 0;
        let kind = self.random.below(15);
        let (scope, s) = (self.scope.clone(), self.session.clone());
        let open = self.random_turn(TurnStatus::Open);
        let finalized = self.random_turn(TurnStatus::Finalized);
        let interrupted = self.random_turn(TurnStatus::Interrupted);
        let start = self.start((1..5).contains(&kind));
        let engine = if is_bypassed {
            &self.bypass
        } else {
            &self.process.engine
        };
        let (mut effect, mut invalidates) = (CopyEffect::Updates, false);
        let turn = match (kind, open, finalized, interrupted) {
            (0..5, ..) => Some(
                engine
                    .turns
                    .start(&Caller::from(&scope), s, start)
                    .await
                    .unwrap()
                    .value,
            ),
            (5 | 6, Some(turn), ..) => {
                let finalize = FinalizeTurn {
                    answer_neutral: Some(self.random.words()),
                    answer_translated: (self.random.below(2) == 0).then(|| self.random.words()),
                    metadata: Some(RawJson::parse(r#"{"k":"v"}"#).unwrap()),
                    ..FinalizeTurn::default()
                };
                Some(
                    engine
                        .turns
                        .finalize(&Caller::from(&scope), s, turn, finalize)
                        .await
                        .unwrap()
                        .value,
                )
            }
            (7, Some(turn), ..) => {
                let error = ErrorBody {
                    code: "e".into(),
                    message: None,
                    retryable: false,
                };
                let fail = FailTurn {
                    error,
                    partial_text: None,
                    fence: None,
                    release: false,
                };
                Some(
                    engine
                        .turns
                        .fail(&Caller::from(&scope), s, turn, fail)
                        .await
                        .unwrap()
                        .value,
                )
            }
            (8, Some(turn), ..) => Some(
                engine
                    .turns
                    .cancel(&Caller::from(&scope), s, turn, CancelTurn::default())
                    .await
                    .unwrap()
                    .value,
            ),
            (9, Some(turn), ..) => {
                let parts = RawJson::parse(r#"[{"type":"text","text":"saw"}]"#).unwrap();
                let items = vec![ItemBody::new(Role::Assistant, Channel::Observation, parts)];
                let append = AppendItems {
                    items,
                    expected_seq: None,
                    fence: None,
                    release: false,
                };
                engine
                    .turns
                    .append(&Caller::from(&scope), s, turn, append)
                    .await
                    .unwrap();
                None
            }
            (10, _, Some(turn), _) => {
                let start = StartTurn {
                    answer_neutral: Some(self.random.words()),
                    ..start
                };
                match engine
                    .turns
                    .replace(&Caller::from(&scope), s, turn, start)
                    .await
                {
                    Ok(turn) => Some(turn.value),
                    Err(failure) => {
                        assert_eq!(failure.code, ErrorCode::TurnReplaced);
                        return CopyEffect::Nothing;
                    }
                }
            }
            (11, _, Some(turn), _) => {
                invalidates = true;
                let reason = crate::RedactTurn { reason: "r".into() };
                let redacted = engine
                    .erasure
                    .redact_turn(&Caller::from(&scope), s, turn, reason)
                    .await
                    .unwrap();
                if self.random.below(2) == 0 {
                    self.turns.remove(&turn);
                }
                Some(redacted.into_value())
            }
            (12, _, Some(turn), _) => {
                invalidates = true;
                let shown = engine
                    .turns
                    .get(&Caller::from(&scope), &s, turn)
                    .await
                    .unwrap();
                let seqs = Seqs::from_ranges([(shown.last_seq, shown.last_seq)]).unwrap();
                engine
                    .erasure
                    .redact(&Caller::from(&scope), s, RedactionTarget::Items(seqs), "r")
                    .await
                    .unwrap();
                None
            }
            (13, Some(turn), ..) => {
                let interrupt = Interrupt {
                    session_id: s,
                    turn_id: turn,
                    before: Timestamp::from_micros(i64::MAX),
                    stream: None,
                };
                let (write, scope) = (Write::Interrupt(interrupt), super::world::operator());
                engine
                    .ledger()
                    .write(Command { scope, write })
                    .await
                    .unwrap();
                self.turns.insert(turn, TurnStatus::Interrupted);
                None
            }
            (14, _, _, Some(turn)) => {
                let shown = engine
                    .turns
                    .get(&Caller::from(&scope), &s, turn)
                    .await
                    .unwrap();
                let restart = StartTurn {
                    question_neutral: shown.question_neutral,
                    ..StartTurn::new(shown.request_id)
                };
                Some(
                    engine
                        .turns
                        .start(&Caller::from(&scope), s, restart)
                        .await
                        .unwrap()
                        .value,
                )
            }
            _ => {
                let patch = PatchSession {
                    title: Some(Some("t".into())),
                    ..PatchSession::default()
                };
                effect = match engine
                    .sessions
                    .patch(&Caller::from(&scope), s, patch, None)
                    .await
                {
                    Ok(_) => CopyEffect::Updates,
                    Err(_) => CopyEffect::Nothing,
                };
                None
            }
        };
        if let Some(turn) = turn.filter(|turn| turn.deleted_at.is_none()) {
            self.turns.insert(turn.turn_id, turn.status);
        }
        if is_bypassed || invalidates {
            CopyEffect::Invalidates
        } else {
            effect
        }
    }
}
