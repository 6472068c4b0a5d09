//! All backends return the same leases, checkpoints and events by time.

use filrouge_store::command::{NewEvent, NewSession, PutCheckpoint, SessionPatch, Write};
use filrouge_store::contract::fixture::{Fixture, operator, sid};
use filrouge_store::contract::session_writes::{event, json};
use filrouge_store::rows::{EventRow, SessionPk};
use filrouge_types::{RawJson, SessionStatus, Timestamp};

use super::{Backends, JSON, TEXTS, block_on, noise};
use crate::START_TIME;
use crate::shared_leases::{acquire, release};

fn put(seq: Option<u64>, label: Option<&str>, state: RawJson, keep: u64) -> Write {
    Write::PutCheckpoint(Box::new(PutCheckpoint {
        session_id: sid("s"),
        seq,
        label: label.map(Into::into),
        state,
        keep,
    }))
}

async fn compare_reads(backends: &Backends) {
    let who = operator("t");
    backends
        .compare("lease and checkpoints", async |f| {
            let who = who.clone();
            let answer = f.ledger.query(move |snapshot| {
                let session = snapshot.get(&who, &sid("s"))?;
                let lease = snapshot.lease(&who, &sid("s"), Timestamp::from_micros(START_TIME))?;
                let all = snapshot.checkpoints(&who, &sid("s"))?;
                Ok((all, snapshot.newest_checkpoint(&session)?, lease))
            });
            answer.await
        })
        .await;
    backends.compare_reads(&who, &["s".to_owned()]).await;
}

#[test]
fn unusual_checkpoints_and_holders_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let who = operator("t");
        let session = NewSession::with_id(sid("s"));
        backends.write(&who, Write::CreateSession(session)).await;
        backends
            .write(&who, put(None, None, json(JSON[0]), 9))
            .await;
        let labels = TEXTS.iter().filter(|text| !text.is_empty());
        for (n, text) in (1..).zip(labels) {
            let close = super::close_session("s", Some(text));
            let opened = SessionPatch {
                status: Some(SessionStatus::Active),
                ..Default::default()
            };
            // Each write adds an item.
            backends.write(&who, close).await;
            backends.write(&who, super::patch("s", opened)).await;
            let object = format!(r#"{{"x":{}}}"#, JSON[n % JSON.len()]);
            backends
                .write(&who, put(None, Some(text), json(&object), 5))
                .await;
            backends.write(&who, acquire("s", text, Some(None))).await;
            if n % 2 == 0 {
                compare_reads(&backends).await;
            }
            backends.write(&who, release("s", text, n as u64)).await;
        }
        let large = format!(r#"{{"noise":"{}"}}"#, noise(3 << 20));
        backends.write(&who, super::close_session("s", None)).await;
        backends
            .write(&who, put(None, Some(""), json(&large), 2))
            .await;
        compare_reads(&backends).await;
        backends.close().await;
    });
}

/// The events, without what depends on the lanes: their MACs, the numbers of their sessions, and the order of sessions
/// at the same time.
async fn shown(f: &Fixture, events: Vec<(SessionPk, EventRow)>) -> Vec<String> {
    let mut shown = Vec::new();
    for (pk, row) in events {
        let session = f.ledger.query(move |snapshot| {
            let stored = snapshot.view.session_by_pk(pk)?;
            Ok(stored.unwrap().row.session_id)
        });
        let session = session.await.unwrap();
        shown.push((
            row.event.at,
            session,
            row.number,
            format!("{:?}", row.event),
        ));
    }
    assert!(shown.is_sorted_by_key(|(at, ..)| *at));
    shown.sort();
    let shown = shown.into_iter();
    shown
        .map(|(_, session, _, event)| format!("{session} {event}"))
        .collect()
}

#[test]
fn events_by_time_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let who = operator("t");
        let times = [i64::MIN, -1, 0, 1, START_TIME, i64::MAX - 1, i64::MAX];
        for s in ["s", "other"] {
            backends.write(&who, acquire(s, "h", None)).await;
            for (n, at) in times.iter().rev().cycle().take(16).enumerate() {
                let new = NewEvent {
                    at: Some(Timestamp::from_micros(*at)),
                    ..event(s, &format!("e{n}"), "k")
                };
                backends
                    .write(&who, Write::RecordEvent(Box::new(new)))
                    .await;
            }
        }
        for from in times {
            for to in times {
                let span = [from, to].map(Timestamp::from_micros);
                backends
                    .compare("events of a time range", async |f| {
                        // In pages of 3.
                        let (mut all, mut after) = (Vec::new(), None);
                        loop {
                            let page = f
                                .ledger
                                .query(move |snapshot| {
                                    snapshot.view.events_at(span[0], span[1], after, 3)
                                })
                                .await
                                .unwrap();
                            let Some((pk, row)) = page.last() else {
                                return shown(f, all).await;
                            };
                            after = Some((row.event.at, *pk, row.number));
                            all.extend(page);
                        }
                    })
                    .await;
            }
        }
        backends.close().await;
    });
}
