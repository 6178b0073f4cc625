//! Passes one stream on, byte for byte, and shows what passed.
//!
//! What was read is first written completely and then shown, so an observer adds no delay. A slow reader
//! slows the writer down, as a pipe between the two would.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};

/// Bytes read at once; what fits into a core's cache passes fastest (measured).
const CHUNK_BYTES: usize = 128 * 1024;

/// What to do when output can no longer be passed on, because its reader is gone or the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Continue to read, for a writer that would continue as well.
    Drop,
    /// Stop and close the stream: its writer gets an error, as if it had written to the reader directly.
    Stop,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PumpEnd {
    /// No writer is left.
    Eof,
    /// The output could not be passed on, and the stream was closed.
    Stopped,
    /// The stream cannot be read.
    Failed(Errno),
}

/// The result of passing a stream on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pumped {
    /// Bytes that were read.
    pub bytes: u64,
    /// Why not all bytes were passed on: EPIPE if the reader went away.
    pub unread: Option<Errno>,
    /// How the stream ended.
    pub end: PumpEnd,
}

/// Passes everything from `from` to `to` until the end, or reads and drops it if `to` is none.
///
/// `observe` sees every byte in order, after it was written. `waits` is true while no reader accepts the
/// output: the writer is not silent then. This function blocks, so it needs a thread of its own, and SIGPIPE
/// must be ignored.
pub fn pump(
    from: OwnedFd,
    to: Option<BorrowedFd<'_>>,
    unread: Unread,
    waits: &AtomicBool,
    observe: &mut dyn FnMut(&[u8]),
) -> Pumped {
    let mut to = to;
    let mut pumped = Pumped { bytes: 0, unread: None, end: PumpEnd::Eof };
    let mut buffer = vec![0_u8; CHUNK_BYTES];
    loop {
        let chunk = match read_some(from.as_fd(), &mut buffer) {
            Ok([]) => return pumped,
            Ok(chunk) => chunk,
            Err(error) => {
                pumped.end = PumpEnd::Failed(error);
                return pumped;
            }
        };
        pumped.bytes = pumped.bytes.saturating_add(chunk.len() as u64);
        waits.store(true, Ordering::Relaxed);
        let written = to.map(|to| write_all(to, chunk));
        waits.store(false, Ordering::Relaxed);
        if let Some(Err(error)) = written {
            pumped.unread = Some(error);
            to = None;
        }
        let is_over = pumped.unread.is_some() && unread == Unread::Stop;
        if is_over {
            // Before anything else, because the writer may be waiting for room.
            drop(from);
            observe(chunk);
            pumped.end = PumpEnd::Stopped;
            return pumped;
        }
        observe(chunk);
    }
}

