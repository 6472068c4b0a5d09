//! Reading: every row that leaves a store is verified here, and refused when it is not what was written
//! (P7, DESIGN §9).

use filrouge_types::{
    ErrorCode, Failure, Item, JsonText, RawJson, SessionId, TenantId, Turn, TurnId,
    TurnStatus, Variant,
};
use serde::Deserialize;

use crate::chain::{GENESIS, Link, LinkScope};
use crate::command::{Scope, Viewer};
use crate::keyring::Keyring;
use crate::record::{Check, CloseEvent, Decoded, Event, FaultKind, RecordRow, StartEvent, decode};
use crate::rows::{HeadRow, ORDINAL_MAX, SessionPk, SessionRow, Stored, TurnRow, View};
use crate::verify::Suspects;

mod decode_many;
mod lists;

pub use lists::{ItemPage, SessionPage, TurnOrder, TurnPage, TurnQuery};

/// A view with what is needed to verify what it shows.
pub struct Sight<'a, V: ?Sized> {
    /// The rows.
    pub view: &'a V,
    /// The keys.
    pub keyring: &'a Keyring,
    /// Whether MACs are checked.
    pub check: Check,
    /// Sessions known not to be what was written.
    pub suspects: &'a Suspects,
}

/// A verified session with what its items are verified by.
pub struct Loaded {
    /// Its number.
    pub pk: SessionPk,
    /// Its row.
    pub row: SessionRow,
    /// Its head.
    pub head: HeadRow,
    /// Its link scope.
    pub scope: LinkScope,
}

impl Loaded {
    /// The id as text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.row.session_id.as_str()
    }

    /// A failure of this session's stored data.
    pub fn broken(&self, seq: Option<u64>, what: impl std::fmt::Display) -> Failure {
        Failure::integrity(self.name(), seq, what)
    }
}

/// Absent, or not the caller's: the two look alike (P6).
#[must_use]
pub fn session_not_found(id: &SessionId) -> Failure {
    Failure::new(ErrorCode::SessionNotFound, format!("there is no session {:?}", id.as_str()))
}

/// Absent, or not the caller's.
#[must_use]
pub fn turn_not_found(id: &TurnId) -> Failure {
    Failure::new(ErrorCode::TurnNotFound, format!("there is no turn {id} in this session"))
}

