//! Decides how a session is called (U-03): by the name that its user gave it, else by the client's own name for it,
//! else by the last part of its directory. Names are unique among the sessions of this machine, and a derived
//! name stays for life unless a given one displaces it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use coord_model::{NameSource, SessionKey};

use crate::records::{DerivedName, Session, State};

/// Maximum length of a derived name, in characters.
const NAME_CHARS_MAX: usize = 24;

/// Characters of an id that stand for a session without a name.
const ID_CHARS: usize = 8;

/// The name of a session whose directory gives none.
const NAMELESS: &str = "session";

impl Session {
    /// What the session is called, and where the name comes from. A session of which only unverified events tell
    /// has none (H-44).
    pub fn called(&self) -> Option<(&str, NameSource)> {
        let given = self.marks.name.as_deref().map(|name| (name, NameSource::Given));
        let derived = self.derived.as_ref();
        given.or_else(|| derived.map(|derived| (derived.name.as_str(), derived.source)))
    }

    /// What people read: its name, or the beginning of its id if it has none.
    pub fn called_or_id(&self) -> String {
        match self.called() {
            Some((name, _)) => name.into(),
            None => self.session_id.chars().take(ID_CHARS).collect(),
        }
    }
}

impl State {
    /// Derives the name of a session, where it has none yet or the client gave it another one.
    pub(crate) fn update_name(&mut self, key: SessionKey) {
        let Some(session) = self.get(key) else { return };
        if session.is_unowned() {
            return;
        }
        let before = session.derived.as_ref();
        let wanted = match &session.client_name {
            Some(name) if before.is_none_or(|one| one.of != *name) => {
                Some((name.clone(), NameSource::Client))
            }
            None if before.is_none() && !session.cwd.is_empty() => {
                Some((session.cwd.clone(), NameSource::Directory))
            }
            Some(_) | None => None,
        };
        let Some((of, source)) = wanted else { return };
        let name = self.free_name(key, &plain(&of, source));
        if let Some(mut session) = self.take(key) {
            session.derived = Some(DerivedName { name, of, source });
            self.put(session);
        }
    }

    /// A given name displaces the same name where it was derived.
    pub(crate) fn displace(&mut self, key: SessionKey, given: &str) {
        let has_it = |session: &Session| {
            session.key != key
                && session.derived.as_ref().is_some_and(|derived| derived.name == given)
        };
        for other in self.keys_of(has_it) {
            let name = self.free_name(other, given);
            if let Some(mut session) = self.take(other) {
                if let Some(derived) = &mut session.derived {
                    derived.name = name;
                }
                self.put(session);
            }
        }
    }

    /// `base`, with the lowest free number after it if another session is called so. One pass over the sessions,
    /// however many are called alike.
    fn free_name(&self, key: SessionKey, base: &str) -> String {
        let others = self.sessions().filter(|other| other.key != key);
        let numbers = others.filter_map(Session::called).filter_map(|(name, _)| {
            let suffix = name.strip_prefix(base)?;
            if suffix.is_empty() { Some(1) } else { suffix.strip_prefix('-')?.parse::<u64>().ok() }
        });
        let taken: BTreeSet<u64> = numbers.collect();
        match (1..=u64::MAX).find(|number| !taken.contains(number)) {
            None | Some(1) => base.into(),
            Some(number) => format!("{base}-{number}"),
        }
    }
}

/// A name with plain characters only: a directory's last part, or the client's own name.
fn plain(of: &str, source: NameSource) -> String {
    let part = match source {
        NameSource::Directory => of.trim_end_matches('/').rsplit('/').next().unwrap_or_default(),
        NameSource::Given | NameSource::Client => of,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String =
        part.chars().take(NAME_CHARS_MAX).map(|c| if is_plain(c) { c } else { '-' }).collect();
    // A name that begins with a dash would be taken for an option.
    let name = name.trim_matches(|c| matches!(c, '-' | '.'));
    if name.is_empty() { NAMELESS.into() } else { name.into() }
}
