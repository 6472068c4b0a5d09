//! Renders untrusted Markdown as inert HTML elements.

use maud::{Markup, PreEscaped, Render, html};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::safe_text::{SafeText, open_listing};
use crate::data::replace_data_except_pictures;
use crate::text::{MAX_DEPTH, MAX_MARKDOWN_BYTES, nests_too_deep, sanitize, without_controls};
use crate::url;

/// The level of the first heading in a text: the document's own headings use the levels 1 and 2.
const FIRST_LEVEL: u8 = 3;

/// Renders `text` as Markdown; as preformatted text if it is too long or nests too deep.
pub(crate) fn render_markdown(text: &str) -> Markup {
    let reduced = replace_data_except_pictures(text);
    let text = without_controls(&reduced);
    if text.len() <= MAX_MARKDOWN_BYTES && !nests_too_deep(&text) {
        let mut out = String::from("<div class=\"text\" dir=\"auto\">");
        let mut renderer = Renderer::new(&mut out);
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        if Parser::new_ext(&text, options).all(|event| renderer.event(event)) {
            out.push_str("</div>");
            return PreEscaped(out);
        }
    }
    html! { pre.plain dir="auto" { (sanitize(&text)) } }
}

/// An image whose description is being read.
struct Image {
    url: String,
    alt: String,
}

struct Renderer<'o> {
    out: &'o mut String,
    depth: usize,
    /// Whether the open link is an `a` element. A link whose address may not be followed is rendered as its label only.
    /// `None` when no link is open; links do not nest.
    link: Option<bool>,
    /// The open images, the outermost first.
    images: Vec<Image>,
    /// The level of the newest heading; the next one is at most one level deeper.
    heading: u8,
    aligns: Vec<Alignment>,
    cell_index: usize,
    in_table_head: bool,
}

impl<'o> Renderer<'o> {
    fn new(out: &'o mut String) -> Self {
        Self {
            out,
            depth: 0,
            link: None,
            images: Vec::new(),
            heading: FIRST_LEVEL - 1,
            aligns: Vec::new(),
            cell_index: 0,
            in_table_head: false,
        }
    }

    /// Renders one event; `false` when the text nests too deep.
    fn event(&mut self, event: Event<'_>) -> bool {
        if let Some(image) = self.images.last_mut() {
            match &event {
                Event::Text(t) | Event::Code(t) | Event::InlineHtml(t) => image.alt.push_str(t),
                Event::SoftBreak | Event::HardBreak => image.alt.push(' '),
                _ => {}
            }
        }
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return false;
                }
                self.start(tag);
            }
            Event::End(tag) => {
                self.depth -= 1;
                self.end(tag);
            }
            _ if !self.images.is_empty() => {}
            // A character reference such as `&#27;` represents a control character that the Markdown did not contain.
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                sanitize(&text).render_to(self.out);
            }
            Event::Code(text) => {
                self.out.push_str("<code>");
                sanitize(&text).render_to(self.out);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => {
                let mark = if done { '☑' } else { '☐' };
                self.out
                    .push_str(&format!("<span class=\"task\">{mark}</span> "));
            }
            // These events occur only with extensions that are off.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                text.render_to(self.out);
            }
        }
        true
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Image { dest_url, .. } => self.images.push(Image {
                url: dest_url.into_string(),
                alt: String::new(),
            }),
            _ if !self.images.is_empty() => {}
            Tag::Link { dest_url, .. } => self.open_link(&dest_url),
            Tag::Heading { level, .. } => {
                let level = (level as u8 + FIRST_LEVEL - 1)
                    .min(self.heading + 1)
                    .min(HeadingLevel::H6 as u8);
                self.heading = level;
                self.out.push_str(&format!("<h{level}>"));
            }
            Tag::CodeBlock(kind) => self.open_code(&kind),
            Tag::List(Some(first)) => self.out.push_str(&format!("<ol start=\"{first}\">")),
            Tag::Table(aligns) => {
                self.aligns = aligns;
                self.out.push_str("<div class=\"table\"><table>");
            }
            Tag::TableHead => {
                (self.in_table_head, self.cell_index) = (true, 0);
                self.out.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.cell_index = 0;
                self.out.push_str("<tr>");
            }
            Tag::TableCell => self.open_cell(),
            tag => self.out.push_str(simple_start(&tag)),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Image => self.close_image(),
            _ if !self.images.is_empty() => {}
            TagEnd::Link => {
                if self.link.take() == Some(true) {
                    self.out.push_str("</a>");
                }
            }
            TagEnd::Heading(_) => {
                let level = self.heading;
                self.out.push_str(&format!("</h{level}>"));
            }
            TagEnd::TableHead => {
                self.in_table_head = false;
                self.out.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableCell => {
                self.out
                    .push_str(if self.in_table_head { "</th>" } else { "</td>" });
            }
            tag => self.out.push_str(simple_end(&tag)),
        }
    }

    fn open_link(&mut self, target: &str) {
        let target = url::followable(target);
        self.link = Some(target.is_some());
        if let Some(target) = target {
            self.out.push_str("<a href=\"");
            target.render_to(self.out);
            self.out
                .push_str("\" rel=\"noopener noreferrer nofollow\">");
        }
    }

    fn open_code(&mut self, kind: &CodeBlockKind<'_>) {
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
            CodeBlockKind::Indented => "",
        };
        open_listing(&sanitize(language), self.out);
    }

    fn open_cell(&mut self) {
        self.out
            .push_str(if self.in_table_head { "<th" } else { "<td" });
        self.out.push_str(match self.aligns.get(self.cell_index) {
            Some(Alignment::Center) => " class=\"center\">",
            Some(Alignment::Right) => " class=\"end\">",
            _ => ">",
        });
        self.cell_index += 1;
    }

    /// Shows an image if that is safe; otherwise a link to it, or only its label.
    fn close_image(&mut self) {
        let Some(image) = self.images.pop() else {
            return;
        };
        if let Some(outer) = self.images.last_mut() {
            outer.alt.push_str(&image.alt);
            return;
        }
        if let Some(source) = url::picture(&image.url) {
            let picture = html! { img src=(source) alt=(SafeText(&image.alt)); };
            return picture.render_to(self.out);
        }
        let label = if image.alt.is_empty() {
            url::label(&image.url)
        } else {
            image.alt
        };
        // An image inside a link becomes only its label, because links do not nest.
        if self.link.is_some() {
            return sanitize(&label).render_to(self.out);
        }
        self.open_link(&image.url);
        sanitize(&label).render_to(self.out);
        self.end(TagEnd::Link);
    }
}

