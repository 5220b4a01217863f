//! A headless browser, driven over pipes with Chrome's DevTools protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The browser reads commands from file descriptor 3 and writes answers to 4.
const WIRED: &str = r#"exec "$0" "$@" 3<&0 4>&1 >/dev/null"#;
/// How long a page may take until it is as expected.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    number: u64,
    session: Option<String>,
    folder: PathBuf,
}

impl Browser {
    /// Starts the program, which keeps its files in the folder.
    pub(crate) fn start(program: &str, folder: &Path) -> Result<Browser> {
        let mut process = Command::new("sh")
            .args(["-c", WIRED, program])
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} cannot be started"))?;
        let commands = process.stdin.take().context("no pipe to the browser")?;
        let answers = process.stdout.take().context("no pipe from the browser")?;
        Ok(Browser {
            process,
            commands,
            answers: BufReader::new(answers),
            number: 0,
            session: None,
            folder: folder.to_owned(),
        })
    }

    /// Opens a page.
    pub(crate) fn open(&mut self, address: &str) -> Result<()> {
        self.open_after(address, "")
    }

    /// Opens a page, whose scripts begin after this one.
    pub(crate) fn open_after(&mut self, address: &str, script: &str) -> Result<()> {
        self.session = None;
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target)?;
        let session = attached["sessionId"].as_str().context("no session")?;
        self.session = Some(session.to_owned());
        // Tall enough that no frame has to be scrolled to.
        let size =
            json!({ "width": 1200, "height": 2000, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        self.call("Page.enable", json!({}))?;
        let script = json!({ "source": script });
        self.call("Page.addScriptToEvaluateOnNewDocument", script)?;
        self.call("Page.navigate", json!({ "url": address }))?;
        // A page begins as an empty one, which is complete.
        let address = address.split('#').next().unwrap_or(address);
        self.wait_for(&format!(
            "location.href.startsWith('{address}') && document.readyState === 'complete'"
        ))
    }

    /// The value of a JavaScript expression in the page, or what it promises.
    pub(crate) fn value(&mut self, expression: &str) -> Result<Value> {
        let argument =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", argument)?;
        if let Some(exception) = answer.get("exceptionDetails") {
            bail!("{expression}: {exception}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true; while the page changes, it may throw.
    pub(crate) fn wait_for(&mut self, expression: &str) -> Result<()> {
        let begin = Instant::now();
        loop {
            let value = self.value(expression);
            match &value {
                Ok(Value::Bool(true)) => return Ok(()),
                _ if begin.elapsed() > PATIENCE => {
                    bail!("the page is not as expected: {expression} is {value:?}");
                }
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Clicks at a place of the page.
    pub(crate) fn click(&mut self, x: f64, y: f64) -> Result<()> {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Presses a key, as events name it.
    pub(crate) fn press(&mut self, key: &str) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key }),
            )?;
        }
        Ok(())
    }

    /// Types a text into what has the focus.
    pub(crate) fn insert(&mut self, text: &str) -> Result<()> {
        self.call("Input.insertText", json!({ "text": text }))?;
        Ok(())
    }

    /// Moves the mouse to a place of the page.
    pub(crate) fn point(&mut self, x: f64, y: f64) -> Result<()> {
        let event = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.call("Input.dispatchMouseEvent", event)?;
        Ok(())
    }

    /// Draws the mouse from one place of the page to another, with the shift key and a button down.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> Result<()> {
        let steps = [
            ("mouseMoved", from),
            ("mousePressed", from),
            ("mouseMoved", to),
            ("mouseReleased", to),
        ];
        for (kind, (x, y)) in steps {
            let event = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1,
                // Shift.
                "modifiers": 8,
            });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Sends a command and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&command)?;
        bytes.push(0);
        self.commands.write_all(&bytes)?;
        self.commands.flush()?;
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer)?;
            if answer.pop() != Some(0) {
                bail!("the browser ended during {method}");
            }
            let mut answer: Value = serde_json::from_slice(&answer)?;
            // Other messages are about events.
            if answer["id"] == self.number {
                if let Some(error) = answer.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(answer["result"].take());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        if self.call("Browser.close", json!({})).is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
