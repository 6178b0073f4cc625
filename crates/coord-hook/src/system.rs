//! The interface to the C library: entry, arguments, exit, and the signals of a failed write.
//!
//! The programs skip the standard library's start-up (signal stack, thread data, descriptor
//! checks), which costs several page faults. The parts of it that a hook needs are done here and in
//! [`crate::files`].
#![expect(
    unsafe_code,
    reason = "raw arguments and three calls of the C library; nothing else does"
)]

use core::ffi::{CStr, c_char};

/// The argument vector, as the C library passes it to `main`.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Args(*const *const c_char);

/// The arguments after the program's name.
pub(crate) fn arguments(n: i32, vector: Args) -> impl Iterator<Item = &'static CStr> {
    let n = if vector.0.is_null() { 0 } else { usize::try_from(n).unwrap_or(0) };
    (1..n).filter_map(move |i| {
        // SAFETY: the C library gives `n` pointers to strings that live as long as the process.
        let argument = unsafe { *vector.0.add(i) };
        if argument.is_null() {
            return None;
        }
        // SAFETY: as above, and it is not null.
        Some(unsafe { CStr::from_ptr(argument) })
    })
}

/// The words after the first `--`, if there are any.
pub(crate) fn command(n: i32, vector: Args) -> Option<Args> {
    let at = arguments(n, vector).position(|argument| argument.to_bytes() == b"--")?;
    let from = at.checked_add(2)?;
    if i32::try_from(from).ok()? < n {
        // SAFETY: it is one of the `n` places of the vector.
        Some(Args(unsafe { vector.0.add(from) }))
    } else {
        None
    }
}

impl Args {
    /// The words as the C library takes them: the last one is followed by a null pointer.
    pub(crate) fn words(self) -> *const *const c_char {
        self.0
    }

    /// The first word.
    pub(crate) fn first(self) -> &'static CStr {
        // SAFETY: whoever makes one of these knows that there is a word.
        unsafe { CStr::from_ptr(*self.0) }
    }
}

/// Ends the process at once: nothing is flushed, and no handler runs.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Makes a closed standard output, or a limit on file sizes, an error of `write` instead of a
/// signal.
pub(crate) fn ignore_write_signals() {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: SIG_IGN is a valid disposition of both, and no other thread exists.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
