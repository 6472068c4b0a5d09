//! Ends a recording. The last write depends on how the stream ended: it has the answer, the calls that wait for
//! results, or the drafted text and the error.

use std::sync::Arc;

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{AFTER_ANY_HEARTBEAT, Close, Ending, Interrupt, Outcome, Write};
use filrouge_store::draft::{DraftPiece, StreamId, partial_entries};
use filrouge_store::record::Entry;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ItemId, RawJson, Role, Turn, TurnStatus,
};

use super::end::{Ended, StreamError};
use super::recording::Recording;
use super::transcript::Transcript;
use crate::core::unexpected;
use crate::record_policy::LeftOut;
use crate::trace::millis;
use crate::turns::{cancelled, error_part};
use crate::written::Written;

impl Recording {
    /// Writes the end of the transcript: the answer, the calls that wait for results, or the drafted text and the
    /// error. A transcript without an end counts as truncated. Returns the turn after the write.
    ///
    /// # Errors
    /// Like [`Self::refused`].
    pub async fn end(mut self, transcript: &mut Transcript) -> Result<Written<Turn>, Failure> {
        let latency = self.began.elapsed().as_millis().to_string();
        transcript.set_metadata("latency_ms", &latency);
        let (events, unknown) = transcript.events();
        let format = self.settings.format;
        let stream = format!(
            r#"{{"id":"{}","format":"{format}","events":{events},"unknown_events":{unknown}}}"#,
            self.stream
        );
        transcript.set_metadata("stream", &stream);
        let turn = match transcript.ended().cloned() {
            Some(Ended::Answered) => self.answered(transcript).await,
            Some(Ended::Continues) => self.continues(transcript).await,
            Some(Ended::Cancelled) => self.break_off(transcript, None).await,
            Some(Ended::Failed(error)) => self.break_off(transcript, Some(error)).await,
            None => {
                let error = StreamError::of_stream("stream_truncated", "the stream was abandoned");
                self.break_off(transcript, Some(error)).await
            }
        };
        let turn = match turn {
            Err(failure) => return self.refused(transcript, failure).await,
            Ok(turn) => turn,
        };
        self.trace(&turn, events, unknown);
        Ok(self.as_written(turn))
    }

    /// The turn as the result of a write, with the count of masked credentials. If the turn has ended, also forgets its
    /// secrets.
    fn as_written(&self, turn: Turn) -> Written<Turn> {
        if turn.status != TurnStatus::Open {
            let now = self.core.clock.now();
            self.core.secrets().forget(self.turn_id, now);
        }
        Written {
            masked: self.masked,
            ..Written::new(turn, false, self.durability)
        }
    }

    fn trace(&self, turn: &Turn, events: u64, unknown: u64) {
        let (items, drafts) = (self.items, self.drafts);
        let duration_ms = millis(self.began.elapsed());
        tracing::info!(
            op = %"stream", tenant_id = %self.scope.tenant, session_id = %turn.session_id, turn_id = %turn.turn_id, stream = %self.stream, status = %turn.status,
            last_seq = turn.last_seq, items, drafts, events, unknown, duration_ms, "[SESSIONS][PERSIST_TRACE]"
        );
    }

