//! Tests of the wheel and the tarball: each is installed into a fresh place. The virtual machine installs the Debian package, and governs
//! containers from it and from the tarball; the image is tested in `tests/engine`.

use crate::support::package::{Packages, done};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Fails unless RECORD lists each file of the wheel with its digest and its size.
const CHECK_RECORD: &str = r#"
import base64, csv, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
record, = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")]
rows = {name: (digest, size) for name, digest, size in csv.reader(wheel.read(record).decode().splitlines())}
assert rows.pop(record) == ("", ""), record
assert sorted([*rows, record]) == sorted(wheel.namelist())
for name, row in rows.items():
    data = wheel.read(name)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    assert row == (f"sha256={digest}", str(len(data))), name
"#;

fn check_record(wheel: &Path) {
    done(Command::new("python3").args(["-c", CHECK_RECORD]).arg(wheel));
}

#[test]
fn the_wheel_installs_into_an_empty_environment_and_runs_the_demo_from_it() {
    let packages = Packages::of_built(&["wheel"]);
    let wheel = packages.file("flowcon_cli-", ".whl");
    check_record(&wheel);
    let environment = packages.folder().join("environment");
    done(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    done(Command::new(environment.join("bin/pip")).args(["install", "--no-index"]).arg(&wheel));
    for file in [
        "bin/flowcond",
        "share/man/man8/flowcond.8.gz",
        "share/bash-completion/completions/flowctl",
        "share/doc/flowcon/examples/compose.yaml",
        "share/doc/flowcon/examples/bench.toml",
    ] {
        assert!(environment.join(file).is_file(), "{file}");
    }
    let site = done(Command::new(environment.join("bin/pip")).args(["show", "--files", "flowcon-cli"]));
    assert!(site.contains("licenses/LICENSE") && site.contains("licenses/licences.txt"), "{site}");

    let mut demo = Command::new(environment.join("bin/flowctl"));
    demo.args(["demo", "--runtime", "scope", "--work", "2", "--interval", "1", "--json"]);
    let result = done(demo.env("TMPDIR", packages.folder()));
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let jobs = result["governed"]["jobs"].as_array().unwrap();
    assert!(jobs.len() == 5 && jobs.iter().all(|job| job["exit_code"] == 0), "{result:#}");
}

#[test]
fn the_same_files_make_the_same_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |name: &str, modified: &str| {
        let (root, out) = (folder.path().join(name).join("root"), folder.path().join(name));
        for (file, text) in [("usr/bin/flowctl", "#!/bin/sh\n"), ("usr/share/man/man1/flowctl.1", "page")] {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        fs::create_dir_all(root.join("usr/share/doc/flowcon")).unwrap();
        let licences = root.join("usr/share/doc/flowcon/licences");
        fs::write(&licences, "a licence").unwrap();
        done(Command::new("gzip").arg("-n").arg(&licences).current_dir(&root));
        done(Command::new("sh").args(["-c", "find . -exec touch -d \"$0\" {} +", modified]).current_dir(&root));
        let mut wheel = Command::new(repository("systemd/package/wheel"));
        wheel.arg(&root).arg(&out).args(["1.2.3", "manylinux2014_x86_64", "9"]);
        done(wheel.env("SOURCE_DATE_EPOCH", "1700000000").current_dir(repository(".")));
        let path = out.join("flowcon_cli-1.2.3-py3-none-manylinux2014_x86_64.whl");
        check_record(&path);
        fs::read(path).unwrap()
    };
    assert!(pack("one", "2001-02-03") == pack("other", "2020-02-03"));
}

/// A template of `package.metadata.binstall` with the values of this release.
fn filled_in(template: &toml::Value, binary: &str) -> String {
    let values = [
        ("{ version }", env!("CARGO_PKG_VERSION")),
        ("{ target-arch }", std::env::consts::ARCH),
        ("{ bin }", binary),
        ("{ binary-ext }", ""),
    ];
    values.iter().fold(template.as_str().unwrap().to_owned(), |text, (name, value)| text.replace(name, value))
}

#[test]
fn the_tarball_has_its_checksum_installs_into_a_fresh_root_and_is_what_cargo_binstall_expects() {
    let packages = Packages::of_built(&["tarball"]);
    done(Command::new("sha256sum").args(["--check", "--ignore-missing", "SHA256SUMS"]).current_dir(packages.folder()));
    let tarball = packages.file("flowcon-", ".tar.gz");
    let manifest: toml::Table = fs::read_to_string(repository("Cargo.toml")).unwrap().parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let url = filled_in(&binstall["pkg-url"], "");
    assert_eq!(url.rsplit('/').next().unwrap(), tarball.file_name().unwrap().to_string_lossy());
    assert_eq!(binstall["pkg-fmt"].as_str(), Some("tgz"));
    done(Command::new("tar").arg("-xf").arg(&tarball).current_dir(packages.folder()));
    for program in fs::read_dir(repository("src/bin")).unwrap() {
        let name = program.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        let binary = packages.folder().join(filled_in(&binstall["bin-dir"], &name));
        let mode = fs::metadata(&binary).unwrap_or_else(|error| panic!("{}: {error}", binary.display())).permissions();
        assert_eq!(mode.mode() & 0o777, 0o755, "{name}");
    }

    let root = packages.folder().join("root");
    let unpacked = tarball.with_extension("").with_extension("");
    done(Command::new(unpacked.join("install.sh")).env("PREFIX", &root));
    let mut check = Command::new(root.join("usr/bin/flowcond"));
    let checked = done(check.args(["check-config", "--config"]).arg(root.join("etc/flowcon/flowcond.toml")));
    assert!(checked.contains("no mistakes"), "{checked}");
    for file in ["man/man1/flowctl.1.gz", "doc/flowcon/examples/docker-run.sh", "doc/flowcon/examples/random-5.toml"] {
        assert!(root.join("usr/share").join(file).is_file(), "{file}");
    }
}
