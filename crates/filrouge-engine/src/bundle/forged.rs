//! Bundles by somebody who computes everything anew and signs with a key of their own.
use std::sync::Arc;

use filrouge_store::command::{Command, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::{Event, Seqs};
use filrouge_store::verify::Verdict;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, ItemId, RawJson, SystemClock, TenantId, TurnStatus};

use super::read::sections;
use super::verify;
use crate::caller::{Caller, Permission};

mod forge;

use forge::{
    Made, WORDS, close, forged, journal, linked, linked_as, made, public, redact, resigned,
    session, signed, start, turn,
};

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Broken, at `seq` when one is told, with these words.
async fn refused(bundle: &str, seq: Option<u64>, words: &str) {
    let report = verify(bundle.as_bytes(), None).await.unwrap();
    assert_eq!(report.verdict, Verdict::Broken, "{words}: {bundle}");
    let finding = &report.findings[0];
    assert_eq!(finding.seq, seq, "{words}: {finding:?}");
    assert!(finding.what.contains(words), "not {words}: {finding:?}");
    // As little is it taken in, and nothing of it stays.
    let keyring = Arc::new(Keyring::single([9; 32]));
    let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
    let ledger = Arc::new(ledger);
    let engine = crate::Engine::new(
        ledger.clone(),
        Arc::new(OsEntropy),
        Arc::new(SystemClock),
        crate::Settings::default(),
    );
    let caller = operator();
    let taken = engine.bundles.import(&caller, bundle.as_bytes(), None);
    assert_eq!(taken.await.unwrap_err().code, ErrorCode::IntegrityError);
    assert_eq!(ledger.position().commit_no, 0);
}

fn operator() -> Caller {
    Caller::operator(TenantId::new("t").unwrap())
}

#[test]
fn another_key_signs_well_and_is_told_from_the_true_one() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let mut other = journal();
        other[1].0.item.body.parts = RawJson::from_checked(r#"[{"type":"text","text":"lies"}]"#);
        for (bundle, key) in [
            (honest.clone(), 1),
            (forged(&linked(other), 2).await, 2),
            (forged(&linked(Vec::new()), 2).await, 2),
            // The row of the session is under nothing but the signature.
            (
                resigned(&honest, "\"title\":\"title\"", "\"title\":\"lies\"", 2),
                2,
            ),
        ] {
            let report = verify(bundle.as_bytes(), None).await.unwrap();
            assert_eq!(report.findings, Vec::new(), "{bundle}");
            let by = report.signed_by.unwrap();
            assert_eq!(
                (by.public_key, by.trusted),
                (public(key).to_string(), false)
            );
            let (right, wrong) = (public(key), public(3 - key));
            let report = verify(bundle.as_bytes(), Some(right)).await.unwrap();
            assert!(report.signed_by.unwrap().trusted);
            let report = verify(bundle.as_bytes(), Some(wrong)).await.unwrap();
            assert_eq!(report.verdict, Verdict::Broken);
            assert!(report.findings[0].what.starts_with("head: signed by"));
        }
    });
}

#[test]
fn new_digests_without_a_new_signature() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        for (from, to, place) in [
            ("\"title\":\"title\"", "\"title\":\"lies\"", "signature: "),
            ("\"replayed\":false", "\"replayed\":true", "turns[0]: "),
        ] {
            let resigned = resigned(&honest, from, to, 2);
            let theirs = public(2).to_string();
            let named = resigned.replace(&theirs, &public(1).to_string());
            let seq = place.starts_with("turns").then_some(1);
            refused(&named, seq, place).await;
            // With the signature of the true head.
            let signature = |text: &str| text.rsplit('"').nth(1).unwrap().to_owned();
            let kept = named.replace(&signature(&named), &signature(&honest));
            refused(&kept, seq, place).await;
        }
    });
}

#[test]
fn journals_that_cannot_be() {
    let one = |turn_id, events| made(turn_id, WORDS, events);
    let (a, b, c) = (Some(turn(1)), Some(turn(2)), Some(turn(3)));
    let done = || close(TurnStatus::Finalized);
    let named = |id: &str, mut made: Made| {
        made.0.item.body.item_id = Some(ItemId::new(id).unwrap());
        made
    };
    let erased = |by: u64, mut made: Made| {
        made.1 = Some(by);
        made
    };
    let first = || one(a, vec![start("a", None), done()]);
    let cases: Vec<(u64, &str, Vec<Made>)> = vec![
        (1, "never began", vec![one(a, vec![])]),
        (
            2,
            "stands twice",
            vec![first(), one(a, vec![start("b", None)])],
        ),
        (
            2,
            "stands twice",
            vec![first(), one(b, vec![start("a", None)])],
        ),
        (
            1,
            "stands twice",
            vec![one(a, vec![start("a", None), start("b", None)])],
        ),
        (2, "not there", vec![first(), one(b, vec![start("b", c)])]),
        (
            3,
            "another one has replaced",
            vec![
                first(),
                one(b, vec![start("b", a), done()]),
                one(c, vec![start("c", a), done()]),
            ],
        ),
        (
            2,
            "item_id stands twice",
            vec![named("i", first()), named("i", one(a, vec![]))],
        ),
        (2, "does not end here", vec![first(), one(a, vec![])]),
        (
            1,
            "no redaction names it",
            vec![erased(2, first()), one(None, vec![])],
        ),
        (
            1,
            "no redaction names it",
            vec![
                erased(3, first()),
                one(None, vec![redact(&[(1, 1)])]),
                one(None, vec![redact(&[(1, 1)])]),
            ],
        ),
        (
            1,
            "has a content",
            vec![first(), one(None, vec![redact(&[(1, 1)])])],
        ),
        (
            2,
            "what comes after",
            vec![first(), one(None, vec![redact(&[(2, 2)])])],
        ),
        (
            2,
            "what comes after",
            vec![erased(2, first()), one(None, vec![redact(&[(1, 9)])])],
        ),
        (
            2,
            "belongs to a turn",
            vec![erased(2, first()), one(a, vec![redact(&[(1, 1)])])],
        ),
        (
            3,
            "names a redaction",
            vec![
                erased(2, first()),
                erased(3, one(None, vec![redact(&[(1, 1)])])),
                one(None, vec![redact(&[(2, 2)])]),
            ],
        ),
        (
            2,
            "malformed",
            vec![first(), one(None, vec![Event::Redact(Seqs::default())])],
        ),
        (
            2,
            "nothing else",
            vec![
                erased(2, first()),
                one(None, vec![redact(&[(1, 1)]), redact(&[(1, 1)])]),
            ],
        ),
        (
            1,
            "malformed",
            vec![one(a, vec![start("a", None), close(TurnStatus::Open)])],
        ),
        (
            1,
            "parts are an array",
            vec![made(a, "{}", vec![start("a", None)])],
        ),
    ];
    run(async {
        for (seq, words, items) in cases {
            refused(&forged(&linked(items), 2).await, Some(seq), words).await;
        }
    });
}

