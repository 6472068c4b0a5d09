//! Writes of live calls as bytes, in the notation of stored records: for a spool that keeps them while the ledger does not
//! answer (DESIGN §6, docs/spool.md). A batch is kept as its entries and packed again, under other salts.

use std::time::Duration;

use filrouge_types::{
    ErrorCode, EventKey, Failure, IdentityId, JsonText, ProjectId, RawJson, RequestId, SessionId,
    TenantId, TurnId, TurnStatus,
};

use super::{
    Acquire, Append, Close, Command, ConcurrentTurns, Ending, Hold, LeaseAsk, NewEvent, NewSession,
    PutCheckpoint, Scope, SessionToken, Start, TakeLease, Viewer, Write,
};
use crate::codec::{Malformed, Reader, Write as _};
use crate::keyring::Entropy;
use crate::record::{Batch, Entry, Event};

/// The notation of commands written now.
const FORMAT: u8 = 1;

fn optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.byte(u8::from(text.is_some()));
    if let Some(text) = text {
        out.text(text);
    }
}

fn read_optional<'a>(r: &mut Reader<'a>) -> Result<Option<&'a str>, Malformed> {
    Ok(match flag(r)? {
        true => Some(r.text()?),
        false => None,
    })
}

fn flag(r: &mut Reader<'_>) -> Result<bool, Malformed> {
    match r.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

fn optional_number(out: &mut Vec<u8>, number: Option<u64>) {
    out.byte(u8::from(number.is_some()));
    if let Some(number) = number {
        out.number(number);
    }
}

fn read_number(r: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
    Ok(match flag(r)? {
        true => Some(r.number()?),
        false => None,
    })
}

fn json(r: &mut Reader<'_>) -> Result<RawJson, Malformed> {
    Ok(RawJson::from_checked(r.text()?))
}

fn optional_json(r: &mut Reader<'_>) -> Result<Option<RawJson>, Malformed> {
    Ok(read_optional(r)?.map(RawJson::from_checked))
}

fn text(r: &mut Reader<'_>) -> Result<Option<JsonText>, Malformed> {
    let token = read_optional(r)?.map(RawJson::from_checked);
    token
        .map(JsonText::from_raw)
        .transpose()
        .map_err(|_| Malformed)
}

fn session(r: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    SessionId::new(r.text()?).map_err(|_| Malformed)
}

fn request(r: &mut Reader<'_>) -> Result<RequestId, Malformed> {
    RequestId::new(r.text()?).map_err(|_| Malformed)
}

fn millis(r: &mut Reader<'_>) -> Result<Duration, Malformed> {
    Ok(Duration::from_millis(r.number()?))
}

fn put_millis(out: &mut Vec<u8>, duration: Duration) {
    out.number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
}

fn put_scope(out: &mut Vec<u8>, scope: &Scope) {
    out.text(scope.tenant.as_str());
    match &scope.viewer {
        Viewer::Operator => out.byte(0),
        Viewer::EndUser(None) => out.byte(1),
        Viewer::EndUser(Some(identity)) => {
            out.byte(2);
            out.text(identity.as_str());
        }
    }
    out.byte(u8::from(scope.token.is_some()));
    if let Some(SessionToken(token)) = scope.token {
        out.extend_from_slice(&token);
    }
    out.byte(u8::from(scope.hold.is_some()));
    if let Some(hold) = scope.hold {
        out.number(hold.fence);
        out.byte(u8::from(hold.release));
        out.byte(u8::from(hold.queued));
    }
}

fn scope(r: &mut Reader<'_>) -> Result<Scope, Malformed> {
    let tenant = TenantId::new(r.text()?).map_err(|_| Malformed)?;
    let viewer = match r.byte()? {
        0 => Viewer::Operator,
        1 => Viewer::EndUser(None),
        2 => Viewer::EndUser(Some(IdentityId::new(r.text()?).map_err(|_| Malformed)?)),
        _ => return Err(Malformed),
    };
    let token = match flag(r)? {
        true => Some(SessionToken(r.array()?)),
        false => None,
    };
    let hold = match flag(r)? {
        true => Some(Hold {
            fence: r.number()?,
            release: flag(r)?,
            queued: flag(r)?,
        }),
        false => None,
    };
    Ok(Scope {
        tenant,
        viewer,
        token,
        hold,
    })
}

fn put_entries<'a>(out: &mut Vec<u8>, entries: impl ExactSizeIterator<Item = &'a Entry>) {
    out.number(entries.len() as u64);
    for entry in entries {
        entry.put(out);
    }
}

fn entries(r: &mut Reader<'_>) -> Result<Vec<Entry>, Malformed> {
    let mut entries = Vec::new();
    for _ in 0..r.number()? {
        entries.push(Entry::take(r)?);
    }
    Ok(entries)
}

