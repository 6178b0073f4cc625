//! A spool file that is read in pieces has every record once, whatever stands between them (H-49).

use coord_store::Spool;
use coord_testkit::FakeDisk;
use coord_wire::{frame, spool};
use std::path::Path;

const NO_FAULT: &str = "no fault is armed";

fn dir() -> &'static Path {
    Path::new("/j")
}

fn spool_file(records: &[&str], folded: u64) -> Vec<u8> {
    let mut bytes = vec![0; spool::HEADER_BYTES];
    bytes[..8].copy_from_slice(&spool::HEADER_MAGIC);
    bytes[8..16].copy_from_slice(&folded.to_le_bytes());
    bytes[16..24].copy_from_slice(&(records.len() as u64).to_le_bytes());
    for record in records {
        frame::push(&mut bytes, record.as_bytes());
    }
    bytes
}

/// All pieces of a file: its records, and how many bytes were none.
fn in_pieces(spool: &Spool<FakeDisk>, name: &str) -> (Vec<Vec<u8>>, u64, usize) {
    let (mut records, mut damaged, mut n, mut at) = (Vec::new(), 0, 0, Some(0));
    while let Some(from) = at {
        let piece = spool.piece(name, from).expect(NO_FAULT);
        assert!(piece.next.is_none_or(|next| from < next), "each piece goes further");
        records.extend(piece.records().map(<[u8]>::to_vec));
        damaged += piece.damaged;
        n += 1;
        at = piece.next;
    }
    (records, damaged, n)
}

// H-49: what is read in pieces is what stands in the file.
#[test]
fn h49_a_spool_file_in_pieces_has_every_record_once() {
    let disk = FakeDisk::new();
    let spool = Spool::new(disk.clone(), dir());
    let texts: Vec<String> =
        (0..3000_usize).map(|n| format!("{n:05} {}", "x".repeat(n * 37 % 900))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    disk.write_synced(&dir().join("drain-1"), &spool_file(&texts, 7));
    let (records, damaged, pieces) = in_pieces(&spool, "drain-1");
    assert!(records.iter().eq(texts.iter().map(|text| text.as_bytes())));
    assert_eq!((damaged, spool.piece("drain-1", 0).unwrap().folded), (0, 7));
    assert!(30 <= pieces, "{pieces} pieces");
    assert_eq!(spool.read("drain-1").unwrap().records().len(), 3000);
    // Bytes that are no record between them, longer than a piece, and a torn one at the end.
    let mut bytes = spool_file(&["a"], 0);
    bytes.resize(bytes.len() + 600_000, 0);
    frame::push(&mut bytes, b"b");
    bytes.extend_from_slice(&frame::MAGIC);
    disk.write_synced(&dir().join("drain-2"), &bytes);
    let (records, damaged, _) = in_pieces(&spool, "drain-2");
    assert_eq!((records, damaged), (vec![b"a".to_vec(), b"b".to_vec()], 600_004));
}

// H-49: heads that promise records which overlap cost each piece a bounded number of checksums.
#[test]
fn h49_overlapping_heads_end_a_piece_early() {
    let disk = FakeDisk::new();
    let spool = Spool::new(disk.clone(), dir());
    let mut bytes = spool_file(&[], 0);
    for _ in 0..20_000 {
        bytes.extend_from_slice(&frame::MAGIC);
        bytes.extend_from_slice(&60_000_u32.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    frame::push(&mut bytes, b"whole");
    disk.write_synced(&dir().join("drain-1"), &bytes);
    let (records, damaged, pieces) = in_pieces(&spool, "drain-1");
    assert_eq!((records, damaged), (vec![b"whole".to_vec()], 240_000));
    assert!(100 < pieces, "{pieces} pieces");
}
