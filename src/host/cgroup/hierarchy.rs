//! Mount points of the cgroup hierarchies, and the cgroup of a process in each of them.

use super::CgroupError;
use super::controller::Controller;
use super::directory::{Directories, Directory, read_generated};
use model::Quota;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The cgroup version of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// All controllers on version 1, without a unified hierarchy.
    V1,
    /// Controllers on version 1, together with a unified hierarchy.
    Hybrid,
    /// Version 2 only.
    V2,
    /// No cgroups mounted.
    None,
}

impl Version {
    /// Detects the version from the mounted hierarchies.
    pub fn of_host() -> Version {
        if cgroups_rs::fs::hierarchies::is_cgroup2_unified_mode() {
            return Version::V2;
        }
        let mounts = Hierarchies::of_host().map(|found| found.mounts).unwrap_or_default();
        match (mounts.iter().any(|mount| mount.unified), mounts.iter().any(|mount| !mount.unified)) {
            (true, true) => Version::Hybrid,
            (true, false) => Version::V2,
            (false, true) => Version::V1,
            (false, false) => Version::None,
        }
    }
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mount {
    /// Mount point.
    pub(super) point: PathBuf,
    /// The directory of the hierarchy that is visible at the mount point; `/` on a host.
    root: String,
    pub(super) unified: bool,
    /// Mount options; on version 1 they include the controllers.
    options: Vec<String>,
}

impl Mount {
    /// Parses one line of mountinfo: `36 31 0:33 ROOT POINT options… - cgroup cgroup rw,memory`.
    fn parse(line: &str) -> Option<Mount> {
        let (place, kind) = line.split_once(" - ")?;
        let place: Vec<&str> = place.split(' ').collect();
        let kind: Vec<&str> = kind.split(' ').collect();
        let unified = match *kind.first()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Mount {
            point: unescape(place.get(4)?).into(),
            root: unescape(place.get(3)?),
            unified,
            options: kind.get(2)?.split(',').map(str::to_owned).collect(),
        })
    }

    fn holds(&self, controller: Controller) -> bool {
        !self.unified && self.options.iter().any(|option| option == controller.name())
    }

    /// Returns the directory of a cgroup given as in `/proc/PID/cgroup`; `None` if it is not below this mount.
    pub(super) fn directory_of(&self, cgroup: &str) -> Option<PathBuf> {
        let visible = if self.root == "/" { cgroup } else { cgroup.strip_prefix(self.root.as_str())? };
        let relative = visible.trim_start_matches('/');
        let outside =
            relative.split('/').any(|part| part == "..") || (!visible.is_empty() && !visible.starts_with('/'));
        if outside { None } else { Some(self.point.join(relative)) }
    }

    /// Returns the cgroup with this directory as in `/proc/PID/cgroup`; `None` if it is not below this mount.
    fn cgroup_at(&self, directory: &Path) -> Option<String> {
        let relative = directory.strip_prefix(&self.point).ok()?.to_str()?;
        Some(format!("{}/{relative}", self.root.trim_end_matches('/')))
    }
}

/// mountinfo encodes space, tab, newline and backslash in octal.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The cgroups of one process according to `/proc/PID/cgroup`.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// Controllers and path of each line; the line of the unified hierarchy has no controllers.
    lines: Vec<(Vec<String>, String)>,
}

impl Membership {
    /// Reads the cgroups of process `pid` (a number, or `self`).
    pub(super) fn of(pid: &str) -> io::Result<Membership> {
        read_generated(format!("/proc/{pid}/cgroup")).map(|text| Membership::parse(&text))
    }

    fn parse(text: &str) -> Membership {
        let line = |line: &str| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let controllers = controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            Some((controllers, path.to_owned()))
        };
        Membership { lines: text.lines().filter_map(line).collect() }
    }

    /// Returns the cgroup in the hierarchy of this version 1 controller; without one, that in the unified hierarchy.
    pub(super) fn path_of(&self, legacy: Option<Controller>) -> Option<&str> {
        let is_its = |controllers: &[String]| match legacy {
            Some(controller) => controllers.iter().any(|name| name == controller.name()),
            None => controllers.is_empty(),
        };
        self.lines.iter().find(|(controllers, _)| is_its(controllers)).map(|(_, path)| path.as_str())
    }

    pub(super) fn path_in(&self, mount: &Mount) -> Option<&str> {
        let matches = |controllers: &Vec<String>| {
            if mount.unified {
                controllers.is_empty()
            } else {
                controllers.iter().any(|name| mount.options.contains(name))
            }
        };
        self.lines.iter().find(|(controllers, _)| matches(controllers)).map(|(_, path)| path.as_str())
    }
}

