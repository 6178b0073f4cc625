//! Reads single fields of JSON text, and skips everything else, whatever its size and depth.

use core::fmt;
use core::hash::Hasher;
use std::time::Duration;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use siphasher::sip::SipHasher13;

/// Longest text that is read, in bytes; no longer one decides anything.
const TEXT_BYTES_MAX: usize = 256;

/// The values of an object at `keys`, the last one for each key; none if the text is no complete object.
pub(super) fn fields<'a, const N: usize>(
    json: &'a [u8],
    keys: &[&str; N],
) -> Option<[Option<&'a RawValue>; N]> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let found = Fields(keys).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(found)
}

/// Visits the elements of a list. Returns whether the value is a list.
pub(super) fn each(list: &RawValue, visit: &mut dyn FnMut(&RawValue)) -> bool {
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(Each(visit)).is_ok()
}

/// Whether this is one complete object.
pub(super) fn is_object(json: &[u8]) -> bool {
    let begins = json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    begins && serde_json::from_slice::<IgnoredAny>(json).is_ok()
}

/// A short text; none for anything else.
pub(super) fn text(value: &RawValue) -> Option<String> {
    let json = value.get();
    if json.len() <= TEXT_BYTES_MAX { serde_json::from_str(json).ok() } else { None }
}

/// A number of seconds, or of anything else, that is not negative.
pub(super) fn number(value: &RawValue) -> Option<Duration> {
    let json = value.get();
    let number = if json.len() <= TEXT_BYTES_MAX { serde_json::from_str(json).ok() } else { None };
    Duration::try_from_secs_f64(number?).ok()
}

/// A boolean; none for anything else.
pub(super) fn flag(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

/// A digest of an id; none if the id is no text.
pub(super) fn digest(id: &RawValue) -> Option<u64> {
    let json = id.get();
    json.starts_with('"').then(|| {
        let mut hasher = SipHasher13::new();
        hasher.write(json.as_bytes());
        hasher.finish()
    })
}

struct Fields<'k, const N: usize>(&'k [&'k str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(at) = map.next_key_seed(Key(self.0))? {
            match at.and_then(|at| found.get_mut(at)) {
                Some(found) => *found = Some(map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// The position of a key among the requested ones.
struct Key<'k>(&'k [&'k str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wished| *wished == key))
    }
}

struct Each<'f>(&'f mut dyn FnMut(&RawValue));

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element::<&RawValue>()? {
            (self.0)(element);
        }
        Ok(())
    }
}
