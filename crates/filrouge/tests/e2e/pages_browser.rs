//! The pages in a real browser: what people do with them.

use std::ops::Range;

use serde_json::{Value, json};

use crate::browser::{Browser, ENTER};
use crate::caller::{Caller, key};
use crate::http::{Client, text_item};
use crate::world::{Server, World};

/// What a page shows while it does not reach the server.
const LOST: &str = "The connection to the server is lost";

fn record_turn(client: &Client, session: &str, question: &str, answer: &str) -> Value {
    let turn =
        json!({ "request_id": question, "question_neutral": question, "answer_neutral": answer });
    client.post(&format!("/{session}/turns"), &turn).wrote(201)
}

/// Starts a turn; returns the path of its items.
fn start_turn(client: &Client, session: &str, question: &str) -> String {
    let turn = json!({ "request_id": question, "question_neutral": question });
    let turn = client.post(&format!("/{session}/turns"), &turn).wrote(201);
    format!(
        "/{session}/turns/{}/items",
        turn["turn_id"].as_str().unwrap()
    )
}

/// Appends an item with a text.
fn append(client: &Client, items: &str, text: &str) {
    let item = text_item(text, "assistant", "observation", text);
    client.post(items, &json!({ "items": [item] })).wrote(201);
}

/// Appends an item with each of these seqs.
fn append_waves(client: &Client, items: &str, seqs: Range<u64>) {
    let wave = |seq: u64| {
        let text = format!("wave {seq}");
        text_item(&text, "assistant", "observation", &text)
    };
    let waves: Vec<Value> = seqs.map(wave).collect();
    client.post(items, &json!({ "items": waves })).wrote(201);
}

fn conversation(server: &Server, session: &str) -> String {
    format!("{}/ui/sessions/{session}", server.origin())
}

/// The seqs of the items on the page, in its order.
fn seqs(browser: &Browser) -> Vec<u64> {
    let script = r"
        const ids = [...document.querySelectorAll('#conversation [id^=seq-]')].map((e) => e.id);
        return ids.filter((id) => /^seq-\d+$/.test(id)).map((id) => Number(id.slice(4)));";
    serde_json::from_value(browser.script(script, &[])).unwrap()
}

/// Waits until an item is on the page, with its text, even if it is folded.
#[track_caller]
fn until_recorded(browser: &Browser, seq: u64, text: &str) {
    let has = "document.querySelector(arguments[0])?.textContent.includes(arguments[1])";
    let arguments = [json!(format!("#seq-{seq}")), json!(text)];
    browser.until(&format!("item {seq} has {text:?}"), has, &arguments);
}

/// Waits until an item is in the window.
#[track_caller]
fn until_in_view(browser: &Browser, seq: u64) {
    let in_view = "(() => {
        const place = document.querySelector(arguments[0])?.getBoundingClientRect();
        return place && place.bottom > 0 && place.top < innerHeight;
    })()";
    let item = json!(format!("#seq-{seq}"));
    browser.until(&format!("item {seq} is in view"), in_view, &[item]);
}

#[test]
fn a_session_is_found_by_what_was_said_in_it_and_read() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    record_turn(
        &client,
        "ferry",
        "When does it leave?",
        "At seven, from pier nine.",
    );
    record_turn(&client, "bus", "When does it leave?", "It is late.");
    let browser = Browser::start();
    browser.open(server.origin());
    browser.until_exists("main a[href^='/ui/sessions/bus']");
    browser.press("/");
    let is_focused = "document.activeElement.matches('[role=searchbox]')";
    browser.until("the search box has the focus", is_focused, &[]);
    browser.enter("[role=searchbox]", "pier nine");
    browser.press(ENTER);
    let found = "location.search.includes('pier') && document.querySelector('main a[href^=\"/ui/sessions/ferry\"]') !== null";
    browser.until("the session is found", found, &[]);
    assert_eq!(browser.count("main a[href^='/ui/sessions/bus']"), 0);
    browser.click("main a[href^='/ui/sessions/ferry']");
    browser.until_shown("At seven, from pier nine.");
    let path = browser.script("return location.pathname", &[]);
    assert_eq!(path, "/ui/sessions/ferry");
    assert_eq!(browser.refused(), Vec::<String>::new());
    let other = |url: &String| !url.starts_with(server.origin()) && !url.starts_with("data:");
    let requests = browser.requests();
    assert!(requests.len() > 3, "{requests:?}");
    assert!(!requests.iter().any(other), "{requests:?}");
    server.stop();
}

