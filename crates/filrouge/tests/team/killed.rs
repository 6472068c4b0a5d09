//! kill -9 at any moment: a resumed session contains everything that was shown as recorded.

use std::time::Duration;

use rand::{Rng as _, SeedableRng as _};

use crate::terminal::{CTRL_D, PROMPT, TeamTerminal};
use crate::world::{ANSWERING_AGENT, TeamWorld, is_alive, until};

/// An agent that prints five words with a pause after each, and writes its process id to a file.
const SLOW_AGENT: &str = "cat > prompt; echo $$ > agent; for n in 1 2 3 4 5; do printf 'word%s ' $n; sleep 0.03; done; echo";

#[test]
fn nothing_recorded_is_lost_by_kills_at_random_moments() {
    let seed: u64 = rand::random();
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
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
        terminal.line(&question);
        // The agent starts only after the message was recorded.
        terminal.expect("Bob:");
        std::thread::sleep(Duration::from_millis(random.random_range(0..250)));
        // If the prompt is shown again, the answer is complete.
        answered.push((question, terminal.unread_contains(PROMPT)));
        let agent = world.read("agent");
        terminal.kill();
        until("the agent ends", || !is_alive(&agent));
    }
    world.team("team.toml", "crew", "Bob", ANSWERING_AGENT);
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
            "seed {seed}: {question} twice"
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
    assert_eq!(terminal.ended().0, Some(0));
    assert_eq!(world.sessions(), 1);
    assert_eq!(world.json(&["verify"])["status"], "intact", "seed {seed}");
}
