//! A login moves an anonymous session from the hot store into the ledger, where only its owner sees it.

use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_store::hot::HotStore;
use filrouge_types::{Channel, ErrorCode, TurnStatus};

use super::world::{TierProcess, TierWorld, anonymous, code, operator, sid, user};
use crate::RecordEvent;
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

fn world() -> TierWorld {
    TierWorld::new(DurablePolicy::Authenticated)
}

pub(super) async fn link(
    process: &TierProcess,
    session: &str,
    name: &str,
) -> Result<(), ErrorCode> {
    let scope = user(name);
    let identity = scope.viewer.identity().unwrap().clone();
    let caller = Caller::from(&scope);
    let linked = process
        .engine
        .sessions
        .link(&caller, sid(session), identity);
    linked.await.map(|_| ()).map_err(|failure| failure.code)
}

#[tokio::test]
async fn a_login_moves_the_complete_history_into_the_ledger() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    for request in ["a", "b", "c"] {
        process
            .complete_turn(&anonymous(), &s, request)
            .await
            .unwrap();
        world.tick();
    }
    let open = process.start(&anonymous(), &s, "d").await.unwrap();
    let event = RecordEvent {
        key: "e".parse().unwrap(),
        kind: "call_started".into(),
        at: None,
        detail: None,
    };
    process
        .engine
        .events
        .record(&Caller::from(&anonymous()), s.clone(), event)
        .await
        .unwrap();
    let before = process.turns(&anonymous(), &s).await.unwrap();
    let (items, _) = process
        .ledger()
        .items(&anonymous(), &s, 0, 100)
        .await
        .unwrap();
    world.tick();
    // Another process handles the login. The next write through the first process is the owner's.
    let other = world.process();
    link(&other, "s", "ada").await.unwrap();
    assert_eq!(
        other.turns(&ada, &s).await.unwrap(),
        before,
        "ids, order, texts and times are kept"
    );
    let (adopted, _) = ledger_items(&world, &s).await;
    assert_eq!(adopted[..items.len()], items[..]);
    assert_eq!(adopted.last().unwrap().body.channel, Channel::Link);
    let (events, _) = other.ledger().events(&ada, &s, 0, 10).await.unwrap();
    assert_eq!(events.len(), 1);
    let closed = process
        .finalize(&ada, &s, open.turn_id, "d it is")
        .await
        .unwrap();
    assert_eq!((closed.ordinal, closed.status), (4, TurnStatus::Finalized));
    assert_eq!(
        world.hot.load(&world.key(&s)).await.unwrap(),
        None,
        "the hot store no longer has the session"
    );
    let report = other.ledger().verify(None).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    let counts = other.tiers.counts();
    assert_eq!(
        (counts.logins, counts.backfilled_turns, counts.late_turns),
        (1, 4, 0)
    );
}

pub(super) async fn ledger_items(
    world: &TierWorld,
    session: &filrouge_types::SessionId,
) -> filrouge_store::read::ItemPage {
    let ledger: &dyn Ledger = world.ledger.as_ref();
    ledger.items(&operator(), session, 0, 100).await.unwrap()
}

#[tokio::test]
async fn any_write_with_an_identity_is_a_login() {
    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let open = process.start(&anonymous(), &s, "a").await.unwrap();
    process.finalize(&ada, &s, open.turn_id, "b").await.unwrap();
    process.complete_turn(&ada, &s, "c").await.unwrap();
    assert_eq!(world.page(&ada, &s, 9).await.unwrap().0.len(), 2);
    // A repeated request returns the first turn.
    let again = process.start(&ada, &s, "a").await.unwrap();
    assert!(again.replayed && !again.differs);
    assert_eq!(again.turn_id, open.turn_id);
}

