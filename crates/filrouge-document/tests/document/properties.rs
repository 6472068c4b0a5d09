//! Property tests: the documents keep their structure with any texts.

use filrouge_types::{Channel, Role, TurnStatus};
use proptest::prelude::*;
use serde_json::json;

use crate::blocks::blocks;
use crate::elements::check_elements;
use crate::hostile::corpus;
use crate::sample::Conversation;

/// The pieces of which hostile texts are composed.
const PIECES: &[&str] = &[
    "<",
    ">",
    "</",
    "<!--",
    "-->",
    "<b>",
    "</b>",
    "<script>",
    "<div>\n",
    "<?",
    "<!X",
    "<a href=\"",
    "\"",
    "'",
    "`",
    "``",
    "```",
    "````\n",
    "~~~\n",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    "\t",
    "    ",
    " ",
    "#",
    "# ",
    "## x\n",
    "===\n",
    "---\n",
    "- ",
    "* ",
    "1. ",
    "> ",
    ">",
    "|",
    "|-|-|\n",
    "[",
    "]",
    "](",
    "(",
    ")",
    "!",
    "![",
    "[x](javascript:a)",
    "[x](https://h)",
    "![x](https://h)",
    "[x](data:y)",
    "[x]: javascript:z\n",
    "[x]",
    "[^1]",
    "[^1]: n\n",
    "\\",
    "\\\\",
    "&lt;",
    "&#58;",
    "&",
    "javascript:",
    "<javascript:x>",
    "<https://h>",
    "*",
    "**",
    "_",
    "~~",
    "a",
    "word",
    "é",
    "\u{202E}",
    "\0",
    "$",
    ":",
];

/// A text composed of pieces, known hostile texts and random characters.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => proptest::sample::select(corpus("texts")),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A conversation with one turn per text, with the text as title, question, tool name, result and answer.
pub(crate) fn conversation(texts: &[String]) -> Conversation {
    let mut c = Conversation::new(&texts[0]);
    for text in texts {
        c.turn(TurnStatus::Finalized).application.consultant = Some(text.as_str().into());
        c.ask(text).body.agent = Some(text.as_str().into());
        c.add(
            Role::Assistant,
            Channel::ToolCall,
            &json!([{"type": "tool_call", "call_id": text, "name": text, "args": {text: text}}]),
        );
        c.add(
            Role::Tool,
            Channel::ToolResult,
            &json!([{"type": "tool_result", "call_id": text, "ok": true, "content": text}]),
        );
        c.add(
            Role::System,
            Channel::Error,
            &json!([{"type": "error", "code": text, "message": text, "source": text}]),
        );
        c.add(
            Role::User,
            Channel::Observation,
            &json!([
                {"type": "link", "url": text, "title": text},
                {"type": "link", "url": format!("https://h/{text}"), "title": text},
                {"type": "file", "name": text, "media_type": text, "url": text},
                {"type": "code", "language": text, "code": text},
            ]),
        );
        c.answer(text);
    }
    c
}

/// The text in the form that documents show: line ends are line feeds; other control characters and line separators are
/// replaced.
fn visible(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.replace(
        |c: char| {
            matches!(c, '\u{2028}' | '\u{2029}') || (c.is_control() && c != '\n' && c != '\t')
        },
        "\u{fffd}",
    )
}

/// Whether `quoted` is `text` after quote signs, with only backslashes added.
fn is_quoted_form(text: &str, quoted: &str) -> bool {
    let inner: Vec<&str> = quoted
        .lines()
        .map(|l| {
            l.strip_prefix("> ")
                .or_else(|| l.strip_prefix('>'))
                .unwrap_or("not quoted")
        })
        .collect();
    let text = visible(text);
    let lines: Vec<&str> = text
        .strip_suffix('\n')
        .unwrap_or(&text)
        .split('\n')
        .collect();
    lines.len() == inner.len()
        && lines
            .iter()
            .zip(inner)
            .all(|(text, inner)| is_same_line(text, inner))
}

/// Whether `inner` is `text` with only backslashes added.
fn is_same_line(text: &str, inner: &str) -> bool {
    // Tabs at the start of a line have become spaces, so leading whitespace is not compared.
    let mut actual = inner.trim_start_matches([' ', '\t']).chars();
    for expected in text.trim_start_matches([' ', '\t']).chars() {
        loop {
            match actual.next() {
                Some(c) if c == expected => break,
                Some('\\') => {}
                _ => return false,
            }
        }
    }
    actual.next().is_none()
}

/// Asserts that only turns and items have headings, and that the question and the answer of each turn are unchanged.
fn check_markdown(texts: &[String]) {
    let c = conversation(texts);
    let document = c.markdown();
    let blocks = blocks(&document);
    let mut expected = vec![(1, String::new())];
    for (turn, items) in &c.turns {
        expected.push((2, format!("## Turn {} ·", turn.ordinal)));
        // The tool's result is shown below its call.
        expected.extend(
            items
                .iter()
                .filter(|i| i.body.channel != Channel::ToolResult)
                .map(|i| (3, format!("### {} ·", i.seq))),
        );
    }
    let headings: Vec<_> = blocks.iter().filter(|b| b.heading.is_some()).collect();
    assert_eq!(headings.len(), expected.len(), "{document}");
    for (heading, (level, start)) in headings.iter().zip(&expected) {
        assert_eq!(heading.heading, Some(*level));
        assert!(
            heading.source.starts_with(start.as_str()),
            "{:?} does not start with {start:?}",
            heading.source
        );
    }
    for (i, text) in texts.iter().enumerate() {
        let items = &c.turns[i].1;
        for item in [&items[0], &items[5]] {
            let start = format!("### {} ·", item.seq);
            let at = blocks
                .iter()
                .position(|b| b.source.starts_with(&start))
                .unwrap();
            // The blocks of an item are the heading, the line of facts, and the text.
            let block = &blocks[at + 2];
            let is_unchanged = match &block.code {
                Some(code) => code.trim_end_matches('\n') == visible(text).trim_end_matches('\n'),
                None => block.is_quote && is_quoted_form(text, block.source.trim_end_matches('\n')),
            };
            assert!(is_unchanged, "{text:?} is written as {:?}", block.source);
        }
    }
}

fn check_html(texts: &[String]) {
    check_elements(&conversation(texts).html());
}

#[test]
fn known_hostile_texts_stay_in_their_blocks() {
    let all = corpus("texts");
    check_markdown(&all);
    check_html(&all);
    for text in all {
        check_markdown(std::slice::from_ref(&text));
        check_html(&[text]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn markdown_keeps_its_headings_and_texts(texts in proptest::collection::vec(hostile_text(), 1..4)) {
        check_markdown(&texts);
    }

    #[test]
    fn html_keeps_its_elements(texts in proptest::collection::vec(hostile_text(), 1..4)) {
        check_html(&texts);
    }
}
