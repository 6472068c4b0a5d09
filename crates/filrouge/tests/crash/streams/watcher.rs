//! A reader of a session's tail, which receives drafts and items until the server exits.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What one reader received.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) items: Vec<Value>,
    /// The text of each part of a draft, by item id and index of the part.
    pub(super) drafts: BTreeMap<(String, u64), String>,
    /// Each piece of draft text: when it arrived, its turn, and the text.
    pub(super) additions: Vec<(Instant, String, String)>,
}

impl Shown {
    /// Reads from the beginning of the session until the connection ends.
    pub(super) fn run(origin: &str, session: &str) -> Self {
        let mut shown = Self::default();
        // These tests expect broken connections.
        let _ = shown.read(origin, session);
        shown
    }

    fn read(&mut self, origin: &str, session: &str) -> std::io::Result<()> {
        let address = origin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "GET /api/v1/sessions/{session}/items?after=0 HTTP/1.0\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n"
        )?;
        let mut lines = BufReader::new(stream);
        let (mut name, mut data) = (String::new(), Vec::new());
        loop {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => data.push(text.to_owned()),
                // An event counts only once its terminating empty line has arrived.
                None if line == "\n" && !data.is_empty() => {
                    let json = serde_json::from_str(&data.join("\n")).expect("an event is JSON");
                    data.clear();
                    match name.as_str() {
                        "item" => self.items.push(json),
                        "draft" => self.draft(&json),
                        other => panic!("unknown event {other}: {json}"),
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a piece of a draft.
    fn draft(&mut self, event: &Value) {
        let item = event["item_id"].as_str().expect("an item_id").to_owned();
        let part = event["part"].as_u64().expect("a part");
        let text = self.drafts.entry((item, part)).or_default();
        if event["offset"] == 0 {
            text.clear();
        }
        let offset = event["offset"].as_u64();
        assert_eq!(
            offset,
            u64::try_from(text.chars().count()).ok(),
            "the draft has a gap, or a piece twice: {event}"
        );
        let added = event["text"].as_str().expect("a text");
        text.push_str(added);
        let turn = event["turn_id"].as_str().expect("a turn_id");
        self.additions
            .push((Instant::now(), turn.to_owned(), added.to_owned()));
    }
}
