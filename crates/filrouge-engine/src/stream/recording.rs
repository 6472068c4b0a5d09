//! Writing what a transcript holds: finished pieces as items, growing ones as drafts (DESIGN §4).
//!
//! Everything a recording writes can be written again: items by their keys, drafts by their numbers, the end by the
//! recording's own name. So a ledger that does not answer for a while costs nothing but time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Durability;
use filrouge_store::command::{Append, Outcome, Progress, PutDraft, Scope, Viewer, Write};
use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId};
use filrouge_store::hot::KeepItems;
use filrouge_store::record::{Batch, Entry};
use filrouge_types::{ErrorCode, Failure, JsonText, RawJson, SessionId, TurnId};
use tokio::time::Instant;

use super::block::{Block, Part};
use super::transcript::Transcript;
use super::veil::Shown;
use crate::caller::{Caller, Permission};
use crate::core::{Core, unexpected};
use crate::engine::Streams;
use crate::secrets::{Masked, TurnSecrets};

/// How often growing text is drafted, at most.
pub const DRAFT_EVERY: Duration = Duration::from_millis(250);
/// How often a recording gives a sign of life, at least: more often when the stream timeout is short.
pub const BEAT: Duration = Duration::from_secs(10);
/// How long a ledger that does not answer is waited for.
const OUTAGE: Duration = Duration::from_secs(10);

/// How a stream is recorded.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// The format's name, for the journal.
    pub format: &'static str,
    /// Whether an answer ends the turn; else the caller ends it, as when a translation is still to come.
    pub finalize: bool,
    /// The agent that speaks.
    pub agent: Option<Box<str>>,
}

/// One stream that is being recorded into an open turn.
pub struct Recording {
    pub(super) core: Arc<Core>,
    pub(super) scope: Scope,
    /// Which items are kept: of a session in the hot store alone all of them, for a login ends what is recorded into it.
    pub(super) record: KeepItems,
    pub(super) session_id: SessionId,
    pub(super) turn_id: TurnId,
    pub(super) stream: StreamId,
    pub(super) writer: Box<str>,
    pub(super) settings: RecordSettings,
    /// The number of the newest chunk.
    pub(super) chunk: u64,
    /// How much of each piece was shown.
    pub(super) shown: HashMap<(u64, usize), Shown>,
    /// The version of the transcript that was last looked at for what has grown.
    pub(super) looked_at: u64,
    /// What must not be recorded of the turn's runtime context.
    pub(super) secrets: Option<Arc<TurnSecrets>>,
    pub(super) masked: u64,
    /// Where its newest write went.
    pub(super) durability: Durability,
    pub(super) began: Instant,
    pub(super) written: Instant,
    pub(super) items: u64,
    pub(super) drafts: u64,
}

impl Streams {
    /// Begins to record a stream into an open turn; nobody else can while it lasts.
    ///
    /// # Errors
    /// `stream_open` when another stream is recorded into it; `turn_closed`, `session_not_found`, `turn_not_found`,
    /// `turn_mismatch`, those of fences, under whose fence all is written then, and the ledger's.
    pub async fn record(
        &self,
        caller: &Caller,
        session_id: SessionId,
        turn_id: TurnId,
        settings: RecordSettings,
    ) -> Result<Recording, Failure> {
        let scope = &caller.scope(Permission::Write)?;
        self.limits().label(settings.agent.as_deref(), "agent")?;
        // Whose turn it is, is asked now; what comes later belongs to it, also when the session gets an owner meanwhile.
        self.ledger.turn(scope, &session_id, turn_id).await?;
        let in_hot = self.in_hot(scope, &session_id).await?;
        let recorder = if in_hot {
            // A login ends the stream: who records it may not write to the session any more.
            scope.clone()
        } else {
            Scope::new(scope.tenant.clone(), Viewer::Operator).with_hold(scope.hold)
        };
        let mut stream = [0; 8];
        self.entropy.fill(&mut stream)?;
        let now = Instant::now();
        let mut recording = Recording {
            core: self.0.clone(),
            record: self.keep(scope, &session_id).await?.record,
            scope: recorder,
            session_id,
            turn_id,
            stream: StreamId(stream),
            writer: self.ledger.writer().into(),
            settings,
            chunk: 0,
            shown: HashMap::new(),
            looked_at: 0,
            secrets: self.secrets_of(turn_id),
            masked: 0,
            durability: self.ledger.backend().durability,
            began: now,
            written: now,
            items: 0,
            drafts: 0,
        };
        recording.put(0, Vec::new(), true).await?;
        Ok(recording)
    }
}

