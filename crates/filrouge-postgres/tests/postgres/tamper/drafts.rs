//! The removed end of a draft.

use filrouge_store::contract::removed_drafts::{self, Removal};

use super::{block_on, raw};
use crate::{database, fixture_at, keyring};

#[test]
fn the_removed_end_of_a_draft_is_found() {
    let removals = [
        (
            Removal::Chunk,
            "DELETE FROM filrouge.draft_chunk WHERE number = 3",
        ),
        (
            Removal::ChunkAndRow,
            "DELETE FROM filrouge.draft_chunk WHERE number = 3;
             UPDATE filrouge.draft SET data = (SELECT data FROM old)",
        ),
        (
            Removal::Draft,
            "DELETE FROM filrouge.draft_chunk; DELETE FROM filrouge.draft",
        ),
    ];
    for ((removal, sql), reopens) in removals.into_iter().flat_map(|r| [(r, false), (r, true)]) {
        block_on(async {
            let database = database();
            let mut f = fixture_at(&database.url(), keyring());
            let turn = removed_drafts::begin(&f).await;
            let client = raw(&database.url()).await;
            let copied = client.batch_execute("CREATE TEMP TABLE old AS TABLE filrouge.draft");
            copied.await.unwrap();
            removed_drafts::write_chunk(&f, turn, 3).await.unwrap();
            f.assert_intact().await;
            client.batch_execute(sql).await.unwrap();
            if reopens {
                f.ledger.close().await;
                f = fixture_at(&database.url(), keyring());
            }
            removed_drafts::check(&f, turn, removal).await;
            f.ledger.close().await;
        });
    }
}
