//! Decides who may use the page (H-28): whoever has the code that the terminal shows, once, within two minutes; from then
//! on the tab that traded it for a token.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// How long the code is good for.
const CODE_TIME: Duration = Duration::from_secs(120);
/// Wrong codes after which none is taken any more: the code has 39 bits.
const WRONG_MAX: u32 = 5;
/// What a code is made of: no two of these look alike.
const LETTERS: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Letters of a code.
const CODE_CHARS: usize = 8;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Why a code is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another tab has used it.
    Used,
    /// Its time is over.
    Old,
    /// It is not the code.
    Wrong,
    /// Too many wrong ones were given.
    Locked,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Used => "This code was used. Restart coord dashboard.",
            Self::Old => "This code is over 2 minutes old. Restart coord dashboard.",
            Self::Wrong => "That is not the code. Enter the code that coord dashboard printed.",
            Self::Locked => "Too many wrong codes. Restart coord dashboard.",
        })
    }
}

/// The code, and the token that was given for it. Neither can be printed by accident.
pub(crate) struct Access {
    code: String,
    since: Instant,
    wrong: u32,
    token: Option<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("is_used", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Access {
    /// A new code.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(now: Instant) -> io::Result<Self> {
        let mut code = String::new();
        while code.len() < CODE_CHARS {
            // The highest bytes are left out, so that every letter is as likely.
            let letter = |byte: &u8| LETTERS.get(usize::from(*byte)).copied();
            code.extend(
                random::<16>()?
                    .iter()
                    .map(|byte| byte & 31)
                    .filter_map(|b| letter(&b))
                    .map(char::from),
            );
        }
        code.truncate(CODE_CHARS);
        Ok(Self { code, since: now, wrong: 0, token: None })
    }

    /// The code as people read it.
    pub(crate) fn shown(&self) -> String {
        let (first, second) = self.code.split_at(CODE_CHARS / 2);
        format!("{first}-{second}")
    }

    /// Gives the token for the code, once.
    ///
    /// # Errors
    /// The code is wrong, used or old, or the system has no random numbers.
    pub(crate) fn trade(
        &mut self,
        typed: &str,
        now: Instant,
    ) -> io::Result<Result<String, Refused>> {
        let typed: String = typed
            .chars()
            .filter(|one| !matches!(one, '-' | ' '))
            .map(|one| one.to_ascii_uppercase())
            .collect();
        let is_right = is_same(&typed, &self.code);
        let refused = match (self.token.is_some(), is_right) {
            (true, true) => Some(Refused::Used),
            _ if WRONG_MAX <= self.wrong => Some(Refused::Locked),
            (_, false) => {
                self.wrong += 1;
                Some(Refused::Wrong)
            }
            (false, true) if CODE_TIME <= now.saturating_duration_since(self.since) => {
                Some(Refused::Old)
            }
            (false, true) => None,
        };
        if let Some(refused) = refused {
            return Ok(Err(refused));
        }
        let hex = hex(random::<TOKEN_BYTES>()?);
        self.token = Some(hex.clone());
        Ok(Ok(hex))
    }

    /// Whether this is the token.
    pub(crate) fn holds(&self, token: &str) -> bool {
        self.token.as_ref().is_some_and(|own| is_same(own, token))
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Bytes as text.
pub(crate) fn hex<const N: usize>(bytes: [u8; N]) -> String {
    let digit = |value: u8| {
        char::from(b"0123456789abcdef".get(usize::from(value)).map_or(b'0', |digit| *digit))
    };
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        let rest = bytes.get_mut(at..).unwrap_or_default();
        at += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> (Access, Instant) {
        let now = Instant::now();
        (Access::new(now).unwrap(), now)
    }

    // H-28: a code works once, for two minutes, and may be typed as people type.
    #[test]
    fn h_28_a_code_is_traded_once_within_two_minutes() {
        let (mut access, now) = access();
        let code = access.shown();
        assert_eq!((code.len(), code.as_bytes()[4]), (9, b'-'), "{code}");
        let typed = format!(" {} ", code.to_lowercase().replace('-', ""));
        let token = access.trade(&typed, now + Duration::from_secs(119)).unwrap().unwrap();
        assert_eq!(token.len(), 64);
        assert!(access.holds(&token) && !access.holds("") && !access.holds(&token[1..]));
        assert_eq!(access.trade(&code, now).unwrap(), Err(Refused::Used));
        assert!(access.holds(&token), "the tab that has it keeps it");
    }

    #[test]
    fn h_28_an_old_code_and_one_after_five_wrong_ones_are_refused() {
        let (mut one, now) = access();
        let code = one.shown();
        assert_eq!(one.trade(&code, now + CODE_TIME).unwrap(), Err(Refused::Old));
        for _ in 0..WRONG_MAX {
            assert_eq!(one.trade("AAAA-AAA1", now).unwrap(), Err(Refused::Wrong));
        }
        assert_eq!(one.trade(&code, now).unwrap(), Err(Refused::Locked));
        assert!(!one.holds(""));
    }

    // A guess against a used code is told nothing that helps.
    #[test]
    fn only_the_code_itself_is_called_used() {
        let (mut access, now) = access();
        let code = access.shown();
        access.trade(&code, now).unwrap().unwrap();
        assert_eq!(access.trade("AAAA-AAA1", now).unwrap(), Err(Refused::Wrong));
    }
}
