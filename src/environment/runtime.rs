//! `flowcon-runtime`, an OCI runtime for Docker, containerd and Podman: adds the variables for passive waiting to a container's document,
//! then becomes the runtime that the engine would have used.
//!
//! It stands before every container of its engine, so it must never fail one: on any doubt the document stays as it is.

use crate::oci::{self, Document};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, io};

/// The runtime that it becomes unless `--runtime` names another. One name, never a guess: containers live as long as the machine, and
/// their next command must find the same runtime.
const DEFAULT_RUNTIME: &str = "runc";
/// Where engines look for runtimes beside `PATH`, which may be empty under an engine.
const FOLDERS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of a document that is read; those of engines have some tens of KB.
const MAX_DOCUMENT: u64 = 16 << 20;
/// Options before the command that take a value as the next argument: ours, runc's and crun's.
const GLOBAL_OPTIONS: &[&str] =
    &["--runtime", "--root", "--log", "--log-format", "--log-level", "--criu", "--rootless", "--cgroup-manager"];

/// Runs the program with the arguments of this process; returns an exit code only if there is no runtime to become.
pub fn run() -> ExitCode {
    let mut args: Vec<_> = env::args_os().skip(1).collect();
    let named = take_runtime(&mut args);
    let runtime = named.as_deref().unwrap_or(OsStr::new(DEFAULT_RUNTIME));
    let Some(path) = find(runtime, &folders()) else {
        let reason = format!(
            "the runtime {} is not installed; next: install it, or name another with --runtime NAME before the command \
             (\"runtimeArgs\" in daemon.json, --runtime-flag runtime=NAME of podman)",
            runtime.display()
        );
        return failed(&args, &reason);
    };
    if let Some((document, path)) = document_of(&args) {
        // Whatever is wrong with it, the runtime says so in its own words.
        let _ = rewrite(document, &path);
    }
    let error = Command::new(&path).args(&args).exec();
    failed(&args, &format!("cannot execute {}: {error}", path.display()))
}

/// Says why no runtime runs, also in the log that the engine named, from which it takes what it shows to its user.
fn failed(args: &[OsString], reason: &str) -> ExitCode {
    let message = format!("flowcon-runtime: {reason}");
    let _ = writeln!(io::stderr(), "{message}");
    let log = positions(args).0.into_iter().find(|at| args[*at] == "--log").and_then(|at| args.get(at + 1));
    if let Some(mut log) = log.and_then(|path| File::options().append(true).create(true).open(path).ok()) {
        let _ = writeln!(log, "{}", serde_json::json!({ "level": "error", "msg": message }));
    }
    ExitCode::FAILURE
}

/// Takes `--runtime NAME` or `--runtime=NAME` out of the arguments before the command.
fn take_runtime(args: &mut Vec<OsString>) -> Option<OsString> {
    let is_runtime = |arg: &OsString| arg == "--runtime" || arg.as_encoded_bytes().starts_with(b"--runtime=");
    let at = positions(args).0.into_iter().find(|at| is_runtime(&args[*at]))?;
    let option = args.remove(at);
    match option.to_string_lossy().strip_prefix("--runtime=") {
        Some(name) => Some(name.into()),
        None => (at < args.len()).then(|| args.remove(at)),
    }
}

/// Indices of the options before the command, and of the command, such as `create`.
fn positions(args: &[OsString]) -> (Vec<usize>, usize) {
    let (mut options, mut at) = (Vec::new(), 0);
    while let Some(option) = args.get(at).filter(|arg| arg.as_encoded_bytes().starts_with(b"-")) {
        options.push(at);
        at += if GLOBAL_OPTIONS.iter().any(|known| option == known) { 2 } else { 1 };
    }
    (options, at)
}

/// The document that this command line starts a process from.
fn document_of(args: &[OsString]) -> Option<(Document, PathBuf)> {
    let (command, options) = args.get(positions(args).1..)?.split_first()?;
    let value = |long: &str, short: &str| {
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if option == long || option == short {
                return options.next().map(PathBuf::from);
            }
            if let Some(value) = option.to_str().and_then(|text| text.strip_prefix(long)?.strip_prefix('=')) {
                return Some(PathBuf::from(value));
            }
        }
        None
    };
    match command.to_str()? {
        "create" | "run" => Some((Document::Config, value("--bundle", "-b").unwrap_or_default().join("config.json"))),
        "exec" => Some((Document::Process, value("--process", "-p")?)),
        _ => None,
    }
}

fn folders() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(env::split_paths(FOLDERS)).collect()
}

/// Path of the program with this name or path; never this program itself, which would become itself for ever.
fn find(program: &OsStr, folders: &[PathBuf]) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = match Path::new(program).components().count() {
        1 => folders.iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(program)).collect(),
        _ => vec![PathBuf::from(program)],
    };
    let this = fs::metadata("/proc/self/exe").ok();
    candidates.into_iter().find(|path| {
        fs::metadata(path).is_ok_and(|found| {
            let is_this = this.as_ref().is_some_and(|this| (this.dev(), this.ino()) == (found.dev(), found.ino()));
            found.is_file() && found.mode() & 0o111 != 0 && !is_this
        })
    })
}

