//! Tests with forged bundles: an attacker recomputes all links and digests, and signs with another key.

use std::sync::Arc;

use filrouge_store::command::{Command, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::record::{Event, Seqs};
use filrouge_store::verify::Verdict;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{ErrorCode, ItemId, RawJson, SystemClock, TenantId, TurnStatus};

use super::read::parse_sections;
use super::verify;
use crate::caller::{Caller, Permission};

mod forge;

use forge::{
    ForgedItem, TEXT_PARTS, close_event, forge_bundle, forge_item, link_items, link_items_as,
    public_key, redact_event, redacted_journal, resign, session, sign_sections, start_event, turn,
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
    assert_eq!(ledger.position().commit_count(), 0);
}

fn operator() -> Caller {
    Caller::operator(TenantId::new("t").unwrap())
}

#[test]
fn a_forgers_key_is_distinguished_from_the_true_one() {
    run(async {
        let honest = forge_bundle(&link_items(redacted_journal()), 1).await;
        let mut lying_journal = redacted_journal();
        lying_journal[1].chained.item.body.parts =
            RawJson::from_checked(r#"[{"type":"text","text":"lies"}]"#);
        for (bundle, key) in [
            (honest.clone(), 1),
            (forge_bundle(&link_items(lying_journal), 2).await, 2),
            (forge_bundle(&link_items(Vec::new()), 2).await, 2),
            // Only the signature covers the session's row.
            (
                resign(&honest, "\"title\":\"title\"", "\"title\":\"lies\"", 2),
                2,
            ),
        ] {
            let report = verify(bundle.as_bytes(), None).await.unwrap();
            assert_eq!(report.findings, Vec::new(), "{bundle}");
            let signer = report.signed_by.unwrap();
            assert_eq!(
                (signer.public_key, signer.trusted),
                (public_key(key).to_string(), false)
            );
            let (right, wrong) = (public_key(key), public_key(3 - key));
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
        let honest = forge_bundle(&link_items(redacted_journal()), 1).await;
        for (from, to, prefix) in [
            ("\"title\":\"title\"", "\"title\":\"lies\"", "signature: "),
            ("\"replayed\":false", "\"replayed\":true", "turns[0]: "),
        ] {
            let resigned_bundle = resign(&honest, from, to, 2);
            let forger_key = public_key(2).to_string();
            let misattributed = resigned_bundle.replace(&forger_key, &public_key(1).to_string());
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
    let forge = |turn_id, events| forge_item(turn_id, TEXT_PARTS, events);
    let (a, b, c) = (Some(turn(1)), Some(turn(2)), Some(turn(3)));
    let finalized = || close_event(TurnStatus::Finalized);
    let with_item_id = |id: &str, mut item: ForgedItem| {
        item.chained.item.body.item_id = Some(ItemId::new(id).unwrap());
        item
    };
    let redacted_by = |redaction_seq: u64, mut item: ForgedItem| {
        item.redaction_seq = Some(redaction_seq);
        item
    };
    let first = || forge(a, vec![start_event("a", None), finalized()]);
    let cases: Vec<(u64, &str, Vec<ForgedItem>)> = vec![
        (1, "never began", vec![forge(a, vec![])]),
        (
            2,
            "occurs twice",
            vec![first(), forge(a, vec![start_event("b", None)])],
        ),
        (
            2,
            "occurs twice",
            vec![first(), forge(b, vec![start_event("a", None)])],
        ),
        (
            1,
            "occurs twice",
            vec![forge(
                a,
                vec![start_event("a", None), start_event("b", None)],
            )],
        ),
        (
            2,
            "does not exist",
            vec![first(), forge(b, vec![start_event("b", c)])],
        ),
        (
            3,
            "another one has replaced",
            vec![
                first(),
                forge(b, vec![start_event("b", a), finalized()]),
                forge(c, vec![start_event("c", a), finalized()]),
            ],
        ),
        (
            2,
            "item_id occurs twice",
            vec![
                with_item_id("i", first()),
                with_item_id("i", forge(a, vec![])),
            ],
        ),
        (2, "a turn that had ended", vec![first(), forge(a, vec![])]),
        (
            1,
            "no redaction names it",
            vec![redacted_by(2, first()), forge(None, vec![])],
        ),
        (
            1,
            "no redaction names it",
            vec![
                redacted_by(3, first()),
                forge(None, vec![redact_event(&[(1, 1)])]),
                forge(None, vec![redact_event(&[(1, 1)])]),
            ],
        ),
        (
            1,
            "has a content",
            vec![first(), forge(None, vec![redact_event(&[(1, 1)])])],
        ),
        (
            2,
            "names later items",
            vec![first(), forge(None, vec![redact_event(&[(2, 2)])])],
        ),
        (
            2,
            "names later items",
            vec![
                redacted_by(2, first()),
                forge(None, vec![redact_event(&[(1, 9)])]),
            ],
        ),
        (
            2,
            "belongs to a turn",
            vec![
                redacted_by(2, first()),
                forge(a, vec![redact_event(&[(1, 1)])]),
            ],
        ),
        (
            3,
            "names a redaction",
            vec![
                redacted_by(2, first()),
                redacted_by(3, forge(None, vec![redact_event(&[(1, 1)])])),
                forge(None, vec![redact_event(&[(2, 2)])]),
            ],
        ),
        (
            2,
            "malformed",
            vec![first(), forge(None, vec![Event::Redact(Seqs::default())])],
        ),
        (
            2,
            "no other event",
            vec![
                redacted_by(2, first()),
                forge(None, vec![redact_event(&[(1, 1)]), redact_event(&[(1, 1)])]),
            ],
        ),
        (
            1,
            "malformed",
            vec![forge(
                a,
                vec![start_event("a", None), close_event(TurnStatus::Open)],
            )],
        ),
        (
            1,
            "parts must be an array",
            vec![forge_item(a, "{}", vec![start_event("a", None)])],
        ),
    ];
    run(async {
        for (seq, words, items) in cases {
            assert_refused(&forge_bundle(&link_items(items), 2).await, Some(seq), words).await;
        }
    });
}

#[test]
fn files_with_another_spelling_are_refused() {
    run(async {
        let honest = forge_bundle(&link_items(redacted_journal()), 1).await;
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
            assert_refused(&resign(&honest, from, to, 2), seq, words).await;
        }
        let sections = parse_sections(honest.as_bytes()).ok().unwrap();
        let parts = [
            sections.session,
            sections.turns.raw,
            sections.items.raw,
            sections.checkpoints,
        ];
        let wrong_link = sign_sections(parts, &"0".repeat(64), 2);
        assert_refused(
            &wrong_link,
            None,
            "head: it is not the head of this session",
        )
        .await;
    });
}

/// A public key of small order has a signature that is valid for every message and needs no secret key.
#[test]
fn a_key_of_small_order_is_refused() {
    run(async {
        let honest = forge_bundle(&link_items(redacted_journal()), 1).await;
        let weak = format!("01{}", "0".repeat(62));
        let signature = honest.rsplit('"').nth(1).unwrap();
        let universal_signature = format!("{weak}{}", "0".repeat(64));
        let bundle = honest
            .replace(signature, &universal_signature)
            .replace(&public_key(1).to_string(), &weak);
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
        let mut changed = link_items(redacted_journal());
        changed.items[1].link[0] ^= 1;
        broken_adopts.push(changed);
        let mut truncated = link_items(redacted_journal());
        truncated.items.remove(1);
        broken_adopts.push(truncated);
        let mut without_redaction = redacted_journal();
        without_redaction.pop();
        broken_adopts.push(link_items(without_redaction));
        for adopt in broken_adopts {
            let adopt = Write::Adopt(Arc::new(adopt));
            let command = Command {
                scope: operator().scope(Permission::Write).unwrap(),
                write: adopt,
            };
            let refused = ledger.write(command).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::IntegrityError);
            assert_eq!(ledger.position().commit_count(), 0);
            let scope = operator().scope(Permission::Read).unwrap();
            let absent = ledger.session(&scope, &session("s").session_id).await;
            assert_eq!(absent.unwrap_err().code, ErrorCode::SessionNotFound);
        }
        // A session is also refused when the ledger has its turns under another session.
        for (id, code) in [("s", None), ("other", Some(ErrorCode::SessionConflict))] {
            let command = Command {
                scope: operator().scope(Permission::Write).unwrap(),
                write: Write::Adopt(Arc::new(link_items_as(id, redacted_journal()))),
            };
            let written = ledger.write(command).await;
            assert_eq!(written.err().map(|failure| failure.code), code);
            assert_eq!(ledger.position().commit_count(), 1);
        }
        let report = ledger.verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
    });
}
