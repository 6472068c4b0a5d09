//! Commands round-trip; truncated, extended and arbitrary bytes are refused without a panic.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use filrouge_types::{
    Channel, EventKey, IdentityId, ItemBody, ItemId, JsonText, RawJson, RequestId, Role, SessionId,
    TenantId, Timestamp, TurnId, TurnStatus, Variant,
};
use proptest::prelude::*;

use super::*;
use crate::command::{
    Acquire, Append, Close, ConcurrentTurns, Ending, FencingToken, LeaseCommand, LeaseRequest,
    NewEvent, NewSession, PutCheckpoint, Scope, SessionToken, Start, Viewer,
};
use crate::keyring::OsEntropy;
use crate::record::{CloseEvent, Entry, Event, StartEvent};

/// The range of microseconds that RFC 3339 can express.
const MOMENTS: std::ops::Range<i64> = 0..253_402_207_200_000_000;

fn id() -> impl Strategy<Value = String> {
    "[a-zé\"]{1,12}"
}

fn sid(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn a_text() -> impl Strategy<Value = JsonText> {
    ".{0,30}".prop_map(|t| JsonText::from_plain(&t))
}

fn an_object() -> impl Strategy<Value = RawJson> {
    a_text().prop_map(|t| RawJson::from_checked(format!("{{\"a\": {}}}", t.as_token())))
}

fn an_entry() -> impl Strategy<Value = Entry> {
    let texts = (proptest::option::of(id()), a_text());
    (texts, 0..3_u8, proptest::option::of(MOMENTS)).prop_map(|((item, text), n, at)| {
        let channel = match n {
            0 => Channel::Final,
            1 => Channel::ToolCall,
            _ => Channel::Other("mine".into()),
        };
        let parts = format!("[{{ \"type\":\"text\",\"text\":{} }}]", text.as_token());
        let close = Event::Close(Box::new(CloseEvent {
            status: TurnStatus::Finalized,
            fingerprint: [7; 16],
            fallback: n == 1,
            metadata: None,
        }));
        Entry {
            item: ItemBody {
                item_id: item.map(|i| ItemId::new(i).unwrap()),
                agent: (n == 1).then(|| "agent".into()),
                occurred_at: at.map(Timestamp::from_micros),
                variant: Variant::Translated,
                ..ItemBody::new(Role::Assistant, channel, RawJson::from_checked(parts))
            },
            events: (n == 0).then_some(close).into_iter().collect(),
        }
    })
}

fn some_entries() -> impl Strategy<Value = Vec<Entry>> {
    proptest::collection::vec(an_entry(), 0..4)
}

fn a_scope() -> impl Strategy<Value = Scope> {
    let fence = (any::<u64>(), any::<bool>(), any::<bool>());
    let fence = fence.prop_map(|(fence, release, queued)| FencingToken {
        fence,
        release,
        queued,
    });
    let viewer = prop_oneof![
        Just(Viewer::Operator),
        Just(Viewer::EndUser(None)),
        id().prop_map(|i| Viewer::EndUser(Some(IdentityId::new(i).unwrap()))),
    ];
    let token = proptest::option::of(any::<[u8; 16]>().prop_map(SessionToken));
    let parts = (id(), viewer, token, proptest::option::of(fence));
    parts.prop_map(|(tenant, viewer, token, fence)| Scope {
        tenant: TenantId::new(tenant).unwrap(),
        viewer,
        token,
        fence,
        key: None,
    })
}

fn a_session() -> impl Strategy<Value = NewSession> {
    (id(), proptest::option::of(id()), an_object()).prop_map(|(session, title, metadata)| {
        NewSession {
            title: title.map(Into::into),
            metadata,
            ..NewSession::with_id(sid(&session))
        }
    })
}

fn a_start() -> impl Strategy<Value = Write> {
    let parts = (
        a_session(),
        id(),
        some_entries(),
        any::<bool>(),
        an_object(),
        proptest::option::of(any::<u64>()),
    );
    parts.prop_map(
        |(session, request, entries, flag, metadata, expected_seq)| {
            let event = StartEvent {
                request_id: RequestId::new(request).unwrap(),
                identity_id: None,
                fingerprint: [9; 16],
                replaces: flag.then(|| TurnId::from_bytes([3; 16])),
                application: filrouge_types::Application {
                    pipeline_name: Some("p".into()),
                    ..filrouge_types::Application::new(flag)
                },
                metadata: Some(metadata),
            };
            Write::Start(Arc::new(Start {
                session,
                event,
                batch: Batch::pack(entries, &OsEntropy).unwrap(),
                status: [TurnStatus::Open, TurnStatus::Finalized][usize::from(flag)],
                reopen: flag,
                concurrent_turns: [ConcurrentTurns::Allow, ConcurrentTurns::Reject]
                    [usize::from(flag)],
                terminal: vec!["DONE".into()],
                expected_seq,
            }))
        },
    )
}

fn an_append() -> impl Strategy<Value = Write> {
    let parts = (id(), some_entries(), proptest::option::of(any::<u64>()));
    parts.prop_map(|(session, entries, expected_seq)| {
        Write::Append(Arc::new(Append {
            session_id: sid(&session),
            turn_id: TurnId::from_bytes([1; 16]),
            batch: Batch::pack(entries, &OsEntropy).unwrap(),
            expected_seq,
            progress: None,
        }))
    })
}

fn a_close() -> impl Strategy<Value = Write> {
    let texts = || proptest::option::of(a_text());
    let finalize = (texts(), texts(), proptest::option::of(any::<bool>()));
    let ending = prop_oneof![
        finalize.prop_map(|(neutral, translated, fallback)| Ending::Finalize {
            neutral,
            translated,
            fallback,
        }),
        some_entries().prop_map(Ending::Fail),
        some_entries().prop_map(Ending::Cancel),
        some_entries().prop_map(Ending::Interrupt),
        some_entries().prop_map(Ending::Recorded),
    ];
    let parts = (id(), proptest::option::of(id()), ending, an_object());
    parts.prop_map(|(session, request, ending, metadata)| {
        Write::Close(Arc::new(Close {
            session_id: sid(&session),
            turn_id: TurnId::from_bytes([2; 16]),
            request_id: request.map(|r| RequestId::new(r).unwrap()),
            ending,
            metadata: Some(metadata),
            fingerprint: [4; 16],
            stream: None,
            packed: OnceLock::new(),
        }))
    })
}

fn a_checkpoint() -> impl Strategy<Value = Write> {
    let parts = (id(), proptest::option::of(any::<u64>()), an_object());
    parts.prop_map(|(session, seq, state)| {
        Write::PutCheckpoint(Box::new(PutCheckpoint {
            session_id: sid(&session),
            seq,
            label: seq.map(|_| "LABEL".into()),
            state,
            keep: 8,
        }))
    })
}

fn an_event() -> impl Strategy<Value = Write> {
    let parts = (id(), id(), proptest::option::of(MOMENTS), an_object());
    parts.prop_map(|(session, key, at, detail)| {
        Write::RecordEvent(Box::new(NewEvent {
            session_id: sid(&session),
            key: EventKey::new(key).unwrap(),
            kind: "call_started".into(),
            at: at.map(Timestamp::from_micros),
            detail: Some(detail),
        }))
    })
}

fn a_lease() -> impl Strategy<Value = Write> {
    (a_session(), id(), any::<u32>(), 0..3_u8).prop_map(|(session, holder, n, kind)| {
        let (ttl, fence) = (Duration::from_millis(n.into()), n.into());
        let session_id = session.session_id.clone();
        let request = match kind {
            0 => LeaseRequest::Acquire(Box::new(Acquire {
                ttl,
                exited: None,
                create: Some(session),
                terminal: vec!["DONE".into()],
                resumes: (n % 3 != 0).then_some((n % 3 == 1).then_some(fence)),
            })),
            1 => LeaseRequest::Renew { fence, ttl },
            _ => LeaseRequest::Release { fence },
        };
        Write::Lease(Box::new(LeaseCommand {
            session_id,
            holder: holder.into(),
            request,
        }))
    })
}

fn a_write() -> impl Strategy<Value = Write> {
    let items = prop_oneof![a_start(), an_append(), a_close()];
    prop_oneof![items, a_checkpoint(), an_event(), a_lease()]
}

proptest! {
    #[test]
    fn commands_round_trip(scope in a_scope(), write in a_write()) {
        let command = Command { scope, write };
        let bytes = command.encode().unwrap();
        let decoded = Command::decode(&bytes, &OsEntropy).unwrap();
        prop_assert_eq!(&decoded.scope, &command.scope);
        prop_assert_eq!(decoded.write.session_id(), command.write.session_id());
        prop_assert_eq!(decoded.encode().unwrap(), bytes);
        let resumes = |write: &Write| match write {
            Write::Lease(take) => match &take.request {
                LeaseRequest::Acquire(acquire) => acquire.resumes,
                _ => None,
            },
            _ => None,
        };
        prop_assert_eq!(resumes(&decoded.write), resumes(&command.write));
    }

    #[test]
    fn truncated_or_extended_bytes_are_refused(
        scope in a_scope(),
        write in a_write(),
        at: prop::sample::Index,
    ) {
        let mut bytes = Command { scope, write }.encode().unwrap();
        let cut = at.index(bytes.len());
        let refused = Command::decode(&bytes[..cut], &OsEntropy).unwrap_err();
        prop_assert_eq!(refused.code, ErrorCode::IntegrityError);
        bytes.push(0);
        prop_assert!(Command::decode(&bytes, &OsEntropy).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = Command::decode(&bytes, &OsEntropy);
    }
}
