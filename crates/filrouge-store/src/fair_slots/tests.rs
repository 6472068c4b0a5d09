use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::{JoinHandle, yield_now};

use super::*;
use WorkSize::{Large, Small};

type Caller = (&'static str, &'static str);

fn slots(total: usize, share: usize, reserve: usize) -> FairSlots {
    FairSlots::new(SlotBounds {
        total,
        share,
        reserve,
    })
}

/// Starts to wait for a slot.
async fn wait(slots: &FairSlots, caller: Caller, size: WorkSize) -> JoinHandle<Option<Slot>> {
    let slots = slots.clone();
    let waiting = tokio::spawn(async move { slots.acquire(&caller, size).await });
    yield_now().await;
    waiting
}

async fn granted(waiting: JoinHandle<Option<Slot>>) -> Slot {
    let granted = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    granted.expect("a slot in time").unwrap().expect("a slot")
}

#[tokio::test]
async fn callers_that_wait_take_turns() {
    let slots = slots(1, 1, 0);
    let mut held = slots.try_acquire(&("key", "ann"), Small);
    let mut waiting = Vec::new();
    for caller in ["ann"; 50].into_iter().chain(["bob", "cyd", "bob"]) {
        waiting.push((caller, wait(&slots, ("key", caller), Small).await));
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(held.take());
        yield_now().await;
        let next = waiting.iter().position(|(_, task)| task.is_finished());
        let (caller, task) = waiting.remove(next.expect("the slot was given to the next"));
        order.push(caller);
        held = Some(granted(task).await);
        assert_eq!(slots.held(), 1);
    }
    assert_eq!(order[..6], ["ann", "bob", "cyd", "ann", "bob", "ann"]);
    drop(held);
    assert!(
        lock(&slots.0.usage).callers.is_empty(),
        "idle callers are forgotten"
    );
    assert!(lock(&slots.0.usage).turns.is_empty());
}

#[tokio::test]
async fn a_key_that_names_many_end_users_takes_turns_with_other_keys() {
    let slots = slots(1, 1, 0);
    let mut held = slots.try_acquire(&("desk", "0"), Small);
    let mut waiting = Vec::new();
    for caller in [
        ("desk", "a"),
        ("desk", "b"),
        ("desk", "c"),
        ("desk", "a"),
        ("app", "x"),
        ("app", "x"),
        ("web", "a"),
    ] {
        waiting.push((caller, wait(&slots, caller, Small).await));
    }
    // A request that is dropped leaves the turns of its key.
    let (_, dropped) = waiting.remove(2);
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(held.take());
        yield_now().await;
        let next = waiting.iter().position(|(_, task)| task.is_finished());
        let (caller, task) = waiting.remove(next.expect("the slot was given to the next"));
        order.push(caller);
        held = Some(granted(task).await);
    }
    let expected = [
        ("desk", "a"),
        ("app", "x"),
        ("web", "a"),
        ("desk", "b"),
        ("app", "x"),
        ("desk", "a"),
    ];
    assert_eq!(order, expected);
    assert!(lock(&slots.0.usage).turns.is_empty());
}

#[tokio::test]
async fn a_caller_has_a_share_and_small_work_a_reserve() {
    let slots = slots(4, 2, 1);
    let ann = [Small, Large].map(|size| slots.try_acquire(&("key", "ann"), size).unwrap());
    assert!(
        slots.try_acquire(&("key", "ann"), Small).is_none(),
        "her share is used up"
    );
    let third = wait(&slots, ("key", "ann"), Large).await;
    let bob = [Large, Large].map(|size| slots.try_acquire(&("key", "bob"), size).unwrap());
    assert!(
        slots.try_acquire(&("key", "cyd"), Small).is_none(),
        "all slots are held"
    );
    drop(bob);
    let cyd = [Large, Large].map(|size| slots.try_acquire(&("key", "cyd"), size).unwrap());
    drop(ann);
    let third = granted(third).await;
    // Three slots are held for large work, the fourth is reserved.
    assert!(slots.try_acquire(&("key", "dan"), Large).is_none());
    let small = slots.try_acquire(&("key", "dan"), Small).unwrap();
    drop((cyd, third, small));
    assert_eq!(slots.held(), 0);
}

