//! The kind of machine whose packages are tried: this one, or the one that `COORD_TEST_MACHINE` names. The kernel runs
//! programs of the latter in an emulator (Debian: qemu-user-static).

use std::env::consts::ARCH;
use std::path::Path;

/// Its name, such as `x86_64`.
pub fn machine() -> String {
    std::env::var("COORD_TEST_MACHINE").unwrap_or_else(|_| ARCH.to_owned())
}

/// What rustc calls it.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", machine())
}

/// Whether its programs need an emulator. The kernel then names the emulator as the program of a process, and coord cannot
/// tell that the program of the coordinator was replaced by one of the same version.
pub fn is_emulated() -> bool {
    machine() != ARCH
}

/// Commands of a shell after which the kernel runs its programs. They change a list that belongs to the user namespace.
pub(crate) fn emulation() -> String {
    if !is_emulated() {
        return String::new();
    }
    assert_eq!(machine(), "aarch64", "COORD_TEST_MACHINE: an emulator is known for aarch64 only");
    let emulator = "/usr/bin/qemu-aarch64-static";
    assert!(Path::new(emulator).exists(), "no {emulator} (Debian: qemu-user-static)");
    // The beginning of an ELF program for this machine, and which bits of it count.
    let magic = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00";
    let mask = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
    format!(
        "mount -t binfmt_misc none /proc/sys/fs/binfmt_misc && \
         printf '%s' ':coord-test:M::{magic}:{mask}:{emulator}:FP' \
         >/proc/sys/fs/binfmt_misc/register || exit;"
    )
}
