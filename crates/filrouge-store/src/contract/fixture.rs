//! Test fixtures: a ledger, its clock and keys, and shorthands for writes.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use filrouge_types::{
    Channel, ErrorCode, Failure, FixedClock, IdentityId, Item, ItemBody, ItemId, JsonText, RawJson,
    RequestId, Role, SessionId, TenantId, Turn, TurnId, TurnStatus, Variant,
};

use crate::chain::fingerprint;
use crate::command::{
    Append, Close, Command, ConcurrentTurns, Ending, Interrupt, NewSession, Outcome, Redact,
    Redacted, RedactionTarget, Scope, Start, Viewer, Write,
};
use crate::keyring::{Entropy, Keyring};
use crate::ledger::Ledger;
use crate::record::{Batch, CloseEvent, Entry, Event, Seqs, StartEvent};
use crate::verify::Verdict;

/// A ledger under test.
pub struct Fixture {
    pub ledger: Arc<dyn Ledger>,
    pub clock: Arc<FixedClock>,
    pub keyring: Arc<Keyring>,
    /// Resources that live until the test ends, such as a temporary directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Runs a test with a fixture.
pub fn run(fixture: Fixture, test: impl AsyncFn(&Fixture)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        test(&fixture).await;
        fixture.ledger.close().await;
    });
}

/// A repeatable random source: a counter.
#[derive(Debug, Default)]
pub struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), filrouge_types::Failure> {
        for chunk in bytes.chunks_mut(8) {
            let n = self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes();
            chunk.copy_from_slice(&n[..chunk.len()]);
        }
        Ok(())
    }
}

