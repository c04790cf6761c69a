//! A browser without a window, led by its driver: as much of the WebDriver protocol as the tests need.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Chromium with one page.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed (Debian: chromium-driver)");
        let said = BufReader::new(driver.stdout.take().expect("its output"));
        let port = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok())
            .expect("the driver says where it listens");
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let data = format!("--user-data-dir={}", browser._profile.path().display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1400,900",
            data.as_str(),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let started = browser.request("POST", "/session", &wanted);
        browser.session = started["sessionId"].as_str().expect("a session").to_string();
        browser
    }

    /// Opens a page from a file, at a place in it.
    pub(crate) fn open(&self, page: &Path, hash: &str) {
        // Another place in the same page would be gone to without loading it.
        self.call("url", &json!({ "url": "about:blank" }));
        self.call("url", &json!({ "url": format!("file://{}{hash}", page.display()) }));
    }

    /// Runs a script in the page, and tells what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.call("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&self, condition: &str) {
        let start = Instant::now();
        while self.run(&format!("return Boolean({condition})")) != true {
            let text = || self.run("return document.body.innerText.slice(0, 2000)");
            assert!(start.elapsed() < Duration::from_secs(20), "never came: {condition}\n{}", text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The text of the first element that fits.
    pub(crate) fn text(&self, selector: &str) -> String {
        let found = self.run(&format!("return document.querySelector({}).textContent", json!(selector)));
        found.as_str().unwrap_or_default().to_string()
    }

    /// Presses a key, or types a text.
    pub(crate) fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|what| json!({ "type": what, "value": key.to_string() }))
            })
            .collect();
        self.call(
            "actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// Clicks on the first element that fits, as a person does: it must be visible.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.call("element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        self.call(&format!("element/{}/click", id.unwrap_or_default()), &json!({}));
    }

    /// Makes the window as wide as that.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the system says about colours.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.command("Emulation.setEmulatedMedia", &features);
    }

    fn command(&self, name: &str, params: &Value) {
        self.call("goog/cdp/execute", &json!({ "cmd": name, "params": params }));
    }

    /// What the browser complained of since it was last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.call("se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().map(Vec::as_slice).unwrap_or_default();
        lines.iter().filter_map(|line| Some(line["message"].as_str()?.to_string())).collect()
    }

    fn call(&self, what: &str, body: &Value) -> Value {
        self.request("POST", &format!("/session/{}/{what}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "DELETE" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the driver reads");
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).expect("the driver answers");
            if line.trim().is_empty() {
                break;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().expect("a number");
            }
        }
        let mut bytes = vec![0; length];
        answer.read_exact(&mut bytes).expect("the whole answer");
        let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
        let value = &answer["value"];
        assert!(value["error"].is_null(), "{method} {path}: {value}");
        value.clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // While a test fails, what else fails is not worth a word.
        if !std::thread::panicking() {
            self.request("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
