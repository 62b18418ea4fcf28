//! Pods of Kubernetes, and the containers of containerd that are in no pod, as jobs.
//!
//! The pod's cgroup is governed, within its QoS slice. The kubelet sets the limits of that cgroup when the pod is created or resized, while
//! the slices above it are set again every minute, and the cgroups of its containers at each update of a container. The kubelet is not
//! asked for anything. Of other containers their own cgroup is governed. Its limits are those in the container's document until somebody
//! updates it, which sets all of them again.

use super::governing::Governing;
use super::job::Job;
use super::logs::feed::LogFeed;
use super::owner::Owner;
use super::target::{Target, unit_of_cgroup};
use cgroup::{Cgroup, CgroupError, StartTime};
use cri::{ContainerLog, MainContainer, Workload, WorkloadEvent};
use docker::EndSign;
use limits::machine;
use model::{ContainerId, EngineMark, Millis, NoticeLevel, Parameter, Restarts, Runtime, TrainingId};
use std::collections::BTreeSet;
use std::path::Path;
use tail::Source;
use traininglog::LogFile;

/// For the owner of a container of containerd without a log.
const NO_LOG: &str = "its output is not kept in a file, so its progress is unknown; start it with ctr run --log-uri file:///PATH or \
                      nerdctl's log driver json-file, or name a file with the label flowcon.log";

impl Governing {
    pub(super) fn on_workload_event(&mut self, event: WorkloadEvent, socket: &Path) {
        let mark = mark_of(socket);
        match event {
            WorkloadEvent::Connected(runtime) => {
                self.runtime_connected(format!("{}: connected ({})", runtime.name, runtime.version));
                self.handle_limits(machine::Event::Connected(mark));
            }
            WorkloadEvent::Lost(text) => self.runtime_lost(&text),
            WorkloadEvent::Listed(workloads) => self.workloads_listed(&workloads, &mark),
            WorkloadEvent::Ended(id, end) => {
                let id = ContainerId::new(&id);
                if end.is_some_and(|end| end.out_of_memory) {
                    self.sign_of_end(&id, EndSign::OutOfMemory);
                }
                self.end(&id, end.map(|end| end.exit_code));
            }
        }
    }

    /// Handles a complete list: those that are missing from it have ended.
    fn workloads_listed(&mut self, workloads: &[Workload], mark: &EngineMark) {
        let present: BTreeSet<ContainerId> = workloads.iter().map(|workload| ContainerId::new(&workload.id)).collect();
        for runtime in [Runtime::Pod, Runtime::Containerd] {
            self.end_missing(runtime, &present);
        }
        for workload in workloads {
            let id = ContainerId::new(&workload.id);
            if self.jobs.get(&id).is_none_or(|job| job.run != run_of(&workload.container)) {
                self.begin(Job::of_workload(workload, mark), &id);
            }
        }
        self.all_listed(present);
    }
}

fn mark_of(socket: &Path) -> EngineMark {
    let socket = socket.canonicalize().unwrap_or_else(|_| socket.to_owned());
    EngineMark { id: None, socket: socket.display().to_string() }
}

/// Identifies the run of a container: one that was started again trains anew.
fn run_of(container: &MainContainer) -> machine::Run {
    (container.pid, container.started_unix_ms.unwrap_or(0))
}

/// Opens the cgroup of a pod, which its containers' are below, or that of a container. Where systemd makes that of a pod, its name has `_`
/// in place of `-`.
fn cgroup_of(workload: &Workload) -> Result<Cgroup, CgroupError> {
    let (pid, name) = (workload.container.pid, workload.cgroup.as_str());
    match workload.runtime {
        Runtime::Pod => Cgroup::of_container(pid, name)
            .or_else(|error| Cgroup::of_container(pid, &name.replace('-', "_")).map_err(|_| error)),
        _ => Cgroup::of_scope(pid, None, name),
    }
}

/// When a container was started.
fn started(container: &MainContainer) -> Millis {
    let of_process = || cgroup::start_time(container.pid).map(StartTime::since_boot);
    let ago = |unix_ms| Millis(node::now().0.saturating_sub(super::journal::unix_ms().saturating_sub(unix_ms)));
    container.started_unix_ms.map(ago).or_else(of_process).unwrap_or_else(node::now)
}

impl Job {
    /// Creates the job of a pod or container.
    fn of_workload(workload: &Workload, mark: &EngineMark) -> Result<(Job, Option<LogFeed>), CgroupError> {
        let (container, cgroup) = (&workload.container, cgroup_of(workload)?);
        let unit = unit_of_cgroup(cgroup.path(), false);
        let started = started(container);
        let mut target = Target::new(ContainerId::new(&workload.id), workload.name.clone(), workload.runtime, cgroup);
        target.started_unix_ms = super::journal::unix_ms().saturating_sub(node::now().since(started).0);
        (target.mark, target.unit) = (Some(mark.clone()), unit);
        let mut job = Job::new(target, None, &workload.labels);
        job.created_unix_ms = container.created_unix_ms;
        job.owner = Owner::of_image(&container.image);
        let words = std::iter::once(container.image.as_str()).chain(container.command.iter().map(String::as_str));
        job.training = Some(TrainingId::of(words));
        job.parameters = Parameter::all(container.command.iter().map(String::as_str)).as_slice().into();
        job.group = job.group_of(None);
        job.restarts = Restarts::counted(container.restarts);
        job.started = started;
        job.run = run_of(container);
        let of_label = job.feed(container.pid, &container.mounts);
        let feed = of_label.or_else(|| job.runtime_feed(container.log.clone()));
        if feed.is_none() && workload.runtime == Runtime::Containerd {
            job.add_notice(NoticeLevel::Warning, NO_LOG);
        }
        Ok((job, feed))
    }

    fn runtime_feed(&mut self, log: Option<ContainerLog>) -> Option<LogFeed> {
        Some(match log? {
            ContainerLog::Cri(path) => self.wrapped_feed(path, LogFile::cri()),
            ContainerLog::Json(path) => self.wrapped_feed(path, LogFile::json()),
            ContainerLog::Plain(path) => {
                self.log_source = format!("file {}", path.display());
                LogFeed::Plain(Source::Host(path))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_runtime_is_its_socket_with_links_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, link) = (folder.path().join("containerd.sock"), folder.path().join("link"));
        std::fs::write(&socket, "").unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        assert!(!mark_of(&link).is_other(&mark_of(&socket)));
        assert!(mark_of(&link).is_other(&mark_of(Path::new("/elsewhere"))));
    }
}