pub fn sid(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub fn rid(id: &str) -> RequestId {
    RequestId::new(id).unwrap()
}

fn scope(tenant: &str, viewer: Viewer) -> Scope {
    Scope::new(TenantId::new(tenant).unwrap(), viewer)
}

/// An anonymous caller of tenant `t`.
pub fn anyone() -> Scope {
    scope("t", Viewer::EndUser(None))
}

/// A user of tenant `t` with an identity.
pub fn user(name: &str) -> Scope {
    scope("t", Viewer::EndUser(Some(IdentityId::new(name).unwrap())))
}

/// The operator of tenant `tenant`.
pub fn operator(tenant: &str) -> Scope {
    scope(tenant, Viewer::Operator)
}

/// The parts of a plain text.
pub fn text(text: &str) -> RawJson {
    let token = JsonText::from_plain(text);
    RawJson::parse(&format!(
        r#"[{{"type":"text","text":{}}}]"#,
        token.as_token()
    ))
    .unwrap()
}

pub fn item(channel: Channel, words: &str) -> ItemBody {
    let role = match channel {
        Channel::Question => Role::User,
        _ => Role::Assistant,
    };
    ItemBody::new(role, channel, text(words))
}

/// An observation with a key.
pub fn keyed(id: &str, words: &str) -> ItemBody {
    ItemBody {
        item_id: Some(ItemId::new(id).unwrap()),
        ..item(Channel::Observation, words)
    }
}

pub fn body(words: &str) -> [u8; 16] {
    fingerprint(&[words.as_bytes()])
}

pub fn cmd(scope: &Scope, write: Write) -> Command {
    Command {
        scope: scope.clone(),
        write,
    }
}

/// The error code of a refusal.
#[track_caller]
pub fn code<T: std::fmt::Debug>(result: Result<T, Failure>) -> ErrorCode {
    result.unwrap_err().code
}

fn start_event(scope: &Scope, request: &str, question: &str) -> StartEvent {
    StartEvent {
        request_id: rid(request),
        identity_id: scope.viewer.identity().cloned(),
        fingerprint: body(question),
        replaces: None,
        application: filrouge_types::Application::default(),
        metadata: None,
    }
}

/// A start with a question; with `answer`, a complete turn. `change` may modify the event and the items.
pub fn start_with(
    scope: &Scope,
    session: &str,
    request: &str,
    question: &str,
    answer: Option<&str>,
    change: impl FnOnce(&mut StartEvent, &mut Vec<ItemBody>),
) -> Start {
    let mut event = start_event(scope, request, question);
    let mut items = vec![item(Channel::Question, question)];
    items.extend(answer.map(|a| item(Channel::Final, a)));
    change(&mut event, &mut items);
    let mut entries: Vec<Entry> = items.into_iter().map(Entry::from).collect();
    entries[0]
        .events
        .push(Event::Start(Box::new(event.clone())));
    if answer.is_some() {
        let close = CloseEvent {
            status: TurnStatus::Finalized,
            fingerprint: event.fingerprint,
            fallback: false,
            metadata: None,
        };
        let last = entries.last_mut().unwrap();
        last.events.push(Event::Close(Box::new(close)));
    }
    Start {
        session: NewSession::with_id(sid(session)),
        event,
        batch: Batch::pack(entries, &crate::OsEntropy).unwrap(),
        status: if answer.is_some() {
            TurnStatus::Finalized
        } else {
            TurnStatus::Open
        },
        reopen: true,
        concurrent_turns: ConcurrentTurns::Allow,
        terminal: Vec::new(),
        expected_seq: None,
    }
}

pub fn start(scope: &Scope, session: &str, request: &str, question: &str) -> Start {
    start_with(scope, session, request, question, None, |_, _| {})
}

pub fn append(session: &str, turn: TurnId, items: Vec<ItemBody>, expected: Option<u64>) -> Write {
    let entries: Vec<Entry> = items.into_iter().map(Entry::from).collect();
    Write::Append(Arc::new(Append {
        session_id: sid(session),
        turn_id: turn,
        batch: Batch::pack(entries, &crate::OsEntropy).unwrap(),
        expected_seq: expected,
        progress: None,
    }))
}

pub fn close(session: &str, turn: TurnId, ending: Ending, fingerprint: [u8; 16]) -> Close {
    Close {
        session_id: sid(session),
        turn_id: turn,
        request_id: None,
        ending,
        metadata: None,
        fingerprint,
        stream: None,
        packed: OnceLock::new(),
    }
}

pub fn answer(neutral: Option<&str>) -> Ending {
    Ending::Finalize {
        neutral: neutral.map(JsonText::from_plain),
        translated: None,
        fallback: None,
    }
}

pub fn finalize(session: &str, turn: TurnId, words: Option<&str>) -> Write {
    let fingerprint = body(&format!("finalize {words:?}"));
    Write::Close(Arc::new(close(session, turn, answer(words), fingerprint)))
}

pub fn fail(session: &str, turn: TurnId, words: &str) -> Write {
    let entries = vec![
        item(Channel::Partial, "so far").into(),
        item(Channel::Error, words).into(),
    ];
    Write::Close(Arc::new(close(
        session,
        turn,
        Ending::Fail(entries),
        body(words),
    )))
}

pub fn cancel(session: &str, turn: TurnId) -> Write {
    let entries = vec![item(Channel::Cancelled, "stop").into()];
    Write::Close(Arc::new(close(
        session,
        turn,
        Ending::Cancel(entries),
        body("cancel"),
    )))
}

pub fn interrupt(session: &str, turn: TurnId, before: i64) -> Write {
    Write::Interrupt(Interrupt {
        session_id: sid(session),
        turn_id: turn,
        before: filrouge_types::Timestamp::from_micros(before),
        stream: None,
    })
}

pub fn redact(session: &str, target: RedactionTarget) -> Write {
    Write::Redact(Redact {
        session_id: sid(session),
        target,
        reason: "on \"request\"".into(),
        by: "operator".into(),
    })
}

/// A redaction of seq ranges (first and last).
pub fn redact_items(session: &str, ranges: &[(u64, u64)]) -> Write {
    let seqs = Seqs::from_ranges(ranges.iter().copied()).unwrap();
    redact(session, RedactionTarget::Items(seqs))
}

/// A complete turn that replaces the turn `replaced`.
pub fn replacement(
    scope: &Scope,
    session: &str,
    request: &str,
    replaced: TurnId,
    words: &str,
) -> Write {
    let start = start_with(scope, session, request, words, Some(words), |event, _| {
        event.replaces = Some(replaced);
    });
    Write::Start(Arc::new(start))
}

impl Fixture {
    pub async fn write(&self, scope: &Scope, write: Write) -> Result<Outcome, Failure> {
        let stored = self.ledger.write(cmd(scope, write)).await;
        stored.map(|stored| stored.outcome)
    }

    pub async fn create(&self, scope: &Scope, session: &str) -> Result<Outcome, Failure> {
        self.write(
            scope,
            Write::CreateSession(NewSession::with_id(sid(session))),
        )
        .await
    }

    pub async fn write_turn(&self, scope: &Scope, write: Write) -> Result<Turn, Failure> {
        match self.write(scope, write).await? {
            Outcome::Turn(turn, _) => Ok(*turn),
            other => panic!("expected a turn, got {other:?}"),
        }
    }

    pub async fn try_start(&self, scope: &Scope, start: Start) -> Result<Turn, Failure> {
        self.write_turn(scope, Write::Start(Arc::new(start))).await
    }

    pub async fn write_redaction(&self, scope: &Scope, write: Write) -> Result<Redacted, Failure> {
        match self.write(scope, write).await? {
            Outcome::Redacted(redacted) => Ok(redacted),
            other => panic!("expected a receipt, got {other:?}"),
        }
    }

    pub async fn redact_turn(&self, scope: &Scope, turn: &Turn) -> Result<Turn, Failure> {
        let write = redact(
            turn.session_id.as_str(),
            RedactionTarget::Turn(turn.turn_id),
        );
        Ok(*self.write_redaction(scope, write).await?.turn.unwrap())
    }

    /// Starts a turn with a question.
    pub async fn start(&self, scope: &Scope, session: &str, request: &str) -> Turn {
        self.try_start(scope, start(scope, session, request, request))
            .await
            .unwrap()
    }

    /// Writes a complete turn.
    pub async fn complete_turn(
        &self,
        scope: &Scope,
        session: &str,
        request: &str,
        words: &str,
    ) -> Turn {
        let start = start_with(scope, session, request, request, Some(words), |_, _| {});
        self.try_start(scope, start).await.unwrap()
    }

    pub async fn append(
        &self,
        scope: &Scope,
        turn: &Turn,
        items: Vec<ItemBody>,
    ) -> Result<(u64, u64, bool), Failure> {
        let write = append(turn.session_id.as_str(), turn.turn_id, items, None);
        self.write_append(scope, write).await
    }

    pub async fn write_append(
        &self,
        scope: &Scope,
        write: Write,
    ) -> Result<(u64, u64, bool), Failure> {
        match self.write(scope, write).await? {
            Outcome::Appended {
                first_seq,
                last_seq,
                replayed,
                ..
            } => Ok((first_seq, last_seq, replayed)),
            other => panic!("expected appended items, got {other:?}"),
        }
    }

    pub async fn last_seq(&self, scope: &Scope, session: &str) -> u64 {
        self.ledger
            .session(scope, &sid(session))
            .await
            .unwrap()
            .last_seq
    }

    /// All items, read by page.
    pub async fn items(&self, scope: &Scope, session: &str, page: usize) -> Vec<Item> {
        let (mut read, mut after) = (Vec::new(), 0);
        loop {
            let (items, next) = self
                .ledger
                .items(scope, &sid(session), after, page)
                .await
                .unwrap();
            assert!(items.len() <= page);
            read.extend(items);
            match next {
                Some(next) => after = next.parse().unwrap(),
                None => return read,
            }
        }
    }

    /// Asserts that the verification has no findings.
    pub async fn assert_intact(&self) {
        let report = self.ledger.verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
        assert_eq!(report.verdict(), Verdict::Intact);
        assert_eq!(self.ledger.health().integrity, None);
    }
}

/// The item in its translated variant.
pub fn translated(mut item: ItemBody) -> ItemBody {
    item.variant = Variant::Translated;
    item
}
