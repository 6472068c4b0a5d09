//! Tests with bundles that an attacker forges, who recomputes all links and digests and signs with another key.
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
    ForgedItem, WORDS, close, forge_item, forged, journal, linked, linked_as, public, redact,
    resigned, session, signed, start, turn,
};

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Checks that verification reports a bundle as broken, with a finding that contains `words` and names the item `seq`
/// (`None`: no item), and that importing the bundle fails.
async fn assert_refused(bundle: &str, seq: Option<u64>, words: &str) {
    let report = verify(bundle.as_bytes(), None).await.unwrap();
    assert_eq!(report.verdict, Verdict::Broken, "{words}: {bundle}");
    let finding = &report.findings[0];
    assert_eq!(finding.seq, seq, "{words}: {finding:?}");
    assert!(finding.what.contains(words), "not {words}: {finding:?}");
    // Importing the bundle fails as well, and writes nothing.
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
    let imported = engine.bundles.import(&caller, bundle.as_bytes(), None);
    assert_eq!(imported.await.unwrap_err().code, ErrorCode::IntegrityError);
    assert_eq!(ledger.position().commit_no, 0);
}

fn operator() -> Caller {
    Caller::operator(TenantId::new("t").unwrap())
}

#[test]
fn a_forgers_key_is_distinguished_from_the_true_one() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let mut other = journal();
        other[1].0.item.body.parts = RawJson::from_checked(r#"[{"type":"text","text":"lies"}]"#);
        for (bundle, key) in [
            (honest.clone(), 1),
            (forged(&linked(other), 2).await, 2),
            (forged(&linked(Vec::new()), 2).await, 2),
            // Only the signature covers the session's row.
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
fn recomputed_digests_need_a_new_signature() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        for (from, to, prefix) in [
            ("\"title\":\"title\"", "\"title\":\"lies\"", "signature: "),
            ("\"replayed\":false", "\"replayed\":true", "turns[0]: "),
        ] {
            let resigned = resigned(&honest, from, to, 2);
            let forger_key = public(2).to_string();
            let misattributed = resigned.replace(&forger_key, &public(1).to_string());
            let seq = prefix.starts_with("turns").then_some(1);
            assert_refused(&misattributed, seq, prefix).await;
            // The bundle is also refused with the signature of the original head.
            let signature = |text: &str| text.rsplit('"').nth(1).unwrap().to_owned();
            let with_old_signature =
                misattributed.replace(&signature(&misattributed), &signature(&honest));
            assert_refused(&with_old_signature, seq, prefix).await;
        }
    });
}

