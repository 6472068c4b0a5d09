//! Ends a recording. The last write depends on the end of the stream: it contains the answer, the calls that wait for
//! results, or the drafted text and the error.

use std::sync::{Arc, OnceLock};

use filrouge_store::chain::fingerprint;
use filrouge_store::command::{AFTER_ANY_HEARTBEAT, Close, Ending, Interrupt, Outcome, Write};
use filrouge_store::draft::{DraftPiece, StreamId, partial_entries};
use filrouge_store::record::Entry;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ItemId, RawJson, Result, Role, Turn, TurnStatus,
};

use super::end::{StreamEnd, StreamError, StreamErrorSource};
use super::recording::Recording;
use super::transcript::Transcript;
use crate::record_policy::Omissions;
use crate::shared::unexpected_outcome;
use crate::trace::millis;
use crate::turns::{cancelled_item, error_item_parts};
use crate::written::Written;

impl Recording {
    /// Writes the end of the transcript: the answer, the calls that wait for results, or the drafted text and the
    /// error. A transcript without an end counts as truncated. Returns the turn after the write.
    ///
    /// # Errors
    /// Like [`Self::handle_refusal`].
    pub async fn end(mut self, transcript: &mut Transcript) -> Result<Written<Turn>> {
        let latency = self.started_at.elapsed().as_millis().to_string();
        transcript.set_metadata("latency_ms", &latency);
        let (events, unknown) = transcript.events();
        let format = self.settings.format;
        let stream = format!(
            r#"{{"id":"{}","format":"{format}","events":{events},"unknown_events":{unknown}}}"#,
            self.stream
        );
        transcript.set_metadata("stream", &stream);
        let turn = match transcript.ended().cloned() {
            Some(StreamEnd::Answered) => self.end_with_answer(transcript).await,
            Some(StreamEnd::Continues) => self.end_response_only(transcript).await,
            Some(StreamEnd::Cancelled) => self.end_without_answer(transcript, None).await,
            Some(StreamEnd::Failed(error)) => {
                self.end_without_answer(transcript, Some(error)).await
            }
            None => {
                let error = StreamError::new("stream_truncated", "the stream was abandoned");
                self.end_without_answer(transcript, Some(error)).await
            }
        };
        let turn = match turn {
            Err(failure) => return self.handle_refusal(transcript, failure).await,
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
            self.core.secrets.mark_closed(self.turn_id, now);
        }
        Written {
            masked: self.masked,
            ..Written::new(turn, false, self.durability)
        }
    }

    fn trace(&self, turn: &Turn, events: u64, unknown: u64) {
        let (items, drafts) = (self.items, self.drafts);
        let duration_ms = millis(self.started_at.elapsed());
        tracing::info!(
            op = %"stream", tenant_id = %self.scope.tenant, session_id = %turn.session_id, turn_id = %turn.turn_id, stream = %self.stream, status = %turn.status,
            last_seq = turn.last_seq, items, drafts, events, unknown, duration_ms, "[SESSIONS][PERSIST_TRACE]"
        );
    }

