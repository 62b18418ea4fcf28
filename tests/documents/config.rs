//! Tests that the shipped `config/flowcond.toml` documents the daemon's defaults and keys.

use flowcon::config::{KEYS, Settings, Sources, load};
use std::fs;
use std::path::Path;
use std::process::Command;

fn shipped() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/flowcond.toml"))
        .expect("config/flowcond.toml is in the repository")
}

#[test]
fn every_documented_default_is_the_actual_default() {
    let uncommented: String = shipped()
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flowcond.toml");
    fs::write(&file, &uncommented).unwrap();
    assert_eq!(load(&Sources { file, must_exist: true, ..Sources::default() }), Ok(Settings::default()));
}

#[test]
fn every_key_is_documented() {
    let text = shipped();
    for key in KEYS {
        let name = key.name.rsplit('.').next().unwrap();
        assert!(text.contains(&format!("#{name} = ")), "config/flowcond.toml lacks {}", key.name);
    }
}

/// Runs `flowcond VERB` with this configuration; its file is called `F` in the error output.
fn with_config(verb: &str, text: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flowcond.toml");
    let state = folder.path().join("state");
    drop(flowcon::host::store::Store::open(&state).unwrap());
    fs::write(&file, text.replace("STATE", &state.display().to_string())).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_flowcond")).args([verb, "--config"]).arg(&file).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), errors.replace(file.to_str().unwrap(), "F"))
}

#[test]
fn check_config_names_file_line_and_key() {
    for (mistake, said) in [
        ("[policy]\n\ninterval = \"never\"\n", "F:3: `policy.interval`"),
        ("[engine]\naddress = \"tcp://host:2375\"\n", "F:2: `engine.address`"),
        ("[engine]\naddress = \"docker.sock\"\n", "F:2: `engine.address`"),
    ] {
        let (code, errors) = with_config("check-config", mistake);
        assert!(code == Some(2) && errors.contains(said), "{code:?}: {errors}");
    }
}

/// A user can be deleted, or come from a directory that does not answer: the daemon must start in any case.
#[test]
fn check_config_warns_of_an_unknown_admin() {
    let (code, errors) = with_config("check-config", "[api]\nadmins = [\"no-such-user\"]\n");
    assert!(code == Some(0) && errors.contains("warning: user `no-such-user`"), "{code:?}: {errors}");
}

/// A typing error in its path, or a directory that this user may not enter, hides a configuration.
#[test]
fn a_configuration_that_does_not_exist_or_cannot_be_read_is_not_said_to_have_no_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let check = |file: &Path, named: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.args(["config", "check"]).env_remove("FLOWCON_CONFIG");
        if named {
            command.arg(file);
        }
        command.output().unwrap()
    };
    let missing = check(&folder.path().join("no-such.toml"), true);
    assert_eq!(missing.status.code(), Some(2));
    if !Path::new("/etc/flowcon/flowcond.toml").exists() {
        let default = check(Path::new(""), false);
        let text = String::from_utf8(default.stdout).unwrap();
        assert!(default.status.success() && text.contains("does not exist") && !text.contains("no mistakes"), "{text}");
    }
    let closed = folder.path().join("file/flowcond.toml");
    fs::write(folder.path().join("file"), "not a folder").unwrap();
    let sources = Sources { file: closed, ..Sources::default() };
    assert!(load(&sources).is_err(), "only a file that certainly does not exist is none");
}

/// After a crash, and before a removal, jobs get their original limits back whatever else the configuration says.
#[test]
fn a_mistake_in_the_configuration_does_not_prevent_a_restore() {
    for mistake in ["[policy]\ninterval = \"never\"\n", "[policy]\ninterval = \n"] {
        let (code, errors) = with_config("restore", &format!("state-dir = \"STATE\"\n{mistake}"));
        assert!(code == Some(0) && errors.contains("F:3: "), "{code:?}: {errors}");
    }
}