#[tokio::test]
async fn only_its_owner_finds_a_linked_session() {
    let world = world();
    let (process, other) = (world.process(), world.process());
    let s = sid("s");
    let turn = process
        .complete_turn(&anonymous(), &s, "a")
        .await
        .unwrap()
        .turn_id;
    other.turns(&anonymous(), &s).await.unwrap();
    link(&process, "s", "ada").await.unwrap();
    for process in [&process, &other] {
        for scope in [anonymous(), user("bob")] {
            assert_eq!(
                code(process.turns(&scope, &s).await),
                ErrorCode::SessionNotFound
            );
            let shown = process.ledger().turn(&scope, &s, turn).await;
            assert_eq!(code(shown), ErrorCode::SessionNotFound);
            let redacted = process.redact(&scope, &s, turn).await;
            assert_eq!(code(redacted), ErrorCode::SessionNotFound);
            let recent = process.page(&scope, &s, 5).await;
            assert_eq!(code(recent), ErrorCode::SessionNotFound);
            let started = process.complete_turn(&scope, &s, "b").await;
            assert_eq!(code(started), ErrorCode::SessionConflict);
        }
        assert_eq!(
            link(process, "s", "bob").await,
            Err(ErrorCode::SessionLinked)
        );
        assert_eq!(link(process, "s", "ada").await, Ok(()));
    }
}

