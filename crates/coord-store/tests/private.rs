//! G11: the state is its owner's alone, whatever the umask.

use coord_store::{CoordinatorLock, Disk, RealDisk};
use rustix::fs::Mode;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it was just made").permissions().mode() & 0o7777
}

#[test]
fn g11_directories_are_0700_and_files_0600() {
    for umask in [0o000, 0o022, 0o077, 0o777] {
        let home = tempfile::tempdir().unwrap();
        let before = rustix::process::umask(Mode::from_raw_mode(umask));
        let state = home.path().join("a/b/state");
        RealDisk.create_dir(&state).unwrap();
        drop(RealDisk.open_append(&state.join("file")).unwrap());
        drop(CoordinatorLock::acquire(&RealDisk, &state.join("lock")).unwrap());
        rustix::process::umask(before);
        for dir in ["a", "a/b", "a/b/state"] {
            assert_eq!(mode(&home.path().join(dir)), 0o700, "{dir}, umask {umask:o}");
        }
        assert_eq!(mode(&state.join("file")), 0o600, "umask {umask:o}");
        assert_eq!(mode(&state.join("lock")), 0o600, "umask {umask:o}");
    }
    let home = tempfile::tempdir().unwrap();
    let open = home.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::write(open.join("file"), "x").unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(open.join("file"), std::fs::Permissions::from_mode(0o644)).unwrap();
    RealDisk.create_dir(&open).unwrap();
    assert_eq!(RealDisk.read(&open.join("file"), 1 << 20).unwrap(), b"x");
    assert_eq!((mode(&open), mode(&open.join("file"))), (0o700, 0o600), "tightened");
}
