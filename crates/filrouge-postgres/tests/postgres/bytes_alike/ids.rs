//! Ids and titles that locales order or equate differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filrouge_postgres::PostgresLedger;
use filrouge_store::Keyring;
use filrouge_store::command::{NewSession, SessionFilter, Write};
use filrouge_store::contract::asks::link;
use filrouge_store::contract::differential;
use filrouge_store::contract::fixture::{anyone, operator, sid, start_with, user};
use filrouge_testbed::{Options, Server};
use filrouge_types::{ItemId, ProjectId};

use super::{Three, block_on};
use crate::{keyring, on, options};

/// Ids with every character that an id may contain, of up to 256 bytes, and ids that locales order differently.
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
fn strange_ids_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let ids = ids();
        for (n, id) in ids.iter().enumerate() {
            let who = user(id);
            let made = NewSession {
                parent_session_id: (n > 0).then(|| sid(&ids[n - 1])),
                project_id: ProjectId::new(id.as_str()).ok(),
                ..NewSession::bare(sid(id))
            };
            three.write(&who, Write::CreateSession(made)).await;
            let made = start_with(&who, id, id, "q", Some("a"), |_, items| {
                items[0].item_id = ItemId::new(id.as_str()).ok();
            });
            three.write(&who, Write::Start(Arc::new(made))).await;
            let anonymous = format!("{n}");
            let nobody = anyone();
            three
                .write(
                    &nobody,
                    Write::CreateSession(NewSession::bare(sid(&anonymous))),
                )
                .await;
            three.write(&who, link(&anonymous, id)).await;
        }
        three.read(&operator("t"), &ids).await;
        for id in &ids {
            three.list(&user(id), SessionFilter::default()).await;
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
                three.list(&operator("t"), filter).await;
            }
        }
        three.close().await;
    });
}

/// A database whose default is to compare texts as in French, which must not affect the store.
#[test]
fn a_databases_locale_has_no_effect() {
    let server = Server::start(Options::default());
    let made = AtomicUsize::new(0);
    let make = |keyring: Arc<Keyring>| {
        let name = format!("french{}", made.fetch_add(1, Ordering::Relaxed));
        let sql = format!(
            "CREATE DATABASE {name} TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE 'fr-FR-u-ks-level1'"
        );
        server.sql("postgres", &sql);
        // The creator of a store draws its name from the random source.
        drop(PostgresLedger::open(options(&server.url(&name), keyring.clone())).unwrap());
        on(&server.url(&name), keyring)
    };
    differential::same_as_memory(4, make);
    block_on(async {
        let (f, memory) = (make(keyring()), differential::memory(keyring()));
        let who = operator("t");
        for id in ids() {
            let made = NewSession {
                title: Some(id.as_str().into()),
                ..NewSession::bare(sid(&id))
            };
            for f in [&f, &memory] {
                f.write(&who, Write::CreateSession(made.clone()))
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
        f.intact().await;
        f.ledger.close().await;
    });
}
