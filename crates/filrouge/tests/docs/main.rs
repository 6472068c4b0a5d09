//! Checks the documents: runs every `console` block as written, page by page, and compares every table that the program
//! can produce with the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod errors;
mod links;
mod metrics;
mod named_tests;
mod page;
mod servers;
mod settings;
mod table;
mod terminal;

use page::{Page, PageStep};
use servers::StandIns;
use terminal::PageTerminal;

/// Pages without a `console` block: references, which are not run.
const REFERENCES: &[&str] = &[
    "docs/README.md",
    "docs/bench.md",
    "docs/bench-projections.md",
    "docs/bench-search.md",
    "docs/bench-sources.md",
    "docs/capacity.md",
    "docs/context.md",
    "docs/design.md",
    "docs/format.md",
    "docs/glossary.md",
    "docs/history-contract.md",
    "docs/pages.md",
    "docs/postgresql.md",
    "docs/python-adk.md",
    "docs/python-history-contract.md",
    "docs/python-langchain.md",
    "docs/python-langgraph.md",
    "docs/python-openai-agents.md",
    "docs/python-persistence.md",
    "docs/python-pydantic-ai.md",
    "docs/python-record.md",
    "docs/python-voice.md",
    "docs/python.md",
    "docs/scaling.md",
    "docs/spool.md",
];

/// Runs a page from its first command to its last, in its own home and with its own server. Where one of the other
/// programs' servers that it needs is unavailable, the page is reported as skipped.
fn run_page(name: &str, servers: &[fn() -> Option<StandIns>]) {
    let page = Page::read(name);
    let steps = page.steps();
    assert!(!steps.is_empty(), "{name} has no console block");
    let stand_ins: Option<Vec<_>> = servers.iter().map(|server| server()).collect();
    let Some(stand_ins) = stand_ins else { return };
    let mut terminal = PageTerminal::new();
    terminal.stand_ins = stand_ins.concat();
    for step in steps {
        match step {
            PageStep::Configure { text, .. } => terminal.configure(&text),
            PageStep::Run {
                line,
                command,
                output,
            } => {
                let printed = terminal.run(&command);
                assert!(
                    page::matches(&output, &printed),
                    "{name}:{line}\n$ {command}\nshould print:\n{output}\nbut prints:\n{printed}"
                );
            }
        }
    }
}

/// Defines a test for each page, which runs it. The name of a server in [`servers`] follows if the page needs it.
macro_rules! pages {
    ($($test:ident $name:literal $($server:ident)?;)+) => {
        const RUN: &[&str] = &[$($name),+];
        $(#[test] fn $test() { run_page($name, &[$(servers::$server)?]); })+
    };
}

pages! {
    readme "README.md";
    access "docs/access.md";
    api "docs/api.md";
    audit "docs/audit.md";
    changes "docs/changes.md";
    copy "docs/copy.md";
    diagnosis "docs/diagnosis.md";
    errors_page "docs/errors.md";
    events "docs/events.md";
    identities "docs/identities.md";
    kpi "docs/kpi.md";
    limits "docs/limits.md";
    live_calls "docs/live-calls.md";
    mcp "docs/mcp.md";
    operations "docs/operations.md";
    finding "docs/finding.md";
    projections "docs/projections.md";
    projections_opensearch "docs/projections-opensearch.md" opensearch;
    projections_tables "docs/projections-tables.md";
    projections_weaviate "docs/projections-weaviate.md" weaviate;
    search_page "docs/search.md";
    search_opensearch "docs/search-opensearch.md" opensearch;
    secrets "docs/secrets.md";
    sessions "docs/sessions.md";
    settings_page "docs/settings.md";
    sharing "docs/sharing.md";
    sources "docs/sources.md";
    statistics "docs/statistics.md";
    streams "docs/streams.md";
    tail "docs/tail.md";
    teams "docs/teams.md";
    turns "docs/turns.md";
    two_scopes "docs/two-scopes.md";
    witness "docs/witness.md";
}

#[test]
fn every_page_is_run_or_listed_as_a_reference() {
    let mut names = vec!["README.md".to_owned()];
    for entry in std::fs::read_dir(page::root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    names.sort();
    let mut listed: Vec<_> = [RUN, REFERENCES].concat();
    listed.sort_unstable();
    assert_eq!(names, listed, "a page is not in exactly one of the lists");
    for name in REFERENCES {
        let steps = Page::read(name).steps();
        assert!(
            steps.is_empty(),
            "{name} is listed as a reference, but has commands"
        );
    }
}

#[test]
fn pages_stay_short() {
    for name in RUN.iter().filter(|n| n.starts_with("docs/")) {
        let lines = Page::read(name).text().lines().count();
        assert!(lines <= 200, "{name} has {lines} lines, more than 200");
    }
}
