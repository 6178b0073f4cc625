//! G1, H-29: every single operation of a coordinator's life fails once; and the disk fills up.

use crate::workload::{Log, disk};
use coord_testkit::{Damage, FakeDisk, Fault};
use std::io::ErrorKind;

/// The coordinator lives on, is started anew, and the power goes: each time the log holds.
#[track_caller]
fn check(disk: &FakeDisk, mut log: Log, what: &str) {
    for damage in [Damage::Kept, Damage::Dropped, Damage::Torn(3), Damage::Torn(4)] {
        log.check(&disk.after_crash(damage), damage, &format!("{what}, {damage:?}"));
    }
    log.check(disk, Damage::Kept, &format!("{what}, restarted"));
}

/// Fails each operation in turn, until none is left; the report.
fn fail_each(kind: ErrorKind) -> String {
    for at in 1.. {
        let disk = disk();
        let before = disk.operations();
        let mut log = Log::default();
        disk.arm(Fault::Error { at, kind });
        log.live(&disk);
        let is_over = disk.operations() - before < at;
        disk.disarm();
        check(&disk, log, &format!("operation {at} failed with {kind}"));
        if is_over {
            let failed = at - 1;
            return format!(
                "faults: {failed} operations failed with {kind}, {} images opened",
                5 * at
            );
        }
    }
    String::new()
}

#[test]
fn g1_any_io_error_loses_nothing() {
    println!("{}", fail_each(ErrorKind::Other));
}

#[test]
fn h29_any_operation_may_find_the_disk_full() {
    println!("{}", fail_each(ErrorKind::StorageFull));
}

#[test]
fn h29_a_disk_that_fills_up_at_any_byte_loses_nothing() {
    let free = disk();
    let before = free.used();
    Log::default().live(&free);
    // Snapshots and segments that are gone at the end took room as well.
    let capacities = (before..2 * free.used()).step_by(7);
    let n = capacities.clone().count();
    println!("faults: {n} sizes of a disk, {} images opened", 5 * n);
    for capacity in capacities {
        let disk = disk();
        let mut log = Log::default();
        disk.set_capacity(Some(capacity));
        log.live(&disk);
        disk.set_capacity(None);
        check(&disk, log, &format!("capacity {capacity}"));
    }
}
