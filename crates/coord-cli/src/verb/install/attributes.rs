//! Extended attributes of a file, access lists among them, for the file that takes its place (G8).

use std::fs::File;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;

/// The kernel's own limit for a list of names and for a value, in bytes.
const BYTES_MAX: usize = 64 * 1024;

/// Gives `to` what `from` has; names what it could not be given.
pub(super) fn copy(from: &File, to: &File) -> Vec<String> {
    let mut names = vec![0; BYTES_MAX];
    let names = match flistxattr(from, names.as_mut_slice()) {
        Ok(n) => names.get(..n).unwrap_or_default().to_vec(),
        Err(Errno::NOTSUP) => return Vec::new(),
        Err(error) => return vec![format!("extended attributes ({error})")],
    };
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .filter(|name| copy_one(from, to, name).is_err())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn copy_one(from: &File, to: &File, name: &[u8]) -> Result<(), Errno> {
    let value = value(from, name)?;
    // What the system itself gives to each new file needs no right of ours.
    if self::value(to, name).is_ok_and(|standing| standing == value) {
        return Ok(());
    }
    fsetxattr(to, name, &value, XattrFlags::empty())
}

fn value(file: &File, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; BYTES_MAX];
    let n = fgetxattr(file, name, value.as_mut_slice())?;
    value.truncate(n);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    // G8: a file that is replaced keeps its access list and what programs noted on it.
    #[test]
    fn attributes_go_over_to_the_new_file_g8() {
        let (from, to) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        match fsetxattr(&from, "user.note", b"kept", XattrFlags::empty()) {
            // This file system has none to lose.
            Err(Errno::NOTSUP) => assert_eq!(copy(&from, &to), Vec::<String>::new()),
            done => {
                done.unwrap();
                assert_eq!(copy(&from, &to), Vec::<String>::new());
                assert_eq!(value(&to, b"user.note").unwrap(), b"kept");
            }
        }
    }
}
