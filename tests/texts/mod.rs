//! Finds the commands in user-facing texts: README, site, help topics, `--help` of the programs, comments in shipped configuration.
//!
//! All code and text in backticks is either a known word or a command. Anything that is not a known word counts as a command and must
//! be run by a test.

use flowcon::config::{KEYS, LABEL_PREFIX, LABELS, TARGET_KEYS};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words in backticks that are values, names or other programs.
const WORDS: [&str; 19] = [
    "auto",
    "balanced",
    "config check",
    "current",
    "down",
    "fish",
    "flowcon",
    "htop",
    "node.contention",
    "node.cores",
    "node.memory",
    "node.speed",
    "none",
    "run",
    "top",
    "total",
    "up",
    "value",
    "zsh",
];

/// Shipped files whose comments and messages are checked.
const COMMENTED: [&str; 9] = [
    "config/flowcond.toml",
    "config/examples/bench.toml",
    "config/examples/compose.yaml",
    "config/examples/docker-run.sh",
    "config/prometheus/flowcon-rules.yml",
    "config/prometheus/scrape.yml",
    "config/grafana/flowcon.json",
    "config/scenarios",
    "config/bench",
];

const TOPICS: [&str; 11] =
    ["labels", "status", "policy", "limits", "operations", "users", "notify", "threads", "gpu", "cluster", "security"];

/// All commands in all texts; placeholders are in capitals.
pub fn commands() -> BTreeSet<String> {
    let mut found = Vec::new();
    found.extend(of_markdown(&read(&root().join("README.md"))));
    for folder in ["integration/site/src", "integration/site/src/tasks"] {
        files(&root().join(folder)).iter().for_each(|page| found.extend(of_markdown(&read(page))));
    }
    TOPICS.iter().for_each(|topic| found.extend(of_topic(&stdout_of(env!("CARGO_BIN_EXE_flowctl"), &["help", topic]))));
    found.extend(of_prose(&stdout_of(env!("CARGO_BIN_EXE_flowctl"), &["config", "keys", "-o", "wide"])));
    helps().iter().for_each(|help| found.extend(of_prose(help)));
    COMMENTED
        .iter()
        .flat_map(|path| files(&root().join(path)))
        .for_each(|file| found.extend(of_comments(&read(&file))));
    found.iter().flat_map(|command| alternatives(command)).filter(|command| !is_word(command)).collect()
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml" || e == "md"))
        .collect()
}

fn stdout_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("COLUMNS", "100").output().expect("the program runs");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The help of every program and command that has a manual page.
fn helps() -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    stdout_of(env!("CARGO_BIN_EXE_flowctl"), &["__manual", &folder.path().to_string_lossy()]);
    let names =
        ["man1", "man8"].into_iter().flat_map(|section| fs::read_dir(folder.path().join(section)).expect("pages"));
    let names =
        names.map(|page| page.expect("a page").path().file_stem().expect("a name").to_string_lossy().into_owned());
    let binaries = Path::new(env!("CARGO_BIN_EXE_flowctl")).parent().expect("a folder");
    names
        .map(|name| {
            let of_command = name.split_once('-').filter(|_| !binaries.join(&name).exists());
            let (program, verb) = of_command.map_or((name.as_str(), None), |(p, verb)| (p, Some(verb)));
            let verb = verb.map(|name| match name.split_once('-') {
                Some((first @ ("config" | "cluster" | "notify"), second)) => vec![first, second],
                _ => vec![name],
            });
            let arguments = [verb.unwrap_or_default(), vec!["--help"]].concat();
            stdout_of(&binaries.join(program).to_string_lossy(), &arguments)
        })
        .collect()
}

fn of_markdown(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, block) in text.split("```").enumerate() {
        match (at % 2, block.strip_prefix("sh\n")) {
            (1, Some(code)) => found.extend(code.replace("\\\n    ", "").lines().filter_map(typed)),
            (1, None) => {} // a diagram
            _ => {
                let (rows, prose): (Vec<&str>, Vec<&str>) = block.lines().partition(|line| line.starts_with("| `flow"));
                found.extend(rows.iter().flat_map(|row| of_row(row)));
                found.extend(of_prose(&prose.join("\n")));
            }
        }
    }
    found
}

