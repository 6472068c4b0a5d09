//! Summaries that a head names.

use std::sync::Arc;

use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::contract::fixture::{Fixture, anyone, item};
use filrouge_store::record::MacCheck;
use filrouge_store::rows::HeadRow;
use filrouge_types::Channel;

use super::block_on;
use crate::{fixture_at, keyring, options};

/// A head with a wrong MAC is refused, so the heads of this test are read without a check of MACs.
#[test]
fn a_head_that_names_other_summaries_is_reported() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.db");
        let f = fixture_at(&path, keyring());
        let turn = f.start(&anyone(), "s", "r").await;
        let summary = |n: u64| item(Channel::Summary, &format!("summary {n}"));
        let items = (2..=11).map(summary).collect();
        f.append(&anyone(), &turn, items).await.unwrap();
        f.assert_intact().await;
        f.ledger.close().await;
        let conn = rusqlite::Connection::open(&path).unwrap();
        let head: Vec<u8> = conn
            .query_row("SELECT data FROM head", [], |row| row.get(0))
            .unwrap();
        let head = HeadRow::decode(&head).unwrap();
        let newest: Vec<u64> = (4..=11).collect();
        assert_eq!(head.summaries, newest);
        for (summaries, is_intact) in [
            (newest, true),
            (vec![], false),
            // One that is no summary, one too few, one that does not exist, and an older one.
            (vec![1, 5, 6, 7, 8, 9, 10, 11], false),
            (vec![5, 6, 7, 8, 9, 10, 11], false),
            (vec![5, 6, 7, 8, 9, 10, 11, 12], false),
            (vec![3, 5, 6, 7, 8, 9, 10, 11], false),
        ] {
            let name = format!("{summaries:?}");
            let mut forged = head.clone();
            forged.summaries = summaries;
            conn.execute("UPDATE head SET data = ?1", [forged.encode()])
                .unwrap();
            let unverified = Options {
                check: MacCheck::Unverified,
                ..options(&path, keyring())
            };
            let ledger = SqliteLedger::open(unverified).unwrap();
            let f = Fixture {
                ledger: Arc::new(ledger),
                clock: f.clock.clone(),
                keyring: f.keyring.clone(),
                keep: Box::new(()),
            };
            let report = f.ledger.verify(None).await.unwrap();
            let found = report.findings.iter().map(|f| f.session_id.as_deref());
            let expected: &[_] = if is_intact { &[] } else { &[Some("s")] };
            assert_eq!(found.collect::<Vec<_>>(), expected, "{name}: {report:?}");
            f.ledger.close().await;
        }
    });
}