impl<V: View + ?Sized> Sight<'_, V> {
    /// The session, verified, if the viewer may see it.
    ///
    /// # Errors
    /// `integrity_error` when it is not what was written; `key_missing` when it cannot be verified.
    pub fn find(&self, scope: &Scope, id: &SessionId) -> Result<Option<Loaded>, Failure> {
        match self.view.session(&scope.tenant, id, Some(&scope.viewer))? {
            Some(stored) => self.load(stored).map(Some),
            None => {
                self.suspects.check_absent(&scope.tenant, id)?;
                Ok(None)
            }
        }
    }

    /// The session, whoever owns it: for creating under its id.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_any(&self, tenant: &TenantId, id: &SessionId) -> Result<Option<Loaded>, Failure> {
        match self.view.session(tenant, id, None)? {
            Some(stored) => self.load(stored).map(Some),
            None => {
                self.suspects.check_absent(tenant, id)?;
                Ok(None)
            }
        }
    }

    /// As [`Self::find`], with a failure when it is absent.
    ///
    /// # Errors
    /// As [`Self::find`], and `session_not_found`.
    pub fn get(&self, scope: &Scope, id: &SessionId) -> Result<Loaded, Failure> {
        self.find(scope, id)?.ok_or_else(|| session_not_found(id))
    }

    /// Verifies a stored session: its head's MAC, and by the head its row.
    pub(crate) fn load(&self, stored: Stored) -> Result<Loaded, Failure> {
        let Stored { pk, row, head } = stored;
        let broken = |what: &str| Failure::integrity(row.session_id.as_str(), None, what);
        self.suspects.check(pk, &row.session_id)?;
        let head = head.ok_or_else(|| broken("its head is missing or malformed"))?;
        if self.check == Check::Keyed {
            match head.verified(self.keyring, pk) {
                Some(true) => {}
                Some(false) => return Err(broken("its head was changed (the MAC does not fit)")),
                None => return Err(key_missing(row.session_id.as_str())),
            }
        }
        if row.fingerprint() != head.session {
            return Err(broken("its row was changed"));
        }
        let scope = LinkScope::new(&row.tenant_id, &row.session_id);
        Ok(Loaded { pk, row, head, scope })
    }

    /// Unpacks and verifies one record of a session.
    pub(crate) fn decode(&self, session: &Loaded, row: &RecordRow) -> Result<Decoded, Failure> {
        decode(row, &session.scope, self.keyring, self.check).map_err(|fault| match fault.what {
            FaultKind::KeyMissing(_) => key_missing(session.name()),
            what => session.broken(Some(fault.seq), what),
        })
    }

    /// The record that holds `seq`, verified.
    pub(crate) fn record_at(&self, session: &Loaded, seq: u64) -> Result<Decoded, Failure> {
        let rows = self.view.records(session.pk, seq, 1)?;
        match rows.first() {
            Some(row) if row.first_seq <= seq && seq <= row.last_seq() => self.decode(session, row),
            _ => Err(session.broken(Some(seq), FaultKind::Missing)),
        }
    }

    /// A turn of the session, verified; `None` when there is none with this id.
    ///
    /// # Errors
    /// `turn_mismatch` when it belongs to another session the viewer may see; `integrity_error`.
    pub fn find_turn(&self, session: &Loaded, viewer: &Viewer, id: &TurnId) -> Result<Option<TurnRow>, Failure> {
        match self.view.turn(id)? {
            Some((pk, row)) if pk == session.pk => self.verified_turn(session, row).map(Some),
            Some((pk, _)) => {
                let other = self.view.session_by_pk(pk)?;
                match other {
                    Some(o) if o.row.tenant_id == session.row.tenant_id && viewer.sees(o.row.identity_id.as_ref()) => {
                        Err(Failure::new(
                            ErrorCode::TurnMismatch,
                            format!("turn {id} belongs to another session"),
                        ))
                    }
                    _ => Ok(None),
                }
            }
            None => {
                let rows = self.view.turn_rows(session.pk)?;
                if rows < session.head.turn_count {
                    return Err(session.broken(None, "turns are missing"));
                }
                Ok(None)
            }
        }
    }

    pub(crate) fn verified_turn(&self, session: &Loaded, row: TurnRow) -> Result<TurnRow, Failure> {
        if self.check == Check::Keyed {
            match row.verified(self.keyring, session.pk) {
                Some(true) => {}
                Some(false) => {
                    let what = format!("turn {} was changed (its MAC does not fit)", row.turn_id);
                    return Err(session.broken(Some(row.first_seq), what));
                }
                None => return Err(key_missing(session.name())),
            }
        }
        if !row.status.is_closed() {
            self.nothing_after(session, &row)?;
        }
        Ok(row)
    }

    /// An open turn's row must know the turn's newest item: an older row put back over a newer one would not.
    fn nothing_after(&self, session: &Loaded, turn: &TurnRow) -> Result<(), Failure> {
        let mut seq = turn.last_seq + 1;
        while seq <= session.head.last_seq {
            let rows = self.view.records(session.pk, seq, 256)?;
            let Some(last) = rows.last() else {
                return Err(session.broken(Some(seq), FaultKind::Missing));
            };
            if let Some(row) = rows.iter().find(|r| r.first_seq >= seq && r.turn_id() == Some(turn.turn_id)) {
                let what = format!("turn {} has items its row does not know", turn.turn_id);
                return Err(session.broken(Some(row.first_seq), what));
            }
            seq = last.last_seq().max(seq) + 1;
        }
        Ok(())
    }

    /// The public record of a turn, from its items.
    ///
    /// # Errors
    /// `integrity_error` when the items and the row do not agree.
    pub fn project(&self, session: &Loaded, row: &TurnRow) -> Result<Turn, Failure> {
        let mut pages = Pages { sight: self, session, decoded: Vec::new() };
        let start = pages.start(row)?;
        let close = if row.status.is_closed() { Some(pages.close(row)?) } else { None };
        let [question_neutral, question_translated] = pages.questions(row)?;
        let mut answers = [None, None];
        for (answer, seq) in answers.iter_mut().zip(row.finals) {
            if seq != 0 && row.status == TurnStatus::Finalized {
                *answer = text_of(&pages.item(seq)?.parts);
            }
        }
        let [answer_neutral, answer_translated] = answers;
        let replaced_by = self.view.turns(session.pk, row.place() + 1, (row.ordinal << 8) | 0xff, false, 1)?;
        let finalized_at = match close {
            Some(_) => Some(pages.item(row.last_seq)?.created_at),
            None => None,
        };
        Ok(Turn {
            turn_id: row.turn_id,
            session_id: session.row.session_id.clone(),
            request_id: start.request_id.clone(),
            ordinal: row.ordinal,
            status: row.status,
            identity_id: start.identity_id.clone(),
            question_neutral,
            question_translated,
            answer_neutral,
            answer_translated,
            answer_translated_is_fallback: close.as_ref().is_some_and(|c| c.fallback),
            translate_chat: start.translate_chat,
            pipeline_name: start.pipeline_name.clone(),
            consultant: start.consultant.clone(),
            repository: start.repository.clone(),
            metadata: merged(start.metadata.as_ref(), close.as_ref().and_then(|c| c.metadata.as_ref())),
            first_seq: row.first_seq,
            last_seq: row.last_seq,
            record_version: row.record_version,
            replaced_by_turn_id: replaced_by.first().map(|r| r.turn_id),
            created_at: pages.item(row.first_seq)?.created_at,
            finalized_at,
            deleted_at: None,
            replayed: false,
            differs: false,
        })
    }

    /// What started a turn.
    pub(crate) fn start_of(&self, session: &Loaded, row: &TurnRow) -> Result<StartEvent, Failure> {
        Pages { sight: self, session, decoded: Vec::new() }.start(row)
    }

    /// What closed a turn.
    pub(crate) fn close_of(&self, session: &Loaded, row: &TurnRow) -> Result<CloseEvent, Failure> {
        Pages { sight: self, session, decoded: Vec::new() }.close(row)
    }

    /// One item of a session.
    pub(crate) fn item_at(&self, session: &Loaded, seq: u64) -> Result<Item, Failure> {
        Pages { sight: self, session, decoded: Vec::new() }.item(seq).cloned()
    }
}

