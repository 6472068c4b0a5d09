//! Fields of the hot store: every row round-trips, and arbitrary bytes do not cause a panic.

use filrouge_types::{
    EventKey, IdentityId, ItemId, ProjectId, RawJson, RequestId, SessionEvent, SessionId,
    SessionStatus, TenantId, Timestamp, TurnId,
};
use proptest::prelude::*;

use super::*;
use crate::command::{Erased, SessionToken};
use crate::contract::fixture::item;
use crate::draft::{Delta, StreamId};
use crate::keyring::Keyring;
use crate::record::{Batch, RecordPlacement};
use crate::rows::{DraftChunk, DraftRow, EventRow, SessionRow, Tx};

impl EphemeralRows {
    /// All fields of the session.
    fn encode(&self) -> Vec<Field> {
        let keys = self.sizes.keys();
        let fields = keys.map(|key| Field {
            name: key.field_name(),
            value: codec::write(&self.rows, key).unwrap(),
        });
        fields.collect()
    }
}

fn label() -> impl Strategy<Value = Option<Box<str>>> {
    proptest::option::of(".{0,12}".prop_map(Into::into))
}

fn name() -> impl Strategy<Value = String> {
    "[a-zé/ .]{1,20}"
}

fn session() -> impl Strategy<Value = SessionRow> {
    let names = (
        name(),
        proptest::option::of(name()),
        proptest::option::of(name()),
    );
    let labels = (label(), label(), label(), proptest::option::of(name()));
    let token = proptest::option::of(any::<[u8; 16]>());
    let erased = proptest::option::of((any::<i64>(), any::<[u8; 16]>(), any::<u64>()));
    (names, labels, token, erased, any::<i64>(), 0..3_u8).prop_map(
        |(names, labels, token, erased, at, status)| SessionRow {
            tenant_id: TenantId::new("t").unwrap(),
            session_id: SessionId::new(names.0).unwrap(),
            identity_id: names.1.map(|n| IdentityId::new(n).unwrap()),
            parent_session_id: names.2.map(|n| SessionId::new(n).unwrap()),
            project_id: labels.3.map(|n| ProjectId::new(n).unwrap()),
            team_id: labels.0,
            title: labels.1,
            status: SessionStatus::from_code(status).unwrap(),
            state: labels.2,
            metadata: RawJson::from_checked(r#"{"a": 1.0}"#),
            created_at: Timestamp::from_micros(at),
            token: token.map(SessionToken),
            erased: erased.map(|(at, owner, n)| Erased {
                at: Timestamp::from_micros(at),
                owner,
                items: n,
                turns: n / 2,
            }),
        },
    )
}

fn delta(text: &str) -> Delta {
    Delta {
        replaces: false,
        number: 1,
        part: 0,
        head: None,
        text: text.to_owned(),
        done: false,
    }
}

/// A session with rows of every kind, `n` of each.
fn rows_of_every_kind(session: &SessionRow, n: u64, text: &str) -> EphemeralRows {
    let (keyring, now) = (Keyring::single([3; 32]), Timestamp::from_micros(9));
    let (mut rows, id) = (EphemeralRows::default(), TurnId::from_bytes([8; 16]));
    let pk = rows.rows.insert_session(session).unwrap();
    let head = HeadRow::empty(session.fingerprint(), now).sealed(&keyring, pk);
    rows.rows.put_head(pk, &head).unwrap();
    let scope = crate::chain::LinkScope::new(&session.tenant_id, &session.session_id);
    let placement = RecordPlacement {
        scope: &scope,
        turn_id: Some(id),
        created_at: now,
        keyring: &keyring,
    };
    for at in 1..=n {
        let body = item(filrouge_types::Channel::Observation, text);
        let batch = Batch::pack(vec![body.into()], &crate::OsEntropy).unwrap();
        let (row, _) = placement.place(&batch.records[0], at, [5; 32]);
        rows.rows.insert_record(pk, &row).unwrap();
        let turn = TurnRow::new(
            TurnId::from_bytes([u8::try_from(at).unwrap(); 16]),
            at,
            1,
            at,
            now,
        );
        rows.rows
            .insert_turn(pk, &turn.sealed(&keyring, pk))
            .unwrap();
        let key = format!("{at}{}", "é".repeat(60));
        rows.rows
            .insert_item_key(pk, &ItemId::new(key.as_str()).unwrap(), at)
            .unwrap();
        rows.rows
            .insert_request_key(pk, &RequestId::new(key.as_str()).unwrap(), at)
            .unwrap();
        let agent = format!("{text}{at}");
        rows.rows.insert_agent(pk, &agent, &keyring).unwrap();
        let event = SessionEvent {
            key: EventKey::new(key).unwrap(),
            kind: "kind".into(),
            at: now,
            detail: Some(RawJson::from_checked("{}")),
            created_at: now,
        };
        rows.rows
            .insert_event(pk, &EventRow::sealed(at, event, &keyring, pk))
            .unwrap();
        let draft =
            DraftRow::new(at << 8, id, StreamId([1; 8]), "w".into(), now).sealed(&keyring, pk);
        rows.rows.put_draft(pk, &draft).unwrap();
        let chunk = DraftChunk::sealed(at, &[delta(text)], &keyring, (pk, &draft));
        rows.rows.insert_draft_chunk(pk, at << 8, &chunk).unwrap();
    }
    rows
}

fn sorted(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    fields
}

fn is_same(a: &EphemeralRows, b: &EphemeralRows) -> bool {
    let (x, y) = (&a.rows, &b.rows);
    (
        &x.sessions,
        &x.names,
        &x.heads,
        &x.turns,
        &x.turn_ids,
        &x.records,
    ) == (
        &y.sessions,
        &y.names,
        &y.heads,
        &y.turns,
        &y.turn_ids,
        &y.records,
    ) && (&x.keys, &x.requests, &x.events, &x.event_keys, &x.agents)
        == (&y.keys, &y.requests, &y.events, &y.event_keys, &y.agents)
        && (&x.drafts, &x.draft_chunks) == (&y.drafts, &y.draft_chunks)
        && x.changes.as_ref().map(|a| &a.item_keys) == y.changes.as_ref().map(|a| &a.item_keys)
        && (&a.sizes, a.bytes) == (&b.sizes, b.bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_round_trips(session in session(), n in 0..5_u64, text in ".{0,40}") {
        let mut rows = rows_of_every_kind(&session, n, &text);
        let change = rows.take_change();
        prop_assert!(change.removes.is_empty() && !rows.is_changed());
        prop_assert!(change.puts.iter().all(|f| f.name.len() <= 300));
        let read = EphemeralRows::decode(&change.puts).unwrap();
        prop_assert!(is_same(&read, &rows) && !read.is_changed());
        prop_assert_eq!(sorted(read.encode()), sorted(change.puts.clone()));
        prop_assert_eq!(read.bytes(), change.puts.iter().map(|f| f.value.len() as u64).sum::<u64>());
        // A truncated field is rejected, unless it ends in bytes of any length: records, chunks and item keys.
        for field in &change.puts {
            let mut truncated = field.clone();
            truncated.value.truncate(truncated.value.len() / 2);
            let decoded = EphemeralRows::decode(std::slice::from_ref(&truncated));
            prop_assert!(decoded.is_err() || b"rci".contains(&truncated.name[0]), "{:?}", truncated.name);
            let mut renamed = field.clone();
            renamed.name.push(0);
            prop_assert!(EphemeralRows::decode(&[renamed]).is_err());
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(name: Vec<u8>, letter in 0..10_usize, value: Vec<u8>) {
        // The first letter of a field's name is its kind.
        let known = [&[b"shtriqaedc"[letter]][..], &name].concat();
        for name in [name, known] {
            let _ = EphemeralRows::decode(&[Field { name, value: value.clone() }]);
        }
    }

    /// A row that is removed and rewritten between two commits is sent in its final state.
    #[test]
    fn a_change_contains_the_final_state(session in session(), n in 1..4_u64) {
        let mut rows = rows_of_every_kind(&session, n, "x");
        rows.take_change();
        let draft = rows.rows.drafts.get(&(PK, 1 << 8)).cloned().unwrap();
        rows.rows.delete_draft(PK, 1 << 8).unwrap();
        rows.rows.put_draft(PK, &draft).unwrap();
        let change = rows.take_change();
        prop_assert_eq!(change.removes, [RowKey::Chunk(1 << 8, 1).field_name()]);
        prop_assert_eq!(change.puts.len(), 1);
        rows.rows.erase(PK).unwrap();
        let change = rows.take_change();
        prop_assert_eq!(rows.sizes.len(), 2);
        prop_assert!(change.puts.is_empty() && change.removes.len() as u64 == n * 8 - 1);
        prop_assert!(is_same(&EphemeralRows::decode(&rows.encode()).unwrap(), &rows));
    }
}
