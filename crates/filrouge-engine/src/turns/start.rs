//! Starts turns. Also records complete turns, and turns that replace others (DESIGN §4.1, §4.6).

use std::sync::Arc;

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{NewSession, Outcome, Scope, Start, Write};
use filrouge_store::hot::FieldRetention;
use filrouge_store::read::merge_metadata;
use filrouge_store::record::{Batch, CloseEvent, Entry, Event, StartEvent};
use filrouge_store::rows::derived_title;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, JsonText, QUESTION_IS_COPY, RawJson, Role, SessionId,
    Timestamp, Turn, TurnId, TurnStatus, Variant, flag_metadata, select_members,
};

use super::answer::{answer_item, complete_answer};
use super::close::finalize_fingerprint;
use crate::caller::{Caller, Permission};
use crate::calls::fenced_scope;
use crate::engine::Turns;
use crate::record_policy::{Omissions, kept_metadata};
use crate::requests::{FinalizeTurn, ReplaceTurn, StartTurn, optional_bytes};
use crate::secrets::{Masked, TurnSecrets, runtime_contexts};
use crate::shared::{invalid, unexpected_outcome};
use crate::validate::Author;
use crate::written::Written;

/// A turn that happened earlier and is recorded now; such a turn is never reopened.
pub(crate) struct PastTurn {
    pub(crate) asked_at: Timestamp,
    pub(crate) answered_at: Option<Timestamp>,
    /// Whether the translated answer is a copy of the neutral one.
    pub(crate) is_fallback: bool,
}

/// A start that is ready to be written, with the counts of what was masked and left out.
struct PreparedStart {
    start: Start,
    masked: Masked,
    secrets: Option<Arc<TurnSecrets>>,
    omissions: Omissions,
}

impl Turns {
    /// Starts a turn, or records a complete one.
    ///
    /// # Errors
    /// `session_conflict`, `seq_conflict`, `session_closed`, `session_terminated`, `turn_open`, `idempotency_mismatch`,
    /// `answer_missing`, `invalid`, `limit_exceeded`, `credential_refused`, and the ledger's errors.
    pub async fn start(
        &self,
        caller: &Caller,
        session: SessionId,
        request: StartTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let (turn, _) = self.start_or_find(scope, session, request).await?;
        Ok(turn)
    }

    /// Like [`Self::start`]. Also returns whether this call started or reopened the turn, so that its caller must
    /// answer the turn; otherwise the turn existed.
    pub(crate) async fn start_or_find(
        &self,
        scope: &Scope,
        session: SessionId,
        request: StartTurn,
    ) -> Result<(Written<Turn>, bool), Failure> {
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        self.start_with_origin(scope, session, request, None, None)
            .await
    }

    /// Records a turn that happened earlier, with its times.
    pub(crate) async fn report_turn(
        &self,
        caller: &Caller,
        session: SessionId,
        request: StartTurn,
        past: PastTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        let started = self.start_with_origin(scope, session, request, None, Some(past));
        Ok(started.await?.0)
    }

    async fn start_with_origin(
        &self,
        scope: &Scope,
        session: SessionId,
        request: StartTurn,
        replaces: Option<TurnId>,
        past: Option<PastTurn>,
    ) -> Result<(Written<Turn>, bool), Failure> {
        let retention = self.retention(scope, &session).await?;
        let prepared = self.prepare(scope, session, request, replaces, past, &retention)?;
        let write = Write::Start(Arc::new(prepared.start));
        let stored = self.write(scope, write).await?;
        let (turn, put) = match stored.outcome {
            Outcome::Turn(turn, put) => (*turn, put),
            _ => return Err(unexpected_outcome()),
        };
        if let Some(secrets) = prepared.secrets {
            let (session, now) = (turn.session_id.clone(), self.clock.now());
            let turn_session = (scope.tenant.clone(), session);
            self.secrets
                .insert((turn_session, turn.turn_id), secrets, now);
            if turn.status != TurnStatus::Open {
                self.secrets.mark_closed(turn.turn_id, now);
            }
        }
        let replayed = turn.replayed;
        self.count_omissions(&prepared.omissions, replayed);
        let written = Written::new(turn, replayed, stored.durability);
        let turn = self.count_masked(written, &prepared.masked);
        Ok((turn, put.is_some()))
    }

