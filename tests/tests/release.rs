//! The workflow file that publishes a release: its steps are run as the forge runs them, but for those that build and
//! test, which `tests/run` does anyway, and the publication, which only the forge can show (P-02).

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::fs::{create_dir, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The steps of the workflow, by name, and what each runs.
fn steps() -> Vec<(String, String)> {
    let workflow = read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut is_script = false;
    for line in workflow.lines() {
        let indented = line.strip_prefix("          ");
        match (line.strip_prefix("      - name: "), indented) {
            (Some(name), _) => steps.push((name.to_owned(), String::new())),
            (None, Some(script)) if is_script => {
                let step = steps.last_mut().unwrap();
                step.1 = format!("{}{script}\n", step.1);
                continue;
            }
            (None, _) => (),
        }
        is_script = line == "        run: |";
    }
    steps
}

fn script_of(name: &str) -> String {
    let (_, script) = steps().into_iter().find(|(known, _)| known == name).unwrap();
    assert!(!script.is_empty(), "{name}");
    script
}

/// Runs a step as the forge does: bash that stops at the first failure.
fn run(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script_of(name)]);
    bash.current_dir(root()).envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap()
}

/// A value of the workspace's manifest.
fn manifest(key: &str) -> String {
    let text = read_to_string(root().join("Cargo.toml")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
    value.unwrap().trim_end_matches('"').to_owned()
}

#[test]
fn p_02_a_release_is_tested_built_twice_and_signed_before_it_is_published() {
    let names: Vec<String> = steps().into_iter().map(|(name, _)| name).collect();
    let last = ["test", "build", "a second build is equal", "sign", "publish"];
    assert!(names.ends_with(&last.map(str::to_owned)), "{names:?}");
    for (name, script) in steps() {
        let check = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
        assert!(check.status.success() && !script.is_empty(), "{name}: {}", said(&check));
    }
}

#[test]
fn p_02_a_tag_that_is_not_the_version_is_refused() {
    let step = "the tag is the version";
    let version = manifest("version");
    let right = run(step, &[("GITHUB_REF_NAME", &format!("v{version}"))]);
    assert!(right.status.success(), "{}", said(&right));
    let wrong = run(step, &[("GITHUB_REF_NAME", "v99.0.0")]);
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(said(&wrong), format!("Cargo.toml says {version}, the tag v99.0.0\n"));
}

#[test]
fn p_02_another_address_than_that_of_the_packages_is_refused() {
    let step = "the address is the one that cargo binstall asks";
    let address = manifest("repository");
    let (server, repository) = address.rsplit_once('/').unwrap();
    let (server, owner) = server.rsplit_once('/').unwrap();
    let here = |name: &str| {
        let repository = format!("{owner}/{name}");
        run(step, &[("GITHUB_SERVER_URL", server), ("GITHUB_REPOSITORY", &repository)])
    };
    assert!(here(repository).status.success());
    let wrong = here("a-fork");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("/a-fork\n"), "{}", said(&wrong));
}

/// What docs/install.md tells people to run over the checksums.
fn verify(dist: &Path, key: &str) -> bool {
    let mut minisign = Command::new("minisign");
    minisign.args(["-Vm", "SHA256SUMS", "-P", key]).current_dir(dist);
    minisign.output().unwrap().status.success()
}

#[test]
fn p_02_the_signature_holds_for_these_checksums_and_no_others() {
    let dir = TempDir::new().unwrap();
    let (dist, tmp) = (dir.path().join("dist"), dir.path().join("tmp"));
    create_dir(&dist).unwrap();
    create_dir(&tmp).unwrap();
    write(dist.join("SHA256SUMS"), "0123 coord.tar.gz\n").unwrap();
    let [secret, public] = ["secret", "public"].map(|name| dir.path().join(name));
    let mut generate = Command::new("minisign");
    generate.args(["-G", "-W", "-s"]).arg(&secret).arg("-p").arg(&public);
    let generated = generate.output().unwrap();
    assert!(generated.status.success(), "{}", said(&generated));
    let key = read_to_string(&secret).unwrap();
    let signed = run(
        "sign",
        &[
            ("MINISIGN_KEY", key.trim_end()),
            ("RUNNER_TEMP", dir.path().to_str().unwrap()),
            ("GITHUB_REF_NAME", "v1.2.3"),
            ("TMPDIR", tmp.to_str().unwrap()),
        ],
    );
    assert!(signed.status.success(), "{}", said(&signed));
    assert_eq!(tmp.read_dir().unwrap().count(), 0, "the key is left on the disk");
    // The line that the release's notes tell.
    let told = read_to_string(dir.path().join("key.pub")).unwrap();
    let told = told.lines().last().unwrap();
    assert_eq!(Some(told), read_to_string(&public).unwrap().lines().last());
    assert!(verify(&dist, told));
    write(dist.join("SHA256SUMS"), "4567 coord.tar.gz\n").unwrap();
    assert!(!verify(&dist, told));
}
