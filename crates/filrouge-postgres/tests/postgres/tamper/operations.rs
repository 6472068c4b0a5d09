//! Kinds of tampering, and the operations that must be refused afterwards.

use filrouge_store::contract::fixture::{Fixture, anyone, append, item, rid, sid, start};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_store::verify::Verdict;
use filrouge_types::{Channel, ErrorCode, Failure};

use super::{block_on, raw, world};
use crate::{fixture_at, keyring};

/// The operations that are tried on a session, by letter: read its record, its items, its turns, its first turn;
/// append to its open turn; start a new turn.
const OPERATIONS: [char; 6] = ['s', 'i', 't', '1', 'a', 'n'];

/// The session that is tampered with.
pub(super) const VICTIM: &str = "victim";

/// One kind of tampering; in its SQL, `$pk` is the victim's number, `$lane` the victim's lane, and `$other` the number of
/// another session.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// The letters of the operations that must be refused; others may be refused.
    pub(super) letters: &'static str,
    /// Whether the other session must remain readable.
    pub(super) confined: bool,
    /// Whether `verify` of a reopened store can find the change; otherwise only the anchor can.
    pub(super) verify_finds_it: bool,
}

/// A case that is found by every check and affects no other session.
pub(super) fn case(name: &'static str, sql: impl Into<String>, letters: &'static str) -> Case {
    Case {
        name,
        sql: sql.into(),
        letters,
        confined: true,
        verify_finds_it: true,
    }
}

/// Tries the operation that a letter of [`OPERATIONS`] names.
async fn attempt(f: &Fixture, s: &str, letter: char) -> Result<(), Failure> {
    let (who, id) = (anyone(), sid(s));
    let turn = |request: &str| f.keyring.turn_id(&who.tenant, &id, &rid(request));
    let query = TurnQuery {
        status: None,
        include_redacted: false,
        order: TurnOrder::Oldest,
        cursor: None,
        limit: 50,
    };
    match letter {
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

/// The letters of refused operations; fails unless each refusal is an integrity error that names the session.
pub(super) async fn refused_operations(f: &Fixture, s: &str, name: &str) -> String {
    let mut letters = String::new();
    for letter in OPERATIONS {
        let Err(failure) = attempt(f, s, letter).await else {
            continue;
        };
        if failure.code == ErrorCode::TurnNotFound && name.starts_with("turn id changed") {
            // The turn can no longer be found by its id; lists and `verify` report the cause.
            continue;
        }
        assert_eq!(
            failure.code,
            ErrorCode::IntegrityError,
            "{name}: {letter}: {failure}"
        );
        let location = failure
            .location
            .unwrap_or_else(|| panic!("{name}: {letter}: names no session"));
        assert_eq!(location.session_id, s, "{name}: {letter}");
        letters.push(letter);
    }
    letters
}

async fn assert_broken(f: &Fixture, name: &str) {
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(report.verdict(), Verdict::Broken, "{name}: {report:?}");
}

/// Runs a case twice: on a ledger that is opened afterwards, and on a running one.
pub(super) fn run_case(case: &Case) {
    for running in [false, true] {
        block_on(run_once(case, running));
    }
}

/// Replaces `$pk`, `$lane` and `$other` ([`Case`]).
fn with_numbers(sql: &str) -> String {
    let of = |column: &str, s: &str| {
        format!("(SELECT {column} FROM old.session WHERE tenant_id = 't' AND session_id = '{s}')")
    };
    sql.replace("$pk", &of("pk", VICTIM))
        .replace("$lane", &of("lane", VICTIM))
        .replace("$other", &of("pk", "other"))
}

async fn run_once(case: &Case, running: bool) {
    let name = format!(
        "{} ({})",
        case.name,
        if running { "running" } else { "reopened" }
    );
    let database = world();
    let open = fixture_at(&database.url(), keyring());
    let position = open.ledger.position();
    let f = if running {
        Some(open)
    } else {
        open.ledger.close().await;
        None
    };
    let sql = with_numbers(&case.sql);
    let client = raw(&database.url()).await;
    let done = client.batch_execute(&sql).await;
    done.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let f = f.unwrap_or_else(|| fixture_at(&database.url(), keyring()));
    let verify_finds_it = running || case.verify_finds_it;
    if verify_finds_it {
        assert_broken(&f, &name).await;
    } else {
        assert_ne!(
            f.ledger.position(),
            position,
            "{name}: only the anchor reveals it"
        );
    }
    let letters = refused_operations(&f, VICTIM, &name).await;
    for letter in case.letters.chars().filter(|_| verify_finds_it) {
        assert!(
            letters.contains(letter),
            "{name}: {letter:?} of {:?} is not refused (refused: {letters:?})",
            case.letters
        );
    }
    if case.confined {
        assert_eq!(
            refused_operations(&f, "other", &name).await,
            "",
            "{name}: confined"
        );
    }
    if running && differs_from_log(&database.url()).await {
        super::running::wait_for_report(&f).await;
    }
    if verify_finds_it {
        assert_broken(&f, &name).await;
    }
    f.ledger.close().await;
}

/// Whether a comparison with the log reveals the change: then a running ledger reports it after its next comparison.
async fn differs_from_log(url: &str) -> bool {
    let f = fixture_at(url, keyring());
    let is_reported = f.ledger.health().integrity.is_some();
    f.ledger.close().await;
    is_reported
}
