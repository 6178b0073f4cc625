//! Tests the program, options and directory of a launch, with texts and with this process.

use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

// S0-25d: the executable, and the script if the client is one.
#[test]
fn a_script_belongs_to_the_program() {
    for (executable, cmdline, program, flags) in [
        (
            "/opt/claude/versions/2.1.328",
            &["claude", "--ide"][..],
            &["/opt/claude/versions/2.1.328"][..],
            &["--ide"][..],
        ),
        (
            "/usr/bin/node",
            &["node", "/opt/cli.js", "--ide"],
            &["/usr/bin/node", "/opt/cli.js"],
            &["--ide"],
        ),
        (
            "/usr/bin/node",
            &["node", "cli.js", "fix it"],
            &["/usr/bin/node", "/project/cli.js"],
            &[],
        ),
    ] {
        let parted = parted(Path::new(executable), words(cmdline), "/project");
        assert_eq!(parted, Ok((words(program), words(flags))));
    }
    for cmdline in [&["node", "--inspect", "/opt/cli.js"][..], &["node"], &["node", ""]] {
        let parted = parted(Path::new("/usr/bin/node"), words(cmdline), "/project");
        assert_eq!(parted, Err("node was given options of its own".to_owned()));
    }
}

// H-19: a command line that is no text is not guessed.
#[test]
fn a_command_line_is_its_words() {
    assert_eq!(split(b"claude\0--tools\0\0"), Ok(words(&["claude", "--tools", ""])));
    assert!(split(b"claude\0\xff\0").is_err());
    assert!(split(b"claude").is_err());
    assert!(split(b"").is_err());
}

// S0-25d: the directory is the one that its path leads to for other processes.
#[test]
fn a_directory_is_its_device_and_inode() {
    use std::os::unix::fs::MetadataExt;
    let place = place(std::process::id()).unwrap();
    let seen = std::fs::metadata(&place.path).unwrap();
    assert_eq!((place.device, place.inode), (seen.dev(), seen.ino()));
}

// a process with a reused pid is another process.
#[test]
fn another_process_has_no_launch() {
    let pid = std::process::id();
    let start_time = stat(pid).unwrap().start_time;
    assert!(of(ProcessRef { pid, start_time }).is_some());
    assert_eq!(of(ProcessRef { pid, start_time: start_time + 1 }), None);
}
