//! A parser of Markdown documents that refuses active content.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The extensions of Markdown that readers may have enabled.
fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
}

/// A top-level block of a document.
#[allow(dead_code, reason = "another test binary includes this file")]
pub(crate) struct Block<'a> {
    pub(crate) source: &'a str,
    pub(crate) heading: Option<u8>,
    pub(crate) is_quote: bool,
    pub(crate) code: Option<String>,
}

/// Splits a document into its top-level blocks, and asserts that it contains no active content.
pub(crate) fn blocks(document: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(document, options()).into_offset_iter() {
        match &event {
            Event::Html(_) | Event::InlineHtml(_) => panic!("HTML: {:?}", &document[range]),
            Event::FootnoteReference(_) => panic!("footnote: {:?}", &document[range]),
            Event::Start(Tag::Image { .. }) => panic!("image: {:?}", &document[range]),
            Event::Start(Tag::Link { dest_url, .. }) => {
                let target = dest_url.trim_start().to_ascii_lowercase();
                let safe_schemes = ["http:", "https:", "mailto:"];
                assert!(
                    !target.contains(':') || safe_schemes.iter().any(|s| target.starts_with(s)),
                    "{target}"
                );
            }
            Event::Start(Tag::FootnoteDefinition(_)) => panic!("footnote: {:?}", &document[range]),
            _ => {}
        }
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let heading = if let Tag::Heading { level, .. } = tag {
                        Some(level as u8)
                    } else {
                        None
                    };
                    let is_quote = matches!(tag, Tag::BlockQuote(_));
                    let code = matches!(tag, Tag::CodeBlock(_)).then(String::new);
                    blocks.push(Block {
                        source: &document[range],
                        heading,
                        is_quote,
                        code,
                    });
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth -= 1;
                assert!(
                    depth > 0 || !matches!(tag, TagEnd::Table),
                    "a top-level table"
                );
            }
            Event::Text(text) if depth == 1 => {
                if let Some(code) = blocks.last_mut().and_then(|b| b.code.as_mut()) {
                    code.push_str(&text);
                }
            }
            Event::Rule => assert!(depth > 0, "a top-level rule"),
            _ => {}
        }
    }
    assert!(
        Parser::new_ext(document, options())
            .reference_definitions()
            .iter()
            .next()
            .is_none(),
        "a link reference definition"
    );
    blocks
}
