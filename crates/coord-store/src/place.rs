//! Decides whether a directory may contain the state: not if it belongs to another user (H-29),
//! and not on a network file system (H-15). There, another machine could hold the same locks, and
//! a sync or a rename may guarantee less.
//!
//! Only the kind of the file system is checked here; [`crate::CoordinatorLock`] proves that locks
//! really work.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use coord_wire::paths::Paths;

/// Why a directory cannot contain the state.
#[derive(Debug)]
#[non_exhaustive]
pub enum PlaceError {
    /// The directory is on a network file system.
    Network {
        /// The directory.
        dir: PathBuf,
        /// The kind of the file system.
        kind: String,
    },
    /// The directory belongs to another user.
    Owner {
        /// The directory.
        dir: PathBuf,
        /// The owner's user id.
        uid: u32,
    },
    /// The file system could not be determined.
    Io {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { dir, kind } => write!(
                f,
                "{} lies on a network file system ({kind}); set COORD_HOME or XDG_STATE_HOME to a local one",
                dir.display()
            ),
            Self::Owner { dir, uid } => write!(
                f,
                "{} belongs to user {uid}: run as that user, or set COORD_HOME",
                dir.display()
            ),
            Self::Io { dir, .. } => {
                write!(f, "cannot ask for the file system of {}", dir.display())
            }
        }
    }
}

impl std::error::Error for PlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Network { .. } | Self::Owner { .. } => None,
        }
    }
}

/// Refuses directories of another user before anything is created in them: `sudo coord install`
/// would leave files of root where the user's coordinator cannot write. `home` is checked if no
/// root is set.
pub fn check_owner(paths: &Paths, home: Option<&Path>) -> Result<(), PlaceError> {
    let uid = rustix::process::geteuid().as_raw();
    let owned = [Some(paths.state.as_path()), Some(paths.state_base.as_path()), home];
    for dir in owned.into_iter().flatten() {
        let Ok(metadata) = std::fs::metadata(dir) else { continue };
        if metadata.uid() != uid {
            return Err(PlaceError::Owner { dir: dir.to_path_buf(), uid: metadata.uid() });
        }
    }
    Ok(())
}

/// Refuses a directory on a network file system, by the kind of file system. The directory must
/// exist.
pub fn check_place(dir: &Path) -> Result<(), PlaceError> {
    match network_kind(dir) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(PlaceError::Network { dir: dir.to_path_buf(), kind }),
        Err(source) => Err(PlaceError::Io { dir: dir.to_path_buf(), source }),
    }
}

#[cfg(target_os = "linux")]
fn network_kind(dir: &Path) -> io::Result<Option<String>> {
    // The kernel reports the magic as a signed or unsigned word of the machine's size; the numbers
    // themselves have 32 bits.
    let magic = u64::from_ne_bytes(i64_of(rustix::fs::statfs(dir)?.f_type).to_ne_bytes());
    let magic = u32::try_from(magic & 0xFFFF_FFFF).unwrap_or_default();
    if let Some((_, kind)) = linux::NETWORK_MAGIC.iter().find(|(number, _)| *number == magic) {
        return Ok(Some((*kind).to_owned()));
    }
    if magic != linux::FUSE_MAGIC {
        return Ok(None);
    }
    let device = rustix::fs::stat(dir)?.st_dev;
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let kind = linux::mount_type(&mounts, device).unwrap_or_default();
    Ok(linux::NETWORK_TYPES.contains(&kind).then(|| kind.to_owned()))
}

#[cfg(target_os = "linux")]
fn i64_of(number: impl Into<i64>) -> i64 {
    number.into()
}

#[cfg(target_os = "linux")]
mod linux {
    /// `f_type` of `statfs(2)`: numbers from linux/magic.h and from the file systems' own sources.
    pub(super) const NETWORK_MAGIC: [(u32, &str); 17] = [
        (0x0000_6969, "NFS"),
        (0x0000_517B, "SMB"),
        (0xFE53_4D42, "SMB2"),
        (0xFF53_4D42, "CIFS"),
        (0x0000_564C, "NCP"),
        (0x0102_1997, "9p"),
        (0x5346_414F, "AFS"),
        (0x6B41_4653, "kAFS"),
        (0x7375_7245, "Coda"),
        (0x00C3_6400, "Ceph"),
        (0x0BD0_0BD0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x1983_0326, "BeeGFS"),
        (0x2003_0528, "OrangeFS"),
        (0xAAD7_AAEA, "PanFS"),
        (0x786F_4256, "VirtualBox shared folder"),
        (0xBACB_ACBC, "VMware shared folder"),
    ];
    /// FUSE does not report the file system behind it; the type of the mount does.
    pub(super) const FUSE_MAGIC: u32 = 0x6573_5546;
    pub(super) const NETWORK_TYPES: [&str; 17] = [
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.goofys",
        "fuse.davfs",
        "fuse.davfs2",
        "fuse.curlftpfs",
        "fuse.juicefs",
        "fuse.moosefs",
        "fuse.mfs",
        "fuse.smbnetfs",
        "fuse.vmhgfs-fuse",
        "virtiofs",
    ];

    /// The type of the file system on a device, from the text of `/proc/self/mountinfo`:
    /// `id parent major:minor root point options [fields…] - type source options`.
    pub(super) fn mount_type(mounts: &str, device: (u32, u32)) -> Option<&str> {
        let device = format!("{}:{}", device.0, device.1);
        mounts.lines().find_map(|line| {
            let (place, kind) = line.split_once(" - ")?;
            (place.split(' ').nth(2)? == device).then(|| kind.split(' ').next())?
        })
    }
}

#[cfg(target_os = "macos")]
fn network_kind(dir: &Path) -> io::Result<Option<String>> {
    const NETWORK_TYPES: [&str; 6] = ["nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse"];
    let name = rustix::fs::statfs(dir)?.f_fstypename;
    let name: Vec<u8> = name.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
    Ok(NETWORK_TYPES.contains(&name.as_ref()).then(|| name.into_owned()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    // H-15
    #[test]
    fn a_network_file_system_is_told_by_number_or_mount_type() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      40 22 0:51 / /home/u/far rw,nosuid shared:9 - fuse.sshfs host:/ rw,user_id=5\n";
        assert_eq!(linux::mount_type(mounts, (0, 51)), Some("fuse.sshfs"));
        assert_eq!(linux::mount_type(mounts, (8, 1)), Some("ext4"));
        assert_eq!(linux::mount_type(mounts, (8, 2)), None);
        assert!(linux::NETWORK_MAGIC.contains(&(0x6969, "NFS")));
        let error = PlaceError::Network { dir: "/far".into(), kind: "NFS".into() };
        assert_eq!(
            error.to_string(),
            "/far lies on a network file system (NFS); set COORD_HOME or XDG_STATE_HOME to a local one"
        );
    }

    #[test]
    fn the_file_system_of_a_temporary_directory_will_do() {
        let dir = tempfile::tempdir().unwrap();
        check_place(dir.path()).unwrap();
        assert!(matches!(check_place(&dir.path().join("none")), Err(PlaceError::Io { .. })));
    }
}