fn put_session(out: &mut Vec<u8>, new: &NewSession) {
    out.text(new.session_id.as_str());
    let parent = new.parent_session_id.as_ref().map(SessionId::as_str);
    optional(out, parent);
    optional(out, new.project_id.as_ref().map(ProjectId::as_str));
    optional(out, new.title.as_deref());
    out.text(new.metadata.as_str());
}

fn new_session(r: &mut Reader<'_>) -> Result<NewSession, Malformed> {
    Ok(NewSession {
        session_id: session(r)?,
        parent_session_id: read_optional(r)?
            .map(SessionId::new)
            .transpose()
            .map_err(|_| Malformed)?,
        project_id: read_optional(r)?
            .map(ProjectId::new)
            .transpose()
            .map_err(|_| Malformed)?,
        // Only a session that is made by itself has a team, and that write is not kept.
        team_id: None,
        title: read_optional(r)?.map(Into::into),
        metadata: json(r)?,
    })
}

fn put_start(out: &mut Vec<u8>, start: &Start) {
    put_session(out, &start.session);
    Event::Start(Box::new(start.event.clone())).write(out);
    put_entries(out, start.batch.entries().iter());
    out.byte(start.status.code());
    out.byte(u8::from(start.reopen));
    out.byte(u8::from(start.concurrent_turns == ConcurrentTurns::Reject));
}

fn start(r: &mut Reader<'_>, entropy: &dyn Entropy) -> Result<Start, Undecoded> {
    let session = new_session(r)?;
    let Event::Start(event) = Event::read(r)? else {
        return Err(Malformed.into());
    };
    Ok(Start {
        session,
        event: *event,
        batch: Batch::seal(&entries(r)?, entropy)?,
        status: TurnStatus::from_code(r.byte()?).ok_or(Malformed)?,
        reopen: flag(r)?,
        concurrent_turns: match flag(r)? {
            true => ConcurrentTurns::Reject,
            false => ConcurrentTurns::Allow,
        },
    })
}

fn put_close(out: &mut Vec<u8>, close: &Close) {
    out.text(close.session_id.as_str());
    out.extend_from_slice(close.turn_id.as_bytes());
    optional(out, close.request_id.as_ref().map(RequestId::as_str));
    match &close.ending {
        Ending::Finalize {
            neutral,
            translated,
            fallback,
        } => {
            out.byte(0);
            optional(out, neutral.as_ref().map(JsonText::as_token));
            optional(out, translated.as_ref().map(JsonText::as_token));
            out.byte(fallback.map_or(2, u8::from));
        }
        Ending::Fail(e) => {
            out.byte(1);
            put_entries(out, e.iter());
        }
        Ending::Cancel(e) => {
            out.byte(2);
            put_entries(out, e.iter());
        }
        Ending::Recorded(e) => {
            out.byte(3);
            put_entries(out, e.iter());
        }
    }
    optional(out, close.metadata.as_ref().map(RawJson::as_str));
    out.extend_from_slice(&close.fingerprint);
}

fn close(r: &mut Reader<'_>) -> Result<Close, Malformed> {
    Ok(Close {
        session_id: session(r)?,
        turn_id: TurnId::from_bytes(r.array()?),
        request_id: match flag(r)? {
            true => Some(request(r)?),
            false => None,
        },
        ending: match r.byte()? {
            0 => Ending::Finalize {
                neutral: text(r)?,
                translated: text(r)?,
                fallback: match r.byte()? {
                    0 => Some(false),
                    1 => Some(true),
                    2 => None,
                    _ => return Err(Malformed),
                },
            },
            1 => Ending::Fail(entries(r)?),
            2 => Ending::Cancel(entries(r)?),
            3 => Ending::Recorded(entries(r)?),
            _ => return Err(Malformed),
        },
        metadata: optional_json(r)?,
        fingerprint: r.array()?,
        stream: None,
    })
}

fn put_lease(out: &mut Vec<u8>, take: &TakeLease) {
    out.text(take.session_id.as_str());
    out.text(&take.holder);
    match &take.ask {
        LeaseAsk::Acquire(acquire) => {
            out.byte(0);
            put_millis(out, acquire.ttl);
            out.byte(u8::from(acquire.create.is_some()));
            if let Some(new) = &acquire.create {
                put_session(out, new);
            }
            out.number(acquire.terminal.len() as u64);
            for label in &acquire.terminal {
                out.text(label);
            }
            out.byte(u8::from(acquire.resumes.is_some()));
            if let Some(known) = acquire.resumes {
                optional_number(out, known);
            }
        }
        LeaseAsk::Renew { fence, ttl } => {
            out.byte(1);
            out.number(*fence);
            put_millis(out, *ttl);
        }
        LeaseAsk::Release { fence } => {
            out.byte(2);
            out.number(*fence);
        }
    }
}

