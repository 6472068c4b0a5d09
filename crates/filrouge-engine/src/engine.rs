//! Requests in, answers out: each request becomes one write of the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{
    Append, Command, ConcurrentTurns, NewSession, Outcome, Scope, Start, Write,
};
use filrouge_store::read::merged;
use filrouge_store::record::{Batch, CloseEvent, Entry, Event, StartEvent};
use filrouge_store::{Entropy, Ledger};
use filrouge_types::{
    Channel, Clock, ErrorCode, Failure, JsonText, NewItem, RawJson, Role, SessionId, Turn, TurnId,
    TurnStatus, Variant, select_members,
};

use crate::close::finalize_fingerprint;
use crate::requests::{AppendItems, FinalizeTurn, ReplaceTurn, StartTurn};
use crate::secrets::{Counters, CredentialPolicy, Masked, Recorded, Registry, TurnSecrets};
use crate::trace::Trace;
use crate::validate::{Author, Limits};

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether a session may have several open turns.
    pub concurrent_turns: ConcurrentTurns,
    /// Silence after which a turn counts as interrupted.
    pub turn_timeout: Duration,
    /// Silence of who records a stream after which it counts as gone. Those who are there give a sign of life three
    /// times as often, and at least every [`crate::stream::BEAT`]; all processes of a store need the same timeout.
    pub stream_timeout: Duration,
    /// Members of `runtime_context` that become metadata of the question.
    pub runtime_context_allow: Vec<String>,
    /// What is done with credentials in what users say and in parameters of tools.
    pub credentials: CredentialPolicy,
    /// Upper bounds.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        let allow = [
            "channel",
            "device_type",
            "ip_hash",
            "language",
            "locale",
            "timezone",
        ];
        Self {
            concurrent_turns: ConcurrentTurns::Allow,
            turn_timeout: Duration::from_secs(15 * 60),
            stream_timeout: Duration::from_secs(30),
            runtime_context_allow: allow.map(str::to_owned).to_vec(),
            credentials: CredentialPolicy::default(),
            limits: Limits::default(),
        }
    }
}

/// Where appended items stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The first one's seq.
    pub first_seq: u64,
    /// The last one's seq.
    pub last_seq: u64,
    /// Whether this repeats an earlier answer.
    pub replayed: bool,
}

/// The engine over one ledger.
pub struct Engine {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) secrets: Registry,
    pub(crate) credentials: Counters,
    runtime_context_dropped: AtomicU64,
}

/// A start that is ready to be written, and what was kept out of it.
type Started = (Start, Masked, Option<Arc<TurnSecrets>>);

pub(crate) fn unexpected() -> Failure {
    Failure::new(ErrorCode::Internal, "the ledger answered another question")
}

