//! The hook executables that the settings name: there, ours alone to change, static, and of this
//! version (H-39).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::finding::quoted;
use super::fix::Fix;
use super::{Finding, Setup, child};
use crate::verb::install::{PROGRAM_PREFIX, shown};

/// A hook says its version within this; it needs about a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);
/// The program headers stand within this, in bytes.
const HEAD_BYTES: u64 = 64 * 1024;
const REINSTALL: &str = "install it again: ./install.sh";

pub(super) fn check(setup: &Setup<'_>) -> Vec<Finding> {
    let entries = setup.settings.iter().flat_map(super::SettingsFile::entries);
    let installed = installed(setup);
    let programs: BTreeSet<&PathBuf> =
        entries.map(|entry| &entry.command).chain(&installed).collect();
    let mut findings: Vec<Finding> =
        programs.iter().flat_map(|path| judge(path, setup.context.here.uid)).collect();
    findings.extend(dynamic(&programs));
    let dirs: BTreeSet<_> = programs.iter().filter_map(|path| path.parent()).map(shown).collect();
    match dirs.first() {
        Some(dir) if findings.is_empty() => {
            let n = programs.len();
            let found = format!("{n} static hooks in {dir}, version {}", coord_wire::VERSION);
            vec![Finding::ok("programs.hooks", found)]
        }
        Some(_) | None => findings,
    }
}

/// The hooks that a registration would name, as far as they are there.
fn installed(setup: &Setup<'_>) -> Vec<PathBuf> {
    let files = setup.hooks_place.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let is_hook = |file: &std::fs::DirEntry| {
        file.file_name().to_string_lossy().starts_with(PROGRAM_PREFIX)
            && file.path().extension().is_none()
    };
    files.filter(is_hook).map(|file| file.path()).collect()
}

fn judge(path: &Path, uid: u32) -> Vec<Finding> {
    let name = shown(path);
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata,
        Ok(_) => {
            let found = format!("the settings name {name}, which is not a file");
            return vec![Finding::error("programs.missing", found, REINSTALL)];
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found =
                format!("the settings name {name}, which does not exist: its events are lost");
            return vec![Finding::error("programs.missing", found, REINSTALL)];
        }
        Err(error) => {
            return vec![Finding::error("programs.missing", format!("{name}: {error}"), REINSTALL)];
        }
    };
    let mode = metadata.permissions().mode();
    if mode & 0o100 == 0 {
        let found = format!("{name} is not executable: its events are lost");
        let finding =
            Finding::error("programs.executable", found, format!("chmod 755 {}", quoted(path)));
        return vec![finding.fixed_by(Fix::Mode { path: path.to_owned(), mode: 0o755 })];
    }
    let mut findings = Vec::new();
    if mode & 0o002 != 0 || ![0, uid].contains(&metadata.uid()) {
        let found = format!("others can change {name}, which runs in every session");
        let remedy = format!("chown it to yourself, then: chmod 755 {}", quoted(path));
        let finding = Finding::error("programs.writable", found, remedy);
        findings.push(finding.fixed_by(Fix::Mode { path: path.to_owned(), mode: 0o755 }));
    }
    match linkage(path) {
        Ok(Linkage::Static | Linkage::Dynamic) => (),
        Ok(Linkage::NoProgram) => {
            let found = format!("{name} is not an executable of this system");
            findings.push(Finding::error("programs.format", found, REINSTALL));
            return findings;
        }
        Err(error) => {
            findings.push(Finding::error("programs.format", format!("{name}: {error}"), REINSTALL));
            return findings;
        }
    }
    findings.extend(version(path, &name));
    findings
}

/// One finding for all of them: they come from one build.
fn dynamic(programs: &BTreeSet<&PathBuf>) -> Option<Finding> {
    let is_dynamic =
        |path: &&&PathBuf| linkage(path).is_ok_and(|linkage| linkage == Linkage::Dynamic);
    let names: Vec<String> = programs.iter().filter(is_dynamic).map(|path| shown(path)).collect();
    (!names.is_empty()).then(|| {
        let found = format!(
            "dynamically linked, which starts slower and fails where libraries are missing: {}",
            names.join(", ")
        );
        Finding::warning("programs.static", found, "build static hooks: ./install.sh")
    })
}

fn version(path: &Path, name: &str) -> Option<Finding> {
    let said = child::run(Command::new(path).arg("--version"), b"", PATIENCE);
    let said = match said {
        Ok(ended) if ended.code == Some(0) => ended.stdout,
        Ok(ended) => {
            let found = format!("{name} --version ended with {:?}", ended.code);
            return Some(Finding::error("programs.runs", found, REINSTALL));
        }
        Err(why) => {
            return Some(Finding::error("programs.runs", format!("{name}: {why}"), REINSTALL));
        }
    };
    let version = said.split_whitespace().nth(1).unwrap_or_default();
    (version != coord_wire::VERSION).then(|| {
        let found = format!("{name} has another version than this coord ({})", coord_wire::VERSION);
        Finding::warning(
            "programs.version",
            found,
            "install the same version of both: ./install.sh",
        )
    })
}

/// How a program is linked.
#[derive(Debug, PartialEq, Eq)]
enum Linkage {
    Static,
    Dynamic,
    NoProgram,
}

fn linkage(path: &Path) -> std::io::Result<Linkage> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(linkage_of(&head))
}

/// A program is dynamic if one of its ELF program headers names an interpreter (`PT_INTERP`).
fn linkage_of(head: &[u8]) -> Linkage {
    let number = |at: usize, len: usize| {
        let bytes = head.get(at..at.checked_add(len)?)?;
        let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(bytes.iter().rev().fold(0, add))
    };
    // 64 bit, little endian, version 1: what is built for Linux here.
    let program = || {
        let (at, size, n) = (number(0x20, 8)?, number(0x36, 2)?, number(0x38, 2)?);
        let kinds = (0..n).map(|i| number(at.checked_add(size.checked_mul(i)?)?, 4));
        kinds.collect::<Option<Vec<usize>>>()
    };
    match program().filter(|_| head.starts_with(b"\x7fELF\x02\x01\x01")) {
        None => Linkage::NoProgram,
        Some(kinds) if kinds.contains(&3) => Linkage::Dynamic,
        Some(_) => Linkage::Static,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF head with one program header of this kind.
    fn elf(kind: u8) -> Vec<u8> {
        let mut head = b"\x7fELF\x02\x01\x01".to_vec();
        head.resize(0x40, 0);
        (head[0x20], head[0x36], head[0x38]) = (0x40, 0x38, 1);
        head.push(kind);
        head.resize(0x40 + 0x38, 0);
        head
    }

    #[test]
    fn static_and_dynamic_programs_are_told_apart() {
        assert_eq!(linkage_of(&elf(1)), Linkage::Static);
        assert_eq!(linkage_of(&elf(3)), Linkage::Dynamic);
        for none in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01", &elf(1)[..0x40]] {
            assert_eq!(linkage_of(none), Linkage::NoProgram);
        }
        assert_ne!(linkage(&std::env::current_exe().unwrap()).unwrap(), Linkage::NoProgram);
    }
}
