//! A file of the spool: whatever was done to it, every record that stands whole in it is found, and
//! every other byte is accounted for (G1, G2).

use super::frames::{anywhere, repair};
use super::{Target, assert_is_one_line};
use coord_store::{Finding, Spool, Taken};
use coord_testkit::FakeDisk;
use coord_wire::frame::{self, HEAD_BYTES};
use coord_wire::spool::{HEADER_BYTES, HEADER_MAGIC};
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "spool",
    seeds,
    dictionary: &["CRDSPL1\n"],
    repair: Some(|input| repair(input)),
    run,
};

const DIR: &str = "/state/spool";

fn seeds() -> Vec<Vec<u8>> {
    let mut file = HEADER_MAGIC.to_vec();
    file.resize(HEADER_BYTES, 0);
    let mut seeds = vec![file.clone()];
    for n in 0..6 {
        frame::push(
            &mut file,
            format!("{{\"v\":1,\"id\":\"{n:032x}\",\"event\":\"Stop\"}}").as_bytes(),
        );
        seeds.push(file.clone());
    }
    let solo = file.split_off(HEADER_BYTES);
    seeds.push(solo);
    seeds
}

fn run(input: &[u8]) -> String {
    let disk = FakeDisk::new();
    disk.write_synced(&Path::new(DIR).join("current"), input);
    disk.write_synced(&Path::new(DIR).join("solo-1"), input);
    let spool = Spool::new(disk, Path::new(DIR));
    // The sum of a counter at the end of its type and of the solo file is not bounded.
    if input.get(16..24) != Some(&[0xFF; 8]) {
        spool.pending().expect("a counter is read or is none");
    }
    let taken = spool.take().expect("the disk is whole");
    let has_header = input.starts_with(&HEADER_MAGIC);
    let from = if has_header { HEADER_BYTES.min(input.len()) } else { 0 };
    let expected = anywhere(input, from);
    // A file that is shorter than its header is being made; it holds nothing yet.
    let may_stay = input.len() <= HEADER_BYTES;
    assert!(taken == Taken::Taken || may_stay, "{taken:?}: records stay behind");
    let drained: Vec<_> = spool
        .drained(0)
        .expect("the disk is whole")
        .collect::<Result<_, _>>()
        .expect("the disk is whole");
    let mut seen = 0;
    for file in &drained {
        assert!(file.records().eq(expected.iter().copied()), "{}: other records", file.file);
        let mut bytes = from as u64;
        bytes += file.records().map(|record| (HEAD_BYTES + record.len()) as u64).sum::<u64>();
        for finding in &file.findings {
            assert_is_one_line(&finding.to_string(), 1000);
            if let Finding::SpoolDamage { bytes: bad, .. } = finding {
                bytes += bad;
            }
        }
        assert_eq!(bytes, input.len() as u64, "bytes that nobody speaks of");
        spool.remove(&file.file).expect("it is there");
        seen += 1;
    }
    // Both copies, but for those that hold nothing.
    let wanted = usize::from(taken == Taken::Taken) + usize::from(!expected.is_empty());
    assert_eq!(seen, wanted, "files left out");
    let damage = drained.iter().map(|file| file.findings.len()).max().unwrap_or(0);
    format!("{taken:?}, {} records, {} damages", expected.len().min(20), damage.min(10))
}