impl Recording {
    /// Its name; the keys of its items begin with it.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// How many drafts it has written.
    #[must_use]
    pub const fn drafts(&self) -> u64 {
        self.drafts
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn due(&self, transcript: &Transcript) -> Instant {
        let grown = transcript.version() != self.looked_at;
        self.written + if grown { DRAFT_EVERY } else { self.beat() }
    }

    /// Two signs of life may be late before the stream timeout is over.
    fn beat(&self) -> Duration {
        BEAT.min(self.core.settings.stream_timeout / 3)
    }

    /// Writes the items that have become complete, and what is left as the draft.
    ///
    /// # Errors
    /// `turn_closed` and `stream_lost` when somebody else has ended the turn, and `limit_exceeded` when it takes no more:
    /// [`Self::refused`] makes its end of them. `session_erased`; and the ledger's, when it does not answer for long.
    pub async fn advance(&mut self, transcript: &mut Transcript) -> Result<(), Failure> {
        if transcript.ended().is_some() {
            return Ok(());
        }
        let ready = transcript.take_ready();
        if ready.is_empty() {
            return Ok(());
        }
        let entries = self.entries(ready)?;
        if entries.is_empty() {
            return self.withdraw(transcript).await;
        }
        let rest = self.rest(transcript);
        let append = self.batch(entries, rest, false)?;
        self.append(&append).await
    }

    /// Drafts what has grown, whether it is time or not: somebody is about to end the turn.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub async fn flush(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let deltas = self.news(transcript);
        if deltas.is_empty() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    /// Drafts what has grown when it is time, or gives a sign of life.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub async fn tick(&mut self, transcript: &Transcript) -> Result<(), Failure> {
        let since = self.written.elapsed();
        if since < DRAFT_EVERY {
            return Ok(());
        }
        let deltas = self.news(transcript);
        if deltas.is_empty() && since < self.beat() {
            return Ok(());
        }
        self.draft(deltas).await
    }

    pub(super) async fn draft(&mut self, deltas: Vec<Delta>) -> Result<(), Failure> {
        let number = self.chunk + u64::from(!deltas.is_empty());
        let draft = self.put(number, deltas, false).await?;
        self.drafted(&draft.deltas);
        self.chunk = number;
        self.drafts += 1;
        self.written = Instant::now();
        Ok(())
    }

    async fn put(
        &mut self,
        number: u64,
        deltas: Vec<Delta>,
        begins: bool,
    ) -> Result<Arc<PutDraft>, Failure> {
        let draft = Arc::new(PutDraft {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            stream: self.stream,
            begins,
            writer: self.writer.clone(),
            number,
            deltas,
        });
        match self.write(Write::PutDraft(draft.clone())).await? {
            Outcome::Drafted => Ok(draft),
            _ => Err(unexpected()),
        }
    }

    /// What is shown of a piece; what has come to it is looked at.
    fn shown_of(&mut self, block: &Block, index: usize, part: &Part) -> &mut Shown {
        let (policy, secrets) = (self.core.settings.credentials, self.secrets.as_ref());
        let fresh = || Shown::new(part.kind, part.generation, policy, secrets);
        let shown = self
            .shown
            .entry((block.number, index))
            .or_insert_with(fresh);
        if shown.generation != part.generation {
            let replaces = shown.head.is_some();
            *shown = fresh();
            shown.replaces = replaces;
        }
        shown.take(&part.text, block.done);
        shown
    }

    /// What has grown since it was last drafted.
    pub(super) fn news(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.looked_at = transcript.version();
        let mut deltas = Vec::new();
        let record = self.record;
        for block in transcript.blocks().filter(|b| b.is_kept(record)) {
            for (index, part) in block.parts.iter().enumerate() {
                let head = self.head(block, part.kind, transcript);
                let shown = self.shown_of(block, index, part);
                let text = shown.news(&part.text, block.done).to_owned();
                let known = shown.head.as_ref() == Some(&head);
                if known && text.is_empty() && shown.done == block.done && !shown.replaces {
                    continue;
                }
                deltas.push(Delta {
                    number: block.number,
                    part: index as u64,
                    head: (!known).then_some(head),
                    replaces: shown.replaces,
                    text,
                    done: block.done,
                });
            }
        }
        deltas
    }

