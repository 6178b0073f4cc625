//! A connection to the coordinator that stays open, for many requests.

use anyhow::{Context, bail};
use coord_wire::limits::BODY_BYTES_MAX;
use coord_wire::paths::Paths;
use serde_json::value::RawValue;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The coordinator answers within this, or something broke.
const PATIENCE: Duration = Duration::from_secs(30);

/// The connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
}

impl Socket {
    pub(super) fn open(paths: &Paths) -> anyhow::Result<Self> {
        let path = paths.socket();
        let stream = UnixStream::connect(&path).with_context(|| path.display().to_string())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Posts one event; returns when it is recorded, or durable.
    pub(super) fn post(&mut self, event: &RawValue, durable: bool) -> anyhow::Result<()> {
        let path = if durable { "/v1/events?sync=1" } else { "/v1/events" };
        let text = event.get();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: coord\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        self.stream.write_all(request.as_bytes())?;
        self.expect_no_content()
    }

    /// Posts JSON and reads what is answered with 200.
    pub(super) fn ask(&mut self, path: &str, body: &serde_json::Value) -> anyhow::Result<String> {
        let text = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: coord\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        self.stream.write_all(request.as_bytes())?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match self.stream.read(&mut buffer)? {
                0 => bail!("the coordinator closed the connection"),
                n => answer.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            }
            let whole = coord_wire::exchange::whole_answer(&answer, BODY_BYTES_MAX);
            if let Some(answer) = whole.map_err(|miss| anyhow::anyhow!("{miss:?}"))? {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                return if answer.status == 200 { Ok(body) } else { bail!("{body}") };
            }
        }
    }

    /// Reads an answer without a body.
    fn expect_no_content(&mut self) -> anyhow::Result<()> {
        let (mut answer, mut buffer) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"\r\n\r\n") {
            match self.stream.read(&mut buffer)? {
                0 => bail!("the coordinator closed the connection"),
                n => answer.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            }
        }
        if !answer.starts_with(b"HTTP/1.1 204 ") {
            bail!("the coordinator answered {}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }
}