    /// Records a complete turn that replaces the closed turn `old`. The contents of the old turn stay unchanged.
    ///
    /// # Errors
    /// `turn_not_found`, `turn_open`, `turn_replaced`, `answer_missing`, and the errors of [`Self::start`].
    pub async fn replace(
        &self,
        caller: &Caller,
        session: SessionId,
        old: TurnId,
        request: ReplaceTurn,
    ) -> Result<Written<Turn>, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        if request.answer_neutral.is_none() {
            return Err(ErrorCode::AnswerMissing.failure("a replacement needs answer_neutral"));
        }
        let scope = &fenced_scope(scope, request.fence, request.release)?;
        let started = self.start_with_origin(scope, session, request, Some(old), None);
        Ok(started.await?.0)
    }

    fn check_start(&self, request: &StartTurn) -> Result<(), Failure> {
        let limits = self.limits();
        limits.check_metadata(request.metadata.as_ref(), "metadata")?;
        limits.check_metadata(request.runtime_context.as_ref(), "runtime_context")?;
        for label in request.application.labels() {
            limits.check_label(label.value, label.name)?;
        }
        Ok(())
    }

    /// The items of the question: the neutral one, and the translated one if the request has it. If the request has
    /// only a translated question, it is used as the neutral one too, and `metadata` gets a flag that says so. Empty if
    /// the request has the question in its `items` (`is_in_items`).
    fn question_items(
        request: &StartTurn,
        is_in_items: bool,
        metadata: &mut Option<RawJson>,
    ) -> Result<Vec<ItemBody>, Failure> {
        let question = match (&request.question_neutral, &request.question_translated) {
            (Some(neutral), _) => neutral,
            (None, Some(translated)) => {
                let flag = flag_metadata(QUESTION_IS_COPY);
                *metadata = Some(merge_metadata(metadata.as_ref(), Some(&flag)));
                translated
            }
            (None, None) if is_in_items => return Ok(Vec::new()),
            (None, None) => return Err(no_question()),
        };
        let item =
            |variant, text| ItemBody::from_text(Role::User, Channel::Question, variant, text);
        let mut items = vec![item(Variant::Neutral, question)];
        let translated = request.question_translated.as_ref();
        items.extend(translated.map(|text| item(Variant::Translated, text)));
        Ok(items)
    }

    /// Checks the request, leaves out and masks data that must not be recorded, and returns the start to write.
    fn prepare(
        &self,
        scope: &Scope,
        session: SessionId,
        mut request: StartTurn,
        replaces: Option<TurnId>,
        past: Option<PastTurn>,
        retention: &FieldRetention,
    ) -> Result<PreparedStart, Failure> {
        self.check_start(&request)?;
        if past.is_none() {
            check_question(&request)?;
        }
        // The fingerprint identifies retries, so it is computed from the request before anything is masked.
        let fingerprint = start_fingerprint(&request, replaces.as_ref());
        let ends = request.finalize || request.answer_neutral.is_some();
        let end_fingerprint = ends.then(|| {
            finalize_fingerprint(&FinalizeTurn {
                answer_neutral: request.answer_neutral.clone(),
                ..FinalizeTurn::default()
            })
        });
        let is_in_items = has_question_in_items(&request);
        let items = std::mem::take(&mut request.items);
        let items = self.limits().check_items(items, Author::Caller)?;
        let raw_contexts = runtime_contexts(&request, &items);
        request.runtime_context = self.hash_addresses(&scope.tenant, request.runtime_context);
        request.metadata = self.hash_addresses(&scope.tenant, request.metadata);
        let mut items = self.hash_addresses_in_items(&scope.tenant, items);
        let secrets = self.starting_secrets(&raw_contexts, &request, &items);
        let mut omissions = Omissions::default();
        kept_metadata(retention, &mut request.metadata, &mut omissions);
        items.retain(|item| omissions.keep_or_omit(retention.record, &item.body.channel));
        let masker = self.masker(secrets.clone());
        let result = self.mask_with(masker, |masker| masker.mask_start(request, items))?;
        let ((request, later_items), masked) = result;
        let mut metadata = request.metadata.clone();
        let mut items = Self::question_items(&request, is_in_items, &mut metadata)?;
        items.extend(later_items);
        if let Some(question) = items.first_mut() {
            self.add_context(question, request.runtime_context.as_ref());
        }
        let answer = request.answer_neutral.as_ref();
        items.extend(answer.map(|answer| answer_item(Variant::Neutral, answer)));
        let (mut fallback, end_metadata) = match ends {
            true => complete_answer(&mut items, request.application.wants_translation())?,
            false => (false, None),
        };
        if let Some(past) = &past {
            fallback |= past.is_fallback;
            for item in &mut items {
                item.occurred_at = match item.channel {
                    Channel::Question => Some(past.asked_at),
                    _ => past.answered_at,
                };
            }
        }
        let event = StartEvent {
            request_id: request.request_id,
            identity_id: scope.viewer.identity().cloned(),
            fingerprint,
            replaces,
            application: request.application,
            metadata,
        };
        let close = end_fingerprint.map(|fingerprint| {
            Event::Close(Box::new(CloseEvent {
                status: TurnStatus::Finalized,
                fingerprint,
                fallback,
                metadata: end_metadata,
            }))
        });
        let status = match ends {
            true => TurnStatus::Finalized,
            false => TurnStatus::Open,
        };
        let mut questions = items.iter().filter(|i| i.channel == Channel::Question);
        let session = NewSession {
            title: questions.find_map(derived_title),
            ..NewSession::with_id(session)
        };
        let reopen = past.is_none();
        let start = self.seal_start(session, event, items, status, close, reopen)?;
        Ok(PreparedStart {
            start: Start {
                expected_seq: request.expected_seq,
                ..start
            },
            masked,
            secrets,
            omissions,
        })
    }

    pub(crate) fn seal_start(
        &self,
        session: NewSession,
        mut event: StartEvent,
        items: Vec<ItemBody>,
        status: TurnStatus,
        mut last: Option<Event>,
        reopen: bool,
    ) -> Result<Start, Failure> {
        self.limits().check_sizes(&items)?;
        event.fingerprint = self.keyed_fingerprint(event.fingerprint);
        if let Some(Event::Close(close)) = &mut last {
            close.fingerprint = self.keyed_fingerprint(close.fingerprint);
        }
        let mut entries: Vec<Entry> = items.into_iter().map(Into::into).collect();
        if let Some(first) = entries.first_mut() {
            first.events.push(Event::Start(Box::new(event.clone())));
        }
        if let (Some(entry), Some(last)) = (entries.last_mut(), last) {
            entry.events.push(last);
        }
        let batch = Batch::pack(entries, self.entropy.as_ref())?;
        Ok(Start {
            session,
            event,
            batch,
            status,
            reopen,
            concurrent_turns: self.settings.concurrent_turns,
            // What happened earlier is recorded in whatever state the session is by now.
            terminal: match reopen {
                true => self.settings.calls.terminal_states().to_vec(),
                false => Vec::new(),
            },
            expected_seq: None,
        })
    }

    /// Adds the allow-listed members of the runtime context to the question's metadata. Other members are dropped and
    /// counted.
    fn add_context(&self, question: &mut ItemBody, context: Option<&RawJson>) {
        let Some(context) = context else { return };
        let (allowed, dropped) = select_members(context, &self.settings.runtime_context_allow);
        if dropped > 0 {
            self.counters.runtime_context_dropped.add(dropped as u64);
            tracing::debug!(
                dropped,
                "runtime_context members that are not on the allow-list were dropped"
            );
        }
        if allowed.as_str() != "{}" {
            let merged = merge_metadata(question.metadata.as_ref(), Some(&allowed));
            question.metadata = Some(merged);
        }
    }
}

