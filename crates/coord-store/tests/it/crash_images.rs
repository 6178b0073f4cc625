//! G1, G10: the life of a coordinator, cut at every operation on its disk.

use crate::workload::{self, Log, disk};
use coord_testkit::{Damage, FakeDisk, Fault};

/// Lives with the power cut at every operation in turn, and once without; returns how many there
/// are.
fn cut_everywhere(mut then: impl FnMut(u64, &FakeDisk, &mut Log)) -> u64 {
    for at in 1.. {
        let disk = disk();
        let before = disk.operations();
        let mut log = Log::default();
        disk.arm(Fault::PowerCut { at });
        log.live(&disk);
        then(at, &disk, &mut log);
        if disk.operations() - before < at {
            assert!(100 < at, "the workload does something: {at} operations");
            return at - 1;
        }
    }
    0
}

/// Cuts a life at every operation and checks what the next boot finds; the report.
fn check_everywhere(damages: &[Damage]) -> String {
    let mut images = 0;
    let operations = cut_everywhere(|at, disk, log| {
        for damage in damages {
            let image = disk.after_crash(*damage);
            log.check(&image, *damage, &format!("cut at operation {at}, {damage:?}"));
            images += 1;
        }
    });
    format!("crash images: {operations} operations cut, {images} images opened")
}

#[test]
fn g1_killed_anywhere_nothing_acknowledged_is_lost() {
    println!("{}", check_everywhere(&[Damage::Kept]));
}

#[test]
fn g1_power_cut_anywhere_nothing_synced_is_lost() {
    println!("{}", check_everywhere(&[Damage::Dropped]));
}

#[test]
fn g1_power_cut_anywhere_torn_data_is_never_half_a_record() {
    let seeds: Vec<Damage> = (0..24).map(Damage::Torn).collect();
    println!("{}", check_everywhere(&seeds));
}

// G10: the second coordinator's start is cut as well.
#[test]
fn g1_power_cut_while_repairing_loses_nothing() {
    let (mut starts, mut images) = (0, 0);
    let operations = cut_everywhere(|at, disk, log| {
        let torn = Damage::Torn(at);
        for again in 1.. {
            let image = disk.after_crash(torn);
            image.arm(Fault::PowerCut { at: again });
            drop(workload::open(&image));
            starts += 1;
            for second in [torn, Damage::Dropped, Damage::Kept] {
                let what = format!("cut at {at}, the start behind it at {again}, {second:?}");
                log.check(&image.after_crash(second), torn, &what);
                images += 1;
            }
            if image.operations() < again {
                break;
            }
        }
    });
    println!(
        "crash images: {operations} operations cut, {starts} starts behind them, {images} images opened"
    );
}
