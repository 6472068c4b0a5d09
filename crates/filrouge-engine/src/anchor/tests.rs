//! The anchor, and statements for a witness, of a store with several lanes.

use filrouge_store::OsEntropy;
use filrouge_store::command::{Command, NewSession, Scope, Viewer, Write};
use filrouge_store::memory::MemoryLedger;
use filrouge_types::{SystemClock, TenantId};

use super::*;

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::single([7; 32]))
}

/// A ledger with at least one commit in each of its lanes.
async fn ledger(lanes: u16) -> Arc<dyn Ledger> {
    let ledger = MemoryLedger::new(keyring(), Arc::new(OsEntropy), Arc::new(SystemClock));
    let ledger: Arc<dyn Ledger> = Arc::new(ledger.with_lanes(Lanes::new(lanes).unwrap()));
    for n in 0..8 * lanes {
        create_session(ledger.as_ref(), &format!("s{n}")).await;
    }
    let position = ledger.position();
    assert!(
        ledger
            .lanes()
            .iter()
            .all(|lane| position.lane(lane).commit_no > 0)
    );
    ledger
}

async fn create_session(ledger: &dyn Ledger, id: &str) {
    let session = NewSession::with_id(id.parse().unwrap());
    let command = Command {
        scope: Scope::new(TenantId::default_tenant(), Viewer::Operator),
        write: Write::CreateSession(session),
    };
    ledger.write(command).await.unwrap();
}

/// A commit with this number, and a link that no store has made.
fn commit(number: u64) -> LanePosition {
    LanePosition {
        commit_no: number,
        link: [9; MAC_BYTES],
    }
}

fn anchor(folder: &tempfile::TempDir, ledger: &dyn Ledger) -> Anchor {
    Anchor::new(folder.path(), ledger.store_id(), keyring())
}

#[test]
fn each_lane_advances_alone_and_never_moves_back() {
    let folder = tempfile::tempdir().unwrap();
    let anchor = Anchor::new(folder.path(), "store", keyring());
    assert_eq!(anchor.read().unwrap(), None);
    let lanes = |numbers: &[u64]| Position::new(numbers.iter().copied().map(commit).collect());
    for (position, expected) in [
        (lanes(&[3, 5]), lanes(&[3, 5])),
        (lanes(&[4, 2]), lanes(&[4, 5])),
        (lanes(&[4]), lanes(&[4, 5])),
        (lanes(&[1, 6, 1]), lanes(&[4, 6, 1])),
    ] {
        anchor.advance(&position).unwrap();
        assert_eq!(anchor.read().unwrap(), Some(expected));
    }
    anchor.set(&lanes(&[1])).unwrap();
    assert_eq!(anchor.read().unwrap(), Some(lanes(&[1])));
}

#[test]
fn a_change_of_any_entry_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let anchor = Anchor::new(folder.path(), "store", keyring());
    let lanes = [commit(3), commit(5), LanePosition::default()];
    anchor.set(&Position::new(lanes.to_vec())).unwrap();
    let text = fs::read_to_string(anchor.path()).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let check = |change: &dyn Fn(&mut Vec<serde_json::Value>)| {
        let mut changed = stored.clone();
        change(changed["lanes"].as_array_mut().unwrap());
        fs::write(anchor.path(), changed.to_string()).unwrap();
        anchor.read().map_err(|failure| failure.code)
    };
    assert!(check(&|_| {}).is_ok());
    let refused: Result<Option<Position>, _> = Err(ErrorCode::IntegrityError);
    for index in 0..lanes.len() {
        assert_eq!(check(&|lanes| drop(lanes.remove(index))), refused);
        for (field, value) in [("lane", 7), ("commit_no", 4)] {
            assert_eq!(check(&|lanes| lanes[index][field] = value.into()), refused);
        }
        assert_eq!(check(&|lanes| lanes[index]["link"][0] = 8.into()), refused);
    }
}

#[tokio::test]
async fn a_store_is_compared_with_its_anchor_in_every_lane() {
    for count in [1, 3] {
        let (folder, ledger) = (tempfile::tempdir().unwrap(), ledger(count).await);
        let (anchor, ledger) = (anchor(&folder, ledger.as_ref()), ledger.as_ref());
        assert_eq!(anchor.check(ledger).await.unwrap(), AnchorState::Created);
        assert_eq!(anchor.check(ledger).await.unwrap(), AnchorState::Holds);
        create_session(ledger, "later").await;
        assert_eq!(anchor.check(ledger).await.unwrap(), AnchorState::Holds);
        for lane in ledger.lanes().iter() {
            let newest = ledger.position().lane(lane).commit_no;
            let of_lane = match count {
                1 => String::new(),
                _ => format!(" of lane {lane}"),
            };
            let missing = newest + 1;
            let cases = [
                (newest, format!("commit {newest}{of_lane} is not the one")),
                (
                    missing,
                    format!(
                        "older than its anchor: commit {missing}{of_lane} is missing, the newest is {newest}"
                    ),
                ),
            ];
            for (number, words) in cases {
                let mut position = ledger.position();
                position.set(lane, commit(number));
                anchor.set(&position).unwrap();
                let AnchorState::Broken(reason) = anchor.check(ledger).await.unwrap() else {
                    panic!("lane {lane} is not compared");
                };
                assert!(reason.contains(&words), "{reason}");
            }
        }
        let mut position = ledger.position();
        position.set(Lane::new(count), commit(1));
        anchor.set(&position).unwrap();
        let state = anchor.check(ledger).await.unwrap();
        assert!(matches!(state, AnchorState::Broken(_)), "{state:?}");
    }
}

#[tokio::test]
async fn a_witness_gets_a_statement_of_each_lane_that_has_moved() {
    let (folder, ledger) = (tempfile::tempdir().unwrap(), ledger(3).await);
    let path = folder.path().join("witness.jsonl");
    let file = WitnessFile::new(path.clone(), ledger.store_id().to_owned());
    let before = ledger.position();
    file.append(&Position::default(), &before).unwrap();
    create_session(ledger.as_ref(), "later").await;
    let position = ledger.position();
    file.append(&before, &position).unwrap();
    file.append(&position, &position).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let statements: Vec<_> = text.lines().map(|l| Statement::parse(l).unwrap()).collect();
    let later = ledger
        .lanes()
        .of_session(&TenantId::default_tenant(), &"later".parse().unwrap());
    let lanes: Vec<_> = statements.iter().map(|statement| statement.lane).collect();
    assert_eq!(lanes, [0, 1, 2, later.number()]);
    assert_eq!(statements[3].commit_no, before.lane(later).commit_no + 1);
    let newest = Statement::from_ledger(ledger.as_ref());
    assert_eq!(newest.len(), 3);
    assert_eq!(newest[later.index()].link, statements[3].link);

    let compare = async |statement: Statement| {
        let query = ledger.query(move |snapshot| statement.contradiction(snapshot.view));
        query.await.unwrap()
    };
    for statement in statements {
        let lane = statement.lane;
        assert_eq!(compare(statement.clone()).await, None);
        let other_lane = Statement {
            lane: (lane + 1) % 3,
            ..statement.clone()
        };
        assert!(compare(other_lane).await.is_some());
        let later = Statement {
            commit_no: statement.commit_no + 100,
            ..statement
        };
        let reason = compare(later).await.unwrap();
        assert!(
            reason.contains(&format!(" of lane {lane}, recorded at ")),
            "{reason}"
        );
    }
}
