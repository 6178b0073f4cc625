//! Decides what a .deb says of itself.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{machine, output};

/// Who keeps the package.
const MAINTAINER: &str = "The coord authors <coord@coord.invalid>";
/// What lintian is told, and why.
const OVERRIDES: &str = include_str!("deb/lintian-overrides");

/// Makes the package of what was staged. Its name.
pub(super) fn make(
    system: &Path,
    target: &str,
    version: &str,
    out: &Path,
    date: u64,
) -> anyhow::Result<String> {
    let version = format!("{version}-1");
    let architecture = match machine(target) {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian has no name for {other} here"),
    };
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    output(Command::new("cp").arg("-a").arg(system).arg(&tree))?;
    let doc = tree.join("usr/share/doc/coord");
    fs::write(doc.join("copyright"), include_str!("deb/copyright"))?;
    output(Command::new("gzip").arg("-9n").arg(doc.join("CHANGELOG.md")))?;
    fs::rename(doc.join("CHANGELOG.md.gz"), doc.join("changelog.gz"))?;
    let at = output(Command::new("date").args(["--utc", "-R", "-d", &format!("@{date}")]))?;
    let news = format!(
        "coord ({version}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {MAINTAINER}  {at}"
    );
    fs::write(doc.join("changelog.Debian"), news)?;
    output(Command::new("gzip").arg("-9n").arg(doc.join("changelog.Debian")))?;
    let overrides = tree.join("usr/share/lintian/overrides");
    fs::create_dir_all(&overrides)?;
    fs::write(overrides.join("coord"), OVERRIDES)?;
    let control = tree.join("DEBIAN");
    fs::create_dir(&control)?;
    let sums = "cd \"$1\" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output(Command::new("sh").args(["-c", sums, "sh"]).arg(&tree))?;
    fs::write(control.join("md5sums"), sums)?;
    let kib = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree.join("usr")))?;
    let kib = kib.split_whitespace().next().context("du prints a size")?;
    let fields = include_str!("deb/control")
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@MAINTAINER@", MAINTAINER)
        .replace("@KIB@", kib);
    fs::write(control.join("control"), fields)?;
    let before_removal = control.join("prerm");
    fs::write(&before_removal, include_str!("before-removal"))?;
    fs::set_permissions(&before_removal, fs::Permissions::from_mode(0o755))?;
    let name = format!("coord_{version}_{architecture}.deb");
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree).arg(out.join(&name));
    output(build.env("SOURCE_DATE_EPOCH", date.to_string())).context("making a .deb")?;
    Ok(name)
}
