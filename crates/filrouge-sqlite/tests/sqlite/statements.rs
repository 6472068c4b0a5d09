//! Constant cost (P8): a late turn of a session writes as many bytes as an early one.

use filrouge_store::contract::fixture::{Fixture, anyone, finalize, item};
use filrouge_types::Channel;

use super::fixture;

/// The number of bytes that this process has passed to write calls. It includes only this test's bytes, because
/// nextest, the only runner of these tests, runs each test in a separate process.
fn bytes_written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|l| l.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

async fn write_turn(f: &Fixture, n: u64) {
    let who = anyone();
    let turn = f.start(&who, "s", &format!("r{n}")).await;
    f.append(&who, &turn, vec![item(Channel::Plan, "p")])
        .await
        .unwrap();
    f.write_turn(&who, finalize("s", turn.turn_id, Some("a")))
        .await
        .unwrap();
}

/// The bytes that nine turns write: the minimum of five measurements, because some may include a checkpoint.
async fn bytes_of_nine_turns(f: &Fixture, next: &mut u64) -> u64 {
    let mut minimum = u64::MAX;
    for _ in 0..5 {
        let before = bytes_written();
        for _ in 0..9 {
            write_turn(f, *next).await;
            *next += 1;
        }
        minimum = minimum.min(bytes_written() - before);
    }
    minimum
}

#[test]
fn late_turns_write_as_much_as_early_ones() {
    let f = fixture();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut next = 0;
        write_turn(&f, 1_000_000).await;
        let early = bytes_of_nine_turns(&f, &mut next).await;
        while next < 2000 {
            write_turn(&f, next).await;
            next += 1;
        }
        let late = bytes_of_nine_turns(&f, &mut next).await;
        // A deeper B-tree adds one page to some writes; a cost that grows with the history would be far larger.
        assert!(
            late * 10 <= early * 13,
            "early {early} bytes, late {late} bytes"
        );
    });
}
