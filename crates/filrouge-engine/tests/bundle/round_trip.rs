//! Sessions that are exported from one store and imported into another.

use filrouge_engine::Caller;
use filrouge_store::command::RedactionTarget;
use filrouge_types::{ErrorCode, IdentityId, TurnStatus};

use crate::layout::Layout;
use crate::sessions::{UNUSUAL_OBJECT, complete_turn, observation, start, unusual_parts};
use crate::world::{BundleWorld, assert_intact, error_code, operator, run, session_id, user};

/// Writes the eventful session with redactions of every kind.
pub(crate) async fn write_redacted(world: &BundleWorld, id: &str) {
    let turns = world.write_eventful_session(id).await;
    let turn_of = |request: &str| {
        let turn = turns.iter().find(|t| t.request_id.as_str() == request);
        turn.unwrap()
    };
    world.redact_turn(turn_of("failed")).await.unwrap();
    world.redact_turn(turn_of("version 2")).await.unwrap();
    let open = turn_of("open");
    assert_eq!(open.status, TurnStatus::Open);
    let seqs = [(open.first_seq, open.first_seq), (2, 3), (3, 5)];
    world.redact(id, &seqs).await.unwrap();
    world.redact(id, &[(5, 6)]).await.unwrap();
}

/// Asserts that both stores return the same session, turns and items.
async fn assert_same(first: &BundleWorld, second: &BundleWorld, id: &str) {
    assert_eq!(first.turns(id).await, second.turns(id).await);
    assert_eq!(first.items(id).await, second.items(id).await);
    let (caller, id) = (operator(), session_id(id));
    let session = first.engine.sessions.get(&caller, &id).await.unwrap();
    let imported = second.engine.sessions.get(&caller, &id).await.unwrap();
    assert_eq!(session, imported);
}

/// The bundle up to its signer.
fn unsigned(bundle: &str) -> &str {
    let head = Layout::parse(bundle).head;
    let at = bundle[head.clone()].rfind(",\"key_id\":").unwrap();
    &bundle[..head.start + at]
}

#[test]
fn with_the_same_keyring_the_export_is_identical() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(1));
        write_redacted(&first, "s").await;
        let bundle = first.export("s").await;
        let report = assert_intact(&bundle).await;
        assert_eq!(report.session_id.as_deref(), Some("s"));
        assert_eq!(report.turns, 9);
        assert_eq!(report.items, first.items("s").await.len() as u64);
        let imported = second.import(&bundle).await.unwrap();
        assert!(imported.created);
        assert_eq!(
            imported.signed_by.public_key,
            first.public_key().to_string()
        );
        assert!(!imported.signed_by.trusted);
        assert_same(&first, &second, "s").await;
        assert_eq!(second.export("s").await, bundle);
        second.assert_store_intact().await;
        // Everything that was not redacted is in the bundle as it was received.
        for parts in unusual_parts().iter().skip(4) {
            assert!(bundle.contains(&format!("\"parts\":{parts},\"agent\"")));
        }
        assert!(bundle.contains(&format!("\"metadata\":{UNUSUAL_OBJECT},")));
    });
}

#[test]
fn with_another_keyring_only_the_signer_differs() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
        write_redacted(&first, "s").await;
        let bundle = first.export("s").await;
        second.import(&bundle).await.unwrap();
        second.assert_store_intact().await;
        assert_same(&first, &second, "s").await;
        let repeated = second.export("s").await;
        assert_ne!(repeated, bundle);
        assert_eq!(unsigned(&repeated), unsigned(&bundle));
        let report = assert_intact(&repeated).await;
        let signer = report.signed_by.unwrap();
        assert_eq!(signer.public_key, second.public_key().to_string());
        // A third store imports only the bundle that the second one signed.
        let third = BundleWorld::new(3);
        let key = Some(second.public_key());
        let refused = third.import_as(&operator(), &bundle, key).await;
        assert_eq!(error_code(refused), ErrorCode::IntegrityError);
        let imported = third.import_as(&operator(), &repeated, key).await;
        assert!(imported.unwrap().signed_by.trusted);
        third.assert_store_intact().await;
        assert_same(&first, &third, "s").await;
    });
}