#[test]
fn files_that_are_written_otherwise() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let otherwise = "not written as filrouge writes it";
        for (from, to, seq, words) in [
            ("{\"seq\":1,", "{ \"seq\":1,", Some(1), otherwise),
            (
                "\"role\":\"user\"",
                "\"role\":\"\\u0075ser\"",
                Some(1),
                otherwise,
            ),
            (
                "\"redact\":{\"seqs\":[[1,1]]}",
                "\"redact\":{\"seqs\":[[1,1],[1,1]]}",
                Some(3),
                otherwise,
            ),
            ("\"usage\":null", "\"usage\":[]", Some(1), "are objects"),
            (
                "\"redacted\":true",
                "\"redacted\":false",
                Some(1),
                "a commitment and a redaction_seq",
            ),
            (
                "\"parts\":[],\"agent\":null,\"model\":null,\"usage\":null,\"metadata\":null,\"occurred_at\":null,\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"redacted\":true",
                "\"parts\":[{\"type\":\"text\",\"text\":\"lies\"}],\"agent\":null,\"model\":null,\"usage\":null,\"metadata\":null,\"occurred_at\":null,\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"redacted\":true",
                Some(1),
                "has a content",
            ),
            (
                "\"commitment\":\"",
                "\"commitment\":\"A",
                Some(1),
                "commitment is not",
            ),
            (
                "\"state\":null,\"last_seq\":3",
                "\"state\":null,\"last_seq\":4",
                None,
                "session: ",
            ),
            (
                "\"metadata\":{},\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"updated_at\"",
                "\"metadata\":[],\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"updated_at\"",
                None,
                "session: ",
            ),
            (
                "\"checkpoints\":[]",
                "\"checkpoints\":[1]",
                None,
                "checkpoints: ",
            ),
            ("\"ordinal\":1", "\"ordinal\":2", Some(1), "turns[0]: "),
        ] {
            refused(&resigned(&honest, from, to, 2), seq, words).await;
        }
        let s = sections(honest.as_bytes()).ok().unwrap();
        let parts = [s.session, s.turns.whole, s.items.whole, s.checkpoints];
        let other = signed(parts, &"0".repeat(64), 2);
        refused(&other, None, "head: it is not the head of this session").await;
    });
}

/// A key of small order signs everything by a signature that needs no secret.
#[test]
fn a_key_that_is_no_secret() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let weak = format!("01{}", "0".repeat(62));
        let signature = honest.rsplit('"').nth(1).unwrap();
        let nothing = format!("{weak}{}", "0".repeat(64));
        let bundle = honest
            .replace(signature, &nothing)
            .replace(&public(1).to_string(), &weak);
        refused(&bundle, None, "signature: ").await;
    });
}

/// Whoever writes to a ledger without having verified is refused as well, and nothing stays.
#[test]
fn a_ledger_takes_no_broken_session() {
    run(async {
        let keyring = Arc::new(Keyring::single([9; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
        let ledger: &dyn Ledger = &ledger;
        let mut broken = Vec::new();
        let mut changed = linked(journal());
        changed.items[1].link[0] ^= 1;
        broken.push(changed);
        let mut cut = linked(journal());
        cut.items.remove(1);
        broken.push(cut);
        let mut unnamed = journal();
        unnamed.pop();
        broken.push(linked(unnamed));
        for adopt in broken {
            let adopt = Write::Adopt(Arc::new(adopt));
            let command = Command {
                scope: operator().scope(Permission::Write).unwrap(),
                write: adopt,
            };
            let refused = ledger.write(command).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::IntegrityError);
            assert_eq!(ledger.position().commit_no, 0);
            let scope = operator().scope(Permission::Read).unwrap();
            let gone = ledger.session(&scope, &session("s").session_id).await;
            assert_eq!(gone.unwrap_err().code, ErrorCode::SessionNotFound);
        }
        // Nor one whose turns are those of another session.
        for (id, code) in [("s", None), ("other", Some(ErrorCode::SessionConflict))] {
            let command = Command {
                scope: operator().scope(Permission::Write).unwrap(),
                write: Write::Adopt(Arc::new(linked_as(id, journal()))),
            };
            let taken = ledger.write(command).await;
            assert_eq!(taken.err().map(|failure| failure.code), code);
            assert_eq!(ledger.position().commit_no, 1);
        }
        let report = ledger.verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
    });
}