fn text_parts(text: &JsonText) -> RawJson {
    RawJson::from_checked(format!(r#"[{{"type":"text","text":{}}}]"#, text.as_token()))
}

pub(crate) fn text_item(
    role: Role,
    channel: Channel,
    variant: Variant,
    text: &JsonText,
) -> NewItem {
    NewItem {
        variant,
        ..NewItem::new(role, channel, text_parts(text))
    }
}

impl Engine {
    /// An engine over `ledger`.
    #[must_use]
    pub fn new(
        ledger: Arc<dyn Ledger>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        Self {
            ledger,
            entropy,
            clock,
            settings,
            secrets: Registry::default(),
            credentials: Counters::default(),
            runtime_context_dropped: AtomicU64::new(0),
        }
    }

    /// The ledger, for reading.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ref()
    }

    /// The ledger, for what lives beside the engine.
    #[must_use]
    pub fn shared_ledger(&self) -> Arc<dyn Ledger> {
        self.ledger.clone()
    }

    /// The bounds of what is taken.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// How many members of `runtime_context` were forgotten because they are not on the allow-list.
    #[must_use]
    pub fn runtime_context_dropped(&self) -> u64 {
        self.runtime_context_dropped.load(Ordering::Relaxed)
    }

    pub(crate) async fn write(&self, scope: &Scope, write: Write) -> Result<Outcome, Failure> {
        let trace = Trace::begin(scope, &write);
        let scope = scope.clone();
        let outcome = self.ledger.write(Command { scope, write }).await?;
        if let Some(trace) = trace {
            trace.done(&outcome);
        }
        Ok(outcome)
    }

    pub(crate) async fn write_turn(&self, scope: &Scope, write: Write) -> Result<Turn, Failure> {
        match self.write(scope, write).await? {
            Outcome::Turn(turn, _) => Ok(*turn),
            _ => Err(unexpected()),
        }
    }

    /// Starts a turn, or records a whole one.
    ///
    /// # Errors
    /// `session_conflict`, `turn_open`, `idempotency_mismatch`, `invalid`, `limit_exceeded`, `credential_refused`, and
    /// the ledger's.
    pub async fn start_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        request: StartTurn,
    ) -> Result<Recorded<Turn>, Failure> {
        let started = self.start(scope, session, request, None)?;
        self.write_start(scope, started).await
    }

    async fn write_start(
        &self,
        scope: &Scope,
        (start, masked, secrets): Started,
    ) -> Result<Recorded<Turn>, Failure> {
        let turn = self
            .write_turn(scope, Write::Start(Box::new(start)))
            .await?;
        if let Some(secrets) = secrets
            && turn.status == TurnStatus::Open
        {
            self.secrets().hold(turn.turn_id, secrets, self.clock.now());
        }
        let replayed = turn.replayed;
        Ok(self.recorded(turn, &masked, replayed))
    }

    /// Replaces a closed turn; nothing of it is edited.
    ///
    /// # Errors
    /// `turn_not_found`, `turn_open`, `turn_replaced`, `answer_missing`, and as [`Self::start_turn`].
    pub async fn replace_turn(
        &self,
        scope: &Scope,
        session: SessionId,
        old: TurnId,
        request: ReplaceTurn,
    ) -> Result<Recorded<Turn>, Failure> {
        if request.answer_neutral.is_none() {
            return Err(Failure::new(
                ErrorCode::AnswerMissing,
                "a replacement needs answer_neutral",
            ));
        }
        let started = self.start(scope, session, request, Some(old))?;
        self.write_start(scope, started).await
    }

    fn start(
        &self,
        scope: &Scope,
        session: SessionId,
        request: StartTurn,
        replaces: Option<TurnId>,
    ) -> Result<Started, Failure> {
        self.settings
            .limits
            .metadata(request.metadata.as_ref(), "metadata")?;
        self.settings
            .limits
            .metadata(request.runtime_context.as_ref(), "runtime_context")?;
        self.settings.limits.items(&request.items, Author::Caller)?;
        for (field, text) in [
            ("pipeline_name", &request.pipeline_name),
            ("consultant", &request.consultant),
            ("repository", &request.repository),
        ] {
            self.settings.limits.label(text.as_deref(), field)?;
        }
        // Of the request as it came: a retry is known by it, whatever is masked.
        let fingerprint = start_fingerprint(&request, replaces.as_ref());
        let answered = request.answer_neutral.clone().map(|answer| {
            finalize_fingerprint(&FinalizeTurn {
                answer_neutral: Some(answer),
                ..FinalizeTurn::default()
            })
        });
        let secrets = self.starting_secrets(&request);
        let sieve = self.sieve(secrets.clone());
        let (request, masked) = self.sift(sieve, |sieve| sieve.start(request))?;
        let mut metadata = request.metadata;
        let question = match (&request.question_neutral, &request.question_translated) {
            (Some(neutral), _) => neutral.clone(),
            (None, Some(translated)) => {
                let flag = RawJson::from_checked(r#"{"question_neutral_is_fallback":true}"#);
                metadata = Some(merged(metadata.as_ref(), Some(&flag)));
                translated.clone()
            }
            (None, None) => {
                return Err(Failure::new(
                    ErrorCode::Invalid,
                    "a turn needs question_neutral or question_translated",
                ));
            }
        };
        let mut items = vec![NewItem {
            metadata: self.question_metadata(request.runtime_context.as_ref()),
            ..text_item(Role::User, Channel::Question, Variant::Neutral, &question)
        }];
        if let Some(text) = &request.question_translated {
            items.push(text_item(
                Role::User,
                Channel::Question,
                Variant::Translated,
                text,
            ));
        }
        items.extend(request.items);
        let mut fallback = false;
        if let Some(answer) = &request.answer_neutral {
            let variants: Vec<Variant> = items
                .iter()
                .filter(|i| i.channel == Channel::Final)
                .map(|i| i.variant)
                .collect();
            items.push(text_item(
                Role::Assistant,
                Channel::Final,
                Variant::Neutral,
                answer,
            ));
            if request.translate_chat && !variants.contains(&Variant::Translated) {
                fallback = true;
                items.push(text_item(
                    Role::Assistant,
                    Channel::Final,
                    Variant::Translated,
                    answer,
                ));
            }
        }
        let event = StartEvent {
            request_id: request.request_id,
            identity_id: scope.viewer.identity().cloned(),
            fingerprint,
            replaces,
            translate_chat: request.translate_chat,
            pipeline_name: request.pipeline_name,
            consultant: request.consultant,
            repository: request.repository,
            metadata,
        };
        let close = answered.map(|fingerprint| {
            Event::Close(Box::new(CloseEvent {
                status: TurnStatus::Finalized,
                fingerprint,
                fallback,
                metadata: None,
            }))
        });
        let status = if close.is_some() {
            TurnStatus::Finalized
        } else {
            TurnStatus::Open
        };
        let session = NewSession::bare(session);
        let start = self.seal_start(session, event, items, status, close, true)?;
        Ok((start, masked, secrets))
    }

    /// A fingerprint as it goes to the ledger: without the keyring nobody can make it from a guessed request.
    pub(crate) fn keyed(&self, fingerprint: [u8; 16]) -> [u8; 16] {
        self.ledger.keyring().request_fingerprint(&fingerprint)
    }

    pub(crate) fn seal_start(
        &self,
        session: NewSession,
        mut event: StartEvent,
        items: Vec<NewItem>,
        status: TurnStatus,
        mut last: Option<Event>,
        reopen: bool,
    ) -> Result<Start, Failure> {
        self.settings.limits.items(&items, Author::Engine)?;
        event.fingerprint = self.keyed(event.fingerprint);
        if let Some(Event::Close(close)) = &mut last {
            close.fingerprint = self.keyed(close.fingerprint);
        }
        let mut entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        if let Some(first) = entries.first_mut() {
            first.events.push(Event::Start(Box::new(event.clone())));
        }
        if let (Some(entry), Some(last)) = (entries.last_mut(), last) {
            entry.events.push(last);
        }
        let batch = Batch::seal(&entries, self.entropy.as_ref())?;
        Ok(Start {
            session,
            event,
            batch,
            status,
            reopen,
            concurrent_turns: self.settings.concurrent_turns,
        })
    }

    /// Allow-listed members of the runtime context; the rest is counted and forgotten.
    fn question_metadata(&self, context: Option<&RawJson>) -> Option<RawJson> {
        let (kept, dropped) = select_members(context?, &self.settings.runtime_context_allow);
        if dropped > 0 {
            self.runtime_context_dropped
                .fetch_add(dropped as u64, Ordering::Relaxed);
            tracing::debug!(
                dropped,
                "runtime_context members that are not on the allow-list were forgotten"
            );
        }
        Some(kept).filter(|kept| kept.as_str() != "{}")
    }

    /// Appends items to an open turn.
    ///
    /// # Errors
    /// `seq_conflict`, `turn_closed`, `partial_replay`, `idempotency_mismatch`, `final_exists`, `invalid`,
    /// `limit_exceeded`, `credential_refused`, `session_not_found`, `turn_not_found`, and the ledger's.
    pub async fn append_items(
        &self,
        scope: &Scope,
        session_id: SessionId,
        turn_id: TurnId,
        request: AppendItems,
    ) -> Result<Recorded<Appended>, Failure> {
        if request.items.is_empty() {
            return Err(Failure::new(ErrorCode::Invalid, "items must not be empty"));
        }
        self.settings.limits.items(&request.items, Author::Caller)?;
        let sieve = self.sieve(self.secrets_of(turn_id));
        let (items, masked) = self.sift(sieve, |sieve| sieve.items(request.items))?;
        let entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        let batch = Batch::seal(&entries, self.entropy.as_ref())?;
        let append = Append {
            session_id: session_id.clone(),
            turn_id,
            batch,
            expected_seq: request.expected_seq,
            progress: None,
        };
        match self.write(scope, Write::Append(Box::new(append))).await? {
            Outcome::Appended {
                first_seq,
                last_seq,
                replayed,
            } => {
                let appended = Appended {
                    first_seq,
                    last_seq,
                    replayed,
                };
                Ok(self.recorded(appended, &masked, replayed))
            }
            _ => Err(unexpected()),
        }
    }
}

pub(crate) fn optional_bytes(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(|| vec![0], |t| [b"1", t.as_bytes()].concat())
}

fn start_fingerprint(request: &StartTurn, replaces: Option<&TurnId>) -> [u8; 16] {
    let mut pieces: Vec<Vec<u8>> = vec![b"start".to_vec()];
    let texts = [
        &request.question_neutral,
        &request.question_translated,
        &request.answer_neutral,
    ];
    pieces.extend(texts.map(|t| optional_bytes(t.as_ref().map(JsonText::as_token))));
    pieces.push(vec![u8::from(request.translate_chat)]);
    let labels = [
        &request.pipeline_name,
        &request.consultant,
        &request.repository,
    ];
    pieces.extend(labels.map(|t| optional_bytes(t.as_deref())));
    pieces.push(optional_bytes(
        request.metadata.as_ref().map(RawJson::as_str),
    ));
    pieces.push(replaces.map_or_else(Vec::new, |id| id.as_bytes().to_vec()));
    pieces.extend(
        request
            .items
            .iter()
            .map(|item| filrouge_store::record::item_fingerprint(item).to_vec()),
    );
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    fingerprint(&pieces)
}
