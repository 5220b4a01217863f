//! What the page asks the server for, without a page.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result, ensure};

/// The address of a server.
pub(crate) struct Client {
    /// Name and port.
    host: String,
    /// Of the page, with a slash at both ends.
    path: String,
}

impl Client {
    pub(crate) fn new(address: &str) -> Result<Client> {
        let rest = address.strip_prefix("http://");
        let parts = rest.and_then(|rest| rest.split_once('/'));
        let (host, path) = parts.with_context(|| format!("{address} is no address"))?;
        Ok(Client {
            host: host.to_owned(),
            path: format!("/{path}"),
        })
    }

    /// Status and body of an answer.
    pub(crate) fn get(&self, what: &str) -> Result<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.host)?;
        let (host, path) = (&self.host, &self.path);
        let head = format!("Host: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(format!("GET {path}{what} HTTP/1.1\r\n{head}").as_bytes())?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        let end = all.windows(4).position(|part| part == b"\r\n\r\n");
        let body = all.split_off(end.context("the answer has no head")? + 4);
        let head = String::from_utf8(all)?;
        let status = head.split(' ').nth(1).context("the answer has no status")?;
        Ok((status.parse()?, body))
    }

    /// Asks for rows in a stretch of time.
    pub(crate) fn window(&self, rows: &[usize], time: (u64, u64), columns: u64) -> Result<()> {
        let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
        let (rows, (from, to)) = (rows.join(","), time);
        let what = format!("api/window?from={from}&to={to}&columns={columns}&rows={rows}");
        let (status, _) = self.get(&what)?;
        ensure!(status == 200, "a window is answered by {status}");
        Ok(())
    }

    /// Bytes of the page and of all that it loads.
    pub(crate) fn page(&self) -> Result<usize> {
        let mut known = BTreeSet::from([String::new()]);
        let mut wanted = vec![String::new()];
        let mut bytes = 0;
        while let Some(name) = wanted.pop() {
            let (status, body) = self.get(&name)?;
            ensure!(status == 200, "{name} is answered by {status}");
            bytes += body.len();
            let text = String::from_utf8(body)?;
            // Names of files stand between quotation marks.
            for part in text.split('"') {
                let file = part.strip_prefix("./").unwrap_or(part);
                let is_file = file.ends_with(".js") || file.ends_with(".css");
                if is_file && !file.contains([' ', '/']) && known.insert(file.to_owned()) {
                    wanted.push(file.to_owned());
                }
            }
        }
        Ok(bytes)
    }
}