#[tokio::test]
async fn small_requests_pass_a_large_one_and_do_not_starve_it() {
    let slots = slots(2, 2, 1);
    let large = slots.try_acquire(&("key", "ann"), Large).unwrap();
    let other = slots.try_acquire(&("key", "bob"), Small).unwrap();
    let waiting_large = wait(&slots, ("key", "ann"), Large).await;
    let waiting_small = wait(&slots, ("key", "ann"), Small).await;
    drop(other);
    let small = granted(waiting_small).await;
    assert!(!waiting_large.is_finished());
    let later = wait(&slots, ("key", "bob"), Small).await;
    drop(large);
    let large = granted(waiting_large).await;
    assert!(!later.is_finished(), "ann waited before bob");
    drop((small, large));
    drop(granted(later).await);
}

#[tokio::test]
async fn a_request_that_is_dropped_holds_and_blocks_nothing() {
    let slots = slots(1, 1, 0);
    let held = slots.try_acquire(&("key", "ann"), Small).unwrap();
    for _ in 0..100 {
        let waiting = wait(&slots, ("key", "ann"), Small).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
    }
    assert!(lock(&slots.0.usage).turns.is_empty());
    // This request gets the slot, and is dropped before it learns of it.
    let mut acquiring = Box::pin(slots.acquire(&("key", "bob"), Small));
    tokio::select! {
        biased;
        _ = &mut acquiring => panic!("the slot is held"),
        () = yield_now() => {}
    }
    drop(held);
    assert_eq!(slots.held(), 1);
    drop(acquiring);
    assert_eq!(slots.held(), 0);
    assert!(lock(&slots.0.usage).callers.is_empty());
}

#[tokio::test]
async fn closed_slots_are_given_to_nobody_and_are_awaited() {
    let slots = slots(1, 1, 0);
    slots.wait_until_all_released().await;
    let held = slots.try_acquire(&("key", "ann"), Small).unwrap();
    let waiting = wait(&slots, ("key", "bob"), Small).await;
    slots.close();
    assert!(waiting.await.unwrap().is_none());
    assert!(slots.acquire(&("key", "bob"), Small).await.is_none());
    let closing = tokio::spawn({
        let slots = slots.clone();
        async move { slots.wait_until_all_released().await }
    });
    yield_now().await;
    assert!(!closing.is_finished());
    drop(held);
    let ended = tokio::time::timeout(Duration::from_secs(30), closing).await;
    ended.expect("all slots are released").unwrap();
}

#[tokio::test]
async fn slots_that_are_taken_later_are_not_awaited() {
    let slots = slots(1, 1, 0);
    let held = slots.try_acquire(&("key", "ann"), Small).unwrap();
    let waiting = tokio::spawn({
        let slots = slots.clone();
        async move { slots.wait_until_all_released().await }
    });
    yield_now().await;
    drop(held);
    let _later = slots.try_acquire(&("key", "bob"), Small).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    ended.expect("all slots were released").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_never_hold_more_than_the_bounds_and_all_are_served() {
    let slots = slots(4, 2, 1);
    let tasks: Vec<_> = (0..400)
        .map(|n: usize| {
            let slots = slots.clone();
            tokio::spawn(async move {
                let size = [Small, Large][n % 2];
                let slot = slots.acquire(&(n % 2, n % 5), size).await.expect("a slot");
                let usage = {
                    let usage = lock(&slots.0.usage);
                    let shares: BTreeSet<usize> = usage.callers.values().map(|c| c.held).collect();
                    (usage.held, usage.held_by_large, shares)
                };
                assert!(usage.0 <= 4 && usage.1 <= 3, "{usage:?}");
                assert!(usage.2.last().is_some_and(|most| *most <= 2), "{usage:?}");
                yield_now().await;
                drop(slot);
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(30), task)
            .await
            .expect("all requests are served")
            .unwrap();
    }
    assert_eq!(slots.held(), 0);
}
