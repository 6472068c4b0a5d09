//! Drafts in the live tail: a reader gets each character once, whenever it connects.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::tail_client::{Event, Tail};
use crate::upload_client::{Upload, answer_end, calls, chunk, journal, text, text_chunk, turn};
use crate::world::{Server, World};

fn open(server: &Server, path: &str) -> Tail {
    let tail = Tail::open(server.origin(), path, &[]);
    assert_eq!(tail.status(), 200, "{}", tail.head);
    tail
}

/// A reader of a tail, which assembles drafts as `docs/tail.md` describes.
#[derive(Default)]
struct Reader {
    /// The text of each draft, by item id and number of the part.
    texts: BTreeMap<(String, u64), String>,
    items: Vec<Value>,
    drafts: Vec<Value>,
}

impl Reader {
    fn add(&mut self, event: &Event) {
        let json = event.json();
        if event.name == "item" {
            return self.items.push(json);
        }
        assert_eq!((event.name.as_str(), event.id), ("draft", None));
        let part = (
            json["item_id"].as_str().unwrap().to_owned(),
            json["part"].as_u64().unwrap(),
        );
        let text = self.texts.entry(part).or_default();
        if json["offset"] == 0 {
            text.clear();
        }
        assert_eq!(
            json["offset"],
            text.chars().count(),
            "a gap or a repetition: {json}"
        );
        text.push_str(json["text"].as_str().unwrap());
        self.drafts.push(json);
    }

    /// Reads events until `done`.
    fn until(&mut self, tail: &mut Tail, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.add(&tail.next().expect("the stream ended too early"));
        }
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.values().map(String::as_str).collect()
    }

    /// Checks that the assembled drafts equal the texts of the items.
    #[track_caller]
    fn assert_drafts_equal_items(&self) {
        let mut compared = 0;
        for item in &self.items {
            for (part, value) in item["parts"].as_array().unwrap().iter().enumerate() {
                let Some(id) = item["item_id"].as_str() else {
                    continue;
                };
                let text = ["text", "refusal"]
                    .iter()
                    .find_map(|name| value[*name].as_str());
                if let (Some(draft), Some(text)) =
                    (self.texts.get(&(id.to_owned(), part as u64)), text)
                {
                    assert_eq!(draft, text);
                    compared += 1;
                }
            }
        }
        assert!(compared > 0, "no draft of these items: {:?}", self.items);
    }
}

#[test]
fn a_growing_text_is_shown_and_then_the_item() {
    let world = World::new();
    let server = world.serve();
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "&agent=desk");
    let (mut early, mut reader) = (open(&server, "/s/items?after=0"), Reader::default());
    upload.send_text("Tö the \u{1f9f5} \"");
    reader.until(&mut early, |r| r.texts() == ["Tö the \u{1f9f5} \""]);
    let (mut late, mut late_reader) = (open(&server, "/s/items?after=0"), Reader::default());
    late_reader.until(&mut late, |r| r.drafts.len() == 1);
    assert_eq!(late_reader.drafts[0]["offset"], 0);
    assert_eq!(
        late_reader.texts(),
        reader.texts(),
        "a late reader gets all text so far"
    );
    upload.send_text("le\nft");
    reader.until(&mut early, |r| r.drafts.len() == 2);
    assert_eq!(reader.drafts[1]["offset"], 10);
    let first = &reader.drafts[0];
    for (name, value) in [
        ("turn_id", json!(path.rsplit('/').next())),
        ("part", json!(0)),
        ("type", json!("text")),
        ("role", json!("assistant")),
        ("channel", json!("final")),
        ("agent", json!("desk")),
        ("model", json!("m-1")),
        ("done", json!(false)),
    ] {
        assert_eq!(first[name], value, "{name}: {first}");
    }
    upload.send(&(text_chunk(" now.") + &answer_end()));
    upload.end().wrote(200);
    for (tail, reader) in [(&mut early, &mut reader), (&mut late, &mut late_reader)] {
        reader.until(tail, |r| r.items.len() == 2);
        assert_eq!(reader.texts(), ["Tö the \u{1f9f5} \"le\nft now."]);
        reader.assert_drafts_equal_items();
    }
    // A reader that connects after the end gets only items.
    let all = open(&server, "/s/items?after=0").take(2);
    assert!(all.iter().all(|e| e.name == "item"), "{all:?}");
    server.stop();
    world.verify();
}