    async fn answered(&mut self, transcript: &mut Transcript) -> Result<Turn, Failure> {
        let ready = transcript.take_ready();
        let mut entries = self.entries(ready)?;
        let is_final = |e: &Entry| e.item.channel == Channel::Final;
        if !entries.iter().any(is_final) {
            // A response without a text is recorded as an empty answer.
            let parts = RawJson::from_checked(r#"[{"type":"text","text":""}]"#);
            let mut item = ItemBody::new(Role::Assistant, Channel::Final, parts);
            if !transcript.is_reported() {
                (item.usage, item.metadata) = self.reported_at_end(transcript);
            }
            item.model = transcript.model_name().map(Into::into);
            item.agent.clone_from(&self.settings.agent);
            item.item_id = ItemId::new(format!("{}.final", self.stream)).ok();
            entries.push(item.into());
        }
        if !self.settings.finalize {
            let append = self.batch(entries, Vec::new(), true)?;
            return match self.append(&append).await {
                Err(f) if f.code == ErrorCode::FinalExists => {
                    self.record_as_observation(append.batch.entries(), transcript)
                        .await
                }
                done => {
                    done?;
                    self.turn().await
                }
            };
        }
        let close = self.ending(Ending::Recorded(entries), Some(self.stream));
        match self.close(&close).await {
            Err(f) if f.code == ErrorCode::FinalExists => {
                self.record_as_observation(close.ending.entries(), transcript)
                    .await
            }
            closed => {
                self.items += close.ending.entries().len() as u64;
                closed
            }
        }
    }

    /// Records this stream's answer as an observation, because the turn already has an answer. The turn stays open: the
    /// caller ends it.
    async fn record_as_observation(
        &mut self,
        entries: &[Entry],
        transcript: &Transcript,
    ) -> Result<Turn, Failure> {
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            if entry.item.channel == Channel::Final {
                entry.item.channel = Channel::Observation;
            }
        }
        tracing::info!(turn_id = %self.turn_id, stream = %self.stream, "the turn already has an answer; this stream's answer is recorded as an observation");
        let mut left_out = LeftOut::default();
        entries.retain(|entry| left_out.keeps(self.record, &entry.item.channel));
        self.core.count_left_out(&left_out, false);
        if entries.is_empty() {
            entries.push(self.last_note(transcript));
        }
        self.append_last(entries).await
    }

    /// Appends the last items of the recording; the turn stays open.
    async fn append_last(&mut self, entries: Vec<Entry>) -> Result<Turn, Failure> {
        let append = self.batch(entries, Vec::new(), true)?;
        self.append(&append).await?;
        self.turn().await
    }

    async fn continues(&mut self, transcript: &mut Transcript) -> Result<Turn, Failure> {
        let ready = transcript.take_ready();
        let mut entries = self.entries(ready)?;
        if !transcript.is_reported() || entries.is_empty() {
            entries.push(self.last_note(transcript));
        }
        self.append_last(entries).await
    }

    /// The usage and the metadata from the end of the response. Addresses in the metadata are hashed.
    fn reported_at_end(&self, transcript: &Transcript) -> (Option<RawJson>, Option<RawJson>) {
        let (usage, metadata) = transcript.reported();
        (usage, self.core.hashed(&self.scope.tenant, metadata))
    }

    /// An item that records the usage and the metadata from the end of the response, if no other item can.
    fn last_note(&self, transcript: &Transcript) -> Entry {
        let nothing = RawJson::from_checked("[]");
        let mut item = ItemBody::new(Role::System, Channel::SystemNote, nothing);
        (item.usage, item.metadata) = self.reported_at_end(transcript);
        item.item_id = ItemId::new(format!("{}.end", self.stream)).ok();
        item.into()
    }

    /// Ends the turn after a failure, or without `error` after a cancellation. Records the complete items, the drafted
    /// text and the reason.
    async fn break_off(
        &mut self,
        transcript: &mut Transcript,
        error: Option<StreamError>,
    ) -> Result<Turn, Failure> {
        let ready = transcript.take_ready();
        let mut entries = self.entries(ready)?;
        let shown = self.shown(transcript).into_iter().map(|e| e.item);
        entries.extend(self.mask_items(shown.collect())?);
        self.items += entries.len() as u64 + 1;
        let mut last = match &error {
            Some(error) => ItemBody::new(Role::System, Channel::Error, error_parts(error)),
            None => cancelled(),
        };
        (last.usage, last.metadata) = transcript.reported();
        entries.extend(self.mask_items(vec![last])?);
        let ending = match error {
            Some(_) => Ending::Fail(entries),
            None => Ending::Cancel(entries),
        };
        self.close(&self.ending(ending, Some(self.stream))).await
    }

    /// The text of the remaining blocks, masked, as the partial items that a draft becomes.
    fn shown(&mut self, transcript: &Transcript) -> Vec<Entry> {
        let mut pieces = Vec::new();
        self.growth(transcript);
        let record = self.record;
        for block in transcript.blocks().filter(|b| b.is_kept(record)) {
            for (index, part) in block.parts.iter().enumerate() {
                pieces.push(DraftPiece {
                    number: block.number,
                    part: index as u64,
                    head: self.head(block, part.kind, transcript),
                    text: match self.shown.get_mut(&(block.number, index)) {
                        Some(shown) => shown.all(&part.text),
                        None => part.text.clone(),
                    },
                    done: block.done,
                });
            }
        }
        partial_entries(self.stream, &pieces)
    }