/// The records a projection has looked at.
struct Pages<'a, 'b, V: ?Sized> {
    sight: &'a Sight<'b, V>,
    session: &'a Loaded,
    decoded: Vec<Decoded>,
}

impl<V: View + ?Sized> Pages<'_, '_, V> {
    fn entry(&mut self, seq: u64) -> Result<&(Item, Vec<Event>), Failure> {
        let holds = |d: &Decoded| {
            d.items.first().is_some_and(|(i, _)| i.seq <= seq) && d.items.last().is_some_and(|(i, _)| seq <= i.seq)
        };
        let at = match self.decoded.iter().position(holds) {
            Some(at) => at,
            None => {
                self.decoded.push(self.sight.record_at(self.session, seq)?);
                self.decoded.len() - 1
            }
        };
        let first = self.decoded[at].items.first().map_or(seq, |(i, _)| i.seq);
        let index = usize::try_from(seq - first).unwrap_or(usize::MAX);
        self.decoded[at].items.get(index).ok_or_else(|| self.session.broken(Some(seq), FaultKind::Missing))
    }

    fn item(&mut self, seq: u64) -> Result<&Item, Failure> {
        self.entry(seq).map(|(item, _)| item)
    }

    fn start(&mut self, row: &TurnRow) -> Result<StartEvent, Failure> {
        let (item, events) = self.entry(row.first_seq)?;
        let found = events.iter().find_map(|e| match e {
            Event::Start(s) if item.turn_id == Some(row.turn_id) => Some(s.as_ref().clone()),
            _ => None,
        });
        found.ok_or_else(|| self.session.broken(Some(row.first_seq), "no turn begins here"))
    }

    fn close(&mut self, row: &TurnRow) -> Result<CloseEvent, Failure> {
        let (item, events) = self.entry(row.last_seq)?;
        let found = events.iter().find_map(|e| match e {
            Event::Close(c) if item.turn_id == Some(row.turn_id) && c.status == row.status => Some(c.as_ref().clone()),
            _ => None,
        });
        found.ok_or_else(|| self.session.broken(Some(row.last_seq), "the turn does not end here as its row says"))
    }

    /// The question's texts, neutral and translated: the question items that the turn begins with.
    fn questions(&mut self, row: &TurnRow) -> Result<[Option<JsonText>; 2], Failure> {
        let mut texts = [None, None];
        for seq in row.first_seq..=row.last_seq.min(row.first_seq + 1) {
            let item = self.item(seq)?;
            if item.channel != filrouge_types::Channel::Question || item.turn_id != Some(row.turn_id) {
                break;
            }
            let slot = &mut texts[usize::from(item.variant == Variant::Translated)];
            if slot.is_none() {
                *slot = text_of(&item.parts);
            }
        }
        Ok(texts)
    }
}

pub(crate) fn key_missing(session: &str) -> Failure {
    Failure::new(
        ErrorCode::KeyMissing,
        format!("session {session:?} was written with a key that is not in the keyring"),
    )
    .with_hint("put the keyring file back, or read with --unverified")
}

/// The text of parts: their `text` parts joined by line feeds; `None` when there is none.
#[must_use]
pub fn text_of(parts: &RawJson) -> Option<JsonText> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(rename = "type")]
        kind: RawJson,
        text: Option<RawJson>,
    }
    let parts: Vec<Part> = serde_json::from_str(parts.as_str()).ok()?;
    let texts: Vec<JsonText> = parts
        .into_iter()
        .filter(|p| p.kind.as_str() == "\"text\"")
        .filter_map(|p| JsonText::from_raw(p.text?).ok())
        .collect();
    JsonText::join(&texts)
}

/// Two JSON objects, the second one's members over the first one's; `{}` when there is none.
#[must_use]
pub fn merged(first: Option<&RawJson>, second: Option<&RawJson>) -> RawJson {
    match (first, second) {
        (None, None) => RawJson::from_checked("{}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (Some(first), Some(second)) => filrouge_types::merge_objects(first, second),
    }
}

/// The whole range of turn places of a session.
pub(crate) const ALL_PLACES: (u64, u64) = (0, (ORDINAL_MAX << 8) | 0xff);

/// Where the link before `seq` comes from: nothing before the first item.
pub(crate) const fn genesis_for(seq: u64) -> Option<&'static Link> {
    if seq <= 1 { Some(&GENESIS) } else { None }
}

