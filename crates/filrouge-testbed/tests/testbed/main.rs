//! Tests of the servers, poolers and network failures that tests of other crates rely on.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cuts;
mod databases;
mod http_servers;
mod pools;
mod processes;
mod redis;
mod servers;
mod third_party;

use postgres::{Client, NoTls};

fn client(url: &str) -> Client {
    Client::connect(url, NoTls).unwrap_or_else(|e| panic!("{url}: {e:?}"))
}

/// Returns the first value of a query. The query is not prepared, so that it also works behind a pooler.
fn query_value(client: &mut Client, query: &str) -> String {
    let messages = client.simple_query(query).expect(query);
    let found = messages.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no value: {query}"))
}

/// Waits until `is_done` returns true, for at most 30 s.
fn wait_until(description: &str, mut is_done: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_done() {
        assert!(
            begun.elapsed().as_secs() < 30,
            "{description}: not within 30 s"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
