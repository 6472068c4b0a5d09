//! Sessions that a test writes through the engine and restores as contexts.

use std::sync::Arc;

use filrouge_engine::ListTurns;
use filrouge_engine::caller::{Caller, Permission};
use filrouge_engine::restore::{Plan, RestoreQuery, Selection};
use filrouge_engine::{
    AppendItems, CancelTurn, Engine, ErrorBody, FailTurn, FinalizeTurn, RedactTurn, ReplaceTurn,
    Settings, StartTurn,
};
use filrouge_store::Scope;
use filrouge_store::command::{Command, Interrupt, RedactionTarget, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::Seqs;
use filrouge_store::verify::Verdict;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_transcode::{Context, Format, render};
use filrouge_types::{
    ErrorCode, Failure, FixedClock, Item, ItemBody, JsonText, RequestId, SessionId, TenantId,
    Timestamp, Turn, TurnId, TurnStatus,
};
use tokio::runtime::{Builder, Runtime};

/// An engine with a ledger in memory and one session.
pub(crate) struct TestSession {
    pub(crate) engine: Arc<Engine>,
    pub(crate) caller: Caller,
    pub(crate) session: SessionId,
    pub(crate) runtime: Runtime,
    keyring: Arc<Keyring>,
}

fn text(plain: &str) -> Option<JsonText> {
    Some(JsonText::from_plain(plain))
}

/// The start of a turn with a question in the neutral language.
pub(crate) fn turn_start(request: &str, question: &str) -> StartTurn {
    StartTurn {
        question_neutral: text(question),
        ..StartTurn::new(RequestId::new(request).unwrap())
    }
}

/// A query for the content that a format shows.
pub(crate) fn query(format: Format) -> RestoreQuery {
    let selection = match format {
        Format::Pairs => Selection::Pairs,
        _ => Selection::Messages,
    };
    RestoreQuery {
        selection,
        ..RestoreQuery::default()
    }
}

impl TestSession {
    pub(crate) fn new() -> Self {
        Self::with_settings(Settings::default())
    }

    fn with_settings(settings: Settings) -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let ledger = MemoryLedger::new(keyring.clone(), Arc::new(OsEntropy), clock.clone());
        let entropy = Arc::new(OsEntropy);
        Self {
            engine: Arc::new(Engine::new(Arc::new(ledger), entropy, clock, settings)),
            caller: Caller::operator(TenantId::new("default").unwrap()),
            session: SessionId::new("s").unwrap(),
            runtime: Builder::new_current_thread().build().unwrap(),
            keyring,
        }
    }

    /// Like [`Self::new`], with a clock that the test advances.
    pub(crate) fn paused() -> Self {
        Self::paused_with(Settings::default())
    }

    /// Like [`Self::paused`], with these settings.
    pub(crate) fn paused_with(settings: Settings) -> Self {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        Self {
            runtime,
            ..Self::with_settings(settings)
        }
    }

    fn id(&self) -> SessionId {
        self.session.clone()
    }

    /// The id of the turn of a request, which need not exist.
    pub(crate) fn turn_id(&self, request: &str) -> TurnId {
        let request = RequestId::new(request).unwrap();
        self.keyring
            .turn_id(self.caller.tenant(), &self.session, &request)
    }

    pub(crate) fn try_start(&self, start: StartTurn) -> Result<TurnId, Failure> {
        let started = self.engine.turns.start(&self.caller, self.id(), start);
        self.runtime.block_on(started).map(|turn| turn.turn_id)
    }

    pub(crate) fn start(&self, request: &str, question: &str) {
        self.try_start(turn_start(request, question)).unwrap();
    }

    pub(crate) fn try_append(&self, request: &str, items: Vec<ItemBody>) -> Result<(), Failure> {
        let request = self.turn_id(request);
        let items = AppendItems {
            items,
            expected_seq: None,
            fence: None,
            release: false,
        };
        let appended = self
            .engine
            .turns
            .append(&self.caller, self.id(), request, items);
        self.runtime.block_on(appended).map(|_| ())
    }

    pub(crate) fn append(&self, request: &str, items: Vec<ItemBody>) {
        self.try_append(request, items).unwrap();
    }

    pub(crate) fn try_finalize(
        &self,
        request: &str,
        neutral: Option<&str>,
        translated: Option<&str>,
    ) -> Result<(), Failure> {
        let body = FinalizeTurn {
            answer_neutral: neutral.and_then(text),
            answer_translated: translated.and_then(text),
            ..FinalizeTurn::default()
        };
        let turn = self.turn_id(request);
        let ended = self
            .engine
            .turns
            .finalize(&self.caller, self.id(), turn, body);
        self.runtime.block_on(ended).map(|_| ())
    }

    pub(crate) fn finalize(&self, request: &str, answer: &str) {
        self.try_finalize(request, Some(answer), None).unwrap();
    }

    /// Records a complete finalized turn.
    pub(crate) fn record_turn(&self, request: &str, question: &str, answer: &str) {
        self.start(request, question);
        self.finalize(request, answer);
    }

    pub(crate) fn try_fail(&self, request: &str, partial: Option<&str>) -> Result<(), Failure> {
        let body = FailTurn {
            error: ErrorBody {
                code: "e".into(),
                message: text("secret detail"),
                retryable: false,
            },
            partial_text: partial.and_then(text),
            fence: None,
            release: false,
        };
        let turn = self.turn_id(request);
        let ended = self.engine.turns.fail(&self.caller, self.id(), turn, body);
        self.runtime.block_on(ended).map(|_| ())
    }

    pub(crate) fn try_cancel(&self, request: &str, partial: Option<&str>) -> Result<(), Failure> {
        let body = CancelTurn {
            partial_text: partial.and_then(text),
            fence: None,
            release: false,
        };
        let turn = self.turn_id(request);
        let ended = self
            .engine
            .turns
            .cancel(&self.caller, self.id(), turn, body);
        self.runtime.block_on(ended).map(|_| ())
    }

    /// Interrupts an abandoned turn.
    pub(crate) fn try_interrupt(&self, request: &str) -> Result<(), Failure> {
        let write = Write::Interrupt(Interrupt {
            session_id: self.id(),
            turn_id: self.turn_id(request),
            before: Timestamp::from_micros(i64::MAX),
            stream: None,
        });
        let caller = self.caller.clone();
        let interrupted = self.engine.ledger().write(Command {
            scope: caller.scope(Permission::Write).unwrap(),
            write,
        });
        self.runtime.block_on(interrupted).map(|_| ())
    }

    pub(crate) fn try_replace(&self, old: &str, new: ReplaceTurn) -> Result<(), Failure> {
        let old = self.turn_id(old);
        let replaced = self.engine.turns.replace(&self.caller, self.id(), old, new);
        self.runtime.block_on(replaced).map(|_| ())
    }

    pub(crate) fn try_redact_turn(&self, request: &str) -> Result<(), Failure> {
        let reason = RedactTurn { reason: "r".into() };
        let turn = self.turn_id(request);
        let redacted = self
            .engine
            .erasure
            .redact_turn(&self.caller, self.id(), turn, reason);
        self.runtime.block_on(redacted).map(|_| ())
    }

    pub(crate) fn try_redact(&self, seqs: &[u64]) -> Result<(), Failure> {
        let seqs = Seqs::from_ranges(seqs.iter().map(|s| (*s, *s))).unwrap();
        let redacted = self.engine.erasure.redact(
            &self.caller,
            self.id(),
            RedactionTarget::Items(seqs),
            "because",
        );
        self.runtime.block_on(redacted).map(|_| ())
    }

    /// The scope of queries.
    pub(crate) fn scope(&self) -> Scope {
        self.caller.scope(Permission::Read).unwrap()
    }

    /// All items.
    pub(crate) fn items(&self) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            let after = items.last().map_or(0, |i| i.seq);
            let page = self
                .engine
                .turns
                .items(&self.caller, &self.session, after, 500);
            match self.runtime.block_on(page) {
                Ok((page, _)) if page.is_empty() => return items,
                Ok((page, _)) => items.extend(page),
                Err(failure) if failure.code == ErrorCode::SessionNotFound => return items,
                Err(failure) => panic!("{failure:?}"),
            }
        }
    }

    /// All turns in all their versions, newest first.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let query = ListTurns {
            include_redacted: true,
            newest: true,
            limit: 500,
            ..ListTurns::default()
        };
        let turns = self.engine.turns.list(&self.caller, &self.session, query);
        let (mut turns, _) = self.runtime.block_on(turns).unwrap_or_default();
        turns.sort_by_key(|turn| std::cmp::Reverse(turn.ordinal));
        turns
    }

    /// The requests of the turns that are open.
    pub(crate) fn open_requests(&self) -> Vec<String> {
        let turns = self.turns().into_iter();
        let open = turns.filter(|t| t.status == TurnStatus::Open);
        open.map(|t| t.request_id.as_str().to_owned()).collect()
    }

    /// The report of a verification of the complete store.
    pub(crate) fn verification(&self) -> String {
        let report = self.runtime.block_on(self.engine.ledger().verify(None));
        format!("{:?}", report.unwrap())
    }

    /// Panics unless the complete store verifies.
    pub(crate) fn assert_intact(&self) {
        let report = self.runtime.block_on(self.engine.ledger().verify(None));
        let report = report.unwrap();
        assert_eq!(report.verdict(), Verdict::Intact, "{report:?}");
    }

    pub(crate) fn try_plan(&self, query: RestoreQuery) -> Result<Plan, Failure> {
        let plan = self
            .engine
            .context
            .restore(&self.caller, &self.session, query);
        self.runtime.block_on(plan)
    }

    pub(crate) fn plan(&self, query: RestoreQuery) -> Plan {
        self.try_plan(query).unwrap()
    }

    /// A context, restored by the function that callers use.
    pub(crate) fn context(&self, format: Format, query: RestoreQuery) -> Context {
        let context =
            filrouge_transcode::restore(&self.engine, &self.caller, &self.session, format, query);
        let context = self.runtime.block_on(context).unwrap();
        assert_eq!(
            context,
            render(self.plan(query), format),
            "a second rendering differs"
        );
        context
    }
}
