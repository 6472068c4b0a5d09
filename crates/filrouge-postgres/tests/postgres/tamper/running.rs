//! A running ledger finds changes made outside it even without a query.

use std::time::{Duration, Instant};

use filrouge_store::contract::Fixture;
use filrouge_store::contract::fixture::anyone;
use filrouge_types::ErrorCode;

use super::play::{VICTIM, refused};
use super::{block_on, raw, world};
use crate::{keyring, on};

/// Waits until the store's health reports a change; sessions are compared soon after a commit.
pub(super) async fn reported(f: &Fixture) {
    let begun = Instant::now();
    for n in 0.. {
        if f.ledger.health().integrity.is_some() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "nothing is reported"
        );
        if n == 0 {
            // This write is refused if the log itself was changed; then the change is reported at once.
            let _ = f.create(&anyone(), "witness").await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Genuine rows of an older state have valid MACs: only the log shows that they are not the newest.
#[test]
fn older_state_is_found_without_a_query() {
    for (sql, all) in [
        ("UPDATE filrouge.head h SET data = (SELECT data FROM old.head o WHERE o.pk = h.pk)
          WHERE pk = (SELECT pk FROM filrouge.session WHERE session_id = 'victim')", false),
        ("DELETE FROM filrouge.head WHERE pk = (SELECT pk FROM filrouge.session WHERE session_id = 'victim');
          DELETE FROM filrouge.session WHERE session_id = 'victim'", false),
        ("UPDATE filrouge.commit_log SET data = data || '\\x00'
          WHERE commit_no = (SELECT max(commit_no) FROM filrouge.commit_log)", true),
    ] {
        block_on(async {
            let database = world();
            let f = on(&database.url(), keyring());
            raw(&database.url()).await.batch_execute(sql).await.unwrap();
            if all {
                // The next write or read sees that the newest commit is a different one.
                let write = f.create(&anyone(), "next").await;
                assert_eq!(write.unwrap_err().code, ErrorCode::IntegrityError);
            }
            reported(&f).await;
            assert_eq!(refused(&f, VICTIM, sql).await, "sit1an", "{sql}");
            assert_eq!(refused(&f, "other", sql).await.is_empty(), !all, "{sql}");
            f.ledger.close().await;
        });
    }
}
