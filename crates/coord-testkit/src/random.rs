//! Chance for the simulated world: the same choices for the same seed, on every machine.
//!
//! It is SplitMix64 (Steele, Lea and Flood, 2014): each seed, zero too, begins a sequence of full
//! length of its own, so that seeds 1, 2, 3… are as good as any. It decides nothing about the
//! product and is fit for no secret.

use std::ops::Range;

/// A sequence of choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "a sequence without end is no iterator here")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product is even to within n / 2^64, and needs no second draw.
        let product = u128::from(self.next()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number in the range; its start if it is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// An index of a list of this length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// One of the items; none of an empty list.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// True half of the time.
    pub fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// True with this probability: never at 0, always at 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit into a double exactly")]
    pub fn chance(&mut self, probability: f64) -> bool {
        let drawn = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut random = Random::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }

    #[test]
    fn choices_stay_in_their_bounds_and_reach_them() {
        let mut random = Random::new(0);
        let drawn: Vec<u64> = (0..200).map(|_| random.range(3..7)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!((random.below(0), random.index(0), random.range(5..5)), (0, 0, 5));
        assert_eq!((random.pick(&[4]), random.pick::<u8>(&[])), (Some(&4), None));
        assert!((0..200).all(|_| random.chance(1.0) && !random.chance(0.0)));
        let heads = (0..1000).filter(|_| random.coin()).count();
        let seldom = (0..1000).filter(|_| random.chance(0.1)).count();
        assert!((400..600).contains(&heads) && (50..150).contains(&seldom), "{heads} {seldom}");
    }
}
