//! Export from one store, import into another.

use filrouge_engine::Caller;
use filrouge_store::command::RedactionTarget;
use filrouge_types::{ErrorCode, IdentityId, TurnStatus};

use crate::journal::{ODD_OBJECT, complete_turn, note, odd_parts, start};
use crate::layout::Layout;
use crate::world::{BundleWorld, code, good, operator, run, sid, user};

/// The eventful session with redactions of every kind.
pub(crate) async fn redacted(world: &BundleWorld, id: &str) {
    let turns = world.eventful(id).await;
    let turn_of = |request: &str| {
        let found = turns.iter().find(|t| t.request_id.as_str() == request);
        found.unwrap()
    };
    world.redact_turn(turn_of("failed")).await.unwrap();
    world.redact_turn(turn_of("version 2")).await.unwrap();
    let open = turn_of("open");
    assert_eq!(open.status, TurnStatus::Open);
    let seqs = [(open.first_seq, open.first_seq), (2, 3), (3, 5)];
    world.redact(id, &seqs).await.unwrap();
    world.redact(id, &[(5, 6)]).await.unwrap();
}

/// Checks that both stores return the same session, turns and items.
async fn same(here: &BundleWorld, there: &BundleWorld, id: &str) {
    assert_eq!(here.turns(id).await, there.turns(id).await);
    assert_eq!(here.items(id).await, there.items(id).await);
    let (caller, id) = (operator(), sid(id));
    let session = here.engine.sessions.get(&caller, &id).await.unwrap();
    let imported = there.engine.sessions.get(&caller, &id).await.unwrap();
    assert_eq!(session, imported);
}

/// The bundle up to its signer.
fn unsigned(bundle: &str) -> &str {
    let head = Layout::of(bundle).head;
    let at = bundle[head.clone()].rfind(",\"key_id\":").unwrap();
    &bundle[..head.start + at]
}

#[test]
fn with_the_same_keyring_the_export_is_identical() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(1));
        redacted(&here, "s").await;
        let bundle = here.export("s").await;
        let report = good(&bundle).await;
        assert_eq!(report.session_id.as_deref(), Some("s"));
        assert_eq!(report.turns, 9);
        assert_eq!(report.items, here.items("s").await.len() as u64);
        let imported = there.import(&bundle).await.unwrap();
        assert!(imported.created);
        assert_eq!(imported.signed_by.public_key, here.public_key().to_string());
        assert!(!imported.signed_by.trusted);
        same(&here, &there, "s").await;
        assert_eq!(there.export("s").await, bundle);
        there.intact().await;
        // Everything that was not redacted is in the bundle as it was posted.
        for parts in odd_parts().iter().skip(4) {
            assert!(bundle.contains(&format!("\"parts\":{parts},\"agent\"")));
        }
        assert!(bundle.contains(&format!("\"metadata\":{ODD_OBJECT},")));
    });
}

#[test]
fn with_another_keyring_only_the_signer_differs() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(2));
        redacted(&here, "s").await;
        let bundle = here.export("s").await;
        there.import(&bundle).await.unwrap();
        there.intact().await;
        same(&here, &there, "s").await;
        let again = there.export("s").await;
        assert_ne!(again, bundle);
        assert_eq!(unsigned(&again), unsigned(&bundle));
        let report = good(&again).await;
        let by = report.signed_by.unwrap();
        assert_eq!(by.public_key, there.public_key().to_string());
        // A third store imports only the bundle that the second one signed.
        let third = BundleWorld::new(3);
        let key = Some(there.public_key());
        let refused = third.import_as(&operator(), &bundle, key).await;
        assert_eq!(code(refused), ErrorCode::IntegrityError);
        let imported = third.import_as(&operator(), &again, key).await;
        assert!(imported.unwrap().signed_by.trusted);
        third.intact().await;
        same(&here, &third, "s").await;
    });
}

