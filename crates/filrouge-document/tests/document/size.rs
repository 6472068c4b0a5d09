//! Tests of long conversations, and of texts that are slow to parse.

use std::fmt;
use std::time::{Duration, Instant};

use filrouge_document::{html, markdown};
use filrouge_types::{Channel, Role, TurnStatus};
use serde_json::json;

use crate::sample::Conversation;

/// A sink that only counts bytes and measures the longest write.
#[derive(Default)]
struct Counter {
    bytes: usize,
    longest: usize,
}

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        self.longest = self.longest.max(text.len());
        Ok(())
    }
}

/// A conversation of 2.5 kB per turn: a question, a tool call, its result and an answer.
fn long_conversation(turns: usize) -> Conversation {
    let mut c = Conversation::new("long");
    let words = "The rounding happens **per line**, see `total()` and [the rules](https://example.org/rules).\n\n";
    for i in 0..turns {
        c.turn(TurnStatus::Finalized);
        c.ask(&format!(
            "Question {i}: what happens with a total of 19.99 < 20.00?"
        ));
        c.add(Role::Assistant, Channel::ToolCall, &json!([{"type": "tool_call", "call_id": format!("c{i}"), "name": "grep", "args": {"pattern": "total", "path": "src"}}]));
        c.add(Role::Tool, Channel::ToolResult, &json!([{"type": "tool_result", "call_id": format!("c{i}"), "ok": true, "content": "src/total.rs:12: let total = sum;\n".repeat(30)}]));
        c.answer(&words.repeat(12));
    }
    c
}

/// Renders the conversation in both formats, and returns the durations and sizes: Markdown first, then HTML.
fn measure(c: &Conversation) -> (Duration, Duration, Counter, Counter) {
    let (mut md, mut page) = (Counter::default(), Counter::default());
    let start = Instant::now();
    markdown(c, &mut md).unwrap();
    let middle = Instant::now();
    html(c, &mut page).unwrap();
    (middle - start, middle.elapsed(), md, page)
}

#[test]
fn five_thousand_turns_are_streamed() {
    let c = long_conversation(5_000);
    let content: usize = c
        .turns
        .iter()
        .flat_map(|(_, items)| items)
        .map(|i| i.body.parts.as_str().len())
        .sum();
    assert!(content > 11_000_000, "only {content} bytes of content");
    let (md_time, html_time, md, page) = measure(&c);
    assert!(md.bytes > content && page.bytes > content);
    // At most one item's markup is buffered.
    assert!(
        md.longest < 40_000 && page.longest < 60_000,
        "longest writes: {} and {} bytes",
        md.longest,
        page.longest
    );
    // The limit is for unoptimized builds on a busy machine; an optimized build needs well under a second.
    let limit = Duration::from_secs(60);
    assert!(
        md_time < limit && html_time < limit,
        "{md_time:?} {html_time:?}"
    );
    let figures = format!(
        "{content} bytes: md {} bytes in {md_time:?}, html {} bytes in {html_time:?}",
        md.bytes, page.bytes
    );
    // The figures are shown only with `--no-capture`.
    std::io::Write::write_all(&mut std::io::stderr(), figures.as_bytes()).unwrap();
}

/// Texts of about `size` bytes, of kinds that are known to make parsers slow or to overflow their stacks.
fn slow_texts(size: usize) -> Vec<(&'static str, String)> {
    let fill = |piece: &str| piece.repeat(size / piece.len());
    vec![
        ("quotes", fill(">")),
        ("quotes with spaces", fill("> ")),
        (
            "quote lines",
            (1..60)
                .map(|n| format!("{} x\n", ">".repeat(n)))
                .collect::<String>()
                .repeat(size / 2000),
        ),
        ("brackets", fill("[")),
        ("images", fill("![")),
        ("open links", fill("[a](")),
        ("nested links", fill("[a](b")),
        (
            "closed brackets",
            format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2)),
        ),
        (
            "bracket pairs",
            format!("{}a{}", "[".repeat(size / 2), "](b)".repeat(size / 8)),
        ),
        (
            "definitions",
            (0..size / 12).map(|n| format!("[{n}]: /u\n")).collect(),
        ),
        ("one definition repeated", fill("[a]: /u\n")),
        ("references", format!("[a]: /u\n\n{}", fill("[a] "))),
        ("lists", fill("- ")),
        ("numbered", fill("1. ")),
        (
            "indented lists",
            (0..200)
                .map(|n| format!("{}- x\n", "  ".repeat(n)))
                .collect(),
        ),
        ("stars", fill("*a ")),
        ("star pairs", fill("*a **b ")),
        ("underscores", fill("_a __b ")),
        (
            "backticks",
            (1..size.isqrt())
                .map(|n| format!("{} ", "`".repeat(n)))
                .collect(),
        ),
        ("tags", fill("<a ")),
        ("attributes", format!("<a {}", fill("b='c ' "))),
        ("comments", fill("<!-- ")),
        ("instructions", fill("<?")),
        ("declarations", fill("<!A ")),
        ("cdata", fill("<![CDATA[")),
        ("closed tags", fill("<b></b>")),
        ("html blocks", fill("<div>\n")),
        ("separate html blocks", fill("<div>\n\n")),
        ("html and fences", fill("<div>\n```\n\n")),
        (
            "footnotes",
            (0..size / 12)
                .map(|n| format!("[^{n}]: [^{n}]\n"))
                .collect(),
        ),
        ("table", format!("|a|\n|-|\n{}", fill("|b"))),
        (
            "wide table",
            format!(
                "{}\n{}\n{}",
                "|a".repeat(size / 10),
                "|-".repeat(size / 10),
                "|\n".repeat(size / 10)
            ),
        ),
        ("backslashes", fill("\\")),
        ("backslashes before tags", fill("\\\\<b>")),
        ("entities", fill("&amp;")),
        ("ampersands", fill("&")),
        ("strikes", fill("~~a ~b ")),
        ("autolinks", fill("<http:")),
        ("empty lines", fill("\n")),
        ("one word", fill("x")),
    ]
}

#[test]
fn no_text_is_slow_to_render() {
    for (name, text) in slow_texts(100_000) {
        let mut c = Conversation::new(&text);
        c.turn(TurnStatus::Finalized);
        c.ask(&text);
        let (md_time, html_time, md, page) = measure(&c);
        assert!(md.bytes > text.len() && page.bytes > 1000, "{name}");
        let limit = Duration::from_secs(20);
        assert!(
            md_time < limit && html_time < limit,
            "{name}: {md_time:?} {html_time:?}"
        );
        if md_time + html_time > Duration::from_secs(1) {
            let figures = format!("{name}: {md_time:?} {html_time:?}\n");
            std::io::Write::write_all(&mut std::io::stderr(), figures.as_bytes()).unwrap();
        }
    }
}
