//! Makes new inputs out of old ones. Decides nothing about what they mean.

use crate::random::Random;

/// No input is longer.
const INPUT_BYTES_MAX: usize = 96 * 1024;
/// Most changes to one input.
const CHANGES_MAX: usize = 6;
const NESTING_MAX: usize = 6000;

/// Bytes that parsers and terminals trip over.
const INTERESTING: [&[u8]; 32] = [
    b"\0",
    b"\x1b[31m",
    b"\x1b]0;t\x07",
    b"\x1b[201~",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"\xc2\x9b",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b"\xcc\x81",
    b"\\u0000",
    b"\\u001b",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\ud83d\\ude00",
    b"\r\n",
    b"\n\n",
    b"\"",
    b"\\",
    b"\\\"",
    b"{}",
    b"[]",
    b"null",
    b",",
    b"%00%2f%",
    b"\t",
];

/// Numbers at limits of their types, and ones that are none.
const NUMBERS: [&str; 24] = [
    "0",
    "-1",
    "-0",
    "1",
    "127",
    "255",
    "256",
    "65535",
    "65536",
    "1048577",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "1e999",
    "0.1",
    "1e-7",
    "007",
    "+5",
];

/// JSON values to stand where another does.
const VALUES: [&str; 12] = [
    "null",
    "true",
    "-1",
    "18446744073709551616",
    "\"\"",
    "\"\\u001b[2J\\u202e\"",
    "\"\\ud800\"",
    "\"x\",\"x\":\"y\"",
    "[]",
    "{}",
    "[{\"type\":\"text\",\"text\":\"\"}]",
    "{\"hooks\":[]}",
];

/// What nests, opened and closed.
const NESTS: [(&[u8], &[u8]); 4] = [(b"[", b"]"), (b"{\"a\":", b"}"), (b"[[", b""), (b"a.", b"")];

/// Makes a text of an input: what is no UTF-8 hides what comes behind it.
pub(crate) fn as_text(input: &mut Vec<u8>) {
    if core::str::from_utf8(input).is_err() {
        *input = String::from_utf8_lossy(input).into_owned().into_bytes();
    }
}

/// Makes inputs out of a pool.
#[derive(Debug)]
pub(crate) struct Mutator<'a> {
    pub(crate) pool: &'a [Vec<u8>],
    pub(crate) dictionary: &'a [&'a str],
}

