//! Finds totals in the words of a command line and in environment variables.
//!
//! Options (`--epochs 50`, `-epochs=50`), assignments (`trainer.max_epochs=50`, `EPOCHS=5 python …`), assignments inside values
//! (`--gin_bindings=train.num_epochs=10`), and scripts in one word of the command (`sh -c "…"`, `python -c "…"`).

use super::code::assignments;
use super::key::key;
use super::{Claim, ClaimOrigin, MAX_CLAIMS, claim, config, gathered, number};
use crate::ProgressUnit;

/// Maximum words that are searched.
const MAX_WORDS: usize = 4096;
/// Maximum bytes of a word that are searched.
const MAX_WORD: usize = 64 << 10;
/// Maximum nesting of scripts.
const MAX_DEPTH: u32 = 3;
/// Maximum configuration files of one command.
const MAX_FILES: usize = 4;

/// Weight in a script: the words may belong to a command that never runs.
const SCRIPT: f64 = 0.9;
/// Weight without a mark between name and number: `SOLVER.MAX_ITER 90000`.
const UNMARKED: f64 = 0.8;
/// Weight of an environment variable: the program may not read it.
const ENVIRONMENT: f64 = 0.8;
/// Confidence of `-e` and `-n`, which have many meanings.
const LETTER: f64 = 0.35;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash", "ksh", "busybox"];
const LANGUAGES: &[&str] = &["python", "pypy", "ipython", "julia", "Rscript", "node", "perl", "ruby"];
/// Programs that do not train.
const OTHER_PROGRAMS: &[&str] = &[
    "echo",
    "printf",
    "grep",
    "sed",
    "awk",
    "test",
    "[",
    "true",
    "sleep",
    "cat",
    "tee",
    "tail",
    "head",
    "seq",
    "watch",
    "ls",
    "ps",
    "nvidia-smi",
    "tensorboard",
];
/// Programs that start others; their own `-n` and `-e` have other meanings.
const LAUNCHERS: &[&str] = &[
    "nice",
    "ionice",
    "timeout",
    "mpirun",
    "mpiexec",
    "horovodrun",
    "srun",
    "torchrun",
    "accelerate",
    "xargs",
    "env",
    "taskset",
    "numactl",
    "nohup",
    "stdbuf",
    "sudo",
    "su",
    "docker",
    "flowctl",
    "make",
    "tini",
    "dumb-init",
];

/// Returns the claims of a command line.
pub fn of_command<W: AsRef<str>>(words: &[W]) -> Vec<Claim> {
    let mut words: Vec<&str> = words.iter().take(MAX_WORDS).map(|word| truncated(word.as_ref())).collect();
    // The title of a process (setproctitle) is a single word.
    if let [title] = words.as_slice() {
        words = title.split_whitespace().collect();
    }
    let mut found = Vec::new();
    command(&words, 1.0, 0, &mut found);
    gathered(found)
}

/// Returns the claims of environment variables.
pub fn of_environment<N: AsRef<str>, V: AsRef<str>>(variables: &[(N, V)]) -> Vec<Claim> {
    let claims = variables.iter().take(MAX_WORDS).filter_map(|(name, value)| {
        let name = name.as_ref();
        // Variables for a program are upper-case; others belong to shells and frameworks.
        let is_variable = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let key = key(name).filter(|_| is_variable)?;
        claim(key, number::total(value.as_ref())?, ClaimOrigin::Environment, ENVIRONMENT)
    });
    gathered(claims)
}

/// Returns the configuration files named in a command line: paths that end in `.json`, `.yaml`, `.yml` or `.toml`.
pub fn config_files<W: AsRef<str>>(words: &[W]) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for word in words.iter().take(MAX_WORDS) {
        let word = word.as_ref();
        let path = word.rsplit('=').next().unwrap_or(word);
        let is_path = path.len() <= 512 && !path.contains("://") && !path.contains(char::is_whitespace);
        if is_path && config::format_of(path).is_some() && !files.contains(&path) {
            files.push(path);
        }
    }
    files.truncate(MAX_FILES);
    files
}

fn truncated(word: &str) -> &str {
    let end = (0..=word.len().min(MAX_WORD)).rev().find(|at| word.is_char_boundary(*at)).unwrap_or(0);
    &word[..end]
}

/// Returns the program name without path and version: `python` of `/usr/bin/python3.12`.
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word).trim_start_matches('-');
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if bare.is_empty() { name } else { bare }
}

fn is_script_file(word: &str) -> bool {
    let endings = [".py", ".sh", ".jl", ".R", ".r", ".lua", ".pl", ".rb", ".js"];
    endings.iter().any(|ending| word.ends_with(ending))
}