#[test]
fn an_imported_session_continues() {
    run(async {
        for key in [1, 2] {
            let (here, there) = (BundleWorld::new(1), BundleWorld::new(key));
            redacted(&here, "s").await;
            there.import(&here.export("s").await).await.unwrap();
            // Every repeated start finds its turn, also with another body.
            for turn in here.turns("s").await {
                let request = start(turn.request_id.as_str(), "\"again\"");
                let again = there.start("s", request).await.unwrap();
                assert!(again.replayed);
                assert_eq!(again.turn_id, turn.turn_id);
            }
            // The start reopened the interrupted turn, as it does in the original store.
            let turns = there.turns("s").await;
            let turn_of = |request: &str| turns.iter().find(|t| t.request_id.as_str() == request);
            let open = turn_of("interrupted").unwrap();
            assert_eq!(open.status, TurnStatus::Open);
            there.append(open, vec![note("more")]).await.unwrap();
            there.cancel(open).await.unwrap();
            let version = complete_turn("version 4", "\"q\"", "\"a\"");
            let replaced = there.replace(turn_of("version 3").unwrap(), version).await;
            assert_eq!(replaced.unwrap().record_version, 4);
            let new = there
                .start("s", complete_turn("new", "\"q\"", "\"a\""))
                .await;
            let new = new.unwrap();
            assert!(!new.replayed);
            assert_eq!(new.ordinal, 8);
            let again = there
                .start("s", complete_turn("new", "\"q\"", "\"a\""))
                .await;
            assert_eq!(again.unwrap().turn_id, new.turn_id);
            there.redact_turn(&new).await.unwrap();
            there.redact_turn(open).await.unwrap();
            there.intact().await;
            good(&there.export("s").await).await;
        }
    });
}

#[test]
fn existing_items_stay_unchanged() {
    run(async {
        for key in [1, 2] {
            let (here, there) = (BundleWorld::new(1), BundleWorld::new(key));
            here.start("s", complete_turn("r", "\"q\"", "\"a\""))
                .await
                .unwrap();
            let short = here.export("s").await;
            let turn = here.start("s", start("r2", "\"q\"")).await.unwrap();
            let longer = here.export("s").await;
            here.append(&turn, vec![note("x")]).await.unwrap();
            here.redact("s", &[(1, 1)]).await.unwrap();
            let longest = here.export("s").await;
            assert!(there.import(&longer).await.unwrap().created);
            let position = there.engine.ledger().position();
            for bundle in [&longer, &short] {
                let imported = there.import(bundle).await.unwrap();
                assert!(!imported.created);
                assert_eq!(imported.session.last_seq, 3);
            }
            // Nothing was written, and a longer bundle does not extend the session.
            let refused = there.import(&longest).await.unwrap_err();
            assert_eq!(refused.code, ErrorCode::SessionConflict);
            assert!(refused.hint.is_some());
            assert_eq!(there.engine.ledger().position(), position);
            assert_eq!(unsigned(&there.export("s").await), unsigned(&longer));
            // An older bundle does not restore redacted content.
            assert!(!here.import(&short).await.unwrap().created);
            assert_eq!(here.export("s").await, longest);
            there.intact().await;
        }
    });
}

#[test]
fn another_session_of_the_same_name_is_refused() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(1));
        for (world, words) in [(&here, "\"here\""), (&there, "\"there\"")] {
            world.start("s", start("r", words)).await.unwrap();
        }
        let refused = there.import(&here.export("s").await).await;
        assert_eq!(code(refused), ErrorCode::SessionConflict);
        // Empty sessions of one name are distinguished by their time of creation.
        here.create("empty").await;
        there.create("empty").await;
        here.clock.advance(1);
        here.create("other").await;
        there.create("other").await;
        let imported = there.import(&here.export("empty").await).await;
        assert!(!imported.unwrap().created);
        let refused = there.import(&here.export("other").await).await;
        assert_eq!(code(refused), ErrorCode::SessionConflict);
    });
}

#[test]
fn empty_sessions_with_hostile_names_are_imported() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(2));
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
            here.create(name).await;
            let bundle = here.export(name).await;
            let report = good(&bundle).await;
            assert_eq!((report.turns, report.items), (0, 0));
            assert!(there.import(&bundle).await.unwrap().created);
            same(&here, &there, name).await;
            let turn = there.start(name, start(name, "\"q\"")).await.unwrap();
            there.append(&turn, vec![note("x")]).await.unwrap();
            let bundle = there.export(name).await;
            good(&bundle).await;
            // In the original store the session is still empty.
            let refused = here.import(&bundle).await;
            assert_eq!(code(refused), ErrorCode::SessionConflict);
        }
        there.intact().await;
    });
}

