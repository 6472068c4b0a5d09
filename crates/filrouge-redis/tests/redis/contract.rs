//! The contract suite of hot stores on a single Redis server.

use std::sync::Arc;
use std::time::Duration;

use filrouge_redis::{Options, RedisHot};
use filrouge_store::hot::HotBounds;
use filrouge_store::hot::suite::HotFixture;
use filrouge_testbed::Redis;

async fn new_fixture(bounds: HotBounds) -> HotFixture {
    let redis = Redis::start();
    let hot = RedisHot::open(&Options {
        bounds,
        timeout: Duration::from_secs(20),
        ..Options::new(redis.socket_url())
    });
    HotFixture::real(Arc::new(hot.expect("options")), Box::new(redis))
}

filrouge_store::hot_contract_tests!(new_fixture);
