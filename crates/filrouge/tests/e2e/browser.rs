//! A real Chromium, driven through chromedriver: the WebDriver protocol over HTTP.
//!
//! Its pages reach this machine alone: no other host has an address. Every request that pages make is recorded.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chromium::program;

/// How long a condition may take to become true, also on slow machines.
const WAIT_LIMIT: Duration = Duration::from_secs(90);
/// The limit of one command, such as opening a page.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// The member of a JSON object that names an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The width and height of a phone in pixels.
pub(crate) const PHONE: (u32, u32) = (390, 844);
/// The width and height of a wide screen in pixels.
pub(crate) const WIDE: (u32, u32) = (1440, 900);

/// Runs before the scripts of every page: collects what the page's policy refused.
const RECORDER: &str = "
    window.refused = [];
    addEventListener('securitypolicyviolation', (event) =>
        window.refused.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));";

/// Arguments of Chromium. Tests also run as root, which has no sandbox.
const ARGUMENTS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-breakpad",
    "--accept-lang=en",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A chromedriver; killed when dropped.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A browser with one window and an empty profile. Both end with the value.
pub(crate) struct Browser {
    agent: ureq::Agent,
    /// The URL of the session in the driver.
    session: String,
    /// The id of Chromium's main process.
    process: Option<u64>,
    // Dropped in this order, after `drop` has ended the session.
    _driver: Driver,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser, which shows pages on a wide screen, in light colors.
    pub(crate) fn start() -> Self {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let binary = program(&names, "chromium");
        let profile = TempDir::with_prefix("filrouge-browser-").unwrap();
        let (driver, port) = start_driver(&profile);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(COMMAND_LIMIT))
            .build();
        let agent: ureq::Agent = config.into();
        let sessions = format!("http://127.0.0.1:{port}/session");
        let folder = profile.path().join("profile");
        let data = format!("--user-data-dir={}", folder.display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([data.as_str()]).collect();
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "timeouts": { "script": 240_000, "pageLoad": 240_000 },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "binary": binary, "args": arguments },
        } } });
        let started = request(&agent, "POST", &sessions, Some(&capabilities))
            .unwrap_or_else(|e| panic!("Chromium does not start: {e}"));
        let browser = Self {
            agent,
            session: format!("{sessions}/{}", started["sessionId"].as_str().unwrap()),
            process: started["capabilities"]["goog:processID"].as_u64(),
            _driver: driver,
            _profile: profile,
        };
        let recorder = json!({ "source": RECORDER });
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", &recorder);
        browser.resize(WIDE);
        browser.set_colors("light");
        browser
    }

    /// Opens a URL, and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.command("/url", &json!({ "url": url }));
    }

    /// The URL of the page.
    pub(crate) fn address(&self) -> String {
        let address = self.script("return location.href", &[]);
        address.as_str().unwrap().to_owned()
    }

    /// Runs the body of a function in the page; waits for the promise that it returns.
    #[track_caller]
    pub(crate) fn script(&self, text: &str, arguments: &[Value]) -> Value {
        self.try_script(text, arguments)
            .unwrap_or_else(|e| panic!("{e}: {text:.200}"))
    }

    fn try_script(&self, text: &str, arguments: &[Value]) -> Result<Value, String> {
        let body = json!({ "script": text, "args": arguments });
        self.try_command("/execute/sync", &body)
    }

    /// Waits until an expression is true in the page; returns its value. `what` names the condition in a failure. The
    /// page may change, or be replaced, in the meantime.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, expression: &str, arguments: &[Value]) -> Value {
        let script = format!("return {expression};");
        self.retry(what, || match self.try_script(&script, arguments)? {
            Value::Null | Value::Bool(false) => Err(format!("{expression} is not true")),
            value => Ok(value),
        })
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub(crate) fn until_shown(&self, text: &str) {
        let shows = "document.body.innerText.includes(arguments[0])";
        self.until(&format!("{text:?} is shown"), shows, &[json!(text)]);
    }

    /// Waits until an element exists.
    #[track_caller]
    pub(crate) fn until_exists(&self, selector: &str) {
        let exists = "document.querySelector(arguments[0]) !== null";
        self.until(&format!("{selector} exists"), exists, &[json!(selector)]);
    }

    /// The number of elements.
    #[track_caller]
    pub(crate) fn count(&self, selector: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.script(script, &[json!(selector)]).as_u64().unwrap()
    }

    /// The shown text of an element, or of the page with `body`.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = "document.querySelector(arguments[0])?.innerText";
        let text = self.until(&format!("{selector} has a text"), text, &[json!(selector)]);
        text.as_str().unwrap().to_owned()
    }

    /// Clicks the first of these elements in its middle, once it is visible and not covered.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.retry(&format!("{selector} is clicked"), || {
            let element = self.find(selector)?;
            self.try_command(&format!("/element/{element}/click"), &json!({}))
        });
    }

    /// Replaces the text of a field.
    #[track_caller]
    pub(crate) fn enter(&self, selector: &str, text: &str) {
        self.retry(&format!("{selector} is filled in"), || {
            let element = self.find(selector)?;
            self.try_command(&format!("/element/{element}/clear"), &json!({}))?;
            let body = json!({ "text": text });
            self.try_command(&format!("/element/{element}/value"), &body)
        });
    }

    /// Presses a key, such as `j`, wherever the focus is. Special keys have the protocol's code points, such as [`ENTER`].
    pub(crate) fn press(&self, key: &str) {
        let steps = [
            json!({ "type": "keyDown", "value": key }),
            json!({ "type": "keyUp", "value": key }),
        ];
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": steps });
        self.command("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Sets the size of the window in pixels.
    pub(crate) fn resize(&self, (width, height): (u32, u32)) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Prefers `light` or `dark` colors.
    pub(crate) fn set_colors(&self, scheme: &str) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        let still = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [scheme, still] }),
        );
    }

    /// The window as PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let path = format!("{}/screenshot", self.session);
        let picture = request(&self.agent, "GET", &path, None).unwrap();
        STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    /// What the policies of the page have refused since it was opened.
    #[track_caller]
    pub(crate) fn refused(&self) -> Vec<String> {
        let refused = self.script("return window.refused", &[]);
        serde_json::from_value(refused).unwrap()
    }

    /// The errors in the console since the last call.
    pub(crate) fn console_errors(&self) -> Vec<String> {
        let entries = self.log("browser");
        let errors = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        errors
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The URLs that pages have requested since the last call, also those that were not sent.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.log("performance");
        let url = |entry: &Value| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            is_request.then(|| {
                message["params"]["request"]["url"]
                    .as_str()
                    .map(str::to_owned)
            })?
        };
        // The browser's own pages, such as the one with which it starts, are no requests of a page.
        let urls = entries.iter().filter_map(url);
        urls.filter(|url| !url.starts_with("chrome://")).collect()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.command("/se/log", &json!({ "type": kind }));
        entries.as_array().unwrap().clone()
    }

    /// Sends a command of Chromium's own protocol.
    fn devtools(&self, name: &str, parameters: &Value) {
        self.command(
            "/goog/cdp/execute",
            &json!({ "cmd": name, "params": parameters }),
        );
    }

    /// The protocol's name of the first of these elements.
    fn find(&self, selector: &str) -> Result<String, String> {
        let body = json!({ "using": "css selector", "value": selector });
        let found = self.try_command("/element", &body)?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    #[track_caller]
    fn command(&self, path: &str, body: &Value) -> Value {
        self.try_command(path, body)
            .unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    fn try_command(&self, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.session);
        request(&self.agent, "POST", &url, Some(body))
    }

    /// Repeats an attempt until it succeeds, for at most [`WAIT_LIMIT`].
    #[track_caller]
    fn retry(&self, what: &str, attempt: impl Fn() -> Result<Value, String>) -> Value {
        let began = Instant::now();
        loop {
            let failure = match attempt() {
                Ok(value) => return value,
                Err(failure) => failure,
            };
            if began.elapsed() > WAIT_LIMIT {
                let page = "return `${location.href}\\n${document.body.innerText.slice(0, 4000)}`";
                let page = self.try_script(page, &[]);
                panic!("not in time: {what}: {failure}\n{page:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if request(&self.agent, "DELETE", &self.session, None).is_err()
            && let Some(process) = self.process
        {
            let mut kill = Command::new("kill");
            kill.args(["-KILL", &process.to_string()]);
            kill.stderr(Stdio::null()).status().ok();
        }
    }
}

/// The key Enter in the protocol.
pub(crate) const ENTER: &str = "\u{e007}";

/// Starts chromedriver on a free port; returns the port. Its files, and those of Chromium, are in the folder.
fn start_driver(folder: &TempDir) -> (Driver, u16) {
    let mut command = Command::new(program(&["chromedriver"], "chromium-driver"));
    command
        .arg("--port=0")
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut driver = Driver(command.spawn().expect("start chromedriver"));
    let mut lines = BufReader::new(driver.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, port) = line.split_once("successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    });
    // Reads the rest, so that the driver can always write.
    std::thread::spawn(move || lines.for_each(drop));
    (driver, port.expect("chromedriver starts"))
}

/// Sends a command to the driver; returns its result, or what failed.
fn request(
    agent: &ureq::Agent,
    method: &str,
    url: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let request = ureq::http::Request::builder().method(method).uri(url);
    let response = match body {
        Some(body) => {
            let request = request.header("content-type", "application/json");
            agent.run(request.body(body.to_string()).unwrap())
        }
        None => agent.run(request.body(()).unwrap()),
    };
    let mut response = response.map_err(|e| e.to_string())?;
    let body = response.body_mut().with_config().limit(1 << 30);
    let text = body.read_to_string().map_err(|e| e.to_string())?;
    let mut result: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
    match response.status().is_success() {
        true => Ok(result["value"].take()),
        false => Err(format!(
            "{} {}",
            result["value"]["error"], result["value"]["message"]
        )),
    }
}