#[test]
fn another_tenants_or_another_users_session_is_refused() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(1));
        here.eventful("s").await;
        let bundle = here.export("s").await;
        let import = async |who: Caller| {
            let imported = there.import_as(&who, &bundle, None).await;
            imported.map(|imported| imported.created)
        };
        let other = import(Caller::operator("u".parse().unwrap()))
            .await
            .unwrap_err();
        assert_eq!(other.code, ErrorCode::Invalid);
        assert!(other.hint.is_some());
        let bob = IdentityId::new("bob").unwrap();
        for stranger in [None, Some(bob)] {
            let stranger = Caller::local("t".parse().unwrap(), stranger);
            assert_eq!(code(import(stranger.clone()).await), ErrorCode::Forbidden);
            let exported = here.try_export(&stranger, "s").await;
            assert_eq!(code(exported), ErrorCode::SessionNotFound);
        }
        let anna = user("anna \u{202e}\"");
        assert_eq!(import(anna.clone()).await, Ok(true));
        assert_eq!(import(anna).await, Ok(false));
        assert_eq!(code(import(user("bob")).await), ErrorCode::SessionConflict);
        there.intact().await;
    });
}

/// The session has more turns than one read, more items than one record, and an item larger than a record.
#[test]
fn a_long_session_is_exported_and_imported() {
    run(async {
        let (here, there) = (BundleWorld::new(1), BundleWorld::new(2));
        let long = here.start("s", start("long", "\"q\"")).await.unwrap();
        let notes = (0..150).map(|n| note(&format!("note {n}"))).collect();
        here.append(&long, notes).await.unwrap();
        let large = vec![note(&"large ".repeat(100_000)), note("behind it")];
        here.append(&long, large).await.unwrap();
        for n in 0..520 {
            let turn = complete_turn(&format!("r{n}"), "\"q\"", "\"a\"");
            here.start("s", turn).await.unwrap();
        }
        here.redact("s", &[(60, 70), (151, 900)]).await.unwrap();
        let bundle = here.export("s").await;
        let report = good(&bundle).await;
        assert_eq!((report.turns, report.items), (521, 1 + 150 + 2 + 1_040 + 1));
        let imported = there.import(&bundle).await.unwrap();
        assert_eq!(imported.session.turn_count, 521);
        there.intact().await;
        assert_eq!(unsigned(&there.export("s").await), unsigned(&bundle));
    });
}

#[test]
fn a_failing_sink_aborts_the_export() {
    run(async {
        let world = BundleWorld::new(1);
        world.eventful("s").await;
        let mut calls_left = 5_u32;
        let sink = Box::new(move |_: &str| {
            calls_left = calls_left
                .checked_sub(1)
                .expect("written on after a failure");
            let full = filrouge_types::Failure::new(ErrorCode::StoreFull, "full");
            if calls_left == 0 { Err(full) } else { Ok(()) }
        });
        let (caller, id) = (operator(), sid("s"));
        let done = world.engine.bundles.export(&caller, &id, sink).await;
        assert_eq!(code(done), ErrorCode::StoreFull);
        let missing = world.try_export(&operator(), "nothere").await;
        assert_eq!(code(missing), ErrorCode::SessionNotFound);
    });
}

#[test]
fn guesses_of_redacted_content_are_not_confirmed() {
    run(async {
        let here = BundleWorld::new(1);
        let request = |answer: &str| complete_turn("r", "\"my PIN?\"", answer);
        here.start("s", request("\"4711\"")).await.unwrap();
        let replay = here.start("s", request("\"0000\"")).await.unwrap();
        assert!(replay.replayed && replay.differs);
        let answer = filrouge_store::record::Seqs::of([(2, 2)]).unwrap();
        let who = operator();
        let redacted =
            here.engine
                .erasure
                .redact(&who, sid("s"), RedactionTarget::Items(answer), "a PIN");
        redacted.await.unwrap();
        // All answers are the same.
        for guess in ["\"4711\"", "\"0000\""] {
            let replay = here.start("s", request(guess)).await.unwrap();
            assert!(replay.replayed && !replay.differs, "{guess}");
        }
    });
}
