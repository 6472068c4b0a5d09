//! Runs the built example in separate processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The time limit of a wait, long enough for slow machines.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The environment of a test: its instances share the database and the keys, and each has its own state folder.
pub(crate) struct TestSetup {
    url: String,
    dir: TempDir,
}

impl TestSetup {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            dir: TempDir::with_prefix("voice-agent-").unwrap(),
        }
    }

    pub(crate) fn start(&self, name: &str) -> Agent {
        self.start_with(name, &[])
    }

    /// Starts an instance with additional variables; an instance with the same name reuses the state of its
    /// predecessor.
    pub(crate) fn start_with(&self, name: &str, variables: &[(&str, &str)]) -> Agent {
        let log = self.log_file(name);
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_voice-agent"))
            .env_clear()
            .env("LISTEN", "127.0.0.1:0")
            .env("DATABASE_URL", &self.url)
            .env("KEYRING", self.keyring())
            .env("STATE_DIR", self.dir.path().join(name))
            .env("INSTANCE", name)
            .env("AGENDA_FROM", "2026-11-24")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let origin = line.trim_end().strip_prefix("listening on ");
        let log_text = || std::fs::read_to_string(&log).unwrap();
        let origin = origin.unwrap_or_else(|| panic!("{name} did not start: {}", log_text()));
        Agent {
            origin: origin.to_owned(),
            child,
            log: log.clone(),
            http: client(),
        }
    }

    /// The keys of the store.
    pub(crate) fn keyring(&self) -> PathBuf {
        self.dir.path().join("keyring.json")
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.log"))
    }
}

impl Drop for TestSetup {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("test folder kept: {}", self.dir.path().display());
        }
    }
}

fn client() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(TIMEOUT))
        .build()
        .into()
}

/// An instance; killed when dropped.
pub(crate) struct Agent {
    pub(crate) origin: String,
    child: Child,
    log: PathBuf,
    http: ureq::Agent,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Agent {
    /// Kills the instance (`kill -9`), and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Like [`Self::kill`], but callable while other threads wait for an answer.
    pub(crate) fn kill_by_signal(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The log of all instances with this name.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// The number of log lines about a call that contain `text`.
    pub(crate) fn count_logged(&self, text: &str, call: &str) -> usize {
        let call_id = format!("call_id={call}");
        let log = self.log();
        let lines = log.lines();
        lines
            .filter(|l| l.contains(text) && l.contains(&call_id))
            .count()
    }

    /// Posts a body; `None` if there is no answer.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<(u16, String)> {
        let request = self.http.post(format!("{}{path}", self.origin));
        let sent = request
            .header("content-type", "application/json")
            .send(body.to_string());
        let mut answer = sent.ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        Some((answer.status().as_u16(), text))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        self.try_post(path, body)
            .unwrap_or_else(|| panic!("{path}: no answer\n{}", self.log()))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let mut answer = self
            .http
            .get(format!("{}{path}", self.origin))
            .call()
            .unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status().as_u16(), 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Sends these messages of the caller; returns the spoken answer.
    #[track_caller]
    pub(crate) fn answer(&self, call: &str, messages: &[&str]) -> String {
        let (status, text) = self.post("/chat/completions", &chat(call, messages));
        assert_eq!(status, 200, "{text}");
        spoken(&text)
    }

    /// Like [`Self::answer`], but repeats the request while the answer is a filler.
    #[track_caller]
    pub(crate) fn answer_after_fillers(&self, call: &str, messages: &[&str]) -> String {
        let start = Instant::now();
        loop {
            let answer = self.answer(call, messages);
            if answer != FILLER {
                return answer;
            }
            assert!(start.elapsed() < TIMEOUT, "only fillers\n{}", self.log());
        }
    }

    /// Returns the recorded call.
    #[track_caller]
    pub(crate) fn call(&self, call: &str) -> RecordedCall {
        RecordedCall(self.get(&format!("/calls/{call}")))
    }

    pub(crate) fn count(&self, counter: &str) -> u64 {
        self.get("/status")["counters"][counter].as_u64().unwrap()
    }
}

pub(crate) const FILLER: &str = "Un instant, s'il vous plaît.";
pub(crate) const TERMINATED: &str = "Votre demande a déjà été prise en compte. Au revoir.";
pub(crate) const CALLER: &str = "+33698765432";

/// The body of `chat/completions`, as Vapi sends it for a custom LLM.
pub(crate) fn chat(call: &str, texts: &[&str]) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": "Cabinet du docteur Martin" })];
    for text in texts {
        messages.push(json!({ "role": "user", "content": text }));
        messages.push(json!({ "role": "assistant", "content": "…" }));
    }
    messages.pop();
    let call = json!({ "id": call, "type": "inboundPhoneCall", "customer": { "number": CALLER } });
    json!({ "model": "voice-agent", "stream": true, "messages": messages, "call": call, "temperature": 0.7 })
}

/// The text of a stream of chunks.
#[track_caller]
pub(crate) fn spoken(stream: &str) -> String {
    let data: Vec<&str> = stream
        .lines()
        .filter_map(|l| l.strip_prefix("data: "))
        .collect();
    assert_eq!(data.last(), Some(&"[DONE]"), "{stream}");
    let chunks = data[..data.len() - 1]
        .iter()
        .map(|chunk| serde_json::from_str::<Value>(chunk).unwrap());
    chunks
        .filter_map(|chunk| Some(chunk["choices"][0]["delta"]["content"].as_str()?.to_owned()))
        .collect()
}

/// A call as `/calls/{id}` shows it.
#[derive(Debug)]
pub(crate) struct RecordedCall(Value);

impl RecordedCall {
    pub(crate) fn state(&self) -> &str {
        self.0["session"]["state"].as_str().unwrap_or("-")
    }

    pub(crate) fn status(&self) -> &str {
        self.0["session"]["status"].as_str().unwrap()
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.0["session"]["last_seq"].as_u64().unwrap()
    }

    /// A member of the newest checkpoint.
    pub(crate) fn checkpoint(&self, member: &str) -> &Value {
        &self.0["checkpoint"][member]
    }

    /// The questions and answers, in order.
    pub(crate) fn conversation(&self) -> Vec<String> {
        let items = self.0["items"].as_array().unwrap();
        for (index, item) in items.iter().enumerate() {
            assert_eq!(item["seq"], index + 1, "{self:?}");
        }
        let spoken = items
            .iter()
            .filter(|i| matches!(i["channel"].as_str(), Some("question" | "final")));
        spoken
            .map(|i| i["parts"][0]["text"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The number of events of a kind.
    pub(crate) fn events(&self, kind: &str) -> usize {
        let events = self.0["events"].as_array().unwrap();
        events.iter().filter(|e| e["kind"] == kind).count()
    }
}

/// Polls until `is_true` returns `true`; after [`TIMEOUT`], fails and prints `condition`.
#[track_caller]
pub(crate) fn wait_until(condition: &str, mut is_true: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_true() {
        assert!(
            start.elapsed() < TIMEOUT,
            "not true within the time limit: {condition}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
