//! Tests of the HTML document in a real browser.

use std::path::PathBuf;
use std::process::Command;

use filrouge_types::{Channel, Role, TurnStatus};
use serde_json::json;

use crate::chromium::{RequestListener, browse, program};
use crate::elements::check_elements;
use crate::hostile::corpus;
use crate::properties::conversation;
use crate::sample::{Conversation, small};

/// Hosts that the browser contacts without a request of a page. No page of these tests names them.
const OWN_HOSTS: [&str; 3] = ["*.google.com", "*.googleapis.com", "*.gstatic.com"];

/// Arguments that print the page's DOM after its scripts ran.
const DUMP_DOM: [&str; 2] = ["--dump-dom", "--virtual-time-budget=3000"];

/// Writes the page to the folder and returns its path.
fn save(folder: &tempfile::TempDir, html: &str) -> PathBuf {
    let path = folder.path().join("page.html");
    std::fs::write(&path, html).unwrap();
    path
}

/// A page with every hostile text, aimed at `base`, at every place where a text can occur.
fn hostile_page(base: &str) -> String {
    let texts = corpus("texts");
    let mut texts: Vec<String> = texts.iter().map(|t| t.replace("{BASE}", base)).collect();
    texts.push("W".repeat(20_000));
    texts.push(texts.concat());
    conversation(&texts).html()
}

/// An unprotected page with the effects that the hostile texts attempt.
fn unprotected_page(base: &str) -> String {
    format!(
        "<!DOCTYPE html><title>calm</title><img src='{base}/img'><iframe src='https://other.example/frame'></iframe>\
         <script>document.title = 'OWNED'; fetch('{base}/fetch')</script>"
    )
}

#[test]
fn hostile_texts_have_no_effect() {
    let (folder, listener) = (tempfile::tempdir().unwrap(), RequestListener::new());
    let dom = browse(&save(&folder, &hostile_page(&listener.base())), &DUMP_DOM);
    check_elements(&dom);
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|t| t.split("</title>").next())
        .unwrap();
    assert!(title.starts_with("&lt;script&gt;"), "{title}");
    assert!(
        dom.contains("WWWW") && dom.contains("Turn 37"),
        "the page is incomplete"
    );
    assert_eq!(listener.requests(), Vec::<String>::new());
}

#[test]
fn a_page_sends_no_request_to_a_proxy_or_to_any_host_name() {
    let folder = tempfile::tempdir().unwrap();
    // The listener is the browser's proxy, or the address of every host name.
    for by_proxy in [true, false] {
        let listener = RequestListener::new();
        let proxy = format!("--proxy-server={}", listener.base());
        let bypass = format!("--proxy-bypass-list=<-loopback>;{}", OWN_HOSTS.join(";"));
        let own_rules: String = OWN_HOSTS
            .iter()
            .map(|h| format!("MAP {h} ~NOTFOUND,"))
            .collect();
        let without_own = format!("--host-resolver-rules={own_rules}");
        let all_names = format!("{without_own}MAP * 127.0.0.1:{}", listener.port);
        let rules: &[&str] = if by_proxy {
            &[&proxy, &bypass, &without_own]
        } else {
            &[&all_names]
        };
        let page = save(&folder, &hostile_page("http://evil.example"));
        browse(&page, &[rules, &DUMP_DOM].concat());
        assert_eq!(
            listener.requests(),
            Vec::<String>::new(),
            "by_proxy = {by_proxy}"
        );
        // As a control, the same listener records requests of an unprotected page.
        browse(
            &save(&folder, &unprotected_page("http://evil.example")),
            &[rules, &DUMP_DOM].concat(),
        );
        assert!(
            !listener.requests().is_empty(),
            "the listener recorded no request of the control, by_proxy = {by_proxy}"
        );
    }
}

