//! Random numbers that a seed repeats.

use std::time::Duration;

/// SplitMix64: small, and good enough to choose moments and sizes.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers of one seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The seed of this run: `COORD_TEST_SEED`, else a fresh one. Whoever draws it prints it.
    #[track_caller]
    pub fn seed() -> u64 {
        if let Ok(seed) = std::env::var("COORD_TEST_SEED") {
            return seed.parse().expect("COORD_TEST_SEED is a number");
        }
        let mut bytes = [0; 8];
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        assert_eq!(got, Ok(bytes.len()));
        u64::from_ne_bytes(bytes)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let at = self.below(u64::try_from(of.len()).expect("fits"));
        &of[usize::try_from(at).expect("below a length")]
    }

    /// A time below `bound`, in microseconds.
    pub fn time_below(&mut self, bound: Duration) -> Duration {
        let micros = u64::try_from(bound.as_micros()).expect("fits");
        Duration::from_micros(self.below(micros.max(1)))
    }
}
