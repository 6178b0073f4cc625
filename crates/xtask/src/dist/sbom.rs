//! Decides what the list of built-in libraries says (SBOM, CycloneDX 1.5): every crate from which code is in a shipped
//! program, by the resolved dependencies of cargo itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use coord_model::stamp::rfc3339;
use serde_json::{Value, json};

use super::output;
use crate::root;

/// The packages whose programs are shipped.
const SHIPPED: [&str; 3] = ["coord-cli", "coord-hook", "coord-notice"];

/// Writes the list. Its name.
pub(super) fn make(out: &Path, date: u64) -> anyhow::Result<String> {
    let mut cargo = crate::cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", "x86_64-unknown-linux-musl"]);
    let metadata: Value = serde_json::from_str(&output(cargo.current_dir(root()))?)?;
    let name = format!("coord-{}.cdx.json", coord_wire::VERSION);
    let text = serde_json::to_string_pretty(&list(&metadata, date)?)?;
    fs::write(out.join(&name), text + "\n")?;
    Ok(name)
}

/// The list, of what `cargo metadata` says.
fn list(metadata: &Value, date: u64) -> anyhow::Result<Value> {
    let of = |place: &str| metadata.pointer(place).and_then(Value::as_array);
    let packages = of("/packages").context("cargo metadata has no packages")?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|one| Some((one["id"].as_str()?, one))).collect();
    let nodes = of("/resolve/nodes").context("cargo metadata has no resolved dependencies")?;
    let needs: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, built_in(node)))).collect();
    let is_shipped = |one: &Value| one["name"].as_str().is_some_and(|name| SHIPPED.contains(&name));
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> =
        packages.iter().filter(|(_, one)| is_shipped(one)).map(|(id, _)| *id).collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let mut found: Vec<(String, &str)> =
        found.into_iter().filter_map(|id| Some((reference(packages.get(id)?), id))).collect();
    found.sort();
    let components: Vec<Value> =
        found.iter().filter_map(|(_, id)| packages.get(id)).map(|one| component(one)).collect();
    let dependencies: Vec<Value> = found
        .iter()
        .map(|(name, id)| {
            let of = needs.get(id).into_iter().flatten().filter_map(|id| packages.get(id));
            let of: BTreeSet<String> = of.map(|one| reference(one)).collect();
            json!({ "ref": name, "dependsOn": of })
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": rfc3339(date.saturating_mul(1000)),
            "component": {
                "type": "application",
                "bom-ref": "coord",
                "name": "coord",
                "version": coord_wire::VERSION,
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The packages whose code this one builds in: neither what only its tests need nor what runs while it is built.
fn built_in(node: &Value) -> Vec<&str> {
    let all = node["deps"].as_array().into_iter().flatten();
    let is_built_in = |one: &&Value| {
        let mut kinds = one["dep_kinds"].as_array().into_iter().flatten();
        kinds.any(|kind| kind["kind"].is_null())
    };
    all.filter(is_built_in).filter_map(|one| one["pkg"].as_str()).collect()
}

/// The package's URL, as the purl specification has it.
fn reference(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value) -> Value {
    let name = reference(package);
    let license = package["license"].as_str().unwrap_or("NOASSERTION").replace('/', " OR ");
    json!({
        "type": "library",
        "bom-ref": name,
        "name": package["name"],
        "version": package["version"],
        "licenses": [{ "expression": license }],
        "purl": name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // P-01: what is built in is listed, with what it needs; what only tests need is not.
    #[test]
    fn p_01_the_list_has_what_is_built_in() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let need =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let packages = ["coord-hook", "libc", "proptest", "unused"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "coord-hook", "deps": [need("libc", Value::Null), need("proptest", json!("dev"))] },
                { "id": "libc", "deps": [] },
                { "id": "unused", "deps": [] },
            ] },
        });
        let list = list(&metadata, 1_700_000_000).unwrap();
        let names: Vec<&str> = list["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["coord-hook", "libc"]);
        assert_eq!(list["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(list["dependencies"][0]["dependsOn"], json!(["pkg:cargo/libc@1.0.0"]));
        assert_eq!(list["metadata"]["timestamp"], "2023-11-14T22:13:20.000Z");
    }
}
