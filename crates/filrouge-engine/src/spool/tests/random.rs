//! Random tests: the ledger is unavailable at random moments, for random times, and loses answers; processes are killed and
//! restarted. Every answered write must be in the ledger once, in order.

use filrouge_store::Ledger;

use super::world::{LinkState, SpoolWorld, expected_texts, sid};

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

#[tokio::test]
async fn nothing_is_lost_or_duplicated() {
    let mut spooled = 0;
    for seed in 1..=30 {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let mut dice = Dice(seed);
        let mut process = world.process_with(world.options(), seed);
        process.webhook(&s, 0).await.unwrap();
        for n in 1..8 {
            let state = [
                LinkState::Up,
                LinkState::Down,
                LinkState::Lost,
                LinkState::Random,
            ][dice.throw(4) as usize];
            process.link.set(state);
            let mut answered = process.webhook(&s, n).await;
            // A request that failed while the ledger became unavailable or available is retried step by step.
            let mut times = 0;
            while let Err(failure) = &answered {
                times += 1;
                let view = process.spool.view();
                assert!(times < 5, "seed {seed}, {n}: {failure} {view:?}");
                assert!(failure.code.status() >= 500, "seed {seed}, {n}: {failure}");
                process.link.set(LinkState::Up);
                answered = retry_webhook(&process, &s, n).await;
            }
            if dice.throw(4) == 0 {
                process.link.set(LinkState::Up);
                process.killed().await;
                process = world.process_with(world.options(), seed + 1000);
            }
        }
        process.link.set(LinkState::Up);
        process.drained().await;
        let view = process.spool.view();
        spooled += view.counts.spooled;
        assert_eq!(view.dead_letters, 0, "seed {seed}");
        assert_eq!(world.texts(&s).await, expected_texts(0..8), "seed {seed}");
    }
    assert!(spooled > 100, "{spooled}");
}

/// Retries a webhook as its sender would: steps that were committed are replays, and an item that exists is not appended again.
async fn retry_webhook(
    process: &super::world::SpoolProcess,
    s: &filrouge_types::SessionId,
    n: usize,
) -> Result<crate::Resumed, filrouge_types::Failure> {
    process.drained().await;
    let request = format!("r{n}");
    let resumed = process.resume(s, &format!("hook-{n}")).await?;
    let fence = resumed.fence;
    process.start(s, &request, fence).await?;
    let saw = format!("r{n} saw");
    let items = {
        let ledger: &dyn Ledger = process.link.inner.as_ref();
        ledger.items(&super::world::operator(), s, 0, 500).await?.0
    };
    let is_recorded = |text: &str| {
        let mut texts = items
            .iter()
            .map(|i| super::world::text_of(i.body.parts.as_str()));
        texts.any(|t| t == text)
    };
    if !is_recorded(&saw) {
        process.append(s, &request, &saw, fence).await?;
    }
    if !is_recorded(&format!("r{n} said")) {
        process.checkpoint(s, n, fence).await?;
    }
    process.finalize(s, &request, fence).await?;
    Ok(resumed)
}
