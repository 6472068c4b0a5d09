//! Random conversations, recorded in a ledger and restored, then imported from their file into another ledger and
//! restored again.

use filrouge_team::message::{Addressee, Cut, Intent, Message, Routing, Speaker, SpeakerKind};
use filrouge_team::record::{AgentError, Record};
use filrouge_team::snapshot::import;
use filrouge_types::Timestamp;
use proptest::prelude::*;

use crate::persistence::world::{World, caller, context, paused, record_with_error, team};

/// Text that does not look like a credential.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~é🧵\n\t\u{0}\u{2028}]{0,12}",
        Just("\u{feff}\"\\u0000\\\" [NEXT: x]".to_owned()),
        Just(String::new()),
    ]
}

fn name() -> impl Strategy<Value = Box<str>> {
    "[a-zé][a-z é-]{0,6}".prop_map(Into::into)
}

fn speaker() -> impl Strategy<Value = Speaker> {
    let kind = prop_oneof![
        3 => Just(SpeakerKind::Agent),
        2 => Just(SpeakerKind::Human),
        1 => Just(SpeakerKind::System),
    ];
    (name(), name(), kind).prop_map(|(id, name, kind)| Speaker { id, name, kind })
}

fn routing() -> impl Strategy<Value = Routing> {
    let addressee = (name(), proptest::option::of((name(), name())));
    let addressee = addressee.prop_map(|(identifier, member)| {
        let (member_id, member_name) = member.unzip();
        Addressee {
            identifier,
            member_id,
            member_name,
        }
    });
    let intent = prop_oneof![
        Just(Intent::Interrupt),
        Just(Intent::Reply),
        Just(Intent::Extend)
    ];
    let parts = (
        proptest::collection::vec(text().prop_map(Into::into), 0..3),
        proptest::collection::vec(addressee, 0..3),
        proptest::option::of(name()),
        proptest::option::of(intent),
    );
    parts.prop_map(|(markers, addressees, parent, intent)| Routing {
        markers,
        addressees,
        parent,
        intent,
    })
}

/// A message with an empty id, and whether a hand-over follows.
fn message() -> impl Strategy<Value = (Message, bool)> {
    let cut = prop_oneof![
        Just(Cut::Cancelled),
        Just(Cut::Failed),
        Just(Cut::Interrupted)
    ];
    let parts = (
        speaker(),
        text(),
        routing(),
        proptest::option::of(cut),
        0_i64..1_000_000_000,
        any::<bool>(),
    );
    parts.prop_map(|(speaker, content, routing, cut, at, hands_over)| {
        let message = Message {
            id: "".into(),
            at: Timestamp::from_micros(1_700_000_000_000_000 + at),
            cut: cut.filter(|_| speaker.kind == SpeakerKind::Agent),
            speaker,
            content: content.into(),
            routing,
        };
        (message, hands_over)
    })
}

/// The messages, with their ids.
fn with_ids(conversation: Vec<(Message, bool)>) -> Vec<(Message, bool)> {
    let number = |(index, (message, hands_over)): (usize, (Message, bool))| {
        let id = format!("msg-{}", index + 1).into();
        (Message { id, ..message }, hands_over)
    };
    conversation.into_iter().enumerate().map(number).collect()
}

async fn assert_round_trip(conversation: Vec<(Message, bool)>) {
    let world = World::new();
    let opened = world.open_new().await;
    for (message, hands_over) in &conversation {
        let error = AgentError {
            code: "agent_exit",
            detail: "1".into(),
            cut: Cut::Failed,
        };
        let error = Some(&error).filter(|_| message.cut == Some(Cut::Failed));
        record_with_error(&opened.record, message, error).await;
        if *hands_over {
            opened.record.hand_over(&paused()).await.unwrap();
        }
    }
    opened.record.close(&paused()).await.unwrap();
    let (id, path) = (
        opened.record.session_id().to_owned(),
        world.snapshot_path(&opened),
    );
    let messages: Vec<Message> = conversation
        .into_iter()
        .map(|(message, _)| message)
        .collect();
    let opened = world.open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
    world.assert_intact().await;
    if messages.is_empty() {
        return;
    }
    let file = world.snapshots().read(&path).unwrap();
    let other = World::new();
    let imported = import(
        other.engine.clone(),
        caller(),
        &team(),
        &file,
        other.options(),
    )
    .await;
    let id = imported.unwrap().session_id;
    let opened = other.open(&id).await;
    assert_eq!(opened.restored.context, context(&messages));
    other.assert_intact().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_survives_a_round_trip(conversation in proptest::collection::vec(message(), 0..12)) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(assert_round_trip(with_ids(conversation)));
    }
}
