//! Counts the paths in git's answers while they come. No path is kept.

/// Most bytes of a record that are kept: what says how a path differs comes first.
const RECORD_BYTES_MAX: usize = 8;

/// The counts of `git status --porcelain=v2 -z`.
#[derive(Debug, Default)]
pub(super) struct Status {
    pub(super) staged: u64,
    pub(super) changed: u64,
    pub(super) conflicted: u64,
    /// The beginning of a record that is not complete.
    record: Vec<u8>,
    /// Whether that record is the second path of a rename.
    is_origin: bool,
}

impl Status {
    pub(super) fn feed(&mut self, piece: &[u8]) {
        for byte in piece {
            if *byte != 0 {
                if self.record.len() < RECORD_BYTES_MAX {
                    self.record.push(*byte);
                }
                continue;
            }
            let is_origin = std::mem::take(&mut self.is_origin);
            if !is_origin {
                self.count();
            }
            self.record.clear();
        }
    }

    fn count(&mut self) {
        match self.record.as_slice() {
            [kind @ (b'1' | b'2'), b' ', index, file, b' ', ..] => {
                self.staged += u64::from(*index != b'.');
                self.changed += u64::from(*file != b'.');
                self.is_origin = *kind == b'2';
            }
            [b'u', b' ', ..] => self.conflicted += 1,
            _ => (),
        }
    }
}

/// The number of names, each ended by a NUL.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) n: u64,
}

impl Names {
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.n += piece.iter().filter(|byte| **byte == 0).map(|_| 1).sum::<u64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"# branch.oid 1\x001 M. N... 100644 1 a\nb\x001 MM N... 1 1 b\x00\
        1 .D N... 1 1 c\x002 R. N... 1 1 R100 new\x001 MM old\x00u UU N... 1 d\x00? e\x00! f\x00\
        1 A. cut off";

    #[test]
    fn q_04_records_are_counted_wherever_the_pieces_are_cut() {
        for size in 1..ANSWER.len() {
            let mut status = Status::default();
            ANSWER.chunks(size).for_each(|piece| status.feed(piece));
            let counts = (status.staged, status.changed, status.conflicted);
            assert_eq!(counts, (3, 2, 1), "pieces of {size}");
        }
    }

    #[test]
    fn q_04_what_is_no_record_counts_nothing() {
        let mut status = Status::default();
        status.feed(b"\x00\x001\x001 \x001 MM\x00MM 1 \x00u\x00\xff\xff\x00");
        assert_eq!((status.staged, status.changed, status.conflicted), (0, 0, 0));
        let mut names = Names::default();
        names.feed(b"a\x00b");
        names.feed(b"c\x00");
        assert_eq!(names.n, 2);
    }
}