#[tokio::test]
async fn the_next_user_of_a_browser_sees_no_turn_of_the_previous_one() {
    let world = world();
    let process = world.process();
    process
        .complete_turn(&anonymous(), &sid("browser"), "anonymous")
        .await
        .unwrap();
    process
        .complete_turn(&user("ada"), &sid("browser"), "of ada")
        .await
        .unwrap();
    // The user has logged out; the browser keeps its session id.
    assert_eq!(
        code(process.page(&anonymous(), &sid("browser"), 5).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        code(
            process
                .complete_turn(&anonymous(), &sid("browser"), "x")
                .await
        ),
        ErrorCode::SessionConflict
    );
    // Another user logs in, with the same id and then with another one.
    assert_eq!(
        code(process.page(&user("bob"), &sid("browser"), 5).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        code(
            process
                .complete_turn(&user("bob"), &sid("browser"), "x")
                .await
        ),
        ErrorCode::SessionConflict
    );
    process
        .complete_turn(&anonymous(), &sid("next"), "before login of bob")
        .await
        .unwrap();
    process
        .complete_turn(&user("bob"), &sid("next"), "of bob")
        .await
        .unwrap();
    let (page, _) = process.page(&user("bob"), &sid("next"), 5).await.unwrap();
    assert_eq!(page.len(), 2);
    assert!(page.iter().all(|turn| turn.contains("of bob")));
    assert_eq!(
        process
            .page(&user("ada"), &sid("browser"), 5)
            .await
            .unwrap()
            .0
            .len(),
        2
    );
}

#[tokio::test]
async fn a_session_with_a_token_is_linked_only_by_a_caller_who_presents_it() {
    let world = world();
    let process = world.process();
    let token = Some(world.keyring.session_token("secret"));
    let with_token = |mut scope: filrouge_store::Scope| {
        scope.token = token;
        scope
    };
    let s = sid("s");
    process
        .complete_turn(&with_token(anonymous()), &s, "a")
        .await
        .unwrap();
    assert_eq!(
        code(process.turns(&user("bob"), &s).await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        code(process.complete_turn(&user("bob"), &s, "b").await),
        ErrorCode::SessionConflict
    );
    assert_eq!(
        link(&process, "s", "bob").await,
        Err(ErrorCode::SessionNotFound)
    );
    process
        .complete_turn(&with_token(user("ada")), &s, "b")
        .await
        .unwrap();
    assert_eq!(world.page(&user("ada"), &s, 5).await.unwrap().0.len(), 2);
}

#[tokio::test]
async fn each_tenant_has_its_own_retention() {
    use std::collections::HashMap;
    use std::sync::Arc;

    use filrouge_store::OsEntropy;
    use filrouge_store::hot::{FieldRetention, ItemRetention};
    use filrouge_types::{ItemBody, RawJson, Role, TenantId};

    use crate::scopes::{TierOptions, TieredLedger};
    use crate::{Engine, Settings};

    let world = world();
    let retention = FieldRetention {
        metadata: Some(vec!["channel".to_owned()]),
        record: ItemRetention::Conversation,
    };
    let restricted: TenantId = "restricted".parse().unwrap();
    let options = TierOptions {
        durable: DurablePolicy::Authenticated,
        keep_by_tenant: HashMap::from([(restricted.clone(), retention)]),
        ..TierOptions::default()
    };
    let tiers = TieredLedger::new(
        world.ledger.clone(),
        world.hot.clone(),
        world.keyring.clone(),
        Arc::new(OsEntropy),
        world.clock.clone(),
        options,
    );
    let settings = Settings::default();
    let engine = Engine::new(tiers, Arc::new(OsEntropy), world.clock.clone(), settings);
    let parts = RawJson::parse(r#"[{"type":"text","text":"hm"}]"#).unwrap();
    for (tenant, items, metadata) in [
        (restricted, 3, r#"{"channel":"web"}"#),
        (TenantId::default_tenant(), 4, r#"{"channel":"web","x":1}"#),
    ] {
        let in_tenant = |mut scope: filrouge_store::Scope| {
            scope.tenant = tenant.clone();
            scope
        };
        let start = crate::StartTurn {
            metadata: Some(RawJson::parse(r#"{"channel":"web","x":1}"#).unwrap()),
            items: vec![ItemBody::new(
                Role::Assistant,
                Channel::Thought,
                parts.clone(),
            )],
            question_neutral: super::world::text("q"),
            answer_neutral: super::world::text("a"),
            ..crate::StartTurn::new("r".parse().unwrap())
        };
        engine
            .turns
            .start(&Caller::from(&in_tenant(anonymous())), sid("s"), start)
            .await
            .unwrap();
        let scope = in_tenant(user("ada"));
        let identity = scope.viewer.identity().unwrap().clone();
        engine
            .sessions
            .link(&Caller::from(&scope), sid("s"), identity)
            .await
            .unwrap();
        let ledger: &dyn Ledger = world.ledger.as_ref();
        let (adopted, _) = ledger.items(&scope, &sid("s"), 0, 10).await.unwrap();
        assert_eq!(adopted.len(), items, "{tenant}");
        let (turns, _) = ledger
            .turns(&scope, &sid("s"), super::world::query(5))
            .await
            .unwrap();
        assert_eq!(turns[0].metadata.as_str(), metadata, "{tenant}");
    }
}

/// Once the session has an owner, the recorder of an anonymous stream may no longer write; its draft is kept.
#[tokio::test]
async fn a_login_ends_streams_and_keeps_their_drafts() {
    use filrouge_store::command::{Command, PutDraft, Write};
    use filrouge_store::draft::{Delta, PieceHead, PieceKind, StreamId};
    use filrouge_types::Role;

    let world = world();
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let turn = process.start(&anonymous(), &s, "a").await.unwrap().turn_id;
    let put_draft = |number, text: &str| {
        let head = PieceHead {
            role: Role::Assistant,
            channel: Channel::Final,
            kind: PieceKind::Text,
            agent: None,
            model: None,
            call: None,
        };
        let delta = Delta {
            number: 0,
            part: 0,
            head: (number == 1).then_some(head),
            replaces: false,
            text: text.to_owned(),
            done: false,
        };
        let draft = PutDraft {
            session_id: s.clone(),
            turn_id: turn,
            stream: StreamId([7; 8]),
            starts_recording: number == 0,
            writer: "w".into(),
            number,
            deltas: vec![delta; usize::from(number > 0)],
        };
        let write = Write::PutDraft(Arc::new(draft));
        process.ledger().write(Command {
            scope: anonymous(),
            write,
        })
    };
    for (number, text) in [(0, ""), (1, "half an "), (2, "answer")] {
        put_draft(number, text).await.unwrap();
    }
    link(&process, "s", "ada").await.unwrap();
    assert_eq!(code(put_draft(3, "!").await), ErrorCode::SessionNotFound);
    let shown = process.ledger().turn(&ada, &s, turn).await.unwrap();
    assert_eq!(shown.status, TurnStatus::Interrupted);
    let (items, _) = ledger_items(&world, &s).await;
    let partial = items
        .iter()
        .find(|i| i.body.channel == Channel::Partial)
        .unwrap();
    assert!(partial.body.parts.as_str().contains("half an answer"));
    // The owner reopens the turn.
    let again = process.start(&ada, &s, "a").await.unwrap();
    assert_eq!((again.turn_id, again.status), (turn, TurnStatus::Open));
}
