//! Finds every time that the state stores, by how it is written: as the newtype `Awake`, wherever it stands.
//! It shares nothing with the product's own visitor.

use std::fmt;

use serde::ser::{self, Serialize};

/// A time with the names of the fields that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredTime {
    pub(crate) path: String,
    pub(crate) awake_ns: u64,
}

impl StoredTime {
    /// Whether it is a deadline, which may lie in the future.
    pub(crate) fn is_deadline(&self) -> bool {
        let is_last = |name: &str| self.path.ends_with(&format!(".{name}"));
        is_last("until") || is_last("not_before") || is_last("expires.awake")
    }

    /// Whether it is a deadline that only time brings on.
    pub(crate) fn is_wait(&self) -> bool {
        self.is_deadline() && self.awake_ns != u64::MAX
    }
}

/// Every time in a stored value.
pub(crate) fn stored_times(value: &impl Serialize) -> Vec<StoredTime> {
    let mut found = Finder::default();
    value.serialize(&mut found).unwrap();
    found.times
}

#[derive(Debug, Default)]
struct Finder {
    path: Vec<&'static str>,
    times: Vec<StoredTime>,
    is_awake: bool,
}

/// Never made: nothing that is stored fails here.
#[derive(Debug)]
pub(crate) struct Impossible;

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it cannot be written")
    }
}

impl std::error::Error for Impossible {}

impl ser::Error for Impossible {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Done = Result<(), Impossible>;

macro_rules! skipped {
    ($($name:ident($type:ty)),*) => {
        $(fn $name(self, _: $type) -> Done {
            Ok(())
        })*
    };
}

impl ser::Serializer for &mut Finder {
    type Ok = ();
    type Error = Impossible;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    skipped!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_f32(f32),
        serialize_f64(f64),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str)
    );

    fn serialize_u64(self, value: u64) -> Done {
        if std::mem::take(&mut self.is_awake) {
            let path = format!(".{}", self.path.join("."));
            self.times.push(StoredTime { path, awake_ns: value });
        }
        Ok(())
    }

    fn serialize_none(self) -> Done {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Done {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        self.is_awake = name == "Awake";
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        self.path.push(variant);
        value.serialize(&mut *self)?;
        self.path.pop();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Impossible> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Impossible> {
        Ok(self)
    }
}

macro_rules! elements {
    ($($trait:ident::$name:ident),*) => {
        $(impl ser::$trait for &mut Finder {
            type Ok = ();
            type Error = Impossible;

            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
                value.serialize(&mut **self)
            }

            fn end(self) -> Done {
                Ok(())
            }
        })*
    };
}

elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for &mut Finder {
            type Ok = ();
            type Error = Impossible;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Done {
                self.path.push(key);
                value.serialize(&mut **self)?;
                self.path.pop();
                Ok(())
            }

            fn end(self) -> Done {
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for &mut Finder {
    type Ok = ();
    type Error = Impossible;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Done {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(&mut **self)
    }

    fn end(self) -> Done {
        Ok(())
    }
}
