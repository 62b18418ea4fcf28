//! Checks the house rules of `src/lib.rs`: imports between rooms, purity of the pure rooms, and file sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms that a room may import, in addition to itself.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("policy", &["model"]),
    ("limits", &["model"]),
    ("progress", &["model"]),
    ("config", &["model"]),
    ("host", &["model"]),
    ("api", &["model"]),
    ("chart", &[]),
    ("term", &["model", "api"]),
    ("sim", &["model", "policy", "progress", "chart", "term"]),
    ("daemon", &["model", "policy", "limits", "progress", "config", "host", "api"]),
    ("coordinator", &["model", "policy", "config", "host", "api"]),
    ("lab", &["model", "progress", "config", "host", "api", "chart", "term", "daemon"]),
    ("cli", &["model", "progress", "config", "host", "api", "chart", "term", "daemon", "coordinator", "sim", "lab"]),
];

/// Rooms without clock, runtime, files, network, logging or hidden randomness.
const PURE: &[&str] = &["model", "policy", "limits", "progress"];

/// Pure modules in other rooms.
const PURE_MODULES: &[&str] = &["coordinator/machine/"];

const IMPURE_WORDS: &[&str] = &[
    "std::time::Instant",
    "SystemTime",
    "tokio::",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "tracing::",
    "println!",
    "eprintln!",
    "rand::rng",
    "thread_rng",
    "HashMap", // its iteration order is hidden randomness
];

const MAX_LINES: usize = 400;

/// Files over the limit, each with the reason why it is not split.
const LONG_FILES: &[(&str, &str)] = &[("progress/formats_tests.rs", "one table with a line per format")];

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable source folder") {
        let path = entry.expect("readable entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&root).expect("below src").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("readable source"))
        })
        .collect()
}

fn room_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file)
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(n, line)| (n + 1, line))
}

/// The lines of code that are compiled outside of tests: all except items below `#[cfg(test)]`, anywhere in the file.
fn lines_in_use(text: &str) -> Vec<(usize, &str)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut lines, mut skipped_at) = (Vec::new(), None);
    for (number, line) in code_lines(text) {
        match skipped_at {
            None if line.trim_start().starts_with("#[cfg(test)]") => skipped_at = Some(indent(line)),
            None => lines.push((number, line)),
            // In rustfmt's style, an item ends with a line at its own indentation that ends with a semicolon or brace.
            Some(at) if indent(line) == at && line.trim_end().ends_with([';', '}', ',']) => skipped_at = None,
            Some(_) => {}
        }
    }
    lines
}

/// The rooms named on a line as `crate::ROOM` (or `flowcon::ROOM` in a binary), also in a group `crate::{a, b}`.
fn rooms_named(line: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for prefix in ["crate::", "flowcon::"] {
        for (at, _) in line.match_indices(prefix) {
            let rest = &line[at + prefix.len()..];
            let words: Vec<&str> = match rest.strip_prefix('{') {
                Some(group) => group.split('}').next().unwrap_or("").split(',').collect(),
                None => vec![rest],
            };
            rooms.extend(
                words.into_iter().map(|word| {
                    word.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
                }),
            );
        }
    }
    rooms
}

