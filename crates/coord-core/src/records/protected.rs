//! A part of a record that everybody reads and only named transitions change. Decides nothing.

use alloc::vec::Vec;
use core::ops::Deref;

use coord_model::Awake;
use serde::{Deserialize, Serialize};

use super::clocks::{Clocks, Role};

/// A value of a topic. Outside of the records it can be read, but neither changed nor made: what changes it is a method
/// beside its type, which is named for what happens. It is stored as the bare value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protected<T>(pub(super) T);

impl<T: Default> Protected<T> {
    /// The value of a new record, or of one from before the field existed.
    pub(super) fn initial() -> Self {
        Self(T::default())
    }
}

impl<T: PartialEq> PartialEq<T> for Protected<T> {
    fn eq(&self, other: &T) -> bool {
        self.0 == *other
    }
}

impl<T> Deref for Protected<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'a, T> IntoIterator for &'a Protected<Vec<T>> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Clocks> Clocks for Protected<T> {
    fn clocks(&mut self, role: Role, visit: &mut dyn FnMut(Role, &mut Awake)) {
        self.0.clocks(role, visit);
    }
}
