//! The OpenAPI document as other programs read it: linters, generated clients in Python and TypeScript, and the page
//! `/docs`.
//!
//! The programs are installed once from npm and PyPI into the build folder. If these are unreachable, the tests check
//! nothing and report this in `not-tested`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chromium::{RequestListener, browse};
use crate::node::{NODE, node, npm};
use crate::not_tested::{Unavailable, installed, npm_install, or_report_untested, run};
use crate::world::{Server, World};

const PYTHON_GENERATOR: &str = "openapi-python-client==0.29.1";
const NPM: [&str; 5] = [
    "@redocly/cli@2.77.0",
    "@stoplight/spectral-cli@6.16.3",
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
];

const PYTHON_CLIENT: &str = include_str!("generated_clients/client.py");
const TYPESCRIPT_CLIENT: &str = include_str!("generated_clients/client.mts");

/// The folder that contains the programs.
struct Programs(PathBuf);

impl Programs {
    /// Installs the programs unless the build folder contains these versions.
    fn install_if_missing() -> Result<Self, Unavailable> {
        let versions = [&[NODE, PYTHON_GENERATOR][..], &NPM].concat().join("\n");
        installed("openapi-programs", &versions, |folder| {
            let venv = folder.join("venv");
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
            let pip = ["-m", "pip", "install", "--quiet", NODE, PYTHON_GENERATOR];
            run(Command::new(venv.join("bin/python")).args(pip))?;
            npm_install(&mut npm(&venv, folder), folder, &NPM)
        })
        .map(Self)
    }

    fn python(&self) -> Command {
        Command::new(self.0.join("venv/bin/python"))
    }

    /// A command that runs a program of [`NPM`] in `folder`.
    fn npm_program(&self, name: &str, folder: &Path) -> Command {
        self.script(&self.0.join("node_modules/.bin").join(name), folder)
    }

    fn script(&self, script: &Path, folder: &Path) -> Command {
        let mut command = node(&self.0.join("venv"), &self.0, script);
        command
            .current_dir(folder)
            .env("REDOCLY_TELEMETRY", "off")
            .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        command
    }
}

/// Runs a program, which must succeed; returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{reported}",
        output.status
    );
    out
}

/// Runs `check` with a server, a folder with its document as `openapi.json`, and the programs, if they can be
/// installed.
fn with_programs(check: fn(&Programs, &Server, &Path)) {
    let subject =
        "the OpenAPI document with Redocly, Spectral, openapi-python-client and openapi-typescript";
    let programs = Programs::install_if_missing();
    let Some(programs) = or_report_untested("generated_clients", subject, programs) else {
        return;
    };
    let world = World::new();
    let server = world.serve();
    let folder = world.path("client");
    fs::create_dir(&folder).unwrap();
    let document = server
        .client()
        .send_without_body("GET", "/openapi.json", "");
    fs::write(folder.join("openapi.json"), document.text).unwrap();
    check(&programs, &server, &folder);
    server.stop();
}

#[test]
fn linters_report_no_warning() {
    with_programs(|programs, _, folder| {
        let arguments = ["lint", "openapi.json", "--format", "json"];
        let linted = output(programs.npm_program("redocly", folder).args(arguments));
        let linted: Value = serde_json::from_str(&linted).unwrap();
        let totals = &linted["totals"];
        assert_eq!(
            (&totals["errors"], &totals["warnings"]),
            (&json!(0), &json!(0)),
            "{linted:#}"
        );
        fs::write(folder.join("rules.yaml"), "extends: [\"spectral:oas\"]\n").unwrap();
        let arguments = ["lint", "openapi.json", "--ruleset", "rules.yaml"];
        let mut spectral = programs.npm_program("spectral", folder);
        output(spectral.args(arguments).args(["--fail-severity", "hint"]));
    });
}

/// What both clients print.
fn expected() -> Value {
    json!({ "question": "When do you open?", "answer": "At nine.", "code": "turn_closed" })
}

#[test]
fn a_generated_python_client_works() {
    with_programs(|programs, server, folder| {
        let generator = [
            "-m",
            "openapi_python_client",
            "generate",
            "--path",
            "openapi.json",
        ];
        let target = ["--meta", "none", "--output-path", "filrouge_client"];
        output(
            programs
                .python()
                .current_dir(folder)
                .args(generator)
                .args(target),
        );
        fs::write(folder.join("client.py"), PYTHON_CLIENT).unwrap();
        let mut client = programs.python();
        client
            .current_dir(folder)
            .args(["client.py", server.origin()]);
        let printed: Value = serde_json::from_str(&output(&mut client)).unwrap();
        assert_eq!(printed, expected());
    });
}

#[test]
fn a_generated_typescript_client_works() {
    with_programs(|programs, server, folder| {
        let generator = ["openapi.json", "--output", "filrouge.d.ts"];
        output(
            programs
                .npm_program("openapi-typescript", folder)
                .args(generator),
        );
        let script = folder.join("client.mts");
        fs::write(&script, TYPESCRIPT_CLIENT).unwrap();
        let modules = programs.0.join("node_modules");
        std::os::unix::fs::symlink(modules, folder.join("node_modules")).unwrap();
        let options = json!({
            "compilerOptions": {
                "strict": true, "noEmit": true, "target": "es2022", "module": "nodenext",
                "lib": ["es2022", "dom"], "types": [],
            },
            "files": ["client.mts"],
        });
        fs::write(folder.join("tsconfig.json"), options.to_string()).unwrap();
        output(&mut programs.npm_program("tsc", folder));
        let printed = output(programs.script(&script, folder).arg(server.origin()));
        let printed: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(printed, expected());
    });
}

#[test]
fn the_page_shows_all_operations_and_requests_nothing() {
    let world = World::on_sqlite();
    let server = world.serve();
    let client = server.client();
    let page = client.send_without_body("GET", "/docs", "");
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    let document = client.send_without_body("GET", "/openapi.json", "").body();
    let paths = document["paths"].as_object().unwrap().values();
    for operation in paths.flat_map(|item| item.as_object().unwrap().values()) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(
            page.text.contains(&format!("<section id=\"{id}\">")),
            "{id}"
        );
    }
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            page.text
                .contains(&format!("<section id=\"schema-{name}\">")),
            "{name}"
        );
    }
    for loading in ["<script", "src=", "url(", "<link", "<iframe", "@import"] {
        assert!(!page.text.contains(loading), "{loading}");
    }
    // Chromium sends everything to this proxy, also requests of its own, which go to its maker.
    let opened = |html: &str| {
        let proxy = RequestListener::new();
        let file = world.path("page.html");
        fs::write(&file, html).unwrap();
        let proxy_flag = format!("--proxy-server={}", proxy.base());
        let shown = browse(
            &file,
            &["--dump-dom", "--virtual-time-budget=3000", &proxy_flag],
        );
        let mut requests = proxy.requests();
        requests.retain(|request| !request.is_empty() && !request.contains("google"));
        (shown, requests)
    };
    let (_, requests) = opened("<img src='http://picture.example/x.png'>");
    assert!(
        requests
            .iter()
            .any(|request| request.contains("picture.example")),
        "{requests:?}"
    );
    let (shown, requests) = opened(&page.text);
    assert_eq!(requests, Vec::<String>::new());
    assert!(
        shown.contains("startTurn") && shown.contains("schema-Problem"),
        "{shown}"
    );
    server.stop();
}