    /// Records the answer, and ends the turn if the settings say so.
    async fn end_with_answer(&mut self, transcript: &mut Transcript) -> Result<Turn> {
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
            let append = self.append_of(entries, Vec::new(), true)?;
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
        let close = self.close_command(Ending::Recorded(entries), Some(self.stream));
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
    ) -> Result<Turn> {
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            if entry.item.channel == Channel::Final {
                entry.item.channel = Channel::Observation;
            }
        }
        tracing::info!(turn_id = %self.turn_id, stream = %self.stream, "the turn already has an answer; this stream's answer is recorded as an observation");
        let mut omissions = Omissions::default();
        entries.retain(|entry| omissions.keep_or_omit(self.retention, &entry.item.channel));
        self.core.count_omissions(&omissions, false);
        if entries.is_empty() {
            entries.push(self.final_note(transcript));
        }
        self.append_last(entries).await
    }

    /// Appends the last items of the recording; the turn stays open.
    async fn append_last(&mut self, entries: Vec<Entry>) -> Result<Turn> {
        let append = self.append_of(entries, Vec::new(), true)?;
        self.append(&append).await?;
        self.turn().await
    }

    /// Records the end of a response that the turn continues with another one; the turn stays open.
    async fn end_response_only(&mut self, transcript: &mut Transcript) -> Result<Turn> {
        let ready = transcript.take_ready();
        let mut entries = self.entries(ready)?;
        if !transcript.is_reported() || entries.is_empty() {
            entries.push(self.final_note(transcript));
        }
        self.append_last(entries).await
    }

    /// The usage and the metadata from the end of the response. Addresses in the metadata are hashed.
    fn reported_at_end(&self, transcript: &Transcript) -> (Option<RawJson>, Option<RawJson>) {
        let (usage, metadata) = transcript.reported();
        (
            usage,
            self.core.hash_addresses(&self.scope.tenant, metadata),
        )
    }

    /// An item that records the usage and the metadata from the end of the response. For responses of which no other
    /// item contains them.
    fn final_note(&self, transcript: &Transcript) -> Entry {
        let no_parts = RawJson::from_checked("[]");
        let mut item = ItemBody::new(Role::System, Channel::SystemNote, no_parts);
        (item.usage, item.metadata) = self.reported_at_end(transcript);
        item.item_id = ItemId::new(format!("{}.end", self.stream)).ok();
        item.into()
    }

    /// Ends the turn after a failure, or without `error` after a cancellation; interrupts it if its client is gone.
    /// Records the complete items, the drafted text and the reason.
    async fn end_without_answer(
        &mut self,
        transcript: &mut Transcript,
        error: Option<StreamError>,
    ) -> Result<Turn> {
        let ready = transcript.take_ready();
        let mut entries = self.entries(ready)?;
        let remaining = self.remaining_items(transcript).into_iter().map(|e| e.item);
        entries.extend(self.mask_items(remaining.collect())?);
        self.items += entries.len() as u64 + 1;
        let mut last = match &error {
            Some(error) => ItemBody::new(Role::System, Channel::Error, error_parts(error)),
            None => cancelled_item(),
        };
        (last.usage, last.metadata) = transcript.reported();
        entries.extend(self.mask_items(vec![last])?);
        let ending = match error {
            // As after the death of a server: the caller may start the turn again.
            Some(error) if error.source == StreamErrorSource::Client => Ending::Interrupt(entries),
            Some(_) => Ending::Fail(entries),
            None => Ending::Cancel(entries),
        };
        self.close(&self.close_command(ending, Some(self.stream)))
            .await
    }

    /// The masked text of the remaining blocks, as partial items.
    fn remaining_items(&mut self, transcript: &Transcript) -> Vec<Entry> {
        let mut pieces = Vec::new();
        self.new_deltas(transcript);
        let retention = self.retention;
        for block in transcript.blocks().filter(|b| b.is_recorded(retention)) {
            for (index, part) in block.parts.iter().enumerate() {
                pieces.push(DraftPiece {
                    number: block.number,
                    part: index as u64,
                    head: self.head(block, part.kind, transcript),
                    text: match self.drafted_pieces.get_mut(&(block.number, index)) {
                        Some(piece) => piece.complete_text(&part.text),
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
    pub async fn handle_refusal(
        mut self,
        transcript: &Transcript,
        failure: Failure,
    ) -> Result<Written<Turn>> {
        let failure = match failure.code {
            ErrorCode::LimitExceeded => match self.end_as_failed(transcript, &failure).await {
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
    async fn end_as_failed(&mut self, transcript: &Transcript, failure: &Failure) -> Result<Turn> {
        self.flush_all(transcript).await?;
        let error = StreamError::new(failure.code.as_str(), &failure.detail);
        let item = ItemBody::new(Role::System, Channel::Error, error_parts(&error));
        let entries = self.mask_items(vec![item])?;
        self.close(&self.close_command(Ending::Fail(entries), None))
            .await
    }

    /// Ends the recording because this process shuts down. The turn becomes interrupted, and all text received so far
    /// is kept.
    ///
    /// # Errors
    /// Like [`Self::handle_refusal`].
    pub async fn interrupt(mut self, transcript: &mut Transcript) -> Result<Written<Turn>> {
        match self.write_interruption(transcript).await {
            Err(failure) => self.handle_refusal(transcript, failure).await,
            Ok(turn) => {
                let (events, unknown) = transcript.events();
                self.trace(&turn, events, unknown);
                Ok(self.as_written(turn))
            }
        }
    }

    async fn write_interruption(&mut self, transcript: &mut Transcript) -> Result<Turn> {
        self.advance(transcript).await?;
        self.flush_all(transcript).await?;
        let interrupt = Interrupt {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            before: AFTER_ANY_HEARTBEAT,
            stream: Some(self.stream),
        };
        match self.write(Write::Interrupt(interrupt)).await? {
            Outcome::Interrupted(_) => self.turn().await,
            _ => Err(unexpected_outcome()),
        }
    }

    /// The write that ends the turn. With `stream`, `ending` contains all text, and the ledger drops the draft; without
    /// it, the ledger keeps the draft's text as items.
    fn close_command(&self, ending: Ending, stream: Option<StreamId>) -> Arc<Close> {
        let body = fingerprint(&[b"stream", &self.stream.0]);
        Arc::new(Close {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            request_id: None,
            ending,
            metadata: None,
            fingerprint: self.core.keyed_fingerprint(body),
            stream,
            packed: OnceLock::new(),
        })
    }

    async fn close(&mut self, close: &Arc<Close>) -> Result<Turn> {
        match self.write(Write::Close(close.clone())).await? {
            Outcome::Turn(turn, _) => Ok(*turn),
            _ => Err(unexpected_outcome()),
        }
    }

    /// The turn in its present state in the ledger.
    ///
    /// # Errors
    /// The ledger's errors.
    pub async fn current_turn(&self) -> Result<Written<Turn>> {
        Ok(self.as_written(self.turn().await?))
    }

    async fn turn(&self) -> Result<Turn> {
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
    error_item_parts(&error.code, message, source, error.retryable, &detail)
}
