//! Tests of the documentation site: its links, anchors and pictures lead somewhere, every page is in the list, and its examples of the
//! configuration are valid. Its commands are run by `docs.rs` and `tasks.rs`.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The site in a temporary folder, as `integration/site/build` writes it.
struct Site(tempfile::TempDir);

impl Site {
    fn build(form: &[&str]) -> Site {
        let site = Site(tempfile::tempdir().unwrap());
        let mut build = Command::new(crate::texts::root().join("integration/site/build"));
        build.args(form).arg(site.0.path()).env("FLOWCTL", env!("CARGO_BIN_EXE_flowctl"));
        let output = build.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        site
    }

    /// All files below `folder`, by their paths there.
    fn files(&self, folder: &str) -> BTreeSet<PathBuf> {
        let (top, mut found) = (self.0.path().join(folder), BTreeSet::new());
        let mut folders = vec![top.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() {
                    true => folders.push(entry),
                    false => drop(found.insert(entry.strip_prefix(&top).unwrap().to_owned())),
                }
            }
        }
        found
    }

    /// The texts with this extension below `folder`.
    fn texts(&self, folder: &str, extension: &str) -> BTreeMap<PathBuf, String> {
        let files = self.files(folder).into_iter().filter(|path| path.extension().is_some_and(|e| e == extension));
        files.map(|path| (path.clone(), crate::texts::read(&self.0.path().join(folder).join(path)))).collect()
    }
}

/// A reference from one page to a file, or to a place in a page.
#[derive(Debug)]
struct Reference<'a> {
    from: &'a Path,
    file: PathBuf,
    anchor: Option<String>,
}

/// The references to the site itself that `pattern` finds in a page.
fn references<'a>(from: &'a Path, text: &str, pattern: &Regex) -> Vec<Reference<'a>> {
    let targets = pattern.captures_iter(text).map(|found| found[1].to_owned());
    let own = targets.filter(|target| !target.contains(':') && !target.is_empty());
    own.map(|target| {
        let (file, anchor) = target.split_once('#').map_or((target.as_str(), None), |(f, a)| (f, Some(a.to_owned())));
        let file = if file.is_empty() { from.to_owned() } else { plain(&from.parent().unwrap().join(file)) };
        Reference { from, file, anchor }
    })
    .collect()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

/// Fails for each reference without a target; `anchors` are those of each page.
fn check(references: &[Reference<'_>], files: &BTreeSet<PathBuf>, anchors: &BTreeMap<PathBuf, BTreeSet<String>>) {
    let is_there = |to: &&Reference<'_>| {
        let has_anchor = |anchor: &String| anchors.get(&to.file).is_some_and(|anchors| anchors.contains(anchor));
        files.contains(&to.file) && to.anchor.as_ref().is_none_or(has_anchor)
    };
    let broken: Vec<_> = references.iter().filter(|to| !is_there(to)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A page without its code.
fn without_code(text: &str) -> String {
    let prose: String = text.split("```").step_by(2).collect();
    Regex::new("`[^`]*`")
        .unwrap()
        .replace_all(&prose, |code: &regex::Captures<'_>| code[0].replace(['[', ']'], ""))
        .into()
}

/// The anchor that mdBook gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_between_the_pages_lead_somewhere_and_each_page_is_listed() {
    let site = Site::build(&["--source"]);
    let pages = site.texts("src", "md");
    let prose: BTreeMap<&PathBuf, String> = pages.iter().map(|(path, text)| (path, without_code(text))).collect();
    let of_page =
        |text: &String| text.lines().filter_map(|l| l.split_once("# ").map(|(_, title)| anchor(title))).collect();
    let anchors = prose.iter().map(|(path, text)| ((*path).clone(), of_page(text))).collect();
    let link = Regex::new(r"\]\(([^)\s]*)\)").unwrap();
    let found: Vec<_> = prose.iter().flat_map(|(path, text)| references(path, text, &link)).collect();
    assert!(found.len() > 60, "{found:#?}");
    check(&found, &site.files("src"), &anchors);

    let summary = Path::new("SUMMARY.md");
    let listed: BTreeSet<&PathBuf> = found.iter().filter(|to| to.from == summary).map(|to| &to.file).collect();
    let unlisted: Vec<_> = pages.keys().filter(|page| !listed.contains(page) && *page != summary).collect();
    assert!(unlisted.is_empty(), "not in integration/site/src/SUMMARY.md: {unlisted:?}");
    assert!(
        pages.values().all(|text| !text.contains("{{README") && !text.contains("{{FILE")),
        "all texts are in place"
    );
}

#[test]
fn references_in_the_built_site_have_targets() {
    let is_installed = |folder: PathBuf| folder.join("mdbook").is_file();
    let path = std::env::var_os("PATH").unwrap();
    if !std::env::split_paths(&path).chain([crate::texts::root().join("target/mdbook/bin")]).any(is_installed) {
        eprintln!("not checked, because mdBook is not installed: integration/site/build installs it");
        return;
    }
    let site = Site::build(&[]);
    let mut pages = site.texts("", "html");
    // It is shown for any address, and refers to files from the top of the server.
    pages.remove(Path::new("404.html"));
    let id = Regex::new(r#"\sid="([^"]+)""#).unwrap();
    let ids = |text: &String| id.captures_iter(text).map(|found| found[1].to_owned()).collect();
    let anchors = pages.iter().map(|(path, text)| (path.clone(), ids(text))).collect();
    let reference = Regex::new(r#"\s(?:href|src)="([^"]*)""#).unwrap();
    let found: Vec<_> = pages.iter().flat_map(|(path, text)| references(path, text, &reference)).collect();
    assert!(pages.len() > 30 && found.len() > 1000, "{} references in {} pages", found.len(), pages.len());
    check(&found, &site.files(""), &anchors);
    assert!(pages[Path::new("reference/labels.html")].contains("<dt"), "labels are a list of definitions");
}

#[test]
fn examples_of_the_configuration_are_valid() {
    let site = Site::build(&["--source"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flowcond.toml");
    let mut examples = 0;
    for (page, text) in site.texts("src", "md") {
        for example in text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default()) {
            fs::write(&file, example).unwrap();
            let mut check = Command::new(env!("CARGO_BIN_EXE_flowcond"));
            let output = check.args(["check-config", "--config"]).arg(&file).output().unwrap();
            assert!(output.status.success(), "{}: {}", page.display(), String::from_utf8_lossy(&output.stderr));
            examples += 1;
        }
    }
    assert!(examples >= 3, "{examples} examples");
}

#[test]
fn the_drop_in_for_gpus_is_that_of_the_manual() {
    let texts = ["integration/site/src/tasks/gpu.md", "src/cli/help/topics/operations.txt"];
    let [page, manual] = texts.map(|path| crate::texts::read(&crate::texts::root().join(path)));
    let drop_in = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let lines: Vec<&str> = drop_in.lines().collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| words(&manual).contains(line)), "{lines:?}");
}