#[test]
fn a_character_split_by_a_stream_is_shown_once() {
    let world = World::new();
    let server = world.serve();
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "");
    let (mut tail, mut reader) = (open(&server, "/s/items?after=0"), Reader::default());
    let piece = |inner: &str| {
        format!(
            "data: {{\"id\":\"c\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{inner}\"}}}}]}}\n\n"
        )
    };
    upload.send(&piece(r"a\ud83e"));
    reader.until(&mut tail, |r| r.texts() == ["a"]);
    upload.send(&piece(r"\uddf5b"));
    reader.until(&mut tail, |r| r.texts() == ["a\u{1f9f5}b"]);
    upload.send(&answer_end());
    upload.end().wrote(200);
    reader.until(&mut tail, |r| r.items.len() == 2);
    reader.assert_drafts_equal_items();
    server.stop();
}

#[test]
fn a_tool_call_is_shown_while_its_arguments_arrive() {
    let world = World::new();
    let server = world.serve();
    let path = turn(&server.client(), "r");
    let mut upload = Upload::chat(&server, &path, "");
    let (mut tail, mut reader) = (open(&server, "/s/items?after=0"), Reader::default());
    upload.send_text("I look.");
    let begin = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":"}});
    upload.send(&chunk(&json!({"tool_calls": [begin]}), None));
    reader.until(&mut tail, |r| {
        r.drafts.iter().any(|d| d["type"] == "tool_call")
    });
    let call = reader
        .drafts
        .iter()
        .find(|d| d["type"] == "tool_call")
        .unwrap();
    assert_eq!(
        (&call["call_id"], &call["name"]),
        (&json!("c1"), &json!("look"))
    );
    let more = json!({"index": 0, "function": {"arguments": "1}"}});
    upload.send(&chunk(&json!({"tool_calls": [more]}), None));
    upload.send(&calls(&[]));
    assert_eq!(upload.end().wrote(200)["status"], "open");
    reader.until(&mut tail, |r| r.items.len() == 3);
    assert_eq!(reader.items[2]["parts"][0]["args"], json!({"a": 1}));
    server.stop();
}

#[test]
fn another_server_shows_the_drafts_of_a_stream() {
    let world = World::new();
    let (one, two) = (world.serve(), world.serve());
    let path = turn(&one.client(), "r");
    let mut upload = Upload::chat(&one, &path, "");
    let (mut tail, mut reader) = (open(&two, "/s/items?after=0"), Reader::default());
    for n in 0..10 {
        upload.send_text(&format!("word {n} "));
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    reader.until(&mut tail, |r| !r.drafts.is_empty());
    upload.send(&answer_end());
    upload.end().wrote(200);
    reader.until(&mut tail, |r| r.items.len() == 2);
    reader.assert_drafts_equal_items();
    one.stop();
    two.stop();
}

#[test]
fn the_shown_text_of_a_failed_turn_is_its_partial_item() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for (n, cancels) in [(0, false), (1, true)] {
        let path = turn(&client, &format!("r{n}"));
        let after = client.get_body("/s")["last_seq"].clone();
        let mut upload = Upload::chat(&server, &path, "");
        let (mut tail, mut reader) = (
            open(&server, &format!("/s/items?after={after}")),
            Reader::default(),
        );
        upload.send_text("To the le");
        reader.until(&mut tail, |r| !r.drafts.is_empty());
        if cancels {
            client
                .post(&format!("{path}/cancel"), &json!({}))
                .wrote(200);
        } else {
            upload.disconnect();
        }
        reader.until(&mut tail, |r| r.items.len() == 2);
        assert_eq!(reader.items[0]["channel"], "partial");
        assert_eq!(reader.items[0]["item_id"], reader.drafts[0]["item_id"]);
        reader.assert_drafts_equal_items();
    }
    assert_eq!(journal(&client)[1].1, text("To the le"));
    server.stop();
    world.verify();
}

