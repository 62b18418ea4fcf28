//! Checks the house rules that no compiler can see: what the pure crates depend on, headers, file sizes, and circles between files.
//!
//! Which crate may use which is said by their manifests. That the pure crates use no clock, files, network or hidden randomness is checked by
//! clippy, which sees what they really call (`clippy.toml`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates without clock, runtime, files, network, logging or hidden randomness, with the libraries that they may use.
const PURE: &[(&str, &[&str])] = &[
    ("model", &["jiff", "serde", "serde_json", "thiserror", "traininglog"]),
    ("policy", &["model", "serde"]),
    ("health", &["model", "serde"]),
    ("limits", &["model"]),
    ("traininglog", &["memchr", "regex-automata", "serde", "serde_json", "toml"]),
];

/// Pure modules of other crates.
const PURE_MODULES: &[&str] = &["coordinator/machine/mod.rs"];

/// The lints that keep a crate or module pure.
const LINTS: &str =
    "#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]";

const MAX_LINES: usize = 400;

/// Files over the limit, each with the reason why it is not split.
const LONG_FILES: &[(&str, &str)] = &[("traininglog/formats_tests.rs", "one table with a line per format")];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files_below(dir: &Path, is_wanted: fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable source folder") {
        let path = entry.expect("readable entry").path();
        if path.is_dir() {
            files_below(&path, is_wanted, found);
        } else if is_wanted(&path) {
            found.push(path);
        }
    }
}

fn names_of(is_wanted: fn(&Path) -> bool) -> Vec<String> {
    let mut files = Vec::new();
    files_below(&src(), is_wanted, &mut files);
    let name = |path: PathBuf| path.strip_prefix(src()).expect("below src").to_string_lossy().into_owned();
    files.into_iter().map(name).collect()
}

/// Source files, by their path below `src`.
fn sources() -> BTreeMap<String, String> {
    let read = |name: String| (name.clone(), fs::read_to_string(src().join(name)).expect("readable source"));
    names_of(|path| path.extension().is_some_and(|ext| ext == "rs")).into_iter().map(read).collect()
}

/// Folders of the crates below `src`, such as `host/docker`.
fn crates() -> Vec<String> {
    let manifests = names_of(|path| path.ends_with("Cargo.toml"));
    manifests.into_iter().map(|name| name.trim_end_matches("/Cargo.toml").to_owned()).collect()
}

fn manifest(folder: &str) -> toml::Table {
    fs::read_to_string(src().join(folder).join("Cargo.toml")).expect("a manifest").parse().expect("valid TOML")
}

