//! An engine on the ledger in memory, which writes to the session `s`.

use std::sync::Arc;

use filrouge_store::command::{Command, PutDraft, Write};
use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{Channel, FixedClock, ItemBody, JsonText, RawJson, Role, TenantId, Turn};

use super::super::Diagnosis;
use crate::caller::{Caller, Permission};
use crate::{AppendItems, Engine, ErrorBody, FailTurn, FinalizeTurn, Settings, StartTurn};

/// An engine with a clock that the test controls.
pub(super) struct DiagnosisWorld {
    pub(super) engine: Engine,
    pub(super) clock: Arc<FixedClock>,
    pub(super) caller: Caller,
}

pub(super) const SECOND: i64 = 1_000_000;

pub(super) fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

pub(super) fn item(role: Role, channel: Channel, parts: &str) -> ItemBody {
    ItemBody::new(role, channel, RawJson::parse(parts).unwrap())
}

pub(super) fn call(id: &str) -> ItemBody {
    let parts =
        format!(r#"[{{"type":"tool_call","call_id":"{id}","name":"look","args":{{"n": 1.0}}}}]"#);
    item(Role::Assistant, Channel::ToolCall, &parts)
}

pub(super) fn result(id: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"tool_result","call_id":"{id}","ok":true,"content":"x"}}]"#);
    item(Role::Tool, Channel::ToolResult, &parts)
}

pub(super) fn text_item(channel: Channel, text: &str) -> ItemBody {
    let parts = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    item(Role::Assistant, channel, &parts)
}

pub(super) fn delta(number: u64, kind: PieceKind, text: &str, done: bool) -> Delta {
    let call = (kind == PieceKind::ToolCall)
        .then(|| (JsonText::from_plain("c9"), JsonText::from_plain("look")));
    let head = PieceHead {
        kind,
        role: Role::Assistant,
        channel: Channel::Final,
        call,
        agent: None,
        model: Some("m-1".into()),
    };
    Delta {
        replaces: false,
        number,
        part: 0,
        head: Some(head),
        text: text.to_owned(),
        done,
    }
}

impl DiagnosisWorld {
    pub(super) fn new() -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000 * SECOND));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let ledger = Arc::new(ledger);
        let settings = Settings::default();
        let engine = Engine::new(ledger, Arc::new(OsEntropy), clock.clone(), settings);
        Self {
            engine,
            clock,
            caller: operator(),
        }
    }

    pub(super) async fn start(&self, request: &str) -> Turn {
        let start: StartTurn = serde_json::from_str(&format!(
            r#"{{"request_id":"{request}","question_neutral":"?"}}"#
        ))
        .unwrap();
        let session = "s".parse().unwrap();
        let started = self.engine.turns.start(&self.caller, session, start);
        started.await.unwrap().into_value()
    }

    pub(super) async fn append(&self, turn: &Turn, items: Vec<ItemBody>) {
        let append = AppendItems {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        };
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let appended = self.engine.turns.append(&self.caller, session, id, append);
        appended.await.unwrap();
    }

    pub(super) async fn finalize(&self, turn: &Turn) {
        let end = FinalizeTurn {
            answer_neutral: Some(JsonText::from_plain("!")),
            ..FinalizeTurn::default()
        };
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let ended = self.engine.turns.finalize(&self.caller, session, id, end);
        ended.await.unwrap();
    }

    pub(super) async fn fail(&self, turn: &Turn, code: &str) {
        let error = ErrorBody {
            code: code.into(),
            message: Some(JsonText::from_plain("it broke")),
            retryable: true,
        };
        let end = FailTurn {
            error,
            partial_text: Some(JsonText::from_plain("so far")),
            fence: None,
            release: false,
        };
        let (session, id) = (turn.session_id.clone(), turn.turn_id);
        let ended = self.engine.turns.fail(&self.caller, session, id, end);
        ended.await.unwrap();
    }

    pub(super) async fn draft(&self, turn: &Turn, number: u64, deltas: Vec<Delta>) {
        let put = PutDraft {
            session_id: turn.session_id.clone(),
            turn_id: turn.turn_id,
            stream: StreamId([1; 8]),
            starts_recording: number == 0,
            writer: "w-1".into(),
            number,
            deltas,
        };
        let command = Command {
            scope: self.caller.scope(Permission::Write).unwrap(),
            write: Write::PutDraft(Arc::new(put)),
        };
        self.engine.ledger().write(command).await.unwrap();
    }

    pub(super) async fn diagnose(&self) -> Diagnosis {
        let id = "s".parse().unwrap();
        let diagnosis = self.engine.context.diagnose(&self.caller, &id, 5);
        diagnosis.await.unwrap()
    }

    pub(super) fn wait(&self, seconds: i64) {
        self.clock.advance(seconds * SECOND);
    }
}
