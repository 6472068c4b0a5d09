//! OpenCode itself, with a scripted model on loopback, queries `filrouge mcp` about its own history.
//!
//! OpenCode is installed once from the npm registry into the build folder. If npm or the registry is unreachable,
//! the test checks nothing and reports this in `not-tested`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::not_tested::{Unavailable, installed, npm_install, or_report_untested};
use crate::world::World;

/// The last version with the storage format that most installations have.
const VERSION: &str = "1.18.33";

/// Installs OpenCode if it is missing; returns the path of the program.
fn opencode() -> Result<PathBuf, Unavailable> {
    let package = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "opencode-linux-x64",
        ("linux", "aarch64") => "opencode-linux-arm64",
        (os, arch) => return Err(Unavailable(format!("no known package for {os} on {arch}"))),
    };
    let versioned = format!("{package}@{VERSION}");
    let folder = installed("opencode", &versioned, |folder| {
        npm_install(&mut Command::new("npm"), folder, &[&versioned])
    })?;
    Ok(folder.join(format!("node_modules/{package}/bin/opencode")))
}

/// The scripted model; killed when dropped.
struct Model {
    child: Child,
    port: String,
    log: PathBuf,
}

impl Model {
    fn start(log: PathBuf) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/mcp_opencode/model.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg(&log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut port).unwrap();
        let port = port.trim().to_owned();
        Self { child, port, log }
    }

    /// The newest tool result that OpenCode sent to the model.
    fn last_tool_result(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap();
        let requests = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let results = requests.flat_map(|request: Value| {
            let messages = request["messages"].as_array().unwrap().clone();
            messages.into_iter().filter(|m| m["role"] == "tool")
        });
        let last = results.last().expect("a tool result");
        match &last["content"] {
            Value::String(text) => text.clone(),
            parts => parts.to_string(),
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // Both fail if the model has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// OpenCode with its working folder, in which it is configured to use the model and `filrouge mcp`.
struct Agent<'a> {
    world: &'a World,
    program: PathBuf,
    folder: PathBuf,
}

impl<'a> Agent<'a> {
    fn new(world: &'a World, program: PathBuf, model: &Model) -> Self {
        let folder = world.path("work");
        fs::create_dir_all(&folder).unwrap();
        let config = json!({
            "provider": {"scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": format!("http://127.0.0.1:{}/v1", model.port), "apiKey": "none"},
                "models": {"one": {"tool_call": true, "limit": {"context": 100_000, "output": 4000}}},
            }},
            "model": "scripted/one",
            "small_model": "scripted/one",
            "autoupdate": false,
            "share": "disabled",
            "mcp": {"filrouge": {
                "type": "local",
                "command": [env!("CARGO_BIN_EXE_filrouge"), "mcp"],
            }},
        });
        fs::write(folder.join("opencode.json"), config.to_string()).unwrap();
        Self {
            world,
            program,
            folder,
        }
    }

    /// Runs a prompt in a new session; returns the output.
    fn run(&self, prompt: &str) -> String {
        let home = self.world.path("");
        let out = Command::new(&self.program)
            .args(["run", prompt])
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &home)
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{stdout}\n{stderr}");
        stdout
    }
}

#[test]
fn opencode_finds_its_history_and_its_own_session() {
    let subject = format!("filrouge mcp with OpenCode {VERSION}");
    let Some(program) = or_report_untested("mcp_opencode", &subject, opencode()) else {
        return;
    };
    let world = World::on_sqlite();
    let model = Model::start(world.path("model.log"));
    let agent = Agent::new(&world, program, &model);
    agent.run("remember the word zephyrine-0417, and that ask_user is broken");

    agent.run(r#"CALL filrouge_search_sessions {"query":"zephyrine-0417"}"#);
    let found = model.last_tool_result();
    assert!(found.contains("ask_user is broken"), "{found}");
    assert!(
        !found.contains("CALL filrouge_search_sessions"),
        "the session that searches is a hit: {found}"
    );

    // A call that names no session is about the session that makes the call.
    for tool in ["get_session_history", "get_compacted_context"] {
        let word = format!("own-{tool}");
        agent.run(&format!(
            r#"CALL filrouge_{tool} {{"maxChars":9000}} and this is {word}"#
        ));
        let own = model.last_tool_result();
        assert!(
            !own.contains("zephyrine"),
            "the result is from another session: {own}"
        );
        assert!(own.contains("ses_"), "{own}");
        assert!(
            tool != "get_session_history" || own.contains(&word),
            "{own}"
        );
    }
}