/// Checks that a question is not empty, unless an item of the user has its parts.
fn check_question(request: &StartTurn) -> Result<(), Failure> {
    let texts = [&request.question_neutral, &request.question_translated];
    let mut texts = texts.into_iter().flatten();
    let has_text = texts.any(|text| !text.inner().trim().is_empty());
    let has_parts = |item: &ItemBody| item.role == Role::User && item.parts.as_str() != "[]";
    if has_text || request.items.iter().any(has_parts) {
        return Ok(());
    }
    Err(no_question())
}

fn no_question() -> Failure {
    invalid("a turn needs a question: question_neutral or question_translated").with_hint(
        "send its text, or send its parts in the first item, with role user and channel question",
    )
}

/// Whether the question is the first of the request's items: a neutral question of the user, with parts. If the request
/// has a question outside of its items, they follow it.
fn has_question_in_items(request: &StartTurn) -> bool {
    let texts = [&request.question_neutral, &request.question_translated];
    let is_question = |item: &ItemBody| {
        item.role == Role::User
            && item.channel == Channel::Question
            && item.variant == Variant::Neutral
            && item.parts.as_str() != "[]"
    };
    texts.into_iter().all(Option::is_none) && request.items.first().is_some_and(is_question)
}

fn start_fingerprint(request: &StartTurn, replaces: Option<&TurnId>) -> [u8; 16] {
    let mut pieces: Vec<Vec<u8>> = vec![b"start".to_vec()];
    let texts = [
        &request.question_neutral,
        &request.question_translated,
        &request.answer_neutral,
    ];
    pieces.extend(texts.map(|t| optional_bytes(t.as_ref().map(JsonText::as_token))));
    let application = &request.application;
    pieces.push(vec![u8::from(application.wants_translation())]);
    pieces.extend(application.labels().map(|l| optional_bytes(l.value)));
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
    // Starts without it keep the fingerprint that they had before the member existed.
    pieces.extend(request.finalize.then(|| b"finalize".to_vec()));
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    fingerprint(&pieces)
}