#[test]
fn a_page_follows_a_running_turn_and_does_not_jump() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let items = start_turn(&client, "s", "When does the ferry leave?");
    append_waves(&client, &items, 2..62);
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    until_recorded(&browser, 61, "wave 61");
    // A reader at the beginning of a long page.
    let place = "return document.querySelector('#seq-2').getBoundingClientRect().top";
    let before = browser.script(place, &[]);
    append(&client, &items, "The timetable is on the pier.");
    until_recorded(&browser, 62, "The timetable is on the pier.");
    let answer = json!({ "answer_neutral": "At seven." });
    let turn = items.trim_end_matches("/items");
    client.post(&format!("{turn}/finalize"), &answer).wrote(200);
    until_recorded(&browser, 63, "At seven.");
    assert_eq!(seqs(&browser), Vec::from_iter(1..=63_u64));
    assert_eq!(browser.script(place, &[]), before, "the page jumped");
    assert_eq!(browser.refused(), Vec::<String>::new());
    server.stop();
}

#[test]
fn a_live_result_is_shown_below_its_call_as_on_a_loaded_page() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let items = start_turn(&client, "s", "Where does it lead?");
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    let call = json!({ "item_id": "calls", "role": "assistant", "channel": "tool_call", "parts": [
        { "type": "tool_call", "call_id": "1", "name": "follow", "args": { "steps": 3 } },
        { "type": "tool_call", "call_id": "2", "name": "look", "args": {} },
    ] });
    client.post(&items, &json!({ "items": [call] })).wrote(201);
    until_recorded(&browser, 2, "follow");
    let open = "document.querySelector('#seq-2 details.call').open = true";
    browser.script(open, &[]);
    for (id, text) in [("2", "a wall"), ("1", "an exit")] {
        let result = json!({ "item_id": text, "role": "tool", "channel": "tool_result", "parts": [
            { "type": "tool_result", "call_id": id, "ok": true, "content": text },
        ] });
        client
            .post(&items, &json!({ "items": [result] }))
            .wrote(201);
        until_recorded(&browser, 2, text);
    }
    let is_open = "return document.querySelector('#seq-2 details.call').open";
    assert_eq!(
        browser.script(is_open, &[]),
        true,
        "what is open stays open"
    );
    let shown = "return [...document.querySelectorAll('#conversation .item')].map((item) => {
        item.querySelectorAll('details').forEach((block) => { block.open = false; });
        return item.outerHTML;
    });";
    let live = browser.script(shown, &[]);
    browser.open(&conversation(&server, "s"));
    until_recorded(&browser, 2, "an exit");
    assert_eq!(browser.script(shown, &[]), live);
    server.stop();
}

#[test]
fn a_page_shows_that_the_server_is_lost_and_continues_exactly() {
    let world = World::on_sqlite();
    let mut server = world.serve();
    let address = server.origin().strip_prefix("http://").unwrap().to_owned();
    let client = server.client();
    let items = start_turn(&client, "s", "What do you see?");
    append(&client, &items, "a pier");
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    append(&client, &items, "a gull");
    until_recorded(&browser, 3, "a gull");
    server.kill();
    browser.until_shown(LOST);
    let server = world.serve_with_env(&[("FILROUGE_LISTEN", &address)], &[]);
    let client = server.client();
    for text in ["a boat", "a lamp", "a rope"] {
        append(&client, &items, text);
    }
    until_recorded(&browser, 6, "a rope");
    let is_back = "!document.body.innerText.includes(arguments[0])";
    browser.until("the page is connected again", is_back, &[json!(LOST)]);
    append(&client, &items, "a dog");
    until_recorded(&browser, 7, "a dog");
    assert_eq!(seqs(&browser), Vec::from_iter(1..=7_u64));
    server.stop();
}

#[test]
fn a_permalink_opens_a_long_session_at_its_item() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let items = start_turn(&client, "long", "Count the waves.");
    for batch in 0..12 {
        let first = 2 + batch * 100;
        append_waves(&client, &items, first..first + 100);
    }
    let browser = Browser::start();
    browser.open(&format!("{}?at=900#seq-900", conversation(&server, "long")));
    until_in_view(&browser, 900);
    until_recorded(&browser, 900, "wave 900");
    assert!(
        !seqs(&browser).contains(&2),
        "a part of the session is loaded"
    );
    // The link of an item opens it elsewhere.
    let link = "return document.querySelector('#seq-903 a[href$=\"#seq-903\"]').href";
    let link = browser.script(link, &[]);
    browser.open(link.as_str().unwrap());
    until_in_view(&browser, 903);
    // What is before it is loaded when the reader gets there.
    let first = seqs(&browser)[0];
    browser.script("scrollTo(0, 0)", &[]);
    until_recorded(&browser, first - 1, "wave");
    let loaded = seqs(&browser);
    let is_in_order = loaded.windows(2).all(|pair| pair[1] == pair[0] + 1);
    assert!(is_in_order, "{loaded:?}");
    server.stop();
}

