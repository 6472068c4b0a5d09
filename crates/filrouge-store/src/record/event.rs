//! Turn events: the changes of a turn that its items record. The state of a turn is computed from them (DESIGN §3).
//! They are not the counted events of a session ([`crate::rows::EventRow`]).

use filrouge_types::{Application, IdentityId, RawJson, RequestId, TurnId, TurnStatus};

use serde::{Deserialize, Serialize};

use super::seqs::Seqs;
use crate::chain::{self, SALT_BYTES};
use crate::codec::{ByteReader, Malformed, WriteBytes};

/// The start of a turn, carried by its first item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartEvent {
    /// The caller's idempotency key.
    pub request_id: RequestId,
    /// The identity of the user; `None` for an anonymous user.
    pub identity_id: Option<IdentityId>,
    /// The fingerprint of the request's body, by which a retry is recognized; [`salted`] when stored.
    #[serde(with = "crate::hex")]
    pub fingerprint: [u8; 16],
    /// The turn that this turn replaces, if any.
    pub replaces: Option<TurnId>,
    /// The application's labels and settings.
    #[serde(flatten)]
    pub application: Application,
    /// The application's data, a JSON object.
    pub metadata: Option<RawJson>,
}

/// The end of a turn, carried by its last item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseEvent {
    /// The status with which the turn ended: finalized, failed or cancelled.
    pub status: TurnStatus,
    /// The fingerprint of the closing request's body; [`salted`] when stored.
    #[serde(with = "crate::hex")]
    pub fingerprint: [u8; 16],
    /// Whether the translated answer is a copy of the neutral one.
    #[serde(rename = "answer_translated_is_fallback")]
    pub fallback: bool,
    /// Metadata to merge into that of the start. A member replaces the start's member of the same name.
    pub metadata: Option<RawJson>,
}

/// A turn event: a change that an item records besides its content, of its turn or (a redaction) of other items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The turn begins.
    Start(Box<StartEvent>),
    /// The turn ends.
    Close(Box<CloseEvent>),
    /// The turn was interrupted, because its caller no longer wrote to it.
    Interrupt {},
    /// The turn was reopened, because its caller started it again.
    Reopen {},
    /// The contents of these items are erased; carried by an item without a turn.
    Redact(Seqs),
    /// All items of the session whose contents are erased, by this redaction or an earlier one; carried by a redaction,
    /// if its own event does not name all of them.
    Redacted(Seqs),
}

/// The stored form of a request's fingerprint. It includes the salt of its item, so that it reveals nothing about the
/// request after a redaction.
pub fn salted(fingerprint: &[u8; 16], salt: &[u8; SALT_BYTES]) -> [u8; 16] {
    chain::fingerprint(&[b"salted", salt, fingerprint])
}

fn read_application(r: &mut ByteReader<'_>) -> Result<Application, Malformed> {
    let mut application = Application::new(r.flag()?);
    for label in application.labels_mut() {
        *label = r.optional()?.map(Into::into);
    }
    Ok(application)
}

impl Event {
    /// The stored form of the event, for an item with this salt.
    pub(super) fn salted(&self, salt: &[u8; SALT_BYTES]) -> Self {
        let mut event = self.clone();
        match &mut event {
            Self::Start(e) => e.fingerprint = salted(&e.fingerprint, salt),
            Self::Close(e) => e.fingerprint = salted(&e.fingerprint, salt),
            Self::Interrupt {} | Self::Reopen {} | Self::Redact(_) | Self::Redacted(_) => {}
        }
        event
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Start(e) => {
                out.byte(1);
                out.text(e.request_id.as_str());
                out.optional(e.identity_id.as_ref().map(IdentityId::as_str));
                out.extend_from_slice(&e.fingerprint);
                match &e.replaces {
                    Some(id) => {
                        out.byte(1);
                        out.extend_from_slice(id.as_bytes());
                    }
                    None => out.byte(0),
                }
                out.byte(u8::from(e.application.wants_translation()));
                for label in e.application.labels() {
                    out.optional(label.value);
                }
                out.optional(e.metadata.as_ref().map(RawJson::as_str));
            }
            Self::Close(e) => {
                out.byte(2);
                out.byte(e.status.code());
                out.extend_from_slice(&e.fingerprint);
                out.byte(u8::from(e.fallback));
                out.optional(e.metadata.as_ref().map(RawJson::as_str));
            }
            Self::Interrupt {} => out.byte(3),
            Self::Reopen {} => out.byte(4),
            Self::Redact(seqs) => {
                out.byte(5);
                seqs.write(out);
            }
            Self::Redacted(seqs) => {
                out.byte(6);
                seqs.write(out);
            }
        }
    }

    /// Whether the event redacts the item at `seq` or a later one. The item at `seq` records the event, and a redaction
    /// may name only earlier items.
    pub(crate) fn redacts_at_or_after(&self, seq: u64) -> bool {
        matches!(self, Self::Redact(seqs) | Self::Redacted(seqs) if seqs.last() >= seq)
    }

    pub(crate) fn read(r: &mut ByteReader<'_>) -> Result<Self, Malformed> {
        match r.byte()? {
            1 => Ok(Self::Start(Box::new(StartEvent {
                request_id: RequestId::new(r.text()?).map_err(|_| Malformed)?,
                identity_id: r
                    .optional()?
                    .map(IdentityId::new)
                    .transpose()
                    .map_err(|_| Malformed)?,
                fingerprint: r.array()?,
                replaces: match r.byte()? {
                    0 => None,
                    1 => Some(TurnId::from_bytes(r.array()?)),
                    _ => return Err(Malformed),
                },
                application: read_application(r)?,
                metadata: r.optional()?.map(RawJson::from_checked),
            }))),
            2 => Ok(Self::Close(Box::new(CloseEvent {
                status: TurnStatus::from_code(r.byte()?).ok_or(Malformed)?,
                fingerprint: r.array()?,
                fallback: r.flag()?,
                metadata: r.optional()?.map(RawJson::from_checked),
            }))),
            3 => Ok(Self::Interrupt {}),
            4 => Ok(Self::Reopen {}),
            5 => Seqs::read(r).map(Self::Redact),
            6 => Seqs::read(r).map(Self::Redacted),
            _ => Err(Malformed),
        }
    }
}