#[test]
fn the_checks_reject_an_unprotected_page() {
    let (folder, listener) = (tempfile::tempdir().unwrap(), RequestListener::new());
    let dom = browse(
        &save(&folder, &unprotected_page(&listener.base())),
        &DUMP_DOM,
    );
    assert!(dom.contains("<title>OWNED</title>"), "{dom}");
    assert!(std::panic::catch_unwind(|| check_elements(&dom)).is_err());
    assert!(
        listener.requests().iter().any(|h| h.starts_with("GET /")),
        "{:?}",
        listener.requests()
    );
}

#[test]
fn the_policy_allows_the_style_sheet() {
    // A page without its style sheet has the browser's default layout, so its screenshot differs.
    let folder = tempfile::tempdir().unwrap();
    let dom = small().html();
    let page = save(&folder, &dom);
    let image = folder.path().join("page.png");
    let screenshot = |page: &PathBuf| {
        browse(
            page,
            &[
                &format!("--screenshot={}", image.display()),
                "--window-size=800,600",
            ],
        );
        std::fs::read(&image).unwrap()
    };
    let styled = screenshot(&page);
    // The browser refuses a style sheet whose hash is not the one in the policy.
    let hash = dom.find("sha256-").unwrap() + 7;
    let mut unstyled = dom.clone();
    unstyled.replace_range(hash..hash + 4, "AAAA");
    assert!(
        styled != screenshot(&save(&folder, &unstyled)),
        "the policy refused the style sheet"
    );
}

#[test]
fn print_opens_folded_blocks() {
    let mut c = small();
    c.turn(TurnStatus::Finalized);
    c.ask("And once more?");
    let lines: String = (0..150)
        .map(|n| format!("line {n} of a long listing\n"))
        .collect();
    c.add(
        Role::Assistant,
        Channel::ToolCall,
        &json!([{"type": "tool_call", "call_id": "z", "name": "long", "args": {}}]),
    );
    c.add(
        Role::Tool,
        Channel::ToolResult,
        &json!([{"type": "tool_result", "call_id": "z", "ok": true, "content": lines}]),
    );
    let text = print(&c);
    let folded = [
        "Rounding per line or per total?",
        "propose a change",
        "pub fn total(lines",
        "right: 2000",
        "edit_file",
    ];
    let others = [
        "What is 2 + 2?",
        "line 0 of a",
        "line 149 of a",
        "(https://example.org/rounding?mode=half-even)",
    ];
    for word in folded.iter().chain(&others) {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
    assert_eq!(
        text.matches("What is 2 + 2?").count(),
        2,
        "the question must be printed in the replaced turn and in its replacement"
    );
    let text = text.replace(' ', "");
    let pages = text.matches('\u{c}').count();
    assert!(
        pages > 6 && text.contains(&format!("1/{pages}")),
        "{pages} pages, with wrong page numbers or too few"
    );
}

#[test]
fn attachments_and_bookkeeping_do_not_fill_pages() {
    let mut c = crate::attachments::conversation_with_data(300_000);
    for n in 0..20 {
        c.add(
            Role::System,
            Channel::SystemNote,
            &json!([{"type": "step-start", "id": format!("prt_{n}"), "n": [1, 2, 3, 4]}]),
        );
    }
    let text = print(&c);
    let pages = text.matches('\u{c}').count();
    assert!(pages <= 5, "{pages} pages\n{text}");
    assert!(
        text.contains("step-start") && !text.contains("prt_7"),
        "{text}"
    );
}

/// Prints the conversation as a PDF and returns the text of its pages. A form feed ends each page.
fn print(c: &Conversation) -> String {
    let folder = tempfile::tempdir().unwrap();
    let page = save(&folder, &c.html());
    let pdf = folder.path().join("page.pdf");
    browse(
        &page,
        &[
            &format!("--print-to-pdf={}", pdf.display()),
            "--no-pdf-header-footer",
        ],
    );
    let reader = program(&["pdftotext"], "poppler-utils");
    let out = Command::new(reader)
        .arg("-layout")
        .arg(&pdf)
        .arg("-")
        .output()
        .unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}