fn simple_start(tag: &Tag<'_>) -> &'static str {
    match tag {
        Tag::Paragraph => "<p>",
        Tag::BlockQuote(_) => "<blockquote>",
        Tag::List(None) => "<ul>",
        Tag::Item => "<li>",
        Tag::Emphasis => "<em>",
        Tag::Strong => "<strong>",
        Tag::Strikethrough => "<del>",
        Tag::HtmlBlock => "<pre class=\"plain\" dir=\"auto\">",
        _ => "",
    }
}

fn simple_end(tag: &TagEnd) -> &'static str {
    match tag {
        TagEnd::Paragraph => "</p>",
        TagEnd::BlockQuote(_) => "</blockquote>",
        TagEnd::CodeBlock => "</code></pre>",
        TagEnd::HtmlBlock => "</pre>",
        TagEnd::List(true) => "</ol>",
        TagEnd::List(false) => "</ul>",
        TagEnd::Item => "</li>",
        TagEnd::Table => "</tbody></table></div>",
        TagEnd::TableRow => "</tr>",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        TagEnd::Strikethrough => "</del>",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> String {
        let out = render_markdown(text).into_string();
        out.replace("<div class=\"text\" dir=\"auto\">", "")
            .replace("</div>", "")
    }

    #[test]
    fn html_is_text() {
        assert_eq!(
            render("a <b onclick=x>&amp;</b>"),
            "<p>a &lt;b onclick=x&gt;&amp;&lt;/b&gt;</p>"
        );
        assert_eq!(
            render("<script>\nx</script>"),
            "<pre class=\"plain\" dir=\"auto\">&lt;script&gt;\nx&lt;/script&gt;</pre>"
        );
    }

    #[test]
    fn character_references_give_no_control_characters() {
        assert_eq!(
            render("&#27;[2J&#x9b;x&#x2028;y"),
            "<p>\u{fffd}[2J\u{fffd}x\u{fffd}y</p>"
        );
        assert_eq!(
            render("```a&#27;\nb\n```\n![c&#27;](https://d)"),
            "<pre dir=\"ltr\"><code data-language=\"a\u{fffd}\">b\n</code></pre>\
             <p><a href=\"https://d\" rel=\"noopener noreferrer nofollow\">c\u{fffd}</a></p>"
        );
    }

    #[test]
    fn links_and_images_are_rendered_safely() {
        assert_eq!(
            render("[a](https://b?\"x) [c](javascript:d)"),
            "<p><a href=\"https://b?&quot;x\" rel=\"noopener noreferrer nofollow\">a</a> c</p>"
        );
        assert_eq!(
            render("![a *b*](data:image/png;base64,AA==)"),
            "<p><img src=\"data:image/png;base64,AA==\" alt=\"a b\"></p>"
        );
        assert_eq!(render("![a](data:image/svg+xml;base64,AA==)"), "<p>a</p>");
        assert_eq!(
            render("[![i](https://i)](https://l)"),
            "<p><a href=\"https://l\" rel=\"noopener noreferrer nofollow\">i</a></p>"
        );
        assert_eq!(
            render("![x [y](https://z) ![w](https://v)](javascript:u)"),
            "<p>x y w</p>"
        );
    }

    #[test]
    fn headings_skip_no_level() {
        assert_eq!(
            render("### a\n# b\n## c\n###### d"),
            "<h3>a</h3><h3>b</h3><h4>c</h4><h5>d</h5>"
        );
    }

    #[test]
    fn tables_and_tasks_need_no_style_and_no_input() {
        assert_eq!(
            render("|a|b|\n|:-:|-:|\n|1|2|"),
            "<div class=\"table\"><table><thead><tr><th class=\"center\">a</th><th class=\"end\">b</th></tr></thead>\
             <tbody><tr><td class=\"center\">1</td><td class=\"end\">2</td></tr></tbody></table>"
        );
        assert_eq!(
            render("- [x] a"),
            "<ul><li><span class=\"task\">☑</span> a</li></ul>"
        );
    }

    #[test]
    fn text_that_nests_too_deep_is_preformatted() {
        assert!(
            render(&">".repeat(10_000)).starts_with("<pre class=\"plain\" dir=\"auto\">&gt;&gt;")
        );
        let stars = format!("{}x{}", "*a ".repeat(200), " b*".repeat(200));
        assert!(render(&stars).starts_with("<pre"));
        assert_eq!(
            render(&"x".repeat(MAX_MARKDOWN_BYTES + 1)).len(),
            MAX_MARKDOWN_BYTES + 1 + 36
        );
    }
}
