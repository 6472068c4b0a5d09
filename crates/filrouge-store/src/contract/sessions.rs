//! Sessions: closing, filters and secrets.

use filrouge_types::{Channel, ErrorCode, ItemBody, ProjectId, SessionStatus, TurnStatus};

use super::fixture::{
    Fixture, anyone, append, code, finalize, item, operator, replacement, sid, start, user,
};
use super::session_writes::{anyone_with_secret, close_session, patch, title, with_secret};
use crate::command::{NewSession, Scope, SessionFilter, SessionPatch, Write};

fn active() -> SessionPatch {
    SessionPatch {
        status: Some(SessionStatus::Active),
        ..SessionPatch::default()
    }
}

pub async fn a_closed_session_stays_closed(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let before = f.session(&who, "s").await.unwrap();
    f.clock.advance(5);
    let write = || close_session("s", Some("done \"here\""));
    let closed = f.write_session(&who, write()).await.unwrap();
    assert_eq!((closed.status, closed.last_seq), (SessionStatus::Closed, 3));
    assert_ne!(closed.version, before.version);
    let note = f.items(&who, "s", 10).await.pop().unwrap();
    assert_eq!(
        (note.turn_id, note.body.channel),
        (None, Channel::SystemNote)
    );
    assert_eq!(
        note.body.parts.as_str(),
        r#"[{"type":"session_closed","reason":"done \"here\""}]"#
    );
    let position = f.ledger.position();
    for reason in [None, Some("again"), Some("done \"here\"")] {
        let again = f.write_session(&who, close_session("s", reason)).await;
        assert_eq!(again.unwrap(), closed, "a closed session is unchanged");
    }
    assert_eq!(f.ledger.position(), position);
    for stranger in [user("bob"), anyone(), operator("u")] {
        let refused = f.write_session(&stranger, write()).await;
        assert_eq!(code(refused), ErrorCode::SessionNotFound);
    }
    let empty = f.create(&who, "empty").await;
    empty.unwrap();
    f.write_session(&operator("t"), close_session("empty", None))
        .await
        .unwrap();
    let items = f.items(&who, "empty", 10).await;
    assert_eq!(
        items[0].body.parts.as_str(),
        r#"[{"type":"session_closed","reason":null}]"#
    );
    f.assert_intact().await;
}

pub async fn a_closed_session_begins_no_turn(f: &Fixture) {
    let who = user("ann");
    let done = f.complete_turn(&who, "s", "done", "a").await;
    let open = f.start(&who, "s", "open").await;
    f.write_session(&who, close_session("s", None))
        .await
        .unwrap();
    let position = f.ledger.position();
    let refused = f.try_start(&who, start(&who, "s", "new", "q")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, ErrorCode::SessionClosed);
    assert!(refused.hint.is_some());
    assert_eq!(f.ledger.position(), position);
    let again = f.complete_turn(&who, "s", "done", "a").await;
    assert!(again.replayed && again.turn_id == done.turn_id);
    let again = f.start(&who, "s", "open").await;
    assert!(again.replayed && again.status == TurnStatus::Open);
    let more = vec![item(Channel::Plan, "p")];
    f.append(&who, &open, more).await.unwrap();
    let ended = f.write_turn(&who, finalize("s", open.turn_id, Some("a")));
    assert_eq!(ended.await.unwrap().status, TurnStatus::Finalized);
    let newer = replacement(&who, "s", "newer", done.turn_id, "better");
    assert_eq!(f.write_turn(&who, newer).await.unwrap().record_version, 2);
    // A stranger does not learn that it is closed.
    let bob = user("bob");
    let refused = f.try_start(&bob, start(&bob, "s", "new", "q")).await;
    assert_eq!(code(refused), ErrorCode::SessionConflict);
    f.write_session(&who, patch("s", active())).await.unwrap();
    f.start(&who, "s", "new").await;
    let closed = f
        .write_session(&who, close_session("s", Some("again")))
        .await;
    let items = f.items(&who, "s", 50).await;
    assert_eq!(closed.unwrap().last_seq, items.len() as u64);
    let closing_items = items
        .iter()
        .filter(|i| i.body.parts.as_str().contains("session_closed"));
    assert_eq!(closing_items.count(), 2);
    f.assert_intact().await;
}