/// Replaces the document by the one with the missing variables. It is whole at any time, with the same owner and mode.
fn rewrite(document: Document, path: &Path) -> io::Result<()> {
    // Before it is opened: a pipe can be read only once, by the runtime.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_DOCUMENT {
        return Ok(());
    }
    let mut text = String::new();
    File::open(path)?.take(MAX_DOCUMENT).read_to_string(&mut text)?;
    let Some(written) = oci::with_passive_waiting(document, &text) else { return Ok(()) };
    let part = path.with_extension("flowcon-part");
    let replaced = replace(&part, path, &written, &metadata);
    if replaced.is_err() {
        let _ = fs::remove_file(&part);
    }
    replaced
}

fn replace(part: &Path, path: &Path, text: &str, like: &fs::Metadata) -> io::Result<()> {
    // A new file: whoever may write to the folder cannot lead this write elsewhere by a link.
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(part)?;
    file.write_all(text.as_bytes())?;
    fchown(&file, Some(like.uid()), Some(like.gid()))?;
    file.set_permissions(like.permissions())?;
    fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_document_is_found_in_the_command_lines_of_engines() {
        let config = |path: &str| Some((Document::Config, PathBuf::from(path)));
        for (line, expected) in [
            // containerd's shim, conmon with runc and with crun, and by hand.
            (
                "--root /run/d --log /b/log.json --log-format json --systemd-cgroup create --bundle /b --pid-file /b/p 1f",
                config("/b/config.json"),
            ),
            ("--systemd-cgroup --root=/run/crun create --bundle /b --pid-file /b/p 1f", config("/b/config.json")),
            ("--cgroup-manager disabled create -b /b 1f", config("/b/config.json")),
            ("run --bundle=/b 1f", config("/b/config.json")),
            ("create 1f", config("config.json")),
            ("exec --process /tmp/p --detach 1f", Some((Document::Process, PathBuf::from("/tmp/p")))),
            ("exec --process=/tmp/p 1f", Some((Document::Process, PathBuf::from("/tmp/p")))),
            // No process is started from a document.
            ("exec 1f sh", None),
            ("start 1f", None),
            ("delete create", None),
            ("--root create kill --bundle /b 1f", None),
            ("--debug state 1f", None),
            ("--version", None),
            ("", None),
            // An option that takes a value and is not known: the value looks like the command, and nothing is done.
            ("--future value create --bundle /b 1f", None),
        ] {
            assert_eq!(document_of(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_option_for_the_runtime_is_not_passed_on() {
        for (line, name, rest) in [
            ("--runtime crun --root /r create 1f", Some("crun"), "--root /r create 1f"),
            ("--root /r --runtime=/opt/crun create 1f", Some("/opt/crun"), "--root /r create 1f"),
            ("--root --runtime create 1f", None, "--root --runtime create 1f"),
            ("exec 1f program --runtime x", None, "exec 1f program --runtime x"),
            ("--runtime", None, ""),
            ("create 1f", None, "create 1f"),
        ] {
            let mut args = words(line);
            assert_eq!(take_runtime(&mut args), name.map(OsString::from), "{line}");
            assert_eq!(args, words(rest), "{line}");
        }
    }

    #[test]
    fn a_runtime_is_an_executable_file_and_not_this_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = [PathBuf::from("relative"), folder.path().to_owned(), PathBuf::from("/bin")];
        symlink("/proc/self/exe", folder.path().join("sh")).expect("a link");
        assert_eq!(find(OsStr::new("sh"), &folders), Some(PathBuf::from("/bin/sh")), "the link leads to this program");
        fs::write(folder.path().join("runtime"), "").expect("a file");
        assert_eq!(find(OsStr::new("runtime"), &folders), None, "not executable");
        assert_eq!(find(OsStr::new("/bin/sh"), &[]), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find(folder.path().as_os_str(), &[]), None, "a folder");
    }

    #[test]
    fn a_rewritten_document_keeps_owner_and_mode_and_leaves_nothing_behind() {
        let bundle = tempfile::tempdir().expect("a folder");
        let path = bundle.path().join("config.json");
        fs::write(&path, r#"{"process":{"args":["sh"]}}"#).expect("a document");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        rewrite(Document::Config, &path).expect("rewritten");
        let text = fs::read_to_string(&path).expect("a document");
        assert!(text.contains("OMP_WAIT_POLICY=passive"), "{text}");
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(bundle.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_pipe_is_left_to_the_runtime() {
        let bundle = tempfile::tempdir().expect("a folder");
        let pipe = bundle.path().join("process");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        // Opening it would wait for a writer.
        rewrite(Document::Process, &pipe).expect("nothing to do");
        assert_eq!(fs::read_dir(bundle.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_document_that_cannot_be_replaced_stays() {
        let bundle = tempfile::tempdir().expect("a folder");
        let path = bundle.path().join("config.json");
        let text = r#"{"process":{"args":["sh"]}}"#;
        fs::write(&path, text).expect("a document");
        let elsewhere = bundle.path().join("elsewhere");
        symlink(&elsewhere, bundle.path().join("config.flowcon-part")).expect("a link");
        assert!(rewrite(Document::Config, &path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("a document"), text);
        assert!(!elsewhere.exists(), "nothing is written through a link");
    }
}
