//! Reads one JSON object in pieces as it arrives, and extracts the wanted fields.
//!
//! This module decides what is a payload: one JSON object, nested at most [`DEPTH_MAX`] deep.
//! Unwanted values are skipped and never built. There is no recursion and, except for the bounded
//! copies of wanted texts, no memory use. It is more lenient than the grammar in two points,
//! because an event is worth more than its form: strings may contain raw control bytes, and bytes
//! that are not UTF-8. It holds G7 (bounded for any input) and S4-07.

use crate::fields::{Fields, RawValue, Text, Want, want};
use crate::text::Copier;

/// Deepest nesting that is accepted.
pub(crate) const DEPTH_MAX: usize = 4096;
/// Longest name that is compared, in bytes.
const WORD_BYTES_MAX: usize = 24;

/// The result of reading a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The object continues.
    More,
    /// The object ended before this offset of the piece; what follows is not read.
    Done(usize),
    /// At this offset of the piece, the input stops being an object.
    Malformed(usize, Fault),
}

/// Why an input is no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax,
    NoObject,
    TooDeep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must follow.
    Value,
    /// After `[`: a value or `]`.
    FirstValue,
    /// After `{`: a name or `}`.
    FirstName,
    /// After a comma in an object.
    Name,
    Colon,
    /// After a value.
    After,
    Text,
    Escape,
    /// Digits of `\uXXXX` that are still missing.
    Hex(u8),
    /// The rest of `true`, `false` or `null`.
    Literal(&'static [u8]),
    Number(Number),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Dot,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// The use of the present string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Skip,
    /// A name whose value may be wanted.
    Name,
    /// The `type` of a background task.
    TaskType,
    Copy(Text),
}

/// The effect of a byte.
enum Step {
    Took,
    /// It ended a number, and must be read again.
    Again,
    Fault(Fault),
}

/// A reader of one object.
#[derive(Debug)]
pub(crate) struct Scanner {
    pub(crate) fields: Fields,
    state: State,
    depth: usize,
    /// Bit n is set if level n is an object.
    objects: [u64; DEPTH_MAX / 64],
    /// What the present top-level value is wanted for.
    want: Want,
    string: Use,
    is_name: bool,
    copier: Copier,
    /// The present name or task type.
    word: [u8; WORD_BYTES_MAX],
    word_n: usize,
    /// Whether the name at level 3 of `background_tasks` was `type`.
    is_type: bool,
    code: u16,
    number: Option<u64>,
    value: Option<RawValue>,
    /// Whether the present value is the input of a question that is answered, in its first member.
    is_answered: bool,
}

impl Scanner {
    pub(crate) fn new(fields: Fields) -> Self {
        Self {
            fields,
            state: State::Value,
            depth: 0,
            objects: [0; DEPTH_MAX / 64],
            want: Want::Nothing,
            string: Use::Skip,
            is_name: false,
            copier: Copier::default(),
            word: [0; WORD_BYTES_MAX],
            word_n: 0,
            is_type: false,
            code: 0,
            number: None,
            value: None,
            is_answered: false,
        }
    }

