//! G1, H-29: every single operation of a coordinator's life fails once; and the disk fills up.

mod workload;

use coord_sim::{Damage, FakeDisk, Fault};
use std::io::ErrorKind;
use workload::{Log, disk};

/// The coordinator lives on, is started anew, and the power goes: each time the log holds.
#[track_caller]
fn check(disk: &FakeDisk, mut log: Log, what: &str) {
    for damage in [Damage::Kept, Damage::Dropped, Damage::Torn(3), Damage::Torn(4)] {
        log.check(&disk.after_crash(damage), damage, &format!("{what}, {damage:?}"));
    }
    log.check(disk, Damage::Kept, &format!("{what}, restarted"));
}

fn fail_each(kind: ErrorKind) {
    for at in 1.. {
        let disk = disk();
        let mut log = Log::default();
        disk.arm(Fault::Error { at, kind });
        log.live(&disk);
        let is_over = disk.operations() < at;
        disk.disarm();
        check(&disk, log, &format!("operation {at} failed with {kind}"));
        if is_over {
            break;
        }
    }
}

#[test]
fn g1_any_io_error_loses_nothing() {
    fail_each(ErrorKind::Other);
}

#[test]
fn h29_any_operation_may_find_the_disk_full() {
    fail_each(ErrorKind::StorageFull);
}

#[test]
fn h29_a_disk_that_fills_up_at_any_byte_loses_nothing() {
    let full = disk();
    let before = full.used();
    Log::default().live(&full);
    for capacity in (before..before + 4000).step_by(7) {
        let disk = disk();
        let mut log = Log::default();
        disk.set_capacity(Some(capacity));
        log.live(&disk);
        disk.set_capacity(None);
        check(&disk, log, &format!("capacity {capacity}"));
    }
}
