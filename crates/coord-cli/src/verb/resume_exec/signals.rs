//! Signals as a program expects them at its start.
#![expect(unsafe_code, reason = "calls of the C library that set plain values")]

use core::mem::MaybeUninit;
use core::ptr::null_mut;

/// Gives every signal its default effect and blocks none: what was ignored or blocked in the shell
/// or in this program would stay so in the client.
pub(super) fn reset() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: a disposition is a plain value. KILL and STOP have theirs for ever.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: the set is filled before it is read, and this program has one thread.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
    }
}
