//! Builds an image that contains this program and its shared libraries, so that nothing is pulled.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Path of the program in the image.
pub(crate) const PROGRAM: &str = "/flowctl";
/// Environment variable with which the loader finds the libraries.
pub(crate) const ENVIRONMENT: &str = "LD_LIBRARY_PATH=/lib";

/// Builds a root file system as a tar: [`PROGRAM`], its libraries in `/lib`, its loader also in `/lib64`.
///
/// # Errors
/// The running program or one of its libraries cannot be read.
pub(crate) fn root_file_system() -> Result<Vec<u8>> {
    let program = std::env::current_exe().context("find the running program's file")?;
    let maps = fs::read_to_string("/proc/self/maps").context("read /proc/self/maps to find the shared libraries")?;
    let mut tar = tar::Builder::new(Vec::new());
    append(&mut tar, &program, PROGRAM)?;
    for library in mapped_libraries(&maps) {
        for name in names_of(&library) {
            append(&mut tar, &library, &format!("/lib/{name}"))?;
            if name.starts_with("ld-") {
                append(&mut tar, &library, &format!("/lib64/{name}"))?;
            }
        }
    }
    tar.into_inner().context("finish the image's tar")
}

/// Builds a root file system for the host's programs: the links into `/usr`, and mount points for `/usr`, `/etc` and others.
///
/// # Errors
/// None in practice: nothing is read.
pub(crate) fn host_root() -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for folder in ["usr", "etc", "tmp", "opt"] {
        let mut header = entry_header(tar::EntryType::Directory, 0);
        tar.append_data(&mut header, folder, std::io::empty())
            .with_context(|| format!("add /{folder} to the image"))?;
    }
    for link in ["bin", "sbin", "lib", "lib64"] {
        let mut header = entry_header(tar::EntryType::Symlink, 0);
        tar.append_link(&mut header, link, format!("usr/{link}"))
            .with_context(|| format!("add the link /{link} to the image"))?;
    }
    tar.into_inner().context("finish the image's tar")
}

fn entry_header(kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o755);
    header
}

/// The distinct shared objects among the mapped files.
fn mapped_libraries(maps: &str) -> BTreeSet<PathBuf> {
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.ends_with(".so") || name.contains(".so.")
        })
        .map(PathBuf::from)
        .collect()
}

/// Every name of the file in its folder, including links: the loader looks for `libc-2.31.so` as `libc.so.6`.
fn names_of(library: &Path) -> BTreeSet<String> {
    let own = library.file_name().map(|name| name.to_string_lossy().into_owned());
    let beside = library.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let links = beside
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .filter(|entry| fs::canonicalize(entry.path()).is_ok_and(|target| target == library))
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    own.into_iter().chain(links).collect()
}

fn append(tar: &mut tar::Builder<Vec<u8>>, file: &Path, inside: &str) -> Result<()> {
    let content = fs::read(file).with_context(|| format!("read {} for the demo's image", file.display()))?;
    let mut header = entry_header(tar::EntryType::Regular, content.len() as u64);
    tar.append_data(&mut header, inside.trim_start_matches('/'), content.as_slice())
        .with_context(|| format!("add {} to the demo's image", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapped_library_is_found_once() {
        let maps = "\
55e4c4b2e000-55e4c4b30000 r--p 00000000 fe:00 123  /usr/local/bin/flowctl
7f5e1c000000-7f5e1c021000 rw-p 00000000 00:00 0
7f5e20e00000-7f5e20e28000 r--p 00000000 fe:00 456  /usr/lib/x86_64-linux-gnu/libc.so.6
7f5e20e28000-7f5e20fbd000 r-xp 00028000 fe:00 456  /usr/lib/x86_64-linux-gnu/libc.so.6
7f5e21000000-7f5e21001000 r--p 00000000 fe:00 457  /usr/lib/x86_64-linux-gnu/libm-2.31.so
7ffd0a5fe000-7ffd0a61f000 rw-p 00000000 00:00 0    [stack]";
        let found: Vec<PathBuf> = mapped_libraries(maps).into_iter().collect();
        let expected = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libm-2.31.so"];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_library_is_packed_under_the_names_of_its_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        fs::write(folder.join("libc-2.31.so"), "elf").unwrap();
        fs::write(folder.join("other.so"), "elf").unwrap();
        std::os::unix::fs::symlink("libc-2.31.so", folder.join("libc.so.6")).unwrap();
        let names: Vec<String> = names_of(&folder.join("libc-2.31.so")).into_iter().collect();
        assert_eq!(names, ["libc-2.31.so", "libc.so.6"]);
    }

    #[test]
    fn the_image_contains_the_program_and_its_libraries() {
        let tar = root_file_system().unwrap();
        let mut archive = tar::Archive::new(tar.as_slice());
        let names: Vec<String> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string()).collect();
        assert_eq!(names[0], "flowctl");
        let libc = mapped_libraries(&fs::read_to_string("/proc/self/maps").unwrap());
        assert!(libc.is_empty() || names.iter().any(|name| name.starts_with("lib/libc")), "{names:?}");
    }
}