#[test]
fn an_imported_session_continues() {
    run(async {
        for key in [1, 2] {
            let (first, second) = (BundleWorld::new(1), BundleWorld::new(key));
            write_redacted(&first, "s").await;
            second.import(&first.export("s").await).await.unwrap();
            // Every repeated start finds its turn, also with another body.
            for turn in first.turns("s").await {
                let request = start(turn.request_id.as_str(), "\"again\"");
                let repeated = second.start("s", request).await.unwrap();
                assert!(repeated.replayed);
                assert_eq!(repeated.turn_id, turn.turn_id);
            }
            // The repeated start has reopened the interrupted turn, as in the original store.
            let turns = second.turns("s").await;
            let turn_of = |request: &str| turns.iter().find(|t| t.request_id.as_str() == request);
            let open = turn_of("interrupted").unwrap();
            assert_eq!(open.status, TurnStatus::Open);
            second
                .append(open, vec![observation("more")])
                .await
                .unwrap();
            second.cancel(open).await.unwrap();
            let version = complete_turn("version 4", "\"q\"", "\"a\"");
            let replaced = second.replace(turn_of("version 3").unwrap(), version).await;
            assert_eq!(replaced.unwrap().record_version, 4);
            let new = second
                .start("s", complete_turn("new", "\"q\"", "\"a\""))
                .await;
            let new = new.unwrap();
            assert!(!new.replayed);
            assert_eq!(new.ordinal, 8);
            let repeated = second
                .start("s", complete_turn("new", "\"q\"", "\"a\""))
                .await;
            assert_eq!(repeated.unwrap().turn_id, new.turn_id);
            second.redact_turn(&new).await.unwrap();
            second.redact_turn(open).await.unwrap();
            second.assert_store_intact().await;
            assert_intact(&second.export("s").await).await;
        }
    });
}

#[test]
fn an_import_does_not_change_existing_items() {
    run(async {
        for key in [1, 2] {
            let (first, second) = (BundleWorld::new(1), BundleWorld::new(key));
            first
                .start("s", complete_turn("r", "\"q\"", "\"a\""))
                .await
                .unwrap();
            let short = first.export("s").await;
            let turn = first.start("s", start("r2", "\"q\"")).await.unwrap();
            let longer = first.export("s").await;
            first.append(&turn, vec![observation("x")]).await.unwrap();
            first.redact("s", &[(1, 1)]).await.unwrap();
            let longest = first.export("s").await;
            assert!(second.import(&longer).await.unwrap().created);
            let position = second.engine.ledger().position();
            for bundle in [&longer, &short] {
                let imported = second.import(bundle).await.unwrap();
                assert!(!imported.created);
                assert_eq!(imported.session.last_seq, 3);
            }
            // Nothing was written, and a longer bundle does not extend the session.
            let refused = second.import(&longest).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::SessionConflict);
            assert!(refused.hint.is_some());
            assert_eq!(second.engine.ledger().position(), position);
            assert_eq!(unsigned(&second.export("s").await), unsigned(&longer));
            // An older bundle does not restore redacted content.
            assert!(!first.import(&short).await.unwrap().created);
            assert_eq!(first.export("s").await, longest);
            second.assert_store_intact().await;
        }
    });
}

#[test]
fn another_session_of_the_same_name_is_refused() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(1));
        for (world, words) in [(&first, "\"here\""), (&second, "\"there\"")] {
            world.start("s", start("r", words)).await.unwrap();
        }
        let refused = second.import(&first.export("s").await).await;
        assert_eq!(error_code(refused), ErrorCode::SessionConflict);
        // Empty sessions of one name are distinguished by their time of creation.
        first.create("empty").await;
        second.create("empty").await;
        first.clock.advance(1);
        first.create("other").await;
        second.create("other").await;
        let imported = second.import(&first.export("empty").await).await;
        assert!(!imported.unwrap().created);
        let refused = second.import(&first.export("other").await).await;
        assert_eq!(error_code(refused), ErrorCode::SessionConflict);
    });
}

#[test]
fn empty_sessions_with_hostile_names_are_imported() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
        let longest = "é".repeat(128);
        let names = [
            "..",
            "a/b",
            "\"\\",
            "{\"",
            "\u{202e}\u{2028}",
            "null",
            &longest,
        ];
        for name in names {
            first.create(name).await;
            let bundle = first.export(name).await;
            let report = assert_intact(&bundle).await;
            assert_eq!((report.turns, report.items), (0, 0));
            assert!(second.import(&bundle).await.unwrap().created);
            assert_same(&first, &second, name).await;
            let turn = second.start(name, start(name, "\"q\"")).await.unwrap();
            second.append(&turn, vec![observation("x")]).await.unwrap();
            let bundle = second.export(name).await;
            assert_intact(&bundle).await;
            // In the original store the session is still empty.
            let refused = first.import(&bundle).await;
            assert_eq!(error_code(refused), ErrorCode::SessionConflict);
        }
        second.assert_store_intact().await;
    });
}

