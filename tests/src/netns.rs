//! A network namespace that holds nothing but loopback, so that no test can reach the network.
//!
//! The whole test process enters it, by executing itself again under `unshare`: then the fake API's
//! sockets, the client, the hooks and the coordinator are all inside without anybody placing them
//! there, and all of them see the same user and pid namespace. A single thread could enter one
//! too, but an unprivileged user needs a user namespace with it, which a process with threads
//! cannot enter; test harnesses have threads before the first test. Hence [`run`] comes first in
//! `main`. Whether the process is inside is read from the kernel, not from a variable.

use crate::machine::{emulation, is_emulated};
use libtest_mimic::{Arguments, Trial};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Runs a test program's tests inside the namespace.
pub fn run(tests: Vec<Trial>) -> ExitCode {
    run_with(&Arguments::from_args(), tests)
}

/// The same, with so many tests at once if the command line does not say: for tests that mostly
/// wait.
pub fn run_at_once(n_tests: usize, tests: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(n_tests);
    run_with(&arguments, tests)
}

fn run_with(arguments: &Arguments, tests: Vec<Trial>) -> ExitCode {
    if !arguments.list && !is_isolated() {
        let why = enter();
        return complain(&why);
    }
    libtest_mimic::run(arguments, tests).exit_code()
}

/// A test that passes unless it panics.
pub fn test(name: &str, body: fn()) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

/// Whether loopback is up and nothing else can be reached: no route and no address belongs to
/// another interface. (Some kernels put unused tunnel interfaces into every namespace.)
pub fn is_isolated() -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/net/{name}"));
    let (Ok(routes), Ok(ipv4)) = (read("route"), read("fib_trie")) else { return false };
    let a_way_out = routes.lines().skip(1).any(|line| !line.starts_with("lo\t"));
    // Absent where the kernel has no IPv6. The interface's name comes last.
    let ipv6 = read("if_inet6").unwrap_or_default();
    let another_address = ipv6.lines().any(|line| !line.ends_with(" lo"));
    !a_way_out && !another_address && ipv4.contains("127.0.0.1")
}

/// Executes this program again inside; returns only with the reason why that failed.
pub fn enter() -> String {
    if std::env::var_os("COORD_TEST_NETNS").is_some() {
        return "entered a network namespace, and loopback is down there or not alone; \
                is `ip` (Debian: iproute2) installed?"
            .to_owned();
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return format!("cannot find this test program's own file: {error}"),
    };
    let flags = match (is_emulated(), rustix::process::geteuid().is_root()) {
        (true, _) => "-rnm",
        (false, true) => "-n",
        (false, false) => "-rn",
    };
    let script = format!("ip link set lo up; {} exec \"$@\"", emulation());
    let error = Command::new("unshare")
        .args([flags, "sh", "-c", &script, "sh"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env("COORD_TEST_NETNS", "1")
        .exec();
    format!("cannot run `unshare {flags}` (Debian: util-linux): {error}")
}

#[expect(clippy::print_stderr, reason = "this is the test program's own report")]
fn complain(why: &str) -> ExitCode {
    eprintln!(
        "no private network namespace: {why}\n\
         run the tests as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
    );
    ExitCode::FAILURE
}