#[test]
fn a_callers_partial_text_never_shortens_the_draft() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    // The caller's partial text, and the partial items that the turn keeps.
    for (n, (given, kept)) in [
        ("To the left, I think", &["To the left, I think"][..]),
        ("long", &["To the le", "long"]),
    ]
    .into_iter()
    .enumerate()
    {
        let path = turn(&client, &format!("r{n}"));
        let after = client.get_body("/s")["last_seq"].clone();
        let mut upload = Upload::chat(&server, &path, "");
        let mut tail = open(&server, &format!("/s/items?after={after}"));
        let mut reader = Reader::default();
        upload.send_text("To the le");
        reader.until(&mut tail, |r| !r.drafts.is_empty());
        let cancel = json!({ "partial_text": given });
        client.post(&format!("{path}/cancel"), &cancel).wrote(200);
        reader.until(&mut tail, |r| r.items.len() == kept.len() + 1);
        for (item, kept) in reader.items.iter().zip(kept) {
            assert_eq!(
                (&item["channel"], &item["parts"]),
                (&json!("partial"), &text(kept))
            );
        }
        assert_eq!(reader.items[0]["item_id"], reader.drafts[0]["item_id"]);
        assert_eq!(reader.items[0]["model"], "m-1");
        assert_eq!(reader.items[kept.len()]["channel"], "cancelled");
        upload.response().is(200);
    }
    server.stop();
    world.verify();
}

#[test]
fn drafts_are_omitted_on_request() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let path = turn(&client, "r");
    let mut upload = Upload::chat(&server, &path, "");
    let mut without_drafts = open(&server, "/s/items?after=0&drafts=false");
    let (mut with_drafts, mut reader) = (
        open(&server, "/s/items?after=0&drafts=true"),
        Reader::default(),
    );
    upload.send_text("Left");
    reader.until(&mut with_drafts, |r| !r.drafts.is_empty());
    upload.send(&answer_end());
    upload.end().wrote(200);
    let seen: Vec<String> = without_drafts.take(2).into_iter().map(|e| e.name).collect();
    assert_eq!(seen, ["item", "item"]);
    client.get("/s/items?drafts=maybe").fails(422, "invalid");
    server.stop();
}

#[test]
fn the_command_line_shows_drafts_on_request() {
    let world = World::new();
    let server = world.serve();
    let path = turn(&server.client(), "r");
    let start = |arguments: &[&str]| {
        let tail = ["sessions", "tail", "s", "--after", "0", "--drafts"];
        let mut child = world
            .command(&[&tail, arguments].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out.lines())
    };
    let (mut json, mut json_lines) = start(&["--json"]);
    let (mut plain, mut plain_lines) = start(&[]);
    let mut upload = Upload::chat(&server, &path, "");
    upload.send_text("To the ");
    let mut line =
        || -> Value { serde_json::from_str(&json_lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(line()["channel"], "question");
    assert_eq!(line()["draft"]["text"], "To the ");
    upload.send(&(text_chunk("left.") + &answer_end()));
    upload.end().wrote(200);
    let rest = line();
    assert!(
        rest["draft"]["text"]
            .as_str()
            .is_some_and(|t| "left.".starts_with(t)),
        "{rest}"
    );
    let mut plain_line = || plain_lines.next().unwrap().unwrap();
    assert!(plain_line().contains("question"));
    // A line with the draft may precede the line of the item.
    let line = plain_line();
    let item = match line.contains('…') {
        true => {
            assert!(line.ends_with("To the left."), "{line}");
            plain_line()
        }
        false => line,
    };
    assert!(
        item.contains("final") && item.ends_with("To the left."),
        "{item}"
    );
    for child in [&mut json, &mut plain] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    server.stop();
}
