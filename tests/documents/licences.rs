//! Checks the rules of `deny.toml` without `cargo deny`: the licence and the source of each library.

use serde_json::Value;
use spdx::{Expression, LicenseReq, ParseMode};
use std::collections::BTreeSet;
use std::process::Command;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The libraries for the supported targets, as resolved by cargo.
fn packages(deny: &toml::Table) -> Vec<Value> {
    let triples = deny["graph"]["targets"].as_array().unwrap().iter().map(|target| target["triple"].as_str().unwrap());
    let mut packages: Vec<Value> = Vec::new();
    for triple in triples {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", triple])
            .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let used: BTreeSet<&str> =
            metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect();
        let of_the_target = metadata["packages"].as_array().unwrap().iter();
        packages.extend(of_the_target.filter(|package| used.contains(package["id"].as_str().unwrap())).cloned());
    }
    assert!(packages.len() > 100, "{} packages", packages.len());
    packages
}

/// The reason why a library may not be used, if any.
fn objection(package: &Value, allowed: &[LicenseReq]) -> Option<String> {
    let name = &package["name"];
    match package["source"].as_str() {
        // One of our own crates.
        None if package["manifest_path"].as_str().is_some_and(|path| path.starts_with(env!("CARGO_MANIFEST_DIR"))) => {}
        Some(REGISTRY) => {}
        other => return Some(format!("{name} comes from {other:?}, not from crates.io")),
    }
    let Some(licence) = package["license"].as_str() else { return Some(format!("{name} has no licence")) };
    match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) if expression.evaluate(|requirement| allowed.contains(requirement)) => None,
        Ok(_) => Some(format!("{name}: {licence} is not among the licences that deny.toml allows")),
        Err(error) => Some(format!("{name}: {licence} is not a licence expression: {error}")),
    }
}

#[test]
fn libraries_come_from_the_registry_and_have_allowed_licences() {
    let deny: toml::Table = include_str!("../../deny.toml").parse().unwrap();
    let allowed: Vec<LicenseReq> = deny["licenses"]["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| LicenseReq::from(spdx::license_id(name.as_str().unwrap()).unwrap()))
        .collect();
    let packages = packages(&deny);
    let objections: BTreeSet<String> = packages.iter().filter_map(|package| objection(package, &allowed)).collect();
    assert!(objections.is_empty(), "{objections:#?}");

    let mut foreign = packages[0].clone();
    foreign["source"] = "git+https://example.org/fork".into();
    assert!(objection(&foreign, &allowed).unwrap().contains("example.org"));
    (foreign["source"], foreign["license"]) = (REGISTRY.into(), "GPL-3.0-only".into());
    assert!(objection(&foreign, &allowed).unwrap().contains("GPL-3.0-only"));
}

#[test]
fn no_dependency_has_a_wildcard_version() {
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().unwrap();
    let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
    for (name, wanted) in dependencies.iter().filter(|(_, wanted)| wanted.get("path").is_none()) {
        let version = wanted.as_str().or_else(|| wanted["version"].as_str()).unwrap();
        assert!(!version.contains('*'), "{name} = {version:?}");
    }
}
