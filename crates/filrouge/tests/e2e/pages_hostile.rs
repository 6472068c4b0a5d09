//! The corpus of hostile texts on the pages, in a real browser: no script runs, and nothing is requested.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::chromium::RequestListener;
use crate::hostile::{HOSTILE, record};
use crate::http::Client;
use crate::pages_routes::{Ids, pages};
use crate::pages_sample::open;
use crate::pages_shares::share_session;
use crate::search_http::encoded;
use crate::world::{Server, World};

/// The session with hostile attachments, states and reasons.
const MORE: &str = "more";

/// The elements that could act, and what the page's own scripts could be made to load.
const ACTIVE: &str = r"
    for (const details of document.querySelectorAll('details')) details.open = true;
    const own = /^\/(?!\/)|^#|^\?/;
    const acts = (element) => element.matches('iframe, frame, object, embed, base, body style, applet, meta[http-equiv]')
        || element.matches('script:not([src^=\'/ui/assets/\']), link:not([href^=\'/ui/assets/\'])')
        || [...element.attributes].some(({ name, value }) => name.startsWith('on') || name.startsWith('hx-on')
            || /^(data-)?hx-(get|post|put|patch|delete)$/.test(name) && !own.test(value)
            || /^(form)?action$/.test(name) && !own.test(value)
            || /^(xlink:)?href$/.test(name) && /^\s*(javascript|vbscript|data):/i.test(value));
    return [...document.querySelectorAll('*')].filter(acts).map((element) => element.outerHTML.slice(0, 300));";

/// Records the texts where [`record`] does not: as owners, states, names and types of attachments, and reasons.
fn record_more(client: &Client, texts: &[String]) -> String {
    let mut turns = Vec::new();
    let contents = STANDARD.encode("<script>document.title = 'OWNED'</script>");
    for (number, text) in texts.iter().enumerate() {
        let text = text.replace('\0', "");
        let attachments = json!([
            { "type": "file", "filename": text, "data": contents, "mime": "text/html" },
            { "type": "file", "filename": text, "data": contents, "mime": text },
            { "type": "image_url", "data": contents, "mime": "image/svg+xml" },
            { "type": "image_url", "data": contents, "mime": "image/png" },
        ]);
        let attached = json!({ "role": "user", "channel": "observation", "parts": attachments });
        let turn = json!({ "request_id": number.to_string(), "question_neutral": text, "answer_neutral": text,
            "items": [attached] });
        let turn = client.post(&format!("/{MORE}/turns"), &turn).wrote(201);
        turns.push(turn["turn_id"].as_str().unwrap().to_owned());
        let state = json!({ "state": text.chars().take(60).collect::<String>() });
        client.patch(&format!("/{MORE}"), &state).wrote(200);
        if number % 2 == 0 {
            let reason = json!({ "reason": text });
            let path = format!("/{MORE}/turns/{}/redact", turns[number]);
            client.post(&path, &reason).wrote(200);
        }
        let is_header = !text.is_empty() && text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        if is_header && text.len() <= 256 {
            let owned = json!({ "session_id": format!("of-{number}"), "title": text });
            client.for_identity(&text).post("", &owned).wrote(201);
        }
    }
    turns.swap_remove(1)
}

/// Opens a URL, and checks that the page does nothing but show it.
#[track_caller]
fn check(browser: &Browser, server: &Server, url: &str) {
    open(browser, url);
    check_open_page(browser, server);
}

#[track_caller]
fn check_open_page(browser: &Browser, server: &Server) {
    let page = browser.address();
    let active = browser.script(ACTIVE, &[]);
    assert_eq!(active, Value::Array(Vec::new()), "{page}");
    assert_eq!(browser.refused(), Vec::<String>::new(), "{page}");
    let title = browser.script("return document.title", &[]);
    assert_ne!(title, "OWNED", "a script ran on {page}");
    let mut others = browser.requests();
    others.retain(|url| !url.starts_with(server.origin()) && !url.starts_with("data:"));
    assert_eq!(others, Vec::<String>::new(), "{page}");
}

/// Scrolls through a conversation until all its parts are on the page.
fn load_all(browser: &Browser) {
    let is_complete = "(scrollTo(0, document.body.scrollHeight),
        document.querySelector('#conversation [hx-trigger=revealed]') === null)";
    browser.until("the conversation is complete", is_complete, &[]);
}

#[test]
fn hostile_texts_do_not_act_on_any_page() {
    let (world, listener) = (World::on_sqlite(), RequestListener::new());
    let server = world.serve();
    let client = server.client();
    let texts = record(&client, &listener.base());
    let turn = record_more(&client, &texts);
    let browser = Browser::start();
    for session in [HOSTILE, MORE] {
        let ids = Ids {
            session: session.to_owned(),
            turn: turn.clone(),
            shared: share_session(&server, session, "", "hours=1"),
        };
        for (_, target) in pages(&ids) {
            check(&browser, &server, &format!("{}{target}", server.origin()));
        }
        open(
            &browser,
            &format!("{}/ui/sessions/{session}", server.origin()),
        );
        load_all(&browser);
        check_open_page(&browser, &server);
    }
    // The texts as searches, and as ids of sessions, which exist if they can be ids.
    for text in &texts {
        let text = encoded(&text.chars().take(500).collect::<String>());
        for target in [format!("/?q={text}"), format!("/ui/sessions/{text}")] {
            check(&browser, &server, &format!("{}{target}", server.origin()));
        }
    }
    assert_eq!(listener.requests(), Vec::<String>::new());
    server.stop();
}

#[test]
fn a_page_that_acts_is_noticed() {
    let (listener, browser) = (RequestListener::new(), Browser::start());
    let base = listener.base();
    let page = format!(
        "data:text/html,<title>calm</title><img src='{base}/x' onerror='1'><iframe></iframe>\
         <script>document.title = 'OWNED'; fetch('http://other.example/')</script>"
    );
    browser.open(&page);
    assert_eq!(browser.script("return document.title", &[]), "OWNED");
    let active = browser.script(ACTIVE, &[]);
    assert_eq!(active.as_array().unwrap().len(), 3, "{active}");
    let requests = browser.requests();
    for url in [format!("{base}/x"), "http://other.example/".to_owned()] {
        assert!(requests.contains(&url), "{requests:?}");
    }
}
