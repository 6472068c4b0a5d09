//! Operations on the victim, by letter: its record, its items, its turns, its first turn, an append to its open turn, a
//! start of a new turn.

use filrouge_store::contract::fixture::{Fixture, anyone, append, item, rid, sid, start};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode, Failure};

use super::{block_on, raw, world};
use crate::{keyring, on};

const TRIES: [char; 6] = ['s', 'i', 't', '1', 'a', 'n'];

/// The session that is tampered with.
pub(super) const VICTIM: &str = "victim";

/// One way to tamper; `$pk` is the victim's number, `$other` another session's.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// Operations that must be refused; others may be.
    pub(super) letters: &'static str,
    /// Whether the other session stays readable.
    pub(super) confined: bool,
    /// Whether `verify` of a store that is opened afterwards can find it; otherwise only the anchor can.
    pub(super) found: bool,
}

/// A case that is found by every check and affects no other session.
pub(super) fn case(name: &'static str, sql: impl Into<String>, letters: &'static str) -> Case {
    Case {
        name,
        sql: sql.into(),
        letters,
        confined: true,
        found: true,
    }
}

async fn one_try(f: &Fixture, s: &str, what: char) -> Result<(), Failure> {
    let (who, id) = (anyone(), sid(s));
    let turn = |request: &str| f.keyring.turn_id(&who.tenant, &id, &rid(request));
    let query = TurnQuery {
        status: None,
        include_redacted: false,
        order: TurnOrder::Oldest,
        cursor: None,
        limit: 50,
    };
    match what {
        's' => f.ledger.session(&who, &id).await.map(drop),
        'i' => f.ledger.items(&who, &id, 0, 100).await.map(drop),
        't' => f.ledger.turns(&who, &id, query).await.map(drop),
        '1' => f.ledger.turn(&who, &id, turn("r0")).await.map(drop),
        'a' => {
            let write = append(s, turn("open"), vec![item(Channel::Plan, "tried")], None);
            f.write(&who, write).await.map(drop)
        }
        _ => f
            .try_start(&who, start(&who, s, "tried", "q"))
            .await
            .map(drop),
    }
}

/// The letters of refused operations; fails if a refusal is not an integrity error that names the session.
pub(super) async fn refused(f: &Fixture, s: &str, name: &str) -> String {
    let mut letters = String::new();
    for what in TRIES {
        let Err(failure) = one_try(f, s, what).await else {
            continue;
        };
        if failure.code == ErrorCode::TurnNotFound && name.starts_with("turn id changed") {
            // The turn can no longer be found by its id; lists and `verify` report the cause.
            continue;
        }
        assert_eq!(
            failure.code,
            ErrorCode::IntegrityError,
            "{name}: {what}: {failure}"
        );
        let place = failure
            .place
            .unwrap_or_else(|| panic!("{name}: {what}: names no session"));
        assert_eq!(place.session_id, s, "{name}: {what}");
        letters.push(what);
    }
    letters
}

async fn broken(f: &Fixture, name: &str) {
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{name}: {report:?}");
}

/// Plays a case twice: against a ledger that is opened afterwards, and against a running one.
pub(super) fn play(case: &Case) {
    for running in [false, true] {
        block_on(play_once(case, running));
    }
}

async fn play_once(case: &Case, running: bool) {
    let name = format!(
        "{} ({})",
        case.name,
        if running { "running" } else { "reopened" }
    );
    let database = world();
    let open = on(&database.url(), keyring());
    let position = open.ledger.position();
    let f = if running {
        Some(open)
    } else {
        open.ledger.close().await;
        None
    };
    let pk = |s: &str| {
        format!("(SELECT pk FROM old.session WHERE tenant_id = 't' AND session_id = '{s}')")
    };
    let sql = case
        .sql
        .replace("$pk", &pk(VICTIM))
        .replace("$other", &pk("other"));
    let client = raw(&database.url()).await;
    let done = client.batch_execute(&sql).await;
    done.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let f = f.unwrap_or_else(|| on(&database.url(), keyring()));
    let reported = running || case.found;
    if reported {
        broken(&f, &name).await;
    } else {
        assert_ne!(
            f.ledger.position(),
            position,
            "{name}: only the anchor reveals it"
        );
    }
    let letters = refused(&f, VICTIM, &name).await;
    for letter in case.letters.chars().filter(|_| reported) {
        assert!(
            letters.contains(letter),
            "{name}: {letter:?} of {:?} is not refused (refused: {letters:?})",
            case.letters
        );
    }
    if case.confined {
        assert_eq!(refused(&f, "other", &name).await, "", "{name}: confined");
    }
    if running && visible(&database.url()).await {
        super::running::reported(&f).await;
    }
    if reported {
        broken(&f, &name).await;
    }
    f.ledger.close().await;
}

/// Whether a comparison with the log reveals it: then a running ledger learns of it at its next comparison.
async fn visible(url: &str) -> bool {
    let f = on(url, keyring());
    let reported = f.ledger.health().integrity.is_some();
    f.ledger.close().await;
    reported
}
