//! The contract suite of hot stores on a Redis cluster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::HotBounds;
use filrouge_store::hot::suite::HotFixture;
use filrouge_testbed::RedisCluster;

/// All stores share one cluster, each with its own prefix. Statics are not dropped: a watchdog ends the cluster with
/// this process.
async fn new_fixture(bounds: HotBounds) -> HotFixture {
    static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);
    static STORE_COUNT: AtomicU64 = AtomicU64::new(0);
    let hot = RedisHot::open(&Options {
        bounds,
        prefix: format!("p{}", STORE_COUNT.fetch_add(1, Ordering::Relaxed)),
        timeout: Duration::from_secs(20),
        ..Options::new(CLUSTER.url())
    });
    HotFixture::real(Arc::new(hot.expect("options")), Box::new(()))
}

filrouge_store::hot_contract_tests!(at_once new_fixture);
