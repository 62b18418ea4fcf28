//! Tests of the manual pages: there is one for each program and command, and groff reports no errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn pages(folder: &Path) -> Vec<PathBuf> {
    let sections = fs::read_dir(folder).expect("sections").map(|section| section.expect("section").path());
    sections.flat_map(|section| fs::read_dir(section).expect("pages")).map(|page| page.expect("page").path()).collect()
}

#[test]
fn every_program_command_and_topic_has_a_page_that_groff_accepts() {
    let folder = tempfile::tempdir().expect("folder");
    let wrote = Command::new(env!("CARGO_BIN_EXE_flowctl")).arg("__manual").arg(folder.path()).status().expect("runs");
    assert!(wrote.success());
    let expected = [
        "man1/flowctl.1",
        "man1/flowctl-explain.1",
        "man1/flowctl-config-check.1",
        "man1/flowsim-replay.1",
        "man5/flowcond.toml.5",
        "man7/flowcon-labels.7",
        "man7/flowcon-policy.7",
        "man7/flowcon-limits.7",
        "man7/flowcon-notify.7",
        "man8/flowcon-notify.8",
        "man8/flowcond.8",
        "man8/flowcond-restore.8",
    ];
    for name in expected {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
    let pages = pages(folder.path());
    assert!(!pages.iter().any(|page| page.to_string_lossy().contains("__")), "hidden commands have no page");
    for page in pages {
        let checked = Command::new("groff").args(["-man", "-Kutf8", "-Tutf8", "-ww", "-z"]).arg(&page).output();
        let errors = String::from_utf8_lossy(&checked.expect("groff: apt-get install groff-base").stderr).into_owned();
        assert_eq!(errors, "", "{}", page.display());
    }
}

#[test]
fn a_page_is_shown_with_and_without_groff() {
    let man = |page: &str, path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flowctl"));
        command.args(["man", page]).env("PATH", path).env("COLUMNS", "80").output().expect("flowctl runs")
    };
    let path = std::env::var("PATH").expect("it is set");
    for path in [path.as_str(), "/nonexistent"] {
        for (page, words) in
            [("labels", "flowcon.weight=2"), ("run", "--gpu-share"), ("flowcond.toml", "policy.interval")]
        {
            let shown = man(page, path);
            let text = String::from_utf8(shown.stdout).expect("UTF-8");
            assert!(shown.status.success() && text.contains(words), "{page}: {text}");
            assert!(!text.contains('\u{1b}') && text.contains("NAME\n       "), "{page}: {text}");
        }
    }
    let unknown = man("nothing", &path);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("next: pages: flowctl, flowsim"), "{unknown:?}");
}
