//! A process that is killed in any call of the target.

use std::sync::Arc;
use std::time::Duration;

use super::world::World;

#[tokio::test]
async fn a_process_may_be_killed_in_any_call_of_the_target() {
    for executes in [false, true] {
        for call in 1.. {
            let world = World::with_target(Arc::default(), Duration::from_millis(20));
            for session in ["redacted", "erased", "other"] {
                world.create_with_secret(session).await;
            }
            world.target.hang_at(call, executes);
            let mut projector = world.projector();
            let scenario = async {
                world.run_until_idle(&mut projector).await;
                world.answer("other", "r2", "more").await;
                world.patch("other", "a title").await;
                world.run_until_idle(&mut projector).await;
            };
            // The step is dropped where it hangs.
            let was_killed = tokio::select! {
                () = scenario => false,
                () = world.target.hung() => true,
            };
            if !was_killed {
                break;
            }
            drop(projector);
            world.redact("redacted").await;
            world.redact("other").await;
            world.erase("erased").await;
            world.end_claims();
            world.fill().await;
            world.check().await;
            assert!(!world.holds_secret(), "call {call}, {executes}");
            assert_eq!(world.status().await.uncleaned, 0);
            assert_eq!(world.target.generations().len(), 1);
        }
    }
}
