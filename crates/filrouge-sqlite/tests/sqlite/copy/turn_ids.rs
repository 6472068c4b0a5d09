//! Sessions that were adopted with the same turn ids: simultaneous adoptions in different lanes do not see each other.

use filrouge_store::command::Write;
use filrouge_store::contract::fixture::{anyone, finalize, sid};
use filrouge_store::verify::Verdict;

use super::*;

#[test]
fn sessions_with_the_same_turn_ids_are_copied() {
    let (pair, who) = (Pair::new(), anyone());
    let f = fixture_at(&pair.source(), keyring());
    let turn = block_on(async {
        let turn = f.start(&who, "s", "r").await.turn_id;
        let adopt = Arc::new(f.adopt_command_as(&who, "s", "other").await);
        let refused = f.write(&who, Write::Adopt(adopt.clone())).await;
        assert_eq!(refused.unwrap_err().code, ErrorCode::SessionConflict);
        // While the turn is hidden, the adoption does not see it.
        let conn = Connection::open(pair.source()).unwrap();
        let rename = |from: &[u8], to: &[u8]| {
            let sql = "UPDATE turn SET turn_id = ?2 WHERE turn_id = ?1";
            assert_eq!(conn.execute(sql, [from, to]).unwrap(), 1);
        };
        rename(turn.as_bytes(), &[0; 16]);
        f.write(&who, Write::Adopt(adopt)).await.unwrap();
        rename(&[0; 16], turn.as_bytes());
        f.assert_intact().await;
        f.ledger.close().await;
        turn
    });
    let copied = pair.copy().unwrap();
    assert!(copied.left_out.is_empty() && copied.copy.sessions == 2);
    assert_eq!(copied.copy.verdict(), Verdict::Intact);
    let g = fixture_at(&pair.target(), keyring());
    block_on(async {
        g.complete_turn(&who, "third", "r", "a").await;
        for session in ["s", "other"] {
            let answered = finalize(session, turn, Some("answer"));
            let answered = g.write_turn(&who, answered).await.unwrap();
            assert_eq!(answered.session_id, sid(session));
            let found = g.ledger.turn(&who, &sid(session), turn).await.unwrap();
            assert_eq!(found, answered);
        }
        let mismatch = g.ledger.turn(&who, &sid("third"), turn).await;
        assert_eq!(mismatch.unwrap_err().code, ErrorCode::TurnMismatch);
        g.assert_intact().await;
        g.ledger.close().await;
    });
}