    /// Reads the next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Progress {
        let mut at = 0;
        // From here on, the piece belongs to the present raw value, if there is one.
        let mut value_from = 0;
        while let Some(byte) = piece.get(at) {
            if self.state == State::Text && self.string == Use::Skip {
                let rest = &piece[at..];
                let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\'));
                if plain != Some(0) {
                    at += plain.unwrap_or(rest.len());
                    continue;
                }
            }
            let was_in_value = self.value.is_some();
            let step = self.step(*byte);
            if !was_in_value && self.value.is_some() {
                value_from = at;
            }
            match step {
                Step::Took => at += 1,
                Step::Again => (),
                Step::Fault(fault) => return Progress::Malformed(at, fault),
            }
            if self.state == State::After && self.depth == 2 && self.is_answered {
                self.end_questions(piece.get(value_from..at).unwrap_or_default());
                value_from = at;
            }
            if self.state == State::After && self.depth <= 1 {
                self.end_value(piece.get(value_from..at).unwrap_or_default());
                if self.depth == 0 {
                    return Progress::Done(at);
                }
            }
        }
        if let Some(value) = &mut self.value {
            self.fields.write_value(value, piece.get(value_from..).unwrap_or_default());
        }
        Progress::More
    }

    fn step(&mut self, byte: u8) -> Step {
        match self.state {
            State::Text => self.text(byte),
            State::Escape => return self.escape(byte),
            State::Hex(left) => return self.hex(byte, left),
            State::Literal(rest) => return self.literal(byte, rest),
            State::Number(number) => return self.number(byte, number),
            State::Value
            | State::FirstValue
            | State::FirstName
            | State::Name
            | State::Colon
            | State::After => {
                if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                    return self.structure(byte);
                }
            }
        }
        Step::Took
    }

    fn structure(&mut self, byte: u8) -> Step {
        let in_object = self.depth != 0 && self.is_object();
        match (self.state, byte) {
            (State::FirstValue, b']') | (State::FirstName, b'}') => self.close(),
            (State::After, b'}') if in_object => self.close(),
            (State::After, b']') if self.depth != 0 && !in_object => self.close(),
            (State::After, b',') if self.depth != 0 => {
                self.state = if in_object { State::Name } else { State::Value };
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::FirstName | State::Name, b'"') => self.begin_name(),
            (State::Value | State::FirstValue, _) => return self.begin_value(byte),
            _ => return Step::Fault(Fault::Syntax),
        }
        Step::Took
    }

    fn begin_name(&mut self) {
        let of_task = self.depth == 3 && self.want == Want::Tasks;
        self.string = if self.depth == 1 || of_task { Use::Name } else { Use::Skip };
        self.is_name = true;
        self.word_n = 0;
        self.state = State::Text;
    }

    fn begin_value(&mut self, byte: u8) -> Step {
        if self.depth == 0 && byte != b'{' {
            return Step::Fault(Fault::NoObject);
        }
        if self.depth == 1 {
            self.fields.forget(self.want);
            self.value = self.fields.begin_value(self.want);
            self.is_answered = self.want == Want::ToolInput && self.fields.is_answered_question();
        }
        self.count(byte);
        match byte {
            b'{' | b'[' => return self.open(byte == b'{'),
            b'"' => self.begin_string(),
            b't' | b'f' => {
                if self.depth == 1 {
                    self.fields.flag(self.want, byte == b't');
                }
                self.state = State::Literal(if byte == b't' { b"rue" } else { b"alse" });
            }
            b'n' => self.state = State::Literal(b"ull"),
            b'-' | b'0'..=b'9' => {
                self.number = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
                self.state = State::Number(match byte {
                    b'-' => Number::Minus,
                    b'0' => Number::Zero,
                    _ => Number::Integer,
                });
            }
            _ => return Step::Fault(Fault::Syntax),
        }
        Step::Took
    }

    /// Counts the elements of the two arrays of which only the number is wanted.
    fn count(&mut self, byte: u8) {
        let n = if self.want == Want::Tasks {
            &mut self.fields.tasks
        } else if self.want == Want::Crons {
            &mut self.fields.crons
        } else {
            return;
        };
        if self.depth == 1 && byte == b'[' {
            *n = Some(0);
        } else if self.depth == 2 {
            *n = n.map(|n| n.saturating_add(1));
        }
    }

    fn begin_string(&mut self) {
        self.string = match (self.depth, self.want) {
            (1, Want::Text(text)) => {
                self.copier = self.fields.begin_text(text);
                Use::Copy(text)
            }
            (3, Want::Tasks) if self.is_type && self.is_object() => Use::TaskType,
            _ => Use::Skip,
        };
        self.is_name = false;
        self.word_n = 0;
        self.state = State::Text;
    }

    fn text(&mut self, byte: u8) {
        match byte {
            b'"' => self.end_string(),
            b'\\' => self.state = State::Escape,
            _ => match self.string {
                Use::Skip => (),
                Use::Name | Use::TaskType => self.push_word(byte),
                Use::Copy(text) => {
                    self.copier.plain(self.fields.bytes_mut(), byte);
                    self.stop_copy_if_full(text);
                }
            },
        }
    }

    fn escape(&mut self, byte: u8) -> Step {
        match byte {
            b'u' => {
                (self.code, self.state) = (0, State::Hex(4));
                return Step::Took;
            }
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => (),
            _ => return Step::Fault(Fault::Syntax),
        }
        self.state = State::Text;
        match self.string {
            Use::Skip => (),
            // No wanted name or type contains an escape.
            Use::Name | Use::TaskType => self.word_n = WORD_BYTES_MAX + 1,
            Use::Copy(text) => {
                self.copier.escape(self.fields.bytes_mut(), byte);
                self.stop_copy_if_full(text);
            }
        }
        Step::Took
    }

    fn hex(&mut self, byte: u8, left: u8) -> Step {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Step::Fault(Fault::Syntax),
        };
        self.code = self.code << 4 | u16::from(digit);
        if left != 1 {
            self.state = State::Hex(left - 1);
            return Step::Took;
        }
        self.state = State::Text;
        match self.string {
            Use::Skip => (),
            Use::Name | Use::TaskType => self.word_n = WORD_BYTES_MAX + 1,
            Use::Copy(text) => {
                self.copier.code(self.fields.bytes_mut(), self.code);
                self.stop_copy_if_full(text);
            }
        }
        Step::Took
    }

    fn stop_copy_if_full(&mut self, text: Text) {
        if self.copier.is_full() {
            self.fields.end_text(text, &mut self.copier);
            self.string = Use::Skip;
        }
    }

    fn end_string(&mut self) {
        let word = self.word.get(..self.word_n).unwrap_or_default();
        match self.string {
            Use::Skip => (),
            Use::Name if self.depth == 1 => self.want = want(word),
            Use::Name => self.is_type = word == b"type",
            Use::TaskType => {
                let is_subagent = word == b"subagent";
                self.fields.subagents = self.fields.subagents.saturating_add(is_subagent.into());
            }
            Use::Copy(text) => self.fields.end_text(text, &mut self.copier),
        }
        self.state = if self.is_name { State::Colon } else { State::After };
    }

    fn push_word(&mut self, byte: u8) {
        if let Some(place) = self.word.get_mut(self.word_n) {
            *place = byte;
            self.word_n += 1;
        } else {
            self.word_n = WORD_BYTES_MAX + 1;
        }
    }

    fn literal(&mut self, byte: u8, rest: &'static [u8]) -> Step {
        match rest.split_first() {
            Some((wanted, rest)) if *wanted == byte => {
                self.state = if rest.is_empty() { State::After } else { State::Literal(rest) };
                Step::Took
            }
            _ => Step::Fault(Fault::Syntax),
        }
    }

    fn number(&mut self, byte: u8, number: Number) -> Step {
        let next = match (number, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus, b'1'..=b'9') => Number::Integer,
            (Number::Integer, b'0'..=b'9') => {
                let digit = u64::from(byte - b'0');
                self.number = self.number.and_then(|n| n.checked_mul(10)?.checked_add(digit));
                Number::Integer
            }
            (Number::Zero | Number::Integer, b'.') => Number::Dot,
            (Number::Dot | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Integer | Number::Fraction, b'e' | b'E') => {
                self.number = None;
                Number::E
            }
            (Number::E, b'+' | b'-') => Number::Sign,
            (Number::E | Number::Sign | Number::Exponent, b'0'..=b'9') => Number::Exponent,
            (Number::Zero | Number::Integer | Number::Fraction | Number::Exponent, _) => {
                if self.depth == 1 && self.want == Want::DurationMs {
                    self.fields.duration_ms = self.number;
                }
                self.state = State::After;
                return Step::Again;
            }
            _ => return Step::Fault(Fault::Syntax),
        };
        self.state = State::Number(next);
        Step::Took
    }

    fn open(&mut self, object: bool) -> Step {
        if self.depth == DEPTH_MAX {
            return Step::Fault(Fault::TooDeep);
        }
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        if object {
            self.objects[word] |= bit;
            self.state = State::FirstName;
        } else {
            self.objects[word] &= !bit;
            self.state = State::FirstValue;
        }
        self.depth += 1;
        Step::Took
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.state = State::After;
    }

    /// Whether the innermost level is an object.
    fn is_object(&self) -> bool {
        let level = self.depth - 1;
        self.objects[level / 64] & 1 << (level % 64) != 0
    }

    /// The first member of an answered question's input ends.
    fn end_questions(&mut self, last: &[u8]) {
        self.is_answered = false;
        if let Some(value) = &mut self.value {
            self.fields.write_value(value, last);
            value.close_early();
        }
    }

    fn end_value(&mut self, last: &[u8]) {
        if let Some(mut value) = self.value.take() {
            self.fields.write_value(&mut value, last);
            self.fields.end_value(self.want, &value);
        }
    }
}

#[cfg(test)]
mod tests;
