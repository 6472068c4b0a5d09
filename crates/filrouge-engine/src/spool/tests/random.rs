//! The ledger is unavailable at random moments, for random times, and loses answers; processes are killed and
//! restarted. Every answered write must be in the ledger once, in order.

use filrouge_store::Ledger;

use super::world::{ConnectionState, SpoolWorld, expected_texts, sid};

/// Reproducible random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

#[tokio::test]
async fn no_write_is_lost_or_duplicated() {
    let mut spooled = 0;
    for seed in 1..=30 {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let mut random = Random(seed);
        let mut process = world.process_with(world.options(), seed);
        process.webhook(&s, 0).await.unwrap();
        for n in 1..8 {
            let state = [
                ConnectionState::Up,
                ConnectionState::Down,
                ConnectionState::Lost,
                ConnectionState::Random,
            ][random.below(4) as usize];
            process.connection.set(state);
            let mut answered = process.webhook(&s, n).await;
            // A request may fail while the ledger becomes unavailable or available; it is then retried step by step.
            let mut attempts = 0;
            while let Err(failure) = &answered {
                attempts += 1;
                let view = process.spool.view();
                assert!(attempts < 5, "seed {seed}, {n}: {failure} {view:?}");
                assert!(failure.code.status() >= 500, "seed {seed}, {n}: {failure}");
                process.connection.set(ConnectionState::Up);
                answered = retry_webhook(&process, &s, n).await;
            }
            if random.below(4) == 0 {
                process.connection.set(ConnectionState::Up);
                process.kill().await;
                process = world.process_with(world.options(), seed + 1000);
            }
        }
        process.connection.set(ConnectionState::Up);
        process.wait_until_drained().await;
        let view = process.spool.view();
        spooled += view.counts.spooled;
        assert_eq!(view.dead_letters, 0, "seed {seed}");
        assert_eq!(world.texts(&s).await, expected_texts(0..8), "seed {seed}");
    }
    assert!(spooled > 100, "{spooled}");
}

/// Retries a webhook as its sender would: committed steps are replays, and an item that exists is not appended again.
async fn retry_webhook(
    process: &super::world::SpoolProcess,
    s: &filrouge_types::SessionId,
    n: usize,
) -> Result<crate::Resumed, filrouge_types::Failure> {
    process.wait_until_drained().await;
    let request = format!("r{n}");
    let resumed = process.resume(s, &format!("hook-{n}")).await?;
    let fence = resumed.fence;
    process.start(s, &request, fence).await?;
    let observation = format!("r{n} saw");
    let items = {
        let ledger: &dyn Ledger = process.connection.inner.as_ref();
        ledger.items(&super::world::operator(), s, 0, 500).await?.0
    };
    let is_recorded = |text: &str| {
        let mut texts = items
            .iter()
            .map(|i| super::world::text_of(i.body.parts.as_str()));
        texts.any(|t| t == text)
    };
    if !is_recorded(&observation) {
        process.append(s, &request, &observation, fence).await?;
    }
    if !is_recorded(&format!("r{n} said")) {
        process.checkpoint(s, n, fence).await?;
    }
    process.finalize(s, &request, fence).await?;
    Ok(resumed)
}
