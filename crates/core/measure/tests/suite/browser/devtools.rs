//! Chromium controlled over its DevTools protocol by pipe: JSON messages that end with a NUL, without a port or
//! WebSocket.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use test_kit::skip;

/// Maximum time without a message from the browser.
const LIMIT: Duration = Duration::from_secs(60);

/// Features to disable: nothing may leave this machine.
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars --remote-debugging-pipe";

/// A running browser with one page.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: String,
    sent: u64,
    /// Reports, loads and errors of the page since it was opened.
    pub(crate) events: Vec<Value>,
    folder: TempDir,
}

impl Browser {
    /// Starts Chromium; returns `None`, with a message, if it is missing and not required.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = program() else {
            skip("chromium (scripts/setup installs it)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and answers on 4; the shell puts the pipes there.
        let mut child = Command::new("sh")
            .args([
                "-c",
                r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
                "sh",
            ])
            .arg(program)
            .args(FLAGS.split_whitespace())
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self {
            child,
            commands,
            messages,
            session: String::new(),
            sent: 0,
            events: Vec::new(),
            folder,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &target);
        self.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Sends a command and waits for its answer; events in between are kept in `events`.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.sent += 1;
        let mut command = json!({ "id": self.sent, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.commands
            .write_all(command.to_string().as_bytes())
            .unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let message = self.next(method);
            if message["id"] == self.sent {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        let message = self.messages.recv_timeout(LIMIT);
        message.unwrap_or_else(|error| panic!("the browser did not answer {waiting_for}: {error}"))
    }

    /// Writes a page to a file and opens it; returns after loading.
    pub(crate) fn open(&mut self, page: &str) {
        let path = self.folder.path().join("report.html");
        fs::write(&path, page).unwrap();
        self.events.clear();
        self.call(
            "Page.navigate",
            &json!({ "url": format!("file://{}", path.display()) }),
        );
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            let event = self.next("Page.navigate");
            self.events.push(event);
        }
    }

    /// Sets the window size and the preferred colour scheme.
    pub(crate) fn look(&mut self, width: u64, scheme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [scheme] }),
        );
    }

    /// Disables or enables the page's scripts.
    pub(crate) fn scripts(&mut self, on: bool) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            &json!({ "value": !on }),
        );
    }

    /// Evaluates an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Returns the messages of the page: exceptions, and everything on the console or logged by the browser.
    pub(crate) fn errors(&self) -> Vec<String> {
        let is_error = |event: &&Value| {
            matches!(
                event["method"].as_str(),
                Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded")
            )
        };
        self.events
            .iter()
            .filter(is_error)
            .map(Value::to_string)
            .collect()
    }

    /// Returns the addresses requested by the page, including its own.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent = self
            .events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| {
            event["params"]["request"]["url"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Closed pipes also end the browser; a browser that hangs is not waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| Path::is_file(program))
}
