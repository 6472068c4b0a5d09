//! How long rendering takes; asserts nothing, for a person to read.

use std::time::Instant;

use filrouge_transcode::{Format, render};

use crate::plans::*;

#[test]
#[ignore = "prints times; run it optimized, with its output shown"]
#[allow(clippy::print_stderr)]
fn five_thousand_turns() {
    let words = "A line of an answer, with \"quotes\" and\nbreaks in it. ".repeat(15);
    let turns = (0..5000_u32).map(|number| {
        let id = format!("call_{number}");
        let group = calls(vec![call(&id, "search.web", vec![text(&words)])]);
        turn(
            u8::try_from(number % 256).unwrap(),
            vec![user(&words), group, assistant(&words)],
        )
    });
    let plan = plan(None, turns.collect());
    for format in Format::ALL {
        let copy = plan.clone();
        let start = Instant::now();
        let context = render(copy, format);
        let took = start.elapsed();
        let bytes = context.messages.as_str().len();
        let start = Instant::now();
        let copied = context.messages.clone();
        let copying = start.elapsed();
        eprintln!("{format}: {bytes} bytes in {took:?}; copying them takes {copying:?}");
        drop(copied);
    }
}
