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

#[test]
fn check_config_names_file_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flowcond.toml");
    fs::write(&file, "[policy]\n\ninterval = \"never\"\n").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_flowcond")).args(["check-config", "--config"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("{}:3: `policy.interval`", file.display())), "{text}");
}
