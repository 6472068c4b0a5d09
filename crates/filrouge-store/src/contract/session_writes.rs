//! Shorthands for writes of sessions, events and notes.

use filrouge_types::{EventKey, Failure, IdentityId, RawJson, Session, SessionEvent, Timestamp};

use super::fixture::{Fixture, anyone, sid};
use super::lanes::is_at_or_before;
use crate::chain::{GENESIS, LinkScope};
use crate::command::{
    Adopt, CloseSession, Erase, Erased, Link, NewEvent, Outcome, Patch, PutNote, Scope,
    SessionPatch, Write,
};
use crate::read::{ChangeCursor, SessionChange};
use crate::record::compute_link;
use crate::rows::SessionPk;

pub fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// The scope `who`, with a session secret.
pub fn with_secret(f: &Fixture, who: &Scope, secret: &str) -> Scope {
    Scope {
        token: Some(f.keyring.session_token(secret)),
        ..who.clone()
    }
}

/// An anonymous caller with a secret.
pub fn anyone_with_secret(f: &Fixture, secret: &str) -> Scope {
    with_secret(f, &anyone(), secret)
}

pub fn patch(session: &str, change: SessionPatch) -> Write {
    patch_if(session, change, None)
}

pub fn patch_if(session: &str, change: SessionPatch, versions: Option<Vec<[u8; 16]>>) -> Write {
    Write::Patch(Box::new(Patch {
        session_id: sid(session),
        patch: change,
        versions,
        metadata_max: 200,
    }))
}

pub fn title(text: &str) -> SessionPatch {
    SessionPatch {
        title: Some(Some(text.into())),
        ..SessionPatch::default()
    }
}

pub fn metadata(text: &str) -> SessionPatch {
    SessionPatch {
        metadata: Some(Some(json(text))),
        ..SessionPatch::default()
    }
}

pub fn close_session(session: &str, reason: Option<&str>) -> Write {
    Write::CloseSession(CloseSession {
        session_id: sid(session),
        reason: reason.map(Into::into),
    })
}

pub fn link(session: &str, identity: &str) -> Write {
    Write::Link(Link {
        session_id: sid(session),
        identity_id: IdentityId::new(identity).unwrap(),
    })
}

pub fn erase(session: &str) -> Write {
    Write::Erase(Erase {
        session_id: sid(session),
    })
}

pub fn event(session: &str, key: &str, kind: &str) -> NewEvent {
    NewEvent {
        session_id: sid(session),
        key: EventKey::new(key).unwrap(),
        kind: kind.into(),
        at: None,
        detail: None,
    }
}

pub fn put_note(name: &str, expected: u64, value: &[u8]) -> Write {
    Write::PutNote(PutNote {
        name: name.into(),
        expected,
        value: value.to_vec(),
    })
}

impl Fixture {
    /// Executes a write whose outcome is a session, and returns the session.
    pub async fn write_session(&self, who: &Scope, write: Write) -> Result<Session, Failure> {
        match self.write(who, write).await? {
            Outcome::Session { session, .. } => Ok(*session),
            other => panic!("expected a session, got {other:?}"),
        }
    }

    pub async fn session(&self, who: &Scope, session: &str) -> Result<Session, Failure> {
        self.ledger.session(who, &sid(session)).await
    }

    pub async fn erase(&self, who: &Scope, session: &str) -> Result<Erased, Failure> {
        match self.write(who, erase(session)).await? {
            Outcome::Erased(erased) => Ok(erased),
            other => panic!("expected a receipt, got {other:?}"),
        }
    }

    pub async fn record(
        &self,
        who: &Scope,
        event: NewEvent,
    ) -> Result<(SessionEvent, bool), Failure> {
        match self.write(who, Write::RecordEvent(Box::new(event))).await? {
            Outcome::Event { event, created } => Ok((*event, created)),
            other => panic!("expected an event, got {other:?}"),
        }
    }

    /// All changes of the feed, read by page.
    pub async fn feed(&self, who: &Scope, page: usize) -> Vec<SessionChange> {
        self.feed_after(who, "0", page).await
    }

    /// All changes of the feed after a cursor, read by page.
    pub async fn feed_after(
        &self,
        who: &Scope,
        cursor: &str,
        page_len: usize,
    ) -> Vec<SessionChange> {
        let lanes = self.ledger.lanes();
        let (mut changes, mut after): (_, ChangeCursor) = (Vec::new(), cursor.parse().unwrap());
        loop {
            let page = self.ledger.changes(who, after.clone(), page_len);
            let page = page.await.unwrap();
            assert!(page.data.len() <= page_len && is_at_or_before(lanes, &after, &page.next));
            assert_eq!(page.next.to_string().parse(), Ok(page.next.clone()));
            assert!(
                !page.more || !is_at_or_before(lanes, &page.next, &after),
                "a page advances the cursor"
            );
            changes.extend(page.data);
            after = page.next;
            if !page.more {
                return changes;
            }
        }
    }

    /// The number of a session of tenant `t`.
    pub async fn pk(&self, session: &str) -> SessionPk {
        let (tenant, id) = (anyone().tenant, sid(session));
        let query = self
            .ledger
            .query(move |snapshot| Ok(snapshot.view.session(&tenant, &id, None)?.unwrap().pk));
        query.await.unwrap()
    }

    /// The command with which another ledger adopts the session.
    pub async fn adopt_command_for(&self, who: &Scope, session: &str) -> Adopt {
        let (who, id) = (who.clone(), sid(session));
        let query = self.ledger.query(move |snapshot| {
            let session = snapshot.get(&who, &id)?;
            let mut items = Vec::new();
            snapshot.for_each_chained_item(&session, |chained| {
                items.push(chained);
                Ok(())
            })?;
            Ok(Adopt {
                session: session.row,
                updated_at: Timestamp::from_micros(7),
                items,
                side_rows: Default::default(),
            })
        });
        query.await.unwrap()
    }

    /// As [`Self::adopt_command_for`], for a session with another name and the same turn ids.
    pub async fn adopt_command_as(&self, who: &Scope, session: &str, name: &str) -> Adopt {
        let mut adopt = self.adopt_command_for(who, session).await;
        adopt.session.session_id = sid(name);
        let scope = LinkScope::new(&adopt.session.tenant_id, &adopt.session.session_id);
        let mut link = GENESIS;
        for chained in &mut adopt.items {
            link = compute_link(chained, &link, &scope);
            chained.link = link;
        }
        adopt
    }
}
