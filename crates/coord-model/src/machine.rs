//! Machines of a fleet.

use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A machine of a fleet, by 128 bits that follow from its signing key: whoever has a machine's id can tell which
/// key is its own. Neither the host name nor the machine id of the system decides it, since clones share them (F-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineId(pub u128);

impl MachineId {
    /// Number of hexadecimal digits of an id.
    const DIGITS: usize = 32;

    /// Parses an id; none if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |one: u8| one.is_ascii_digit() || (b'a'..=b'f').contains(&one);
        let is_id = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        u128::from_str_radix(text, 16).ok().filter(|_| is_id).map(Self)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for MachineId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MachineId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not the id of a machine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ids_are_written_and_read() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let text = MachineId(bits).to_string();
            assert_eq!((text.len(), MachineId::parse(&text)), (32, Some(MachineId(bits))));
        }
        let upper = MachineId(u128::MAX).to_string().to_uppercase();
        for odd in ["", "0", &"0".repeat(33), &upper, "+0123456789abcdef0123456789abcde"] {
            assert_eq!(MachineId::parse(odd), None, "{odd}");
        }
    }
}
