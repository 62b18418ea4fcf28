//! The words of a command line and the variables of an environment.
//!
//! Options (`--epochs 50`, `-epochs=50`), assignments (`trainer.max_epochs=50`, `EPOCHS=5 python …`), assignments inside values
//! (`--gin_bindings=train.num_epochs=10`), and scripts that are one word of the command (`sh -c "…"`, `python -c "…"`).
//! Imports: model, its siblings.

use super::code::assignments;
use super::key::key;
use super::{CLAIMS_AT_MOST, Claim, claim, config, gathered, number};
use crate::model::{ClaimOrigin, ProgressUnit};

/// Words looked at.
const WORDS_AT_MOST: usize = 4096;
/// Longer words are looked at up to here.
const WORD_AT_MOST: usize = 64 << 10;
/// Scripts in scripts.
const DEPTH_AT_MOST: u32 = 3;
/// Configuration files of one command.
const FILES_AT_MOST: usize = 4;

/// The words of a script may stand in a command that never runs.
const SCRIPT: f64 = 0.9;
/// `SOLVER.MAX_ITER 90000`, without a mark between them.
const UNMARKED: f64 = 0.8;
/// The environment holds a variable whether the program reads it or not.
const ENVIRONMENT: f64 = 0.8;
/// `-e`, `-n`: letters that mean many things.
const LETTER: f64 = 0.35;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash", "ksh", "busybox"];
const LANGUAGES: &[&str] = &["python", "pypy", "ipython", "julia", "Rscript", "node", "perl", "ruby"];
/// Programs whose words are not a training's.
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
/// Programs that start others and have letters of their own.
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

/// What a command line claims.
pub fn of_command<W: AsRef<str>>(words: &[W]) -> Vec<Claim> {
    let mut words: Vec<&str> = words.iter().take(WORDS_AT_MOST).map(|word| cut(word.as_ref())).collect();
    // A process that gave itself a title has it in one word.
    if let [title] = words.as_slice() {
        words = title.split_whitespace().collect();
    }
    let mut found = Vec::new();
    command(&words, 1.0, 0, &mut found);
    gathered(found)
}

/// What the variables of an environment claim.
pub fn of_environment<N: AsRef<str>, V: AsRef<str>>(variables: &[(N, V)]) -> Vec<Claim> {
    let claims = variables.iter().take(WORDS_AT_MOST).filter_map(|(name, value)| {
        let name = name.as_ref();
        // Variables for a program are in capitals; the rest belongs to shells and frameworks.
        let is_variable = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        let key = key(name).filter(|_| is_variable)?;
        claim(key, number::total(value.as_ref())?, ClaimOrigin::Environment, ENVIRONMENT)
    });
    gathered(claims)
}

/// The configuration files that a command line names: paths that end in `.json`, `.yaml`, `.yml` or `.toml`.
pub fn config_files<W: AsRef<str>>(words: &[W]) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for word in words.iter().take(WORDS_AT_MOST) {
        let word = word.as_ref();
        let path = word.rsplit('=').next().unwrap_or(word);
        let is_path = path.len() <= 512 && !path.contains("://") && !path.contains(char::is_whitespace);
        if is_path && config::format_of(path).is_some() && !files.contains(&path) {
            files.push(path);
        }
    }
    files.truncate(FILES_AT_MOST);
    files
}

fn cut(word: &str) -> &str {
    let end = (0..=word.len().min(WORD_AT_MOST)).rev().find(|at| word.is_char_boundary(*at)).unwrap_or(0);
    &word[..end]
}

/// `/usr/bin/python3.12` is `python`.
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or(word).trim_start_matches('-');
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if bare.is_empty() { name } else { bare }
}

fn is_script_file(word: &str) -> bool {
    let endings = [".py", ".sh", ".jl", ".R", ".r", ".lua", ".pl", ".rb", ".js"];
    endings.iter().any(|ending| word.ends_with(ending))
}

/// One command: a program and its words.
fn command(words: &[&str], weight: f64, depth: u32, found: &mut Vec<Claim>) {
    let is_assignment = |word: &&&str| word.contains('=') && !word.starts_with('-');
    let first = words.iter().find(|word| !is_assignment(word)).map_or("", |word| program(word));
    if depth > DEPTH_AT_MOST || OTHER_PROGRAMS.contains(&first) {
        return;
    }
    let mut own: Vec<Claim> = Vec::new();
    let mut letters = !LAUNCHERS.contains(&first) && !SHELLS.contains(&first) && !LANGUAGES.contains(&first);
    let mut at = 0;
    while let Some(word) = words.get(at).copied() {
        let next = words.get(at + 1).copied();
        at += 1;
        if found.len() + own.len() >= 4 * CLAIMS_AT_MOST {
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

/// Whether a word is a script: what stands after the `-c` of a shell or an interpreter.
fn script(word: &str, before: &str, earlier: &[&str]) -> Option<Script> {
    let flag = before.strip_prefix('-').filter(|flag| !flag.starts_with('-') && flag.len() <= 4)?;
    let runs = |programs: &[&str]| earlier.iter().rev().any(|word| programs.contains(&program(word)));
    let spoken = word.contains(|c: char| c.is_whitespace() || matches!(c, ';' | '=' | '('));
    match flag.bytes().last()? {
        b'c' if runs(LANGUAGES) => Some(Script::Program),
        b'c' if runs(SHELLS) || spoken && word.contains(' ') => Some(Script::Shell),
        b'e' if runs(LANGUAGES) && spoken => Some(Script::Program),
        _ => None,
    }
}

/// `--epochs 50`, `--epochs=50`, `-e 50`, `--gin_bindings=train.num_epochs=10`. Says whether the next word was taken too.
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

/// `trainer.max_epochs=50`, `{"epochs": 5}`, `SOLVER.MAX_ITER 90000`.
fn plain(word: &str, next: Option<&str>, weight: f64, own: &mut Vec<Claim>) -> bool {
    pairs(word, weight, own);
    let is_setting = word.contains(['.', '_']) && !word.contains('=');
    let (Some(key), Some(total)) = (key(word).filter(|_| is_setting), next.and_then(number::total)) else {
        return false;
    };
    own.extend(claim(key, total, ClaimOrigin::Command, weight * UNMARKED));
    true
}

/// `key=number`, several of them between commas, or JSON.
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

/// Of an option that is given twice the last one counts.
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

/// A shell's script: each of its commands by itself.
fn shell(script: &str, weight: f64, depth: u32, found: &mut Vec<Claim>) {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = script.chars().peekable();
    let mut end = |words: &mut Vec<String>| {
        let spoken: Vec<&str> = words.iter().take(WORDS_AT_MOST).map(String::as_str).collect();
        command(&spoken, weight, depth + 1, found);
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