/// Commands in a table row: a word after `flowctl release` belongs to the same program, and an option belongs to the first command.
fn of_row(row: &str) -> Vec<String> {
    let codes = in_backticks(row);
    let first = codes.first().cloned().unwrap_or_default();
    let program = first.split(' ').next().unwrap_or_default().to_owned();
    let whole = |code: &String| match code.chars().next() {
        Some('-') => format!("{first} {code}"),
        Some('a'..='z') if !code.starts_with("flow") && !is_word(code) => format!("{program} {code}"),
        _ => code.clone(),
    };
    codes.iter().map(whole).collect()
}

fn of_topic(text: &str) -> Vec<String> {
    let is_code = |line: &&str| line.starts_with("    ") && !line.starts_with("     ");
    let (code, prose): (Vec<&str>, Vec<&str>) = text.lines().partition(is_code);
    let mut found: Vec<String> = code.into_iter().filter_map(typed).collect();
    found.extend(of_prose(&prose.join("\n")));
    found
}

/// Commands in a configuration file; a comment that starts with one of our programs is a command without backticks.
fn of_comments(text: &str) -> Vec<String> {
    let bare: Vec<&str> = text.lines().map(|line| line.trim_start().trim_start_matches('#').trim_start()).collect();
    let is_typed = |line: &&str| ["flowctl ", "flowsim ", "flowcond "].iter().any(|program| line.starts_with(program));
    let mut found: Vec<String> = bare.iter().copied().filter(is_typed).filter_map(typed).collect();
    found.extend(of_prose(&bare.into_iter().filter(|line| !is_typed(line)).collect::<Vec<_>>().join("\n")));
    found
}

/// Commands in prose; an option on its own belongs to `flowctl status`.
fn of_prose(text: &str) -> Vec<String> {
    let whole =
        |code: String| if code.starts_with('-') && code.len() > 1 { format!("flowctl status {code}") } else { code };
    in_backticks(text).into_iter().map(whole).collect()
}

fn in_backticks(text: &str) -> Vec<String> {
    let codes = text.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    let names = |code: &str| code.replace("{{ $labels.name }}", "JOB");
    codes.map(|code| names(&code.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

/// A line of code without its trailing comment.
fn typed(line: &str) -> Option<String> {
    let line = line.split(" # ").next().unwrap_or(line);
    let line = line.split("   ").find(|part| !part.trim().is_empty())?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Expands `help labels|policy` to two commands.
fn alternatives(command: &str) -> Vec<String> {
    let Some(word) = command.split(' ').find(|word| word.contains('|') && word.len() > 1) else {
        return vec![command.to_owned()];
    };
    word.split('|').map(|choice| command.replace(word, choice)).collect()
}

fn is_word(code: &str) -> bool {
    let first = code.split([' ', '=']).next().unwrap_or_default();
    let is_of_target = code.starts_with("[notify.") || TARGET_KEYS.iter().any(|key| key.name == first);
    let is_setting = is_of_target || KEYS.iter().any(|key| key.name == first);
    let is_label =
        first.strip_prefix(LABEL_PREFIX).is_some_and(|name| name == "enable" || LABELS.iter().any(|l| l.name == name));
    let is_kernels = ["cpu.", "memory.", "io."].iter().any(|controller| code.starts_with(controller));
    let is_value = code.starts_with(|c: char| c.is_ascii_digit() || c == '"' || c == '/');
    let is_variable = !code.contains(' ') && code.starts_with(|c: char| c.is_ascii_uppercase());
    let is_file = !code.contains(' ') && !code.starts_with("./") && root().join(code).exists();
    let is_about = TOPICS.contains(&code) || WORDS.contains(&code) || code == "-";
    is_setting || is_label || is_kernels || is_value || is_variable || is_file || is_about
}