#[test]
fn each_room_imports_only_allowed_rooms() {
    let known: Vec<&str> = MAY_IMPORT.iter().map(|(room, _)| *room).collect();
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let room = room_of(&file);
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else { continue };
        for (number, line) in code_lines(&text) {
            for named in rooms_named(line) {
                if known.contains(&named.as_str()) && named != room && !allowed.contains(&named.as_str()) {
                    broken.push(format!("src/{file}:{number}: {room} may not import {named}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_room_has_a_rule() {
    let unknown: Vec<String> = sources()
        .keys()
        .map(|file| room_of(file).to_owned())
        .filter(|room| !matches!(room.as_str(), "lib.rs" | "bin"))
        .filter(|room| !MAY_IMPORT.iter().any(|(name, _)| name == room))
        .collect();
    assert!(unknown.is_empty(), "rooms without a rule in tests/architecture.rs: {unknown:?}");
}

#[test]
fn host_modules_do_not_import_their_siblings() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let Some(rest) = file.strip_prefix("host/") else { continue };
        let concern = rest.split('/').next().unwrap_or(rest).trim_end_matches(".rs");
        if concern == "mod" {
            continue;
        }
        for (number, line) in code_lines(&text) {
            for (at, _) in line.match_indices("crate::host::") {
                let sibling: String =
                    line[at + 13..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if sibling != concern {
                    broken.push(format!("src/{file}:{number}: {concern} may not import its sibling {sibling}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pure_rooms_stay_pure() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let is_pure_module = PURE_MODULES.iter().any(|module| file.starts_with(module));
        if !PURE.contains(&room_of(&file)) && !is_pure_module {
            continue;
        }
        for (number, line) in lines_in_use(&text) {
            for word in IMPURE_WORDS {
                if line.contains(word) {
                    broken.push(format!("src/{file}:{number}: {word} in a pure room"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn code_after_a_test_module_is_checked_too() {
    let text = "use a;\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\nuse std::time::Instant;\n#[cfg(test)]\nmod more;\nfn y() {\n    #[cfg(test)]\n    z();\n    w();\n}\n";
    let lines: Vec<usize> = lines_in_use(text).into_iter().map(|(number, _)| number).collect();
    assert_eq!(lines, [1, 6, 9, 12, 13]);
}

#[test]
fn each_file_has_a_header() {
    let silent: Vec<String> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(f, _)| f).collect();
    assert!(silent.is_empty(), "files without a //! header: {silent:?}");
}

#[test]
fn no_file_is_too_long() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(file, lines)| *lines > MAX_LINES && !LONG_FILES.iter().any(|(name, _)| name == file))
        .map(|(file, lines)| format!("src/{file}: {lines} lines; split it by topic or add the reason to LONG_FILES"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn no_folder_contains_only_one_file() {
    let mut holds: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources().into_keys() {
        let folders = file.match_indices('/').map(|(at, _)| file[..at].to_owned());
        folders.for_each(|folder| *holds.entry(folder).or_default() += 1);
    }
    let lonely: Vec<String> = holds.into_iter().filter(|(_, files)| *files == 1).map(|(folder, _)| folder).collect();
    assert!(lonely.is_empty(), "a folder must contain at least two files: {lonely:?}");
}

/// Expands the tree of a `use` to full paths: `a::{b, c::D as E}` is `a::b` and `a::c::D`.
fn paths_of(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut part, mut parts) = (0, String::new(), Vec::new());
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let whole = |part: &String| paths_of(part).into_iter().map(|path| format!("{head}{path}")).collect::<Vec<_>>();
    parts.iter().filter(|part| !part.trim().is_empty()).flat_map(whole).collect()
}

/// The imports of a file outside of its tests, each with whether it is re-exported.
fn imports_of(text: &str) -> Vec<(String, bool)> {
    let code: Vec<&str> = lines_in_use(text).into_iter().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    for statement in code.join("\n").split(';') {
        let Some(at) = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].rsplit('\n').next().unwrap_or("").trim();
            before.is_empty() || before.starts_with("pub")
        }) else {
            continue;
        };
        let reexports = statement[..at].rsplit('\n').next().unwrap_or("").trim().starts_with("pub");
        let tree = statement[at + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
        found.extend(paths_of(&tree).into_iter().map(|path| (path, reexports)));
    }
    found
}

/// The modules of the crate, one file each.
struct Modules {
    /// File of each module path, such as `daemon::logs`.
    files: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
    /// Imports of each file, each with whether it is re-exported.
    imports: BTreeMap<String, Vec<(String, bool)>>,
}

impl Modules {
    fn read() -> Modules {
        let texts = sources();
        let module = |file: &str| {
            let path = file.strip_suffix(".rs").unwrap_or(file);
            path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
        };
        let files = texts.keys().filter(|file| !file.starts_with("bin/")).map(|file| (module(file), file.clone()));
        let imports = texts.iter().map(|(file, text)| (file.clone(), imports_of(text))).collect();
        Modules { files: files.collect(), imports, texts }
    }

    /// The file that defines the item of a path, as seen from a module.
    fn file_of(&self, from: &str, path: &str) -> Option<String> {
        let mut at: Vec<&str> = from.split("::").collect();
        let mut rest: Vec<&str> = path.split("::").map(str::trim).collect();
        match rest.first().copied()? {
            "crate" => {
                at.clear();
                rest.remove(0);
            }
            "super" | "self" => {
                while let Some("super" | "self") = rest.first().copied() {
                    if rest.remove(0) == "super" {
                        at.pop();
                    }
                }
            }
            // The name of a child module, or of another crate.
            child if self.files.contains_key(&format!("{from}::{child}")) => {}
            _ => return None,
        }
        while let Some(next) = rest.first() {
            let child = at.iter().copied().chain([*next]).collect::<Vec<_>>().join("::");
            if !self.files.contains_key(&child) {
                break;
            }
            at.push(rest.remove(0));
        }
        let module = at.join("::");
        let file = self.files.get(&module)?;
        // Re-exported from a child of that module.
        if let Some(item) = rest.first() {
            let reexported = self.imports[file]
                .iter()
                .find(|(path, reexports)| *reexports && path.rsplit("::").next() == Some(item));
            if let Some((path, _)) = reexported
                && let Some(real) = self.file_of(&module, path)
            {
                return Some(real);
            }
        }
        Some(file.clone())
    }
}

#[test]
fn there_are_no_circular_imports() {
    let modules = Modules::read();
    let is_for_tests = |module: &str| {
        let (parent, name) = module.rsplit_once("::").unwrap_or(("lib", module));
        let declared = modules.files.get(parent).map(|file| &modules.texts[file]);
        declared.is_some_and(|text| text.contains(&format!("#[cfg(test)]\nmod {name};")))
    };
    let mut arrows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (module, file) in &modules.files {
        let room = room_of(file);
        if is_for_tests(module) || room.ends_with(".rs") {
            continue;
        }
        let to = modules.imports[file].iter().filter(|(_, reexports)| !reexports);
        let to = to.filter_map(|(path, _)| modules.file_of(module, path)).filter(|to| to != file);
        arrows.insert(file.clone(), to.collect());
    }
    // A file without imports, or that is not imported, is not part of a cycle.
    loop {
        let before = arrows.len();
        let known: Vec<String> = arrows.keys().cloned().collect();
        arrows.values_mut().for_each(|to| to.retain(|to| known.contains(to)));
        let imported: Vec<String> = arrows.values().flatten().cloned().collect();
        arrows.retain(|file, to| !to.is_empty() && imported.contains(file));
        if arrows.len() == before {
            break;
        }
    }
    let cycles: Vec<String> = arrows.iter().map(|(file, to)| format!("src/{file} -> {}", to.join(", "))).collect();
    assert!(cycles.is_empty(), "these files have circular imports:\n{}", cycles.join("\n"));
}