/// Where a named cgroup may be in a hierarchy in which the process has left it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Elsewhere<'a> {
    /// Unknown: the hierarchy is left out.
    Unknown,
    /// In one of these directories.
    In(&'a [PathBuf]),
    /// At its path in another hierarchy, or at that of this directory. Only a container's id is unique enough for that.
    Beside(Option<&'a Path>),
}

/// The mounted hierarchies, and the cgroups of this process.
#[derive(Debug)]
pub(super) struct Hierarchies {
    pub(super) mounts: Vec<Mount>,
    pub(super) own: Membership,
}

impl Hierarchies {
    pub(super) fn of_host() -> Result<Hierarchies, CgroupError> {
        let read =
            |path: &str| fs::read_to_string(path).map_err(|source| CgroupError::Read { path: path.into(), source });
        let mut hierarchies = Hierarchies::parse(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
        // A mount point that is covered by a later mount is listed too, but no longer shows the hierarchy.
        hierarchies.mounts.retain(|mount| mount.point.join("cgroup.procs").exists());
        Ok(hierarchies)
    }

    fn parse(mountinfo: &str, own: &str) -> Hierarchies {
        Hierarchies { mounts: mountinfo.lines().filter_map(Mount::parse).collect(), own: Membership::parse(own) }
    }

    pub(super) fn legacy(&self, controller: Controller) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.holds(controller))
    }

    pub(super) fn unified(&self) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.unified)
    }

    /// Returns the directory of a process in one hierarchy; `None` if it is the root, or not visible here.
    pub(super) fn directory_of(&self, membership: &Membership, mount: &Mount) -> Option<PathBuf> {
        let path = membership.path_in(mount).filter(|path| *path != "/" && *path != mount.root)?;
        mount.directory_of(path)
    }

    /// Returns the tightest CPU bandwidth limit on the cgroups above that of this process. Its own cgroup, such as that of its service,
    /// limits no job, except the root: in a container, it is the container's.
    fn own_quota(&self) -> Option<Quota> {
        let mount = self.legacy(Controller::Cpu).or(self.unified())?;
        let lowest = mount.directory_of(self.own.path_in(mount)?)?;
        let own = usize::from(lowest != mount.point);
        let up_to_root = lowest.ancestors().skip(own).take_while(|path| path.starts_with(&mount.point));
        up_to_root
            .filter_map(|path| Directory::open(path.to_owned(), mount.unified, true).ok())
            .filter_map(|directory| super::limits::cpu_quota(&directory).flatten())
            .min()
    }

    /// Opens the cgroup of `pid` in each hierarchy where it is not in the root. `container`: id of the container whose cgroup is meant if
    /// the process is in a cgroup below it, or `elsewhere`.
    pub(super) fn directories_of(
        &self,
        pid: u32,
        container: Option<&str>,
        elsewhere: Elsewhere<'_>,
    ) -> Result<Directories, CgroupError> {
        let membership = Membership::of(&pid.to_string()).map_err(|_| CgroupError::ProcessGone { pid })?;
        let open = |mount: Option<&Mount>| {
            let mount = mount?;
            let opened = self.open(pid, container, &membership, mount).transpose();
            opened.or_else(|| self.left(container?, elsewhere, &membership, mount).map(Ok))
        };
        let directories = Directories {
            cpu: open(self.legacy(Controller::Cpu)).transpose()?,
            cpuacct: open(self.legacy(Controller::Cpuacct)).transpose()?,
            memory: open(self.legacy(Controller::Memory)).transpose()?,
            blkio: open(self.legacy(Controller::Blkio)).transpose()?,
            freezer: open(self.legacy(Controller::Freezer)).transpose()?,
            unified: open(self.unified()).transpose()?,
        };
        match container {
            _ if directories.all().next().is_some() => Ok(directories),
            Some(id) if matches!(elsewhere, Elsewhere::Beside(Some(_))) => {
                Err(CgroupError::Left { container: id.to_owned() })
            }
            Some(id) => Err(CgroupError::Shared { container: id.to_owned() }),
            None => Err(CgroupError::Root { pid }),
        }
    }

    fn open(
        &self,
        pid: u32,
        container: Option<&str>,
        membership: &Membership,
        mount: &Mount,
    ) -> Result<Option<Directory>, CgroupError> {
        let Some(path) = membership.path_in(mount) else { return Ok(None) };
        let deleted = path.ends_with(" (deleted)");
        // A cgroup that is not named after the container holds other processes too.
        let path = container.map_or(Some(path), |id| up_to(path, id));
        let Some(path) = path.filter(|path| *path != "/" && *path != mount.root) else { return Ok(None) };
        if deleted {
            return Err(CgroupError::ProcessGone { pid });
        }
        let not_visible = || CgroupError::NotVisible { pid, path: path.to_owned() };
        let directory = mount.directory_of(path).ok_or_else(not_visible)?;
        match self.open_at(&directory, mount) {
            Ok(open) => Ok(Some(open)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CgroupError::ProcessGone { pid }),
            Err(source) => Err(CgroupError::Read { path: directory, source }),
        }
    }

    /// Returns the path of the cgroup with this directory, as in `/proc/PID/cgroup`.
    pub(super) fn path_of(&self, directory: &Path) -> Option<String> {
        self.mounts.iter().find_map(|mount| mount.cgroup_at(directory))
    }

    /// Opens the cgroup named `id` in a hierarchy in which the process has left it.
    fn left(&self, id: &str, elsewhere: Elsewhere<'_>, membership: &Membership, mount: &Mount) -> Option<Directory> {
        let beside = |known: Option<&Path>| {
            let known = known.and_then(|known| self.path_of(known));
            let paths = membership.lines.iter().map(|(_, path)| path.as_str()).chain(known.as_deref());
            let named: Vec<PathBuf> = paths.filter_map(|path| mount.directory_of(up_to(path, id)?)).collect();
            named
        };
        let candidates = match elsewhere {
            Elsewhere::Unknown => Vec::new(),
            Elsewhere::In(known) => known.iter().filter(|path| path.starts_with(&mount.point)).cloned().collect(),
            Elsewhere::Beside(known) => beside(known),
        };
        candidates.iter().find_map(|directory| self.open_at(directory, mount).ok())
    }

    fn open_at(&self, directory: &Path, mount: &Mount) -> io::Result<Directory> {
        let own = self.own.path_in(mount).and_then(|own| mount.directory_of(own));
        let is_own = own.is_some_and(|own| own.starts_with(directory));
        Directory::open(directory.to_owned(), mount.unified, is_own)
    }
}