#[test]
fn a_session_of_another_tenant_or_user_is_refused() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(1));
        first.write_eventful_session("s").await;
        let bundle = first.export("s").await;
        let import = async |caller: Caller| {
            let imported = second.import_as(&caller, &bundle, None).await;
            imported.map(|imported| imported.created)
        };
        let other_tenant_error = import(Caller::operator("u".parse().unwrap()))
            .await
            .unwrap_err();
        assert_eq!(other_tenant_error.code, ErrorCode::Invalid);
        assert!(other_tenant_error.hint.is_some());
        let bob = IdentityId::new("bob").unwrap();
        for other_user in [None, Some(bob)] {
            let other_caller = Caller::local("t".parse().unwrap(), other_user);
            assert_eq!(
                error_code(import(other_caller.clone()).await),
                ErrorCode::Forbidden
            );
            let exported = first.try_export(&other_caller, "s").await;
            assert_eq!(error_code(exported), ErrorCode::SessionNotFound);
        }
        let anna = user("anna \u{202e}\"");
        assert_eq!(import(anna.clone()).await, Ok(true));
        assert_eq!(import(anna).await, Ok(false));
        assert_eq!(
            error_code(import(user("bob")).await),
            ErrorCode::SessionConflict
        );
        second.assert_store_intact().await;
    });
}

/// The session has more turns than one query reads, more items than one record, and an item larger than a record.
#[test]
fn a_long_session_is_exported_and_imported() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
        let long = first.start("s", start("long", "\"q\"")).await.unwrap();
        let observations = (0..150)
            .map(|n| observation(&format!("note {n}")))
            .collect();
        first.append(&long, observations).await.unwrap();
        let large = vec![
            observation(&"large ".repeat(100_000)),
            observation("after the large item"),
        ];
        first.append(&long, large).await.unwrap();
        for n in 0..520 {
            let turn = complete_turn(&format!("r{n}"), "\"q\"", "\"a\"");
            first.start("s", turn).await.unwrap();
        }
        first.redact("s", &[(60, 70), (151, 900)]).await.unwrap();
        let bundle = first.export("s").await;
        let report = assert_intact(&bundle).await;
        assert_eq!((report.turns, report.items), (521, 1 + 150 + 2 + 1_040 + 1));
        let imported = second.import(&bundle).await.unwrap();
        assert_eq!(imported.session.turn_count, 521);
        second.assert_store_intact().await;
        assert_eq!(unsigned(&second.export("s").await), unsigned(&bundle));
    });
}

#[test]
fn a_failing_sink_aborts_the_export() {
    run(async {
        let world = BundleWorld::new(1);
        world.write_eventful_session("s").await;
        let mut calls_left = 5_u32;
        let sink = Box::new(move |_: &str| {
            calls_left = calls_left
                .checked_sub(1)
                .expect("the sink was called after it had failed");
            let full = filrouge_types::Failure::new(ErrorCode::StoreFull, "full");
            if calls_left == 0 { Err(full) } else { Ok(()) }
        });
        let (caller, id) = (operator(), session_id("s"));
        let exported = world.engine.bundles.export(&caller, &id, sink).await;
        assert_eq!(error_code(exported), ErrorCode::StoreFull);
        let missing = world.try_export(&operator(), "absent").await;
        assert_eq!(error_code(missing), ErrorCode::SessionNotFound);
    });
}

#[test]
fn guesses_of_redacted_content_are_not_confirmed() {
    run(async {
        let first = BundleWorld::new(1);
        let request = |answer: &str| complete_turn("r", "\"my PIN?\"", answer);
        first.start("s", request("\"2580\"")).await.unwrap();
        let replay = first.start("s", request("\"0000\"")).await.unwrap();
        assert!(replay.replayed && replay.differs);
        let answer = filrouge_store::record::Seqs::from_ranges([(2, 2)]).unwrap();
        let caller = operator();
        let redacted = first.engine.erasure.redact(
            &caller,
            session_id("s"),
            RedactionTarget::Items(answer),
            "a PIN",
        );
        redacted.await.unwrap();
        // The answer does not reveal whether the guess is right.
        for guess in ["\"2580\"", "\"0000\""] {
            let replay = first.start("s", request(guess)).await.unwrap();
            assert!(replay.replayed && !replay.differs, "{guess}");
        }
    });
}
