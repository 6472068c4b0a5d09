//! Tests of SIGKILL at random moments: a resumed session contains every message whose recording was visible.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};

use crate::terminal::{CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld, is_alive, until};

/// An agent that prints five words with a pause after each. The file `agent` contains its process id.
const SLOW_AGENT: &str = "cat > prompt; echo $$ > agent; for n in 1 2 3 4 5; do printf 'word%s ' $n; sleep 0.03; done; echo";

#[test]
fn kills_at_random_moments_lose_nothing_recorded() {
    let seed: u64 = rand::random();
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let world = TeamWorld::new(SLOW_AGENT);
    let mut answered = Vec::new();
    for round in 0..10 {
        let mut terminal = TeamTerminal::deploy(&world, &[]);
        if round > 0 {
            terminal.expect("Found an earlier session (");
            terminal.expect("[N] Start new ");
            terminal.press("r");
        }
        terminal.expect(PROMPT);
        let question = format!("question-{round}");
        terminal.send_line(&question);
        // The agent starts only after the message was recorded.
        terminal.expect("Bob:");
        std::thread::sleep(Duration::from_millis(rng.random_range(0..250)));
        // The answer is recorded completely once the prompt appears again.
        answered.push((question, terminal.unread_contains(PROMPT)));
        let agent = world.read("agent");
        terminal.kill();
        until("the agent ends", || !is_alive(&agent));
    }
    world.write_team("team.toml", "crew", "Bob", ANSWERING_AGENT);
    let mut terminal = TeamTerminal::deploy(&world, &["--resume"]);
    terminal.expect("Resumed: ");
    terminal.expect(PROMPT);
    terminal.say("Is all of it there?");
    let prompt = world.read("prompt");
    let mut from = 0;
    for (number, (question, is_complete)) in answered.iter().enumerate() {
        let at = prompt[from..].find(question.as_str());
        let at = at.unwrap_or_else(|| panic!("seed {seed}: {question} is missing:\n{prompt}"));
        from += at + question.len();
        let rest = &prompt[from..];
        assert!(
            !rest.contains(question.as_str()),
            "seed {seed}: {question} occurs twice:\n{prompt}"
        );
        let next = answered.get(number + 1);
        let end = next.and_then(|(next, _)| rest.find(next.as_str()));
        let answer = &rest[..end.unwrap_or(rest.len())];
        assert!(
            !is_complete || answer.contains("word1 word2 word3 word4 word5"),
            "seed {seed}: the answer to {question} is incomplete:\n{prompt}"
        );
    }
    assert!(prompt.contains("Build the bridge."));
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit().0, Some(0));
    assert_eq!(world.sessions(), 1);
    assert_eq!(world.json(&["verify"])["status"], "intact", "seed {seed}");
}
