//! Decides where a system's package puts things: below /usr, as the Filesystem Hierarchy Standard has it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::{NAMES, copy, copy_all, output};

/// The documents that go with a package.
const DOCUMENTS: [&str; 3] = ["README.md", "SECURITY.md", "CHANGELOG.md"];

/// Lays out what a package holds in `to`, from what a tarball holds.
pub(super) fn stage(tarball: &Path, to: &Path) -> anyhow::Result<()> {
    let usr = to.join("usr");
    let doc = usr.join("share/doc/coord");
    copy(&tarball.join("bin/coord"), &usr.join("bin/coord"))?;
    symlink("coord", usr.join("bin/coordctl"))?;
    copy_all(&tarball.join("lib/coord"), &usr.join("lib/coord"))?;
    copy_all(&tarball.join("docs"), &doc.join("docs"))?;
    for name in DOCUMENTS {
        copy(&tarball.join(name), &doc.join(name))?;
    }
    let man = usr.join("share/man/man1");
    copy_all(&tarball.join("share/man/man1"), &man)?;
    for page in fs::read_dir(&man)? {
        // `-n` leaves out name and time of what is packed.
        output(Command::new("gzip").arg("-9n").arg(page?.path()))?;
    }
    for name in NAMES {
        let script = |file: &str| tarball.join("share/completions").join(file);
        let share = usr.join("share");
        copy(
            &script(&format!("{name}.bash")),
            &share.join("bash-completion/completions").join(name),
        )?;
        let zsh = format!("_{name}");
        copy(&script(&zsh), &share.join("zsh/vendor-completions").join(&zsh))?;
        let fish = format!("{name}.fish");
        copy(&script(&fish), &share.join("fish/vendor_completions.d").join(&fish))?;
    }
    readable(to)
}

/// Whatever the umask of who builds it, everybody may read it.
fn readable(path: &Path) -> anyhow::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let is_open = meta.is_dir() || meta.permissions().mode() & 0o100 != 0;
    let mode = if is_open { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            readable(&entry?.path())?;
        }
    }
    Ok(())
}
