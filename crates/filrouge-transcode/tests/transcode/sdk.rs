//! Tests that the request types of the providers' official SDKs accept rendered plans.

use std::path::Path;

use filrouge_engine::restore::Plan;
use filrouge_provider_rules::sdk::check;
use filrouge_transcode::Format;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use crate::plans::{render_plan, rules_provider};
use crate::random::plans;

/// Enough plans for every kind of block, medium and signature to occur in every format.
const PLANS: usize = 300;

#[test]
fn the_sdk_types_accept_any_plan() {
    let mut runner = TestRunner::deterministic();
    let strategy = plans();
    let plans: Vec<Plan> = (0..PLANS)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    let histories: Vec<_> = Format::ALL
        .into_iter()
        .filter_map(|format| rules_provider(format).map(|provider| (format, provider)))
        .flat_map(|(format, provider)| {
            plans
                .iter()
                .map(move |plan| (provider, render_plan(plan, format).0))
        })
        .collect();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider-sdks");
    let violations = check(&directory, &histories).unwrap();
    for violation in violations.iter().take(5) {
        let (provider, messages) = &histories[violation.history];
        assert!(
            violations.is_empty(),
            "{provider}: {}\n{messages:#}",
            violation.description
        );
    }
}