fn read_some<'a>(from: BorrowedFd<'_>, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    loop {
        match read(from, &mut *buffer) {
            Ok(n) => return Ok(buffer.get(..n).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(from, PollFlags::IN)?,
            Err(error) => return Err(error),
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another process that shares the file description has made it non-blocking.
            Err(Errno::AGAIN) => wait(to, PollFlags::OUT)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Errno> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use rustix::io::{Errno, read, write};
    use rustix::pipe::{PipeFlags, pipe, pipe_with};

    use super::{PumpEnd, Pumped, Unread, pump};

    fn all_of(from: &OwnedFd) -> Vec<u8> {
        let (mut found, mut buffer) = (Vec::new(), vec![0; 3000]);
        loop {
            match read(from, &mut *buffer).expect("a pipe") {
                0 => return found,
                n => found.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Bytes that are no text, in an order in which a loss is noticed.
    fn bytes(n: u32) -> Vec<u8> {
        (0..n).flat_map(u32::to_be_bytes).collect()
    }

    fn write_whole(to: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            bytes = &bytes[write(to, bytes)?..];
        }
        Ok(())
    }

    fn passed_through(flags: PipeFlags) {
        let sent = bytes(300_000);
        let (from, writer) = pipe().expect("a pipe");
        let (reader, to) = pipe_with(flags).expect("a pipe");
        if flags.contains(PipeFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).expect("a flag");
        }
        let (pumped, seen, arrived) = thread::scope(|scope| {
            scope.spawn(|| write_whole(&{ writer }, &sent).expect("a reader"));
            let reads = scope.spawn(|| all_of(&reader));
            let mut seen: Vec<u8> = Vec::new();
            let pumped =
                pump(from, Some(to.as_fd()), Unread::Stop, &AtomicBool::default(), &mut |bytes| {
                    seen.extend(bytes);
                });
            drop(to);
            (pumped, seen, reads.join().expect("a thread"))
        });
        let bytes = sent.len() as u64;
        assert_eq!(pumped, Pumped { bytes, unread: None, end: PumpEnd::Eof });
        assert!(arrived == sent, "the reader has them all");
        assert!(seen == sent, "the observer too");
    }

    #[test]
    fn every_byte_passes_in_order_and_is_seen() {
        passed_through(PipeFlags::CLOEXEC);
    }

    #[test]
    fn an_output_that_somebody_made_non_blocking_loses_nothing() {
        passed_through(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
    }

    #[test]
    fn what_is_read_is_out_before_it_is_looked_at() {
        let (from, writer) = pipe().expect("a pipe");
        let (reader, to) = pipe_with(PipeFlags::NONBLOCK).expect("a pipe");
        let mut seen = 0;
        write_whole(&{ writer }, b"a line\n").expect("a reader");
        pump(from, Some(to.as_fd()), Unread::Stop, &AtomicBool::default(), &mut |bytes| {
            let mut buffer = [0; 100];
            assert_eq!(read(&reader, &mut buffer), Ok(bytes.len()), "it is there already");
            seen += bytes.len();
        });
        assert_eq!(seen, 7);
    }

    #[test]
    fn without_a_reader_it_is_read_to_its_end_and_seen() {
        let sent = bytes(100_000);
        let (from, writer) = pipe().expect("a pipe");
        let (reader, to) = pipe().expect("a pipe");
        drop(reader);
        let (pumped, seen) = thread::scope(|scope| {
            scope.spawn(|| write_whole(&{ writer }, &sent).expect("it goes on"));
            let mut seen: Vec<u8> = Vec::new();
            (
                pump(from, Some(to.as_fd()), Unread::Drop, &AtomicBool::default(), &mut |bytes| {
                    seen.extend(bytes);
                }),
                seen,
            )
        });
        let bytes = sent.len() as u64;
        assert_eq!(pumped, Pumped { bytes, unread: Some(Errno::PIPE), end: PumpEnd::Eof });
        assert!(seen == sent);
    }

    #[test]
    fn a_writer_that_is_to_know_of_it_gets_the_error_of_a_plain_pipe() {
        let (from, writer) = pipe().expect("a pipe");
        let (reader, to) = pipe().expect("a pipe");
        drop(reader);
        let (pumped, error) = thread::scope(|scope| {
            let told = scope.spawn(|| {
                let writer = writer;
                loop {
                    if let Err(error) = write_whole(&writer, &bytes(1000)) {
                        return error;
                    }
                }
            });
            let mut seen = 0_u64;
            let pumped =
                pump(from, Some(to.as_fd()), Unread::Stop, &AtomicBool::default(), &mut |bytes| {
                    seen += bytes.len() as u64;
                });
            assert_eq!(seen, pumped.bytes, "what was read is seen");
            (pumped, told.join().expect("a thread"))
        });
        assert_eq!((pumped.unread, pumped.end), (Some(Errno::PIPE), PumpEnd::Stopped));
        assert_eq!(error, Errno::PIPE);
    }

    #[test]
    fn with_nobody_to_pass_it_on_to_it_is_seen_alone() {
        let (from, writer) = pipe().expect("a pipe");
        write_whole(&{ writer }, b"abc").expect("a reader");
        let mut seen: Vec<u8> = Vec::new();
        let pumped =
            pump(from, None, Unread::Stop, &AtomicBool::default(), &mut |bytes| seen.extend(bytes));
        assert_eq!(pumped, Pumped { bytes: 3, unread: None, end: PumpEnd::Eof });
        assert_eq!(seen, b"abc");
    }

    #[test]
    fn what_cannot_be_read_is_no_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = OwnedFd::from(std::fs::File::open(dir.path()).expect("a directory"));
        let pumped = pump(dir, None, Unread::Stop, &AtomicBool::default(), &mut |_| {
            panic!("there is nothing")
        });
        assert_eq!(pumped.end, PumpEnd::Failed(Errno::ISDIR));
    }
}
