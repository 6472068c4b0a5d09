//! Runs the built program, for workloads that start it again in further processes, or that need the servers of the
//! tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use filrouge_testbed::third_party::{Unavailable, or_report_untested};
use filrouge_testbed::{OpenSearch, Weaviate};
use serde_json::Value;

const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// The result of a quick run of one workload.
fn run(arguments: &[&str]) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_filrouge-bench"))
        .args(["--quick", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let mut sections: Value = serde_json::from_slice(&out.stdout).unwrap();
    sections[0].take()
}

#[test]
fn eight_processes_write_to_one_store_and_nothing_is_refused() {
    let section = run(&["processes"]);
    for series in section["series"].as_array().unwrap() {
        assert!(series["legs"][0]["per_s"].as_f64() > Some(0.0), "{series}");
    }
}

/// Whether the server is available; otherwise the gate reports that it was not tested.
fn is_available<T>(name: &str, what: &str, server: Result<T, Unavailable>) -> bool {
    or_report_untested(Path::new(ALL), name, what, server).is_some()
}

#[test]
fn projections_into_every_target_are_measured() {
    let mut expected = vec!["tables on SQLite: ", "tables on PostgreSQL: "];
    if is_available(
        "opensearch",
        "OpenSearch",
        OpenSearch::shared(Path::new(ALL)),
    ) {
        expected.push("OpenSearch: ");
    }
    if is_available("weaviate", "Weaviate", Weaviate::shared(Path::new(ALL))) {
        expected.push("Weaviate: ");
    }
    let section = run(&["projections", "--servers", ALL]);
    let lines = section["lines"].as_array().unwrap();
    let named = |name: &str| {
        let is_named = move |line: &&Value| line["what"].as_str().unwrap() == name;
        let line = lines.iter().find(is_named);
        line.unwrap_or_else(|| panic!("{name}: {section}"))
    };
    for place in &expected {
        let rate = named(&format!("{place}items projected a second"));
        assert!(rate["ratio"].as_f64() > Some(0.0), "{rate}");
        for sessions in ["1 session", "32 sessions"] {
            let name = format!("{place}appends to {sessions}, p99 with a projection / without");
            let ratio = named(&name);
            assert!(ratio["ratio"].as_f64() > Some(0.0), "{ratio}");
        }
    }
    if expected.contains(&"Weaviate: ") {
        let recall = named("Weaviate: recall@10 of similar turns / exact vectors");
        assert_eq!(recall["met"], true, "{recall}");
    }
    let compared = lines.iter().filter(|line| {
        let what = line["what"].as_str().unwrap();
        what.ends_with("answered like a scan")
    });
    let mut count = 0;
    for line in compared {
        assert_eq!(line["met"], true, "{line}: {}", section["notes"]);
        count += 1;
    }
    assert_eq!(count > 0, expected.contains(&"OpenSearch: "), "{section}");
}