impl Mutator<'_> {
    /// A new input.
    pub(crate) fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = self.other(random).to_vec();
        // A text that changes in whole values only is still one, and is looked into deeper.
        let is_gentle = random.one_in(3);
        for _ in 0..=random.below(CHANGES_MAX) {
            if is_gentle {
                self.change_value(&mut input, random);
            } else {
                self.change(&mut input, random);
            }
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn other(&self, random: &mut Random) -> &[u8] {
        self.pool.get(random.below(self.pool.len())).map_or(&[], Vec::as_slice)
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() + 1);
        match random.below(20) {
            0 => flip(input, random),
            1 => {
                let n = 1 + random.below(8);
                insert(input, at, &random.bytes(n));
            }
            2 => drop(input.drain(some_range(input, random))),
            3 => {
                let range = some_range(input, random);
                let times = if random.one_in(20) { 1 + random.below(200) } else { 1 };
                let piece = input[range].repeat(times);
                insert(input, at, &piece);
            }
            4 => {
                let other = self.other(random);
                input.truncate(at);
                input.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
            5 => {
                let other = self.other(random);
                let piece = other[some_range(other, random)].to_vec();
                insert(input, at, &piece);
            }
            6 => input.truncate(at),
            7 | 8 => insert(input, at, random.pick(&INTERESTING)),
            9 | 10 => replace_number(input, random),
            11 => nest(input, at, random),
            12 => {
                let token = token(self.other(random), random).to_vec();
                let place = token_place(input, random);
                input.splice(place, token);
            }
            13 | 14 if !self.dictionary.is_empty() => {
                let word = random.pick(self.dictionary).as_bytes();
                if random.one_in(2) {
                    insert(input, at, word);
                } else {
                    input.splice(token_place(input, random), word.iter().copied());
                }
            }
            15 => overwrite_number(input, random),
            _ => self.change_value(input, random),
        }
    }

    /// Puts a JSON value in the place of another.
    fn change_value(&self, input: &mut Vec<u8>, random: &mut Random) {
        let other = self.other(random);
        let value = match value_place(other, random).filter(|_| !random.one_in(3)) {
            Some(place) => other[place].to_vec(),
            None => VALUES[random.below(VALUES.len())].as_bytes().to_vec(),
        };
        if let Some(place) = value_place(input, random) {
            input.splice(place, value);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if input.len() + piece.len() <= INPUT_BYTES_MAX {
        input.splice(at..at, piece.iter().copied());
    }
}

fn flip(input: &mut [u8], random: &mut Random) {
    let at = random.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

/// Mostly short.
fn some_range(input: &[u8], random: &mut Random) -> core::ops::Range<usize> {
    let from = random.below(input.len() + 1);
    let rest = input.len() - from;
    let longest = if random.one_in(4) { rest } else { rest.min(40) };
    from..from + random.below(longest + 1)
}

/// Where a word or number stands, or nothing.
fn token_place(input: &[u8], random: &mut Random) -> core::ops::Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let at = random.below(input.len() + 1);
    let (before, behind) = input.split_at(at);
    let from = before.iter().rposition(|byte| !is_part(byte)).map_or(0, |last| last + 1);
    let to = behind.iter().position(|byte| !is_part(byte)).map_or(input.len(), |n| at + n);
    from..to
}

fn token<'a>(input: &'a [u8], random: &mut Random) -> &'a [u8] {
    &input[token_place(input, random)]
}

/// Where a JSON value stands, as far as brackets and quotes tell; none if no value follows.
fn value_place(input: &[u8], random: &mut Random) -> Option<core::ops::Range<usize>> {
    let from = random.below(input.len() + 1);
    let before = input[from..].iter().position(|byte| matches!(byte, b':' | b'[' | b',' | b'{'))?;
    let start = from + before + 1;
    let start = start + input[start..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in input.iter().enumerate().skip(start) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => (),
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' | b':' if depth == 0 => return Some(start..at),
            b']' | b'}' => depth -= 1,
            _ => (),
        }
    }
    Some(start..input.len())
}

fn replace_number(input: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(input.len() + 1);
    let Some(start) = input[from..].iter().position(u8::is_ascii_digit).map(|n| from + n) else {
        return;
    };
    let end = input[start..].iter().position(|b| !b.is_ascii_digit());
    let end = end.map_or(input.len(), |n| start + n);
    input.splice(start..end, random.pick(&NUMBERS).bytes());
}

/// A binary number at its limits, as in heads and headers.
fn overwrite_number(input: &mut [u8], random: &mut Random) {
    let numbers = [0, 1, 0xFF, 0xFFFF, 0x7FFF_FFFF, u64::from(u32::MAX), 1 << 63, u64::MAX];
    let number = numbers[random.below(numbers.len())].to_le_bytes();
    let width = [2, 4, 8][random.below(3)];
    let at = random.below(input.len().saturating_sub(width) + 1);
    if let Some(place) = input.get_mut(at..at + width) {
        place.copy_from_slice(&number[..width]);
    }
}

fn nest(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let deep = if random.one_in(4) { NESTING_MAX } else { 150 };
    let n = 1 + random.below(deep);
    let (open, close) = NESTS[random.below(NESTS.len())];
    let middle: &[u8] = if random.one_in(2) { b"1" } else { b"" };
    let piece = [&open.repeat(n)[..], middle, &close.repeat(n)].concat();
    insert(input, at, &piece);
}