async fn listed_ids(f: &Fixture, who: &Scope, filter: SessionFilter) -> Vec<String> {
    // Pages of two must give the same result.
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = f.ledger.sessions(who, filter.clone(), cursor, 2);
        let (page, next) = page.await.unwrap();
        all.extend(page.into_iter().map(|s| s.session_id.to_string()));
        match next {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

async fn create_session(
    f: &Fixture,
    who: &Scope,
    name: &str,
    title: Option<&str>,
    parent: Option<&str>,
) {
    let new = NewSession {
        title: title.map(Into::into),
        parent_session_id: parent.map(sid),
        project_id: ProjectId::new("p").ok().filter(|_| name.len() == 1),
        team_id: Some(format!("team-{}", name.len()).into()),
        ..NewSession::with_id(sid(name))
    };
    f.write(who, Write::CreateSession(new)).await.unwrap();
    f.clock.advance(1);
}

async fn append_by_agents(f: &Fixture, who: &Scope, session: &str, agents: &[&str]) {
    let turn = f.start(who, session, "r").await;
    let by = |agent: &&str| ItemBody {
        agent: Some((*agent).into()),
        ..item(Channel::Thought, agent)
    };
    let items = agents.iter().map(by).collect();
    f.append(who, &turn, items).await.unwrap();
}

pub async fn lists_are_filtered(f: &Fixture) {
    let (ann, bob) = (user("ann"), user("bob"));
    create_session(f, &ann, "a", Some("Die Größe"), None).await;
    create_session(f, &ann, "b", Some("the SIZE of it"), Some("a")).await;
    create_session(f, &ann, "child", None, Some("a")).await;
    create_session(f, &bob, "theirs", Some("size"), Some("a")).await;
    create_session(f, &ann, "gone", Some("size"), Some("a")).await;
    append_by_agents(f, &ann, "a", &["planner", "coder", "planner"]).await;
    append_by_agents(f, &ann, "b", &["planner"]).await;
    append_by_agents(f, &bob, "theirs", &["planner"]).await;
    append_by_agents(f, &ann, "gone", &["planner"]).await;
    f.erase(&ann, "gone").await.unwrap();
    let none = SessionFilter::default;
    let agent = |name: &str| SessionFilter {
        agent: Some(name.into()),
        ..none()
    };
    let titled = |words: &str| SessionFilter {
        title: Some(words.into()),
        ..none()
    };
    let parent = |name: &str| SessionFilter {
        parent_session_id: Some(sid(name)),
        ..none()
    };
    let both = SessionFilter {
        title: Some("si".into()),
        parent_session_id: Some(sid("a")),
        ..agent("planner")
    };
    let project = SessionFilter {
        project_id: ProjectId::new("p").ok(),
        ..agent("planner")
    };
    let team = |id: &str| SessionFilter {
        team_id: Some(id.into()),
        ..none()
    };
    for (filter, hers, all) in [
        (team("team-1"), vec!["b", "a"], vec!["b", "a"]),
        (team("team-6"), vec![], vec!["theirs"]),
        (team("team-"), vec![], vec![]),
        (agent("planner"), vec!["b", "a"], vec!["theirs", "b", "a"]),
        (agent("coder"), vec!["a"], vec!["a"]),
        (agent("Coder"), vec![], vec![]),
        (agent("plan"), vec![], vec![]),
        (agent("p*n*r"), vec!["b", "a"], vec!["theirs", "b", "a"]),
        (agent("*ode*"), vec!["a"], vec!["a"]),
        (agent("*Ode*"), vec![], vec![]),
        (agent("pl_n*"), vec![], vec![]),
        (agent("?lan*"), vec![], vec![]),
        (agent("[p]*"), vec![], vec![]),
        (agent("%*"), vec![], vec![]),
        (titled("size"), vec!["b"], vec!["theirs", "b"]),
        (titled("gRö"), vec!["a"], vec!["a"]),
        (titled("GRÖ"), vec![], vec![]),
        (titled("%"), vec![], vec![]),
        (
            titled(""),
            vec!["child", "b", "a"],
            vec!["theirs", "child", "b", "a"],
        ),
        (
            parent("a"),
            vec!["child", "b"],
            vec!["theirs", "child", "b"],
        ),
        (parent("none"), vec![], vec![]),
        (both, vec!["b"], vec!["theirs", "b"]),
        (project, vec!["b", "a"], vec!["b", "a"]),
        (
            none(),
            vec!["child", "b", "a"],
            vec!["theirs", "child", "b", "a"],
        ),
    ] {
        assert_eq!(
            listed_ids(f, &ann, filter.clone()).await,
            hers,
            "{filter:?}"
        );
        assert_eq!(
            listed_ids(f, &operator("t"), filter.clone()).await,
            all,
            "{filter:?}"
        );
        assert_eq!(listed_ids(f, &anyone(), filter).await, Vec::<String>::new());
    }
    let page = f.ledger.list_sessions(&ann, none(), None, 9).await;
    let (sessions, _) = page.unwrap().0;
    let agents = sessions.iter().map(|s| s.agents.join(" "));
    let agents: Vec<String> = agents.collect();
    assert_eq!(agents, ["", "planner", "coder planner"]);
    f.write_session(&ann, patch("a", title("now of a size")))
        .await
        .unwrap();
    assert_eq!(listed_ids(f, &ann, titled("SIZE")).await, ["b", "a"]);
    f.assert_intact().await;
}

/// Every access to session `s` and its turn `r` must fail as for an absent one.
async fn assert_invisible(f: &Fixture, who: &Scope) {
    let turn = f
        .keyring
        .turn_id(&who.tenant, &sid("s"), &super::fixture::rid("r"));
    let not_found = ErrorCode::SessionNotFound;
    assert_eq!(code(f.session(who, "s").await), not_found);
    assert_eq!(code(f.ledger.items(who, &sid("s"), 0, 9).await), not_found);
    assert_eq!(code(f.ledger.turn(who, &sid("s"), turn).await), not_found);
    assert_eq!(code(f.ledger.events(who, &sid("s"), 0, 9).await), not_found);
    let verify = f.ledger.verify(Some((who.clone(), sid("s")))).await;
    assert_eq!(code(verify), not_found);
    for write in [
        append("s", turn, vec![item(Channel::Plan, "p")], None),
        finalize("s", turn, Some("a")),
        close_session("s", None),
        patch("s", title("mine")),
        super::session_writes::erase("s"),
        Write::RecordEvent(Box::new(super::session_writes::event("s", "k", "kind"))),
    ] {
        assert_eq!(code(f.write(who, write).await), not_found);
    }
    assert_eq!(code(f.create(who, "s").await), ErrorCode::SessionConflict);
    let refused = f.try_start(who, start(who, "s", "r", "r")).await;
    assert_eq!(code(refused), ErrorCode::SessionConflict);
    assert!(
        !listed_ids(f, who, SessionFilter::default())
            .await
            .contains(&"s".to_owned())
    );
    assert!(
        f.feed(who, 9)
            .await
            .iter()
            .all(|c| c.session_id != sid("s"))
    );
}

pub async fn a_secret_protects_an_anonymous_session(f: &Fixture) {
    let holder = anyone_with_secret(f, "the secret");
    let turn = f.start(&holder, "s", "r").await;
    let before = f.session(&holder, "s").await.unwrap();
    for who in [
        anyone(),
        user("ann"),
        anyone_with_secret(f, "another"),
        with_secret(f, &user("ann"), "another"),
    ] {
        assert_invisible(f, &who).await;
    }
    assert_eq!(f.session(&holder, "s").await.unwrap(), before);
    for who in [holder.clone(), with_secret(f, &user("ann"), "the secret")] {
        let more = vec![item(Channel::Plan, "p")];
        f.append(&who, &turn, more).await.unwrap();
        assert_eq!(
            f.items(&who, "s", 9).await[0].body.parts.as_str(),
            super::fixture::text("r").as_str()
        );
    }
    assert_eq!(
        listed_ids(f, &holder, SessionFilter::default()).await,
        ["s"]
    );
    assert_eq!(
        listed_ids(f, &operator("t"), SessionFilter::default()).await,
        ["s"]
    );
    assert!(f.start(&holder, "s", "r").await.replayed);
    f.assert_intact().await;
}

pub async fn any_secret_opens_a_session_without_one(f: &Fixture) {
    // Anonymous sessions are found by id with any credentials, and listed for callers without any.
    f.start(&anyone(), "open", "r").await;
    let holder = anyone_with_secret(f, "s");
    f.create(&holder, "mine").await.unwrap();
    f.session(&holder, "open").await.unwrap();
    assert_eq!(
        listed_ids(f, &holder, SessionFilter::default()).await,
        ["mine"]
    );
    assert_eq!(
        listed_ids(f, &anyone(), SessionFilter::default()).await,
        ["open"]
    );
    // A caller with an identity needs no secret: the sessions they create are theirs.
    let ann = with_secret(f, &user("ann"), "s");
    f.create(&ann, "hers").await.unwrap();
    f.session(&user("ann"), "hers").await.unwrap();
    assert_eq!(
        code(f.session(&holder, "hers").await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(
        listed_ids(f, &ann, SessionFilter::default()).await,
        ["hers"]
    );
}