    /// Takes note of what was drafted.
    fn drafted(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            let part = usize::try_from(delta.part).unwrap_or(usize::MAX);
            if let Some(shown) = self.shown.get_mut(&(delta.number, part)) {
                shown.given += delta.text.len();
                (shown.done, shown.replaces) = (delta.done, false);
                if let Some(head) = &delta.head {
                    shown.head = Some(head.clone());
                }
            }
        }
    }

    /// As [`Self::news`], with what was held back in case it became a credential: nothing more will come.
    pub(super) fn last_news(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.news(transcript);
        for block in transcript.blocks() {
            for (index, part) in block.parts.iter().enumerate() {
                if let Some(shown) = self.shown.get_mut(&(block.number, index)) {
                    shown.take(&part.text, true);
                }
            }
        }
        self.news(transcript)
    }

    pub(super) fn head(
        &self,
        block: &Block,
        kind: PieceKind,
        transcript: &Transcript,
    ) -> PieceHead {
        let (role, channel) = block.place();
        let token = |text: &String| {
            let masked = self.masked_json(text);
            let text = masked.as_deref().unwrap_or(text);
            JsonText::from_raw(RawJson::from_checked(text)).ok()
        };
        let label = |text: &str| -> Box<str> {
            let secrets = self.secrets.as_ref();
            let masked = secrets.and_then(|s| s.mask_text(text, &mut Masked::default()));
            masked.map_or_else(|| text.into(), Into::into)
        };
        let call = block.call.as_ref();
        PieceHead {
            kind,
            role,
            channel,
            call: call.and_then(|(id, name)| Some((token(id)?, token(name)?))),
            agent: self.settings.agent.as_deref().map(label),
            model: transcript.model_name().map(label),
        }
    }

    /// JSON without what must not be recorded of the turn's runtime context; `None` when it has none of it.
    fn masked_json(&self, json: &str) -> Option<String> {
        let secrets = self.secrets.as_ref()?;
        secrets.mask_json(json, &mut Masked::default())
    }

    /// What is no longer in the transcript will not grow any more.
    pub(super) fn forget_shown(&mut self, transcript: &Transcript) {
        let first = transcript.blocks().next().map_or(u64::MAX, |b| b.number);
        self.shown.retain(|(number, _), _| *number >= first);
    }

    /// All that is not an item yet, whole; it counts as drafted.
    pub(super) fn rest(&mut self, transcript: &Transcript) -> Vec<Delta> {
        self.forget_shown(transcript);
        for shown in self.shown.values_mut() {
            (shown.given, shown.head, shown.replaces) = (0, None, false);
        }
        let rest = self.news(transcript);
        self.drafted(&rest);
        rest
    }

    /// Items, and what is left of the draft; nothing when the recording is `over`.
    pub(super) fn batch(
        &self,
        entries: Vec<Entry>,
        rest: Vec<Delta>,
        over: bool,
    ) -> Result<Arc<Append>, Failure> {
        Ok(Arc::new(Append {
            session_id: self.session_id.clone(),
            turn_id: self.turn_id,
            batch: Batch::seal(entries, self.core.entropy.as_ref())?,
            expected_seq: None,
            progress: Some(Progress {
                stream: self.stream,
                number: self.chunk + 1,
                rest,
                over,
            }),
        }))
    }

    pub(super) async fn append(&mut self, append: &Arc<Append>) -> Result<(), Failure> {
        match self.write(Write::Append(append.clone())).await? {
            Outcome::Appended { .. } => {
                self.chunk += 1;
                self.items += append.batch.count();
                self.written = Instant::now();
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    /// Writes, and writes again while the ledger does not answer.
    pub(super) async fn write(&mut self, write: Write) -> Result<Outcome, Failure> {
        let until = Instant::now() + OUTAGE;
        let mut pause = Duration::from_millis(50);
        loop {
            match self.core.write(&self.scope, write.clone()).await {
                Err(failure) if waits(&failure) && Instant::now() + pause < until => {
                    tracing::warn!(code = failure.code.as_str(), stream = %self.stream, "a stream waits for the ledger");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                stored => {
                    let stored = stored?;
                    self.durability = stored.durability;
                    return Ok(stored.outcome);
                }
            }
        }
    }
}

/// Whether the ledger may take it a little later.
fn waits(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::StoreUnavailable
            | ErrorCode::StoreFull
            | ErrorCode::Overloaded
            | ErrorCode::HotUnavailable
    )
}
