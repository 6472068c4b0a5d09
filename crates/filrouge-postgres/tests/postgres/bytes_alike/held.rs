//! All backends give the same leases, checkpoints and events by time.

use filrouge_store::command::{NewEvent, NewSession, PutCheckpoint, SessionPatch, Write};
use filrouge_store::contract::asks::{event, json};
use filrouge_store::contract::fixture::{operator, sid};
use filrouge_types::{RawJson, SessionStatus, Timestamp};

use super::{JSON, TEXTS, Three, block_on, noise};
use crate::NOON;
use crate::held::{acquire, release};

fn put(seq: Option<u64>, label: Option<&str>, state: RawJson, keep: u64) -> Write {
    Write::PutCheckpoint(Box::new(PutCheckpoint {
        session_id: sid("s"),
        seq,
        label: label.map(Into::into),
        state,
        keep,
    }))
}

async fn read(three: &Three) {
    let who = operator("t");
    three
        .ask("held", async |f| {
            let who = who.clone();
            let asked = f.ledger.query(move |snapshot| {
                let session = snapshot.get(&who, &sid("s"))?;
                let lease = snapshot.lease(&who, &sid("s"), Timestamp::from_micros(NOON))?;
                let all = snapshot.checkpoints(&who, &sid("s"))?;
                Ok((all, snapshot.newest_checkpoint(&session)?, lease))
            });
            asked.await
        })
        .await;
    three.read(&who, &["s".to_owned()]).await;
}

#[test]
fn strange_checkpoints_and_holders_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let who = operator("t");
        let made = NewSession::bare(sid("s"));
        three.write(&who, Write::CreateSession(made)).await;
        three.write(&who, put(None, None, json(JSON[0]), 9)).await;
        let named = TEXTS.iter().filter(|text| !text.is_empty());
        for (n, text) in (1..).zip(named) {
            let close = super::close_session("s", Some(text));
            let opened = SessionPatch {
                status: Some(SessionStatus::Active),
                ..Default::default()
            };
            // Each write adds an item.
            three.write(&who, close).await;
            three.write(&who, super::patch("s", opened)).await;
            let object = format!(r#"{{"x":{}}}"#, JSON[n % JSON.len()]);
            three
                .write(&who, put(None, Some(text), json(&object), 5))
                .await;
            three.write(&who, acquire("s", text, Some(None))).await;
            if n % 2 == 0 {
                read(&three).await;
            }
            three.write(&who, release("s", text, n as u64)).await;
        }
        let large = format!(r#"{{"noise":"{}"}}"#, noise(3 << 20));
        three.write(&who, super::close_session("s", None)).await;
        three
            .write(&who, put(None, Some(""), json(&large), 2))
            .await;
        read(&three).await;
        three.close().await;
    });
}

#[test]
fn events_by_time_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let who = operator("t");
        let ends = [i64::MIN, -1, 0, 1, NOON, i64::MAX - 1, i64::MAX];
        for s in ["s", "other"] {
            three.write(&who, acquire(s, "h", None)).await;
            for (n, at) in ends.iter().rev().cycle().take(16).enumerate() {
                let new = NewEvent {
                    at: Some(Timestamp::from_micros(*at)),
                    ..event(s, &format!("e{n}"), "k")
                };
                three.write(&who, Write::RecordEvent(Box::new(new))).await;
            }
        }
        for from in ends {
            for to in ends {
                let span = [from, to].map(Timestamp::from_micros);
                three
                    .ask("events of a time", async |f| {
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
                                return all;
                            };
                            after = Some((row.event.at, *pk, row.number));
                            let reported = page.iter().map(|(pk, row)| format!("{pk} {row:?}"));
                            all.extend(reported);
                        }
                    })
                    .await;
            }
        }
        three.close().await;
    });
}