    /// Handles a write of the recording that the ledger refused. If the turn has reached a limit, it is ended as
    /// failed: the draft's text is kept, followed by the reason. If another writer has ended the turn, returns the turn
    /// as it is now.
    ///
    /// # Errors
    /// `failure` itself if it is of any other kind, or if the turn is open again and belongs to another writer; and the
    /// ledger's errors.
    pub async fn refused(
        mut self,
        transcript: &Transcript,
        failure: Failure,
    ) -> Result<Written<Turn>, Failure> {
        let failure = match failure.code {
            ErrorCode::LimitExceeded => match self.fail(transcript, &failure).await {
                Err(failure) => failure,
                Ok(turn) => return Ok(self.as_written(turn)),
            },
            _ => failure,
        };
        if !matches!(failure.code, ErrorCode::TurnClosed | ErrorCode::StreamLost) {
            return Err(failure);
        }
        match self.current_turn().await? {
            turn if turn.value.status == TurnStatus::Open => Err(failure),
            turn => Ok(turn),
        }
    }

    /// Ends the turn as failed: drafts the remaining text, and records the draft's text and then the reason.
    async fn fail(&mut self, transcript: &Transcript, failure: &Failure) -> Result<Turn, Failure> {
        let growth = self.last_growth(transcript);
        if !growth.is_empty() {
            self.draft(growth).await?;
        }
        let error = StreamError::of_stream(failure.code.as_str(), &failure.detail);
        let item = ItemBody::new(Role::System, Channel::Error, error_parts(&error));
        let entries = self.mask_items(vec![item])?;
        self.close(&self.ending(Ending::Fail(entries), None)).await
    }

    /// Ends the recording because this process shuts down. The turn becomes interrupted, and all text received so far
    /// is kept.
    ///
    /// # Errors
    /// Like [`Self::refused`].
    pub async fn interrupt(
        mut self,
        transcript: &mut Transcript,
    ) -> Result<Written<Turn>, Failure> {
        match self.interrupted(transcript).await {
            Err(failure) => self.refused(transcript, failure).await,
            Ok(turn) => {
                let (events, unknown) = transcript.events();
                self.trace(&turn, events, unknown);
                Ok(self.as_written(turn))
            }
        }
    }

    async fn interrupted(&mut self, transcript: &mut Transcript) -> Result<Turn, Failure> {
        self.advance(transcript).await?;
        let growth = self.last_growth(transcript);
        if !growth.is_empty() {
            self.draft(growth).await?;
        }
        let interrupt = Interrupt {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            before: AFTER_ANY_HEARTBEAT,
            stream: Some(self.stream),
        };
        match self.write(Write::Interrupt(interrupt)).await? {
            Outcome::Interrupted(_) => self.turn().await,
            _ => Err(unexpected()),
        }
    }

    /// The write that ends the turn. With `stream`, `ending` contains all text, and the ledger drops the draft; without
    /// it, the ledger keeps the draft's text as items.
    fn ending(&self, ending: Ending, stream: Option<StreamId>) -> Arc<Close> {
        let body = fingerprint(&[b"stream", &self.stream.0]);
        Arc::new(Close {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            request_id: None,
            ending,
            metadata: None,
            fingerprint: self.core.keyed(body),
            stream,
        })
    }

    async fn close(&mut self, close: &Arc<Close>) -> Result<Turn, Failure> {
        match self.write(Write::Close(close.clone())).await? {
            Outcome::Turn(turn, _) => Ok(*turn),
            _ => Err(unexpected()),
        }
    }

    /// The turn as it is now in the ledger.
    ///
    /// # Errors
    /// The ledger's errors.
    pub async fn current_turn(&self) -> Result<Written<Turn>, Failure> {
        Ok(self.as_written(self.turn().await?))
    }

    async fn turn(&self) -> Result<Turn, Failure> {
        let ledger = &self.core.ledger;
        ledger
            .turn(&self.scope, &self.session_id, self.turn_id)
            .await
    }
}

fn error_parts(error: &StreamError) -> RawJson {
    let raw = error.raw.as_ref().map(RawJson::as_str);
    let detail = raw.map_or_else(String::new, |raw| format!(r#","detail":{raw}"#));
    let (message, source) = (error.message.as_token(), error.source.as_str());
    error_part(&error.code, message, source, error.retryable, &detail)
}