#[test]
fn a_replaced_turn_is_shown_with_its_replacement() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let turn = record_turn(
        &client,
        "s",
        "When does it leave?",
        "At six, from pier nine.",
    );
    let old = turn["turn_id"].as_str().unwrap();
    let replacement = json!({ "request_id": "corrected", "question_neutral": "When does it leave?",
        "answer_neutral": "At seven, from pier nine." });
    let path = format!("/s/turns/{old}/replace");
    let new = client.post(&path, &replacement).wrote(201);
    let new = new["first_seq"].as_u64().unwrap();
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    browser.until_shown("At seven, from pier nine.");
    let text = "document.getElementById(arguments[0])?.textContent";
    let text = browser.until("the old turn", text, &[json!(format!("turn-{old}"))]);
    let text = text.as_str().unwrap();
    assert!(
        text.contains("replaced") && text.contains("At six"),
        "{text}"
    );
    // A link leads to the new turn.
    let link = format!("#conversation .replaced a[href$='#seq-{new}']");
    browser.until_exists(&link);
    server.stop();
}

#[test]
fn a_session_is_verified_on_a_click() {
    let world = World::on_sqlite();
    let server = world.serve();
    record_turn(&server.client(), "s", "When does it leave?", "At seven.");
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    browser.click("a[href$='/s/verify']");
    browser.until_exists("[data-verdict=intact]");
    // The result is a part of the page.
    assert_eq!(browser.address(), conversation(&server, "s"));
    browser.until_shown("At seven.");
    server.stop();
}

#[test]
fn a_turn_is_redacted_after_a_preview() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let turn = record_turn(&client, "s", "Who called?", "Mrs. Harbour.");
    record_turn(&client, "s", "When?", "At seven.");
    let id = turn["turn_id"].as_str().unwrap();
    let browser = Browser::start();
    browser.open(&conversation(&server, "s"));
    browser.click("a[href$='/s/redact']");
    browser.click(&format!("a[href$='/s/redact?turn={id}']"));
    // The preview has changed nothing.
    browser.until_shown("Mrs. Harbour.");
    let path = format!("/s/turns/{id}");
    assert_eq!(client.get_body(&path)["answer_neutral"], "Mrs. Harbour.");
    browser.enter("[name=reason]", "names a person");
    browser.click("main form[method=post] [type=submit]");
    let is_done = "location.pathname === '/ui/sessions/s/redacted'";
    browser.until("the receipt is shown", is_done, &[]);
    browser.click("main a[href='/ui/sessions/s']");
    browser.until_shown("At seven.");
    let shown = browser.script("return document.body.textContent", &[]);
    assert!(!shown.as_str().unwrap().contains("Harbour"), "{shown}");
    assert_eq!(client.get_body(&path)["answer_neutral"], Value::Null);
    server.stop();
    world.verify();
}

/// Signs in with a key.
fn sign_in(browser: &Browser, key: &str) {
    browser.enter("[name=key]", key);
    browser.click("form[action='/ui/sign-in'] [type=submit]");
}

#[test]
fn people_sign_in_with_a_key_see_their_sessions_and_sign_out() {
    let world = World::on_sqlite();
    let keys = ["ada", "bob"].map(|name| key(&world, &["--role", "user", "--identity", name]));
    let server = world.serve();
    for (key, session) in keys.iter().zip(["hers", "his"]) {
        let caller = Caller::with_credentials(&server, key);
        let answer = format!("Only {session}.");
        let turn =
            json!({ "request_id": "r", "question_neutral": session, "answer_neutral": answer });
        caller.post(&format!("/{session}/turns"), &turn).wrote(201);
    }
    let browser = Browser::start();
    browser.open(&conversation(&server, "hers"));
    sign_in(&browser, "frk_wrong_key");
    browser.until_exists("[role=alert]");
    browser.open(&conversation(&server, "hers"));
    sign_in(&browser, &keys[0]);
    // The page that asked for the key.
    browser.until_shown("Only hers.");
    assert_eq!(browser.script("return document.cookie", &[]), "");
    browser.open(server.origin());
    browser.until_exists("main a[href^='/ui/sessions/hers']");
    assert_eq!(browser.count("a[href^='/ui/sessions/his']"), 0);
    browser.open(&conversation(&server, "his"));
    assert!(!browser.text("body").contains("Only his."));
    browser.open(server.origin());
    browser.click("form[action='/ui/sign-out'] [type=submit]");
    browser.until_exists("[name=key]");
    browser.open(&conversation(&server, "hers"));
    browser.until_exists("[name=key]");
    assert!(!browser.text("body").contains("Only hers."));
    sign_in(&browser, &keys[1]);
    browser.open(&conversation(&server, "his"));
    browser.until_shown("Only his.");
    server.stop();
}