/// The lines of code that are compiled outside of tests: all except items below `#[cfg(test)]`, anywhere in the file.
fn lines_in_use(text: &str) -> Vec<(usize, &str)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let (mut lines, mut skipped_at) = (Vec::new(), None);
    for (number, line) in code.map(|(number, line)| (number + 1, line)) {
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

#[test]
fn pure_crates_use_only_pure_libraries() {
    for (room, allowed) in PURE {
        let manifest = manifest(room);
        let used = manifest["dependencies"].as_table().expect("dependencies").keys();
        let other: Vec<&String> = used.filter(|name| !allowed.contains(&name.as_str())).collect();
        assert!(other.is_empty(), "src/{room}/Cargo.toml: {other:?}; a pure crate may use {allowed:?}");
    }
}

#[test]
fn pure_crates_and_modules_turn_on_the_lints_that_keep_them_pure() {
    let sources = sources();
    let roots = PURE.iter().map(|(room, _)| format!("{room}/lib.rs"));
    let without = |file: &String| !sources[file].lines().any(|line| line == LINTS);
    let missing: Vec<String> =
        roots.chain(PURE_MODULES.iter().map(|file| (*file).to_owned())).filter(without).collect();
    assert!(missing.is_empty(), "files without the line {LINTS}: {missing:?}");
}

#[test]
fn a_pure_module_uses_no_runtime_and_no_log() {
    let mut broken = Vec::new();
    for (file, text) in sources() {
        let is_pure = PURE_MODULES.iter().any(|module| file.starts_with(module.trim_end_matches("mod.rs")));
        if !is_pure {
            continue;
        }
        for (number, line) in lines_in_use(&text) {
            let named = ["tokio", "tracing", "bollard", "hyper", "rustix"].into_iter().find(|name| line.contains(name));
            broken.extend(named.map(|name| format!("src/{file}:{number}: {name} in a pure module")));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn crates_of_the_host_use_only_the_model() {
    let rooms: BTreeSet<String> =
        crates().iter().map(|folder| folder.rsplit('/').next().unwrap_or(folder).to_owned()).collect();
    for folder in crates().iter().filter(|folder| folder.starts_with("host/")) {
        let manifest = manifest(folder);
        let used = manifest["dependencies"].as_table().expect("dependencies").keys();
        let other: Vec<&String> = used.filter(|name| rooms.contains(*name) && *name != "model").collect();
        assert!(other.is_empty(), "src/{folder}/Cargo.toml: {other:?}; a crate of the host may use model only");
    }
}

/// The names of a crate's dependencies, without those of its tests.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = manifest(folder);
    manifest
        .get("dependencies")
        .and_then(|used| used.as_table())
        .into_iter()
        .flat_map(|used| used.keys().cloned())
        .collect()
}

#[test]
fn the_product_uses_neither_the_simulator_nor_research() {
    let crates = crates();
    let is_research = |folder: &str| folder.starts_with("research/");
    let research: Vec<&str> = crates.iter().filter_map(|folder| folder.strip_prefix("research/")).collect();
    assert!(!research.is_empty(), "no crate in src/research");
    for folder in crates.iter().filter(|folder| !is_research(folder) && *folder != "flowsim") {
        let used = dependencies(folder);
        let is_simulator = |name: &str| ["sim", "flowsim"].contains(&name);
        let other: Vec<&String> =
            used.iter().filter(|name| research.contains(&name.as_str()) || is_simulator(name)).collect();
        assert!(other.is_empty(), "src/{folder}/Cargo.toml: {other:?}; only src/flowsim and src/research may use them");
    }
    // The package of the programs has flowsim, and leaves the rest to its tests and benchmarks.
    let other: Vec<String> = dependencies("..").into_iter().filter(|name| research.contains(&name.as_str())).collect();
    assert!(other.is_empty(), "Cargo.toml: {other:?}; only src/flowsim and src/research may use them");
}

/// The daemon runs as root and keeps no network socket, so clients for networks are in one crate, which no other uses.
#[test]
fn only_flowcon_notify_has_clients_for_networks() {
    for folder in crates().iter().filter(|folder| *folder != "notify") {
        let used = dependencies(folder);
        let other: Vec<&String> =
            used.iter().filter(|name| ["lettre", "notify", "ureq"].contains(&name.as_str())).collect();
        assert!(other.is_empty(), "src/{folder}/Cargo.toml: {other:?}; only src/notify may use them");
    }
}

#[test]
fn every_crate_has_a_level_of_optimisation() {
    // One that is not listed gets the level of the libraries, and nobody would notice.
    let manifest = manifest("..");
    for profile in ["release", "dist"] {
        let levels = manifest["profile"][profile]["package"].as_table().expect("levels of packages");
        let rooms = crates().into_iter().map(|folder| folder.rsplit('/').next().unwrap_or(&folder).to_owned());
        let other: Vec<String> = rooms.filter(|room| room != "testing" && !levels.contains_key(room)).collect();
        assert!(other.is_empty(), "Cargo.toml, [profile.{profile}.package]: {other:?} need a level");
    }
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
    for file in names_of(|_| true) {
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

/// The paths inside of code that begin with `crate` or `super`, such as `super::table::width`. A visibility is not one of them.
fn inline_paths(code: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let code = code.replace("pub(in crate::", "pub(in ");
    code.split(|c: char| !is_part(c))
        .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        .map(|word| word.trim_end_matches(':').to_owned())
        .collect()
}

/// The paths that a file names outside of its tests, in a `use` or inside of code, each with whether it is re-exported.
fn imports_of(text: &str) -> Vec<(String, bool)> {
    let code: Vec<&str> = lines_in_use(text).into_iter().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    for statement in code.join("\n").split(';') {
        let at = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].rsplit('\n').next().unwrap_or("").trim();
            before.is_empty() || before.starts_with("pub")
        });
        let Some(at) = at else {
            found.extend(inline_paths(statement).into_iter().map(|path| (path, false)));
            continue;
        };
        found.extend(inline_paths(&statement[..at]).into_iter().map(|path| (path, false)));
        let reexports = statement[..at].rsplit('\n').next().unwrap_or("").trim().starts_with("pub");
        let tree = statement[at + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
        found.extend(paths_of(&tree).into_iter().map(|path| (path, reexports)));
    }
    found
}

#[test]
fn paths_inside_of_code_are_found_too() {
    let found = imports_of("use super::a::{b, C};\nfn x() { super::d::e(crate::f::G) }\npub(in crate::h) fn y() {}\n");
    let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["super::a::b", "super::a::C", "super::d::e", "crate::f::G"]);
}

/// The modules of all crates, one file each.
struct Modules {
    /// File of each module path, such as `daemon::logs`; the first part is the crate.
    files: BTreeMap<String, String>,
    texts: BTreeMap<String, String>,
    /// Paths that each file names, each with whether it is re-exported.
    imports: BTreeMap<String, Vec<(String, bool)>>,
}

impl Modules {
    fn read() -> Modules {
        let (texts, crates) = (sources(), crates());
        let module = |file: &String| {
            let folder = crates.iter().find(|folder| file.starts_with(&format!("{folder}/")))?;
            let room = folder.rsplit('/').next().unwrap_or(folder);
            let path = file[folder.len() + 1..].trim_end_matches(".rs");
            let path = path.strip_suffix("/mod").unwrap_or(path).replace('/', "::");
            Some((if path == "lib" { room.to_owned() } else { format!("{room}::{path}") }, file.clone()))
        };
        let imports = texts.iter().map(|(file, text)| (file.clone(), imports_of(text))).collect();
        Modules { files: texts.keys().filter_map(module).collect(), imports, texts }
    }

    /// The file that defines the item of a path, as seen from a module.
    fn file_of(&self, from: &str, path: &str) -> Option<String> {
        let mut at: Vec<&str> = from.split("::").collect();
        let mut rest: Vec<&str> = path.split("::").map(str::trim).collect();
        match rest.first().copied()? {
            "crate" => {
                at.truncate(1);
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
        let (parent, name) = module.rsplit_once("::").unwrap_or(("", module));
        let declared = modules.files.get(parent).map(|file| &modules.texts[file]);
        declared.is_some_and(|text| text.contains(&format!("#[cfg(test)]\nmod {name};")))
    };
    let mut arrows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (module, file) in &modules.files {
        if is_for_tests(module) {
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