fn lease(r: &mut Reader<'_>) -> Result<TakeLease, Malformed> {
    let (session_id, holder) = (session(r)?, r.text()?.into());
    let ask = match r.byte()? {
        0 => {
            let ttl = millis(r)?;
            let create = match flag(r)? {
                true => Some(new_session(r)?),
                false => None,
            };
            let mut terminal = Vec::new();
            for _ in 0..r.number()? {
                terminal.push(r.text()?.into());
            }
            let resumes = match flag(r)? {
                true => Some(read_number(r)?),
                false => None,
            };
            LeaseAsk::Acquire(Box::new(Acquire {
                ttl,
                create,
                terminal,
                resumes,
            }))
        }
        1 => LeaseAsk::Renew {
            fence: r.number()?,
            ttl: millis(r)?,
        },
        2 => LeaseAsk::Release { fence: r.number()? },
        _ => return Err(Malformed),
    };
    Ok(TakeLease {
        session_id,
        holder,
        ask,
    })
}

/// Why bytes are no command.
enum Undecoded {
    Malformed,
    Failed(Failure),
}

impl From<Malformed> for Undecoded {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<Failure> for Undecoded {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Command {
    /// The command as bytes; `None` for a write that is not kept for a ledger that does not answer.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![FORMAT];
        put_scope(&mut out, &self.scope);
        match &self.write {
            Write::Start(start) => {
                out.byte(1);
                put_start(&mut out, start);
            }
            Write::Append(append) if append.progress.is_none() => {
                out.byte(2);
                out.text(append.session_id.as_str());
                out.extend_from_slice(append.turn_id.as_bytes());
                put_entries(&mut out, append.batch.entries().iter());
                optional_number(&mut out, append.expected_seq);
            }
            Write::Close(close) if close.stream.is_none() => {
                out.byte(3);
                put_close(&mut out, close);
            }
            Write::PutCheckpoint(put) => {
                out.byte(4);
                out.text(put.session_id.as_str());
                optional_number(&mut out, put.seq);
                optional(&mut out, put.label.as_deref());
                out.text(put.state.as_str());
                out.number(put.keep);
            }
            Write::RecordEvent(event) => {
                out.byte(5);
                out.text(event.session_id.as_str());
                out.text(event.key.as_str());
                out.text(&event.kind);
                out.byte(u8::from(event.at.is_some()));
                if let Some(at) = event.at {
                    out.time(at);
                }
                optional(&mut out, event.detail.as_ref().map(RawJson::as_str));
            }
            Write::Lease(take) => {
                out.byte(6);
                put_lease(&mut out, take);
            }
            _ => return None,
        }
        Some(out)
    }

    /// The command that [`Self::encode`] gave these bytes for; its batch has new salts from `entropy`.
    ///
    /// # Errors
    /// `integrity_error` when it gave none; `internal` when the random source fails.
    pub fn decode(bytes: &[u8], entropy: &dyn Entropy) -> Result<Self, Failure> {
        let mut r = Reader(bytes);
        let decoded = decode(&mut r, entropy);
        match decoded {
            Ok(command) if r.is_empty() => Ok(command),
            Err(Undecoded::Failed(failure)) => Err(failure),
            Ok(_) | Err(Undecoded::Malformed) => Err(Failure::new(
                ErrorCode::IntegrityError,
                "the bytes are no write of this format",
            )),
        }
    }
}

fn decode(r: &mut Reader<'_>, entropy: &dyn Entropy) -> Result<Command, Undecoded> {
    if r.byte()? != FORMAT {
        return Err(Undecoded::Malformed);
    }
    let scope = scope(r)?;
    let write = match r.byte()? {
        1 => Write::Start(Box::new(start(r, entropy)?)),
        2 => Write::Append(Box::new(Append {
            session_id: session(r)?,
            turn_id: TurnId::from_bytes(r.array()?),
            batch: Batch::seal(&entries(r)?, entropy)?,
            expected_seq: read_number(r)?,
            progress: None,
        })),
        3 => Write::Close(Box::new(close(r)?)),
        4 => Write::PutCheckpoint(Box::new(PutCheckpoint {
            session_id: session(r)?,
            seq: read_number(r)?,
            label: read_optional(r)?.map(Into::into),
            state: json(r)?,
            keep: r.number()?,
        })),
        5 => Write::RecordEvent(Box::new(NewEvent {
            session_id: session(r)?,
            key: EventKey::new(r.text()?).map_err(|_| Malformed)?,
            kind: r.text()?.into(),
            at: match flag(r)? {
                true => Some(r.time()?),
                false => None,
            },
            detail: optional_json(r)?,
        })),
        6 => Write::Lease(Box::new(lease(r)?)),
        _ => return Err(Undecoded::Malformed),
    };
    Ok(Command { scope, write })
}

#[cfg(test)]
mod tests;
