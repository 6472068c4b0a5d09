//! Sessions as PDF, printed by an installed Chromium.

use std::fs;
use std::process::{Command, Output};

use serde_json::json;

use crate::chromium::program;
use crate::mcp_stdio::{Agent, COMPACTED, session_id, with_history};
use crate::world::World;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The text of a PDF.
fn text_of(world: &World, pdf: &[u8]) -> String {
    let path = world.path("session.pdf");
    fs::write(&path, pdf).unwrap();
    let reader = program(&["pdftotext"], "poppler-utils");
    let output = Command::new(reader).arg(&path).arg("-").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The page breaks lines where they are full.
    String::from_utf8(output.stdout).unwrap().replace('\n', " ")
}

fn export(world: &World, arguments: &[&str]) -> Output {
    let mut command = world.command(&["export"]);
    command.args(arguments).args(["--format", "pdf"]);
    command.output().unwrap()
}

#[test]
fn sessions_are_printed_as_pdf() {
    program(&BROWSERS, "chromium");
    let (world, source) = with_history();
    let server = world.serve();
    let turn = json!({ "request_id": "r1", "question_neutral": "Which day?", "answer_neutral": "Friday." });
    server.client().post("/s/turns", &turn);
    server.stop();
    let mine = export(&world, &["s"]);
    let text = text_of(&world, &mine.stdout);
    assert!(
        text.contains("Which day?") && text.contains("Friday."),
        "{text}"
    );
    let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
    agent.initialize("2025-11-25");
    let id = session_id(&mut agent, COMPACTED);
    agent.end();
    let foreign = export(&world, &[&id, "--source", &source]);
    let text = text_of(&world, &foreign.stdout);
    assert!(text.contains("count the words"), "{text}");
}

#[test]
fn without_a_browser_the_error_says_what_to_do() {
    let world = World::new();
    let server = world.serve();
    let turn = json!({ "request_id": "r1", "question_neutral": "Which day?", "answer_neutral": "Friday." });
    server.client().post("/s/turns", &turn);
    server.stop();
    let mut command = world.command(&["export", "s", "--format", "pdf"]);
    let output = command.env("PATH", world.path("nothing")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(1), 0),
        "{error}"
    );
    assert!(
        error.contains("chromium") && error.contains("export html"),
        "{error}"
    );
}