#[test]
fn impossible_journals_are_refused() {
    let one = |turn_id, events| forge_item(turn_id, WORDS, events);
    let (a, b, c) = (Some(turn(1)), Some(turn(2)), Some(turn(3)));
    let done = || close(TurnStatus::Finalized);
    let with_item_id = |id: &str, mut item: ForgedItem| {
        item.0.item.body.item_id = Some(ItemId::new(id).unwrap());
        item
    };
    let redacted_by = |by: u64, mut item: ForgedItem| {
        item.1 = Some(by);
        item
    };
    let first = || one(a, vec![start("a", None), done()]);
    let cases: Vec<(u64, &str, Vec<ForgedItem>)> = vec![
        (1, "never began", vec![one(a, vec![])]),
        (
            2,
            "occurs twice",
            vec![first(), one(a, vec![start("b", None)])],
        ),
        (
            2,
            "occurs twice",
            vec![first(), one(b, vec![start("a", None)])],
        ),
        (
            1,
            "occurs twice",
            vec![one(a, vec![start("a", None), start("b", None)])],
        ),
        (
            2,
            "does not exist",
            vec![first(), one(b, vec![start("b", c)])],
        ),
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
            "item_id occurs twice",
            vec![
                with_item_id("i", first()),
                with_item_id("i", one(a, vec![])),
            ],
        ),
        (2, "does not end here", vec![first(), one(a, vec![])]),
        (
            1,
            "no redaction names it",
            vec![redacted_by(2, first()), one(None, vec![])],
        ),
        (
            1,
            "no redaction names it",
            vec![
                redacted_by(3, first()),
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
            "names later items",
            vec![first(), one(None, vec![redact(&[(2, 2)])])],
        ),
        (
            2,
            "names later items",
            vec![redacted_by(2, first()), one(None, vec![redact(&[(1, 9)])])],
        ),
        (
            2,
            "belongs to a turn",
            vec![redacted_by(2, first()), one(a, vec![redact(&[(1, 1)])])],
        ),
        (
            3,
            "names a redaction",
            vec![
                redacted_by(2, first()),
                redacted_by(3, one(None, vec![redact(&[(1, 1)])])),
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
            "no other event",
            vec![
                redacted_by(2, first()),
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
            "parts must be an array",
            vec![forge_item(a, "{}", vec![start("a", None)])],
        ),
    ];
    run(async {
        for (seq, words, items) in cases {
            assert_refused(&forged(&linked(items), 2).await, Some(seq), words).await;
        }
    });
}

#[test]
fn files_with_another_spelling_are_refused() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let not_canonical = "not have the canonical encoding";
        for (from, to, seq, words) in [
            ("{\"seq\":1,", "{ \"seq\":1,", Some(1), not_canonical),
            (
                "\"role\":\"user\"",
                "\"role\":\"\\u0075ser\"",
                Some(1),
                not_canonical,
            ),
            (
                "\"redact\":{\"seqs\":[[1,1]]}",
                "\"redact\":{\"seqs\":[[1,1],[1,1]]}",
                Some(3),
                not_canonical,
            ),
            ("\"usage\":null", "\"usage\":[]", Some(1), "must be objects"),
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
            assert_refused(&resigned(&honest, from, to, 2), seq, words).await;
        }
        let s = sections(honest.as_bytes()).ok().unwrap();
        let parts = [s.session, s.turns.raw, s.items.raw, s.checkpoints];
        let other = signed(parts, &"0".repeat(64), 2);
        assert_refused(&other, None, "head: it is not the head of this session").await;
    });
}

/// For a key of small order, a signature that needs no secret is valid for every message.
#[test]
fn a_key_of_small_order_is_refused() {
    run(async {
        let honest = forged(&linked(journal()), 1).await;
        let weak = format!("01{}", "0".repeat(62));
        let signature = honest.rsplit('"').nth(1).unwrap();
        let nothing = format!("{weak}{}", "0".repeat(64));
        let bundle = honest
            .replace(signature, &nothing)
            .replace(&public(1).to_string(), &weak);
        assert_refused(&bundle, None, "signature: ").await;
    });
}

/// A ledger refuses to adopt a broken session even if its bundle was not verified first, and stores nothing of it.
#[test]
fn a_ledger_adopts_no_broken_session() {
    run(async {
        let keyring = Arc::new(Keyring::single([9; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
        let ledger: &dyn Ledger = &ledger;
        let mut broken_adopts = Vec::new();
        let mut changed = linked(journal());
        changed.items[1].link[0] ^= 1;
        broken_adopts.push(changed);
        let mut truncated = linked(journal());
        truncated.items.remove(1);
        broken_adopts.push(truncated);
        let mut without_redaction = journal();
        without_redaction.pop();
        broken_adopts.push(linked(without_redaction));
        for adopt in broken_adopts {
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
        // A session is also refused when the ledger has its turns under another session.
        for (id, code) in [("s", None), ("other", Some(ErrorCode::SessionConflict))] {
            let command = Command {
                scope: operator().scope(Permission::Write).unwrap(),
                write: Write::Adopt(Arc::new(linked_as(id, journal()))),
            };
            let written = ledger.write(command).await;
            assert_eq!(written.err().map(|failure| failure.code), code);
            assert_eq!(ledger.position().commit_no, 1);
        }
        let report = ledger.verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
    });
}
