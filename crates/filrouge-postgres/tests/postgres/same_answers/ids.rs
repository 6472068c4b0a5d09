//! Ids and titles that locales sort differently or treat as equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filrouge_postgres::PostgresLedger;
use filrouge_store::Keyring;
use filrouge_store::command::{NewSession, SessionFilter, Write};
use filrouge_store::contract::differential;
use filrouge_store::contract::fixture::{anyone, operator, sid, start_with, user};
use filrouge_store::contract::session_writes::link;
use filrouge_testbed::{Options, Server};
use filrouge_types::{ItemId, ProjectId};

use super::{Backends, block_on};
use crate::{fixture_at, keyring, options};

/// Ids with every character that an id may contain, of up to 256 bytes, and ids that locales sort differently.
fn ids() -> Vec<String> {
    let ascii: String = (0x20..0x7f).map(char::from).collect();
    let latin: String = (0xa0..0x100_u32).filter_map(char::from_u32).collect();
    let mut ids = vec![
        ascii,
        latin[..].chars().take(96).collect(),
        "x".repeat(256),
        "🧵".repeat(64),
        "é".repeat(128),
        " ".to_owned(),
    ];
    let disputed = [
        "a", "B", "A", "b", "Z", "z", "é", "e\u{301}", "É", "f", "a-b", "ab", "a b", "_", "ä", "æ",
        "ß", "ss",
    ];
    ids.extend(disputed.map(str::to_owned));
    ids
}

#[test]
fn unusual_ids_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let ids = ids();
        for (n, id) in ids.iter().enumerate() {
            let who = user(id);
            let session = NewSession {
                parent_session_id: (n > 0).then(|| sid(&ids[n - 1])),
                project_id: ProjectId::new(id.as_str()).ok(),
                ..NewSession::with_id(sid(id))
            };
            backends.write(&who, Write::CreateSession(session)).await;
            let start = start_with(&who, id, id, "q", Some("a"), |_, items| {
                items[0].item_id = ItemId::new(id.as_str()).ok();
            });
            backends.write(&who, Write::Start(Arc::new(start))).await;
            let anonymous = format!("{n}");
            backends
                .write(
                    &anyone(),
                    Write::CreateSession(NewSession::with_id(sid(&anonymous))),
                )
                .await;
            backends.write(&who, link(&anonymous, id)).await;
        }
        backends.compare_reads(&operator("t"), &ids).await;
        for id in &ids {
            backends
                .compare_lists(&user(id), SessionFilter::default())
                .await;
            for filter in [
                SessionFilter {
                    parent_session_id: Some(sid(id)),
                    ..SessionFilter::default()
                },
                SessionFilter {
                    project_id: ProjectId::new(id.as_str()).ok(),
                    ..SessionFilter::default()
                },
            ] {
                backends.compare_lists(&operator("t"), filter).await;
            }
        }
        backends.close().await;
    });
}

/// The database's default collation compares texts as in French, which must not affect the store.
#[test]
fn a_databases_locale_has_no_effect() {
    let server = Server::start(Options::default());
    let databases = AtomicUsize::new(0);
    let french_ledger = |keyring: Arc<Keyring>| {
        let name = format!("french{}", databases.fetch_add(1, Ordering::Relaxed));
        let sql = format!(
            "CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'fr-FR-u-ks-level1'"
        );
        server.sql("postgres", &sql);
        // The ledger that creates a store takes its id from the random source; the compared ledger must not.
        drop(PostgresLedger::open(options(&server.url(&name), keyring.clone())).unwrap());
        fixture_at(&server.url(&name), keyring)
    };
    differential::same_as_memory(4, french_ledger);
    block_on(async {
        let f = french_ledger(keyring());
        // Sessions of the same time are ordered by their numbers, which depend on the lanes.
        let memory = differential::memory_like(keyring(), &*f.ledger);
        let who = operator("t");
        for id in ids() {
            let session = NewSession {
                title: Some(id.as_str().into()),
                ..NewSession::with_id(sid(&id))
            };
            for f in [&f, &memory] {
                f.write(&who, Write::CreateSession(session.clone()))
                    .await
                    .unwrap();
            }
        }
        for title in ["a", "É", "é", "SS", "ß", "æ"] {
            let mut lists = Vec::new();
            for f in [&f, &memory] {
                let filter = SessionFilter {
                    title: Some(title.into()),
                    ..SessionFilter::default()
                };
                lists.push(f.ledger.sessions(&who, filter, None, 50).await.unwrap());
            }
            assert_eq!(lists[0], lists[1], "{title}");
        }
        f.assert_intact().await;
        f.ledger.close().await;
    });
}