/// Collects the claims of one command: a program and its arguments.
fn command(words: &[&str], weight: f64, depth: u32, found: &mut Vec<Claim>) {
    let is_assignment = |word: &&&str| word.contains('=') && !word.starts_with('-');
    let first = words.iter().find(|word| !is_assignment(word)).map_or("", |word| program(word));
    if depth > MAX_DEPTH || OTHER_PROGRAMS.contains(&first) {
        return;
    }
    let mut own: Vec<Claim> = Vec::new();
    let mut letters = !LAUNCHERS.contains(&first) && !SHELLS.contains(&first) && !LANGUAGES.contains(&first);
    let mut at = 0;
    while let Some(word) = words.get(at).copied() {
        let next = words.get(at + 1).copied();
        at += 1;
        if found.len() + own.len() >= 4 * MAX_CLAIMS {
            break;
        }
        let before = at.checked_sub(2).map_or("", |before| words[before]);
        if let Some(script) = script(word, before, &words[..at - 1]) {
            match script {
                Script::Shell => shell(word, weight * SCRIPT, depth, found),
                Script::Program => own.extend(of_code(word, weight * SCRIPT)),
            }
            continue;
        }
        letters |= is_script_file(word) || before == "-m";
        let taken = match word.strip_prefix('-') {
            Some(_) => option(word, next, weight, letters, &mut own),
            None => plain(word, next, weight, &mut own),
        };
        at += usize::from(taken);
    }
    found.extend(last_of_each(own));
}

enum Script {
    Shell,
    Program,
}

/// Returns the kind of script if `word` is one, such as the word after `-c` of a shell or an interpreter.
fn script(word: &str, before: &str, earlier: &[&str]) -> Option<Script> {
    let flag = before.strip_prefix('-').filter(|flag| !flag.starts_with('-') && flag.len() <= 4)?;
    let runs = |programs: &[&str]| earlier.iter().rev().any(|word| programs.contains(&program(word)));
    let is_code = word.contains(|c: char| c.is_whitespace() || matches!(c, ';' | '=' | '('));
    match flag.bytes().last()? {
        b'c' if runs(LANGUAGES) => Some(Script::Program),
        b'c' if runs(SHELLS) || is_code && word.contains(' ') => Some(Script::Shell),
        b'e' if runs(LANGUAGES) && is_code => Some(Script::Program),
        _ => None,
    }
}

/// Handles `--epochs 50`, `--epochs=50`, `-e 50`, `--gin_bindings=train.num_epochs=10`. Returns whether the next word was consumed.
fn option(word: &str, next: Option<&str>, weight: f64, letters: bool, own: &mut Vec<Claim>) -> bool {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let total = value.or(next).and_then(number::total);
    let letter = match name {
        "-e" => Some(Some(ProgressUnit::Epoch)),
        "-n" | "--n" => Some(None),
        _ => None,
    };
    if let (Some(unit), true, Some(total)) = (letter, letters, total.filter(|total| total.fract() == 0.0)) {
        let confidence = weight * LETTER;
        own.push(Claim { total, unit, near: true, key: name.to_owned(), origin: ClaimOrigin::Command, confidence });
        return value.is_none();
    }
    if let (Some(key), Some(total)) = (key(name), total) {
        own.extend(claim(key, total, ClaimOrigin::Command, weight));
        return value.is_none();
    }
    if let Some(value) = value {
        pairs(value, weight, own);
    }
    false
}

/// Handles `trainer.max_epochs=50`, `{"epochs": 5}`, `SOLVER.MAX_ITER 90000`. Returns whether the next word was consumed.
fn plain(word: &str, next: Option<&str>, weight: f64, own: &mut Vec<Claim>) -> bool {
    pairs(word, weight, own);
    let is_setting = word.contains(['.', '_']) && !word.contains('=');
    let (Some(key), Some(total)) = (key(word).filter(|_| is_setting), next.and_then(number::total)) else {
        return false;
    };
    own.extend(claim(key, total, ClaimOrigin::Command, weight * UNMARKED));
    true
}

/// Handles `key=number`, a comma-separated list of such pairs, or JSON.
fn pairs(text: &str, weight: f64, own: &mut Vec<Claim>) {
    if text.trim_start().starts_with('{') {
        return own.extend(of_code(text, weight));
    }
    for pair in text.split(',') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        if let (Some(key), Some(total)) = (key(name.trim()), number::total(value)) {
            own.extend(claim(key, total, ClaimOrigin::Command, weight));
        }
    }
}

fn of_code(text: &str, weight: f64) -> impl Iterator<Item = Claim> + '_ {
    assignments(text).filter_map(move |(key, total)| claim(key, total, ClaimOrigin::Command, weight))
}

/// Keeps the last occurrence of each option.
fn last_of_each(own: Vec<Claim>) -> Vec<Claim> {
    let name = |claim: &Claim| claim.key.trim_start_matches(['-', '+']).replace('-', "_");
    let mut kept: Vec<Claim> = Vec::new();
    for claim in own.into_iter().rev() {
        if !kept.iter().any(|later| name(later) == name(&claim)) {
            kept.push(claim);
        }
    }
    kept
}

/// Splits a shell script into commands and collects the claims of each.
fn shell(script: &str, weight: f64, depth: u32, found: &mut Vec<Claim>) {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = script.chars().peekable();
    let mut end = |words: &mut Vec<String>| {
        let arguments: Vec<&str> = words.iter().take(MAX_WORDS).map(String::as_str).collect();
        command(&arguments, weight, depth + 1, found);
        words.clear();
    };
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some(quoted) = letters.next().filter(|quoted| *quoted != letter) {
                    let escaped = if quoted == '\\' && letter == '"' { letters.next() } else { Some(quoted) };
                    word.extend(escaped);
                }
            }
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            '#' if word.is_none() => while letters.next_if(|letter| *letter != '\n').is_some() {},
            ';' | '&' | '|' | '\n' | '(' | ')' => {
                words.extend(word.take());
                end(&mut words);
            }
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    end(&mut words);
}