/// Returns the path up to and including the first component that contains `id`: `docker-ID.scope`, `libpod-ID.scope`, or `ID`; `None` if
/// there is none. `id` may be of several components.
fn up_to<'a>(path: &'a str, id: &str) -> Option<&'a str> {
    let at = path.find(id).filter(|_| !id.is_empty())?;
    let rest = at + id.len();
    Some(&path[..path[rest..].find('/').map_or(path.len(), |end| rest + end)])
}

/// Returns the tightest CPU bandwidth limit on the cgroups above that of this process, up to the root; `None` = unlimited.
pub fn own_quota() -> Option<Quota> {
    Hierarchies::of_host().ok()?.own_quota()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate";

    #[test]
    fn the_cgroup_of_a_container_is_the_one_named_after_its_id_and_not_one_below_it() {
        for (path, own) in [
            ("/machine.slice/libpod-4f2a.scope/container", "/machine.slice/libpod-4f2a.scope"),
            ("/system.slice/docker-4f2a.scope/init.scope", "/system.slice/docker-4f2a.scope"),
            ("/docker/4f2a/system.slice/x.service", "/docker/4f2a"),
            ("/libpod_parent/libpod-4f2a", "/libpod_parent/libpod-4f2a"),
        ] {
            assert_eq!(up_to(path, "4f2a"), Some(own));
        }
        assert_eq!(up_to("/default/a/init.scope", "default/a"), Some("/default/a"));
        assert_eq!((up_to("/user.slice/a.service", "4f2a"), up_to("/a/b", "")), (None, None));
    }

    #[test]
    fn controllers_mounted_together_are_found_by_either_name() {
        let hybrid = Hierarchies::parse(HYBRID, "");
        let point = |controller| hybrid.legacy(controller).map(|mount| mount.point.to_str().unwrap().to_owned());
        assert_eq!(point(Controller::Cpuacct).as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(point(Controller::Cpu), point(Controller::Cpuacct));
        assert_eq!(point(Controller::Blkio), None);
        assert_eq!(hybrid.unified().unwrap().point, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn with_only_a_subtree_mounted_paths_outside_of_it_are_rejected() {
        let line = "99 98 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.directory_of("/docker/abc/job"), Some("/sys/fs/cgroup/memory/job".into()));
        assert_eq!(mount.directory_of("/docker/other"), None);
        assert_eq!(mount.directory_of("/docker/abcdef"), None);
        assert_eq!(mount.directory_of("/docker/abc/../../x"), None);
    }

    #[test]
    fn quotas_above_this_process_count_and_that_of_its_own_service_does_not() {
        let root = tempfile::tempdir().unwrap();
        let service = root.path().join("system.slice/flowcond.service");
        fs::create_dir_all(&service).unwrap();
        let quota_of = |own: &str| {
            let line = format!("35 31 0:32 / {} rw - cgroup2 cgroup2 rw", root.path().display());
            Hierarchies::parse(&line, own).own_quota()
        };
        fs::write(service.join("cpu.max"), "50000 100000\n").unwrap();
        assert_eq!(quota_of("0::/system.slice/flowcond.service\n"), None);
        fs::write(root.path().join("system.slice/cpu.max"), "300000 100000\n").unwrap();
        assert_eq!(quota_of("0::/system.slice/flowcond.service\n"), Some(Quota(3000)));
        // In a container, the root is the cgroup of the container.
        fs::write(root.path().join("cpu.max"), "150000 100000\n").unwrap();
        assert_eq!(quota_of("0::/\n"), Some(Quota(1500)));
    }

    #[test]
    fn a_cgroup_is_looked_up_by_controller_or_as_the_unified_one() {
        let text = "5:cpu,cpuacct:/docker/a:b\n4:memory:/process\n0::/unified/job\n";
        let membership = Membership::parse(text);
        let hybrid = Hierarchies::parse(HYBRID, "");
        assert_eq!(membership.path_in(hybrid.legacy(Controller::Cpu).unwrap()), Some("/docker/a:b"));
        assert_eq!(membership.path_in(hybrid.unified().unwrap()), Some("/unified/job"));
    }
}
