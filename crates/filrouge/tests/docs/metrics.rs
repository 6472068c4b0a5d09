//! Compares the table of metrics with a scrape.

use std::collections::BTreeMap;

use crate::page::Page;
use crate::table::rows;
use crate::terminal::PageTerminal;

/// A configuration with which [`COMMANDS`] can reach every counter. A metric with labels appears with its first count.
const CONFIGURATION: &str = r#"
record = "conversation"
metadata_allow = ["channel"]

[limits]
header_timeout_ms = 300
requests_per_second_per_session = 1
requests_burst_per_session = 2

[[webhooks]]
name = "nobody"
url = "http://127.0.0.1:9/"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
max_attempts = 1
from = "beginning"

[[projections]]
name = "nobody"
kind = "opensearch"
url = "http://127.0.0.1:9/"
"#;

/// Commands that make every metric appear.
const COMMANDS: &[&str] = &[
    "curl -s localhost:7717/api/v1/sessions/t/turns -H 'content-type: application/json' -d '{\"request_id\": \"r\", \"question_neutral\": \"redis://:secret@db/0\", \"metadata\": {\"mood\": 1}, \"items\": [{\"item_id\": \"i\", \"role\": \"assistant\", \"channel\": \"thought\", \"parts\": []}]}'",
    "curl -s localhost:7717/api/v1/sessions -H 'content-type: application/json' -d '{\"session_id\": \"s\"}'",
    "curl -s localhost:7717/api/v1/sessions -H 'content-encoding: x' -d '{}'",
    "timeout 30 curl -sN localhost:7717/api/v1/sessions/s/items -H 'accept: text/event-stream' > ~/tail &",
    "until [ -s ~/tail ]; do sleep 0.05; done; curl -s -X DELETE localhost:7717/api/v1/sessions/s; wait",
    "curl -s localhost:7717/api/v1/sessions/{s,s,s,s,s}",
    "exec 3<>/dev/tcp/${address%:*}/${address#*:}; printf 'no http\\r\\n\\r\\n' >&3; cat <&3; exec 3>&-",
    "exec 3<>/dev/tcp/${address%:*}/${address#*:}; printf 'GET / HT' >&3; cat <&3; exec 3>&-",
    "turn=$(curl -s localhost:7717/api/v1/sessions/u/turns -H 'content-type: application/json' -d '{\"request_id\": \"r\", \"question_neutral\": \"?\"}' | grep -o '\"turn_id\":\"[^\"]*\"' | cut -d '\"' -f 4)",
    "curl -s \"localhost:7717/api/v1/sessions/u/turns/$turn/stream?format=anthropic\" -H 'content-type: text/event-stream' -d 'data: x'",
    "curl -s localhost:7717/api/v1/sessions/v/resume -H 'content-type: application/json' -d '{\"holder\": \"a\", \"create\": true}'",
    "curl -s localhost:7717/api/v1/sessions/v/turns -H 'content-type: application/json' -d '{\"request_id\": \"r\", \"question_neutral\": \"?\"}'",
    "until curl -s localhost:7717/metrics | grep webhook_dead_letters_total; do sleep 0.1; done",
];

#[test]
fn the_list_of_metrics_matches_a_scrape() {
    let mut terminal = PageTerminal::new();
    terminal.configure(CONFIGURATION);
    terminal.run("address=localhost:7717");
    let outputs: Vec<_> = COMMANDS.iter().map(|c| terminal.run(c)).collect();
    let scrape = terminal.run("curl -s localhost:7717/metrics");
    let kinds: BTreeMap<&str, &str> = scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let actual: BTreeMap<String, String> = kinds
        .into_iter()
        .map(|(name, kind)| {
            let suffix = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{suffix}"), kind.to_owned())
        })
        .collect();
    let page = Page::read("docs/operations.md");
    let documented: BTreeMap<String, String> = rows(page.text(), "Metrics")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(documented, actual, "the commands printed: {outputs:#?}");
}
