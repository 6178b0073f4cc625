//! G1, G10: the life of a coordinator, cut at every operation on its disk.

mod workload;

use coord_sim::{Damage, Fault};
use workload::{Log, disk};

fn operations_of_a_life() -> u64 {
    let disk = disk();
    Log::default().live(&disk);
    disk.operations()
}

/// Cuts a life at every operation and checks what the next boot finds.
fn cut_everywhere(damages: &[Damage]) {
    let n = operations_of_a_life();
    assert!(100 < n, "the workload does something: {n} operations");
    for at in 1..=n + 1 {
        let disk = disk();
        let mut log = Log::default();
        disk.arm(Fault::PowerCut { at });
        log.live(&disk);
        for damage in damages {
            let image = disk.after_crash(*damage);
            log.check(&image, *damage, &format!("cut at operation {at}, {damage:?}"));
        }
    }
}

#[test]
fn g1_killed_anywhere_nothing_acknowledged_is_lost() {
    cut_everywhere(&[Damage::Kept]);
}

#[test]
fn g1_power_cut_anywhere_nothing_synced_is_lost() {
    cut_everywhere(&[Damage::Dropped]);
}

#[test]
fn g1_power_cut_anywhere_torn_data_is_never_half_a_record() {
    let seeds: Vec<Damage> = (0..24).map(Damage::Torn).collect();
    cut_everywhere(&seeds);
}

// G10: the second coordinator's start is cut as well.
#[test]
fn g1_power_cut_while_repairing_loses_nothing() {
    for seed in 0..40 {
        let disk = disk();
        let mut log = Log::default();
        disk.arm(Fault::PowerCut { at: operations_of_a_life() });
        log.live(&disk);
        let torn = Damage::Torn(seed);
        for at in 1..40 {
            let image = disk.after_crash(torn);
            image.arm(Fault::PowerCut { at });
            drop(workload::open(&image));
            for second in [torn, Damage::Dropped, Damage::Kept] {
                let again = image.after_crash(second);
                log.check(&again, torn, &format!("seed {seed}, second cut at {at}, {second:?}"));
            }
        }
    }
}
