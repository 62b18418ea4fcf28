//! Pods of Kubernetes, as jobs.
//!
//! The pod's cgroup is governed, within its QoS slice. The kubelet sets the limits of that cgroup when the pod is created or resized, while
//! the slices above it are set again every minute, and the cgroups of its containers at each update of a container. The kubelet is not
//! asked for anything.

use super::governing::Governing;
use super::job::Job;
use super::logs::feed::LogFeed;
use super::owner::Owner;
use super::target::{Target, unit_of_cgroup};
use cgroup::{Cgroup, CgroupError};
use cri::{Pod, PodEvent};
use docker::EndSign;
use limits::machine;
use model::{ContainerId, EngineMark, Millis, Parameter, Restarts, Runtime, TrainingId};
use std::collections::BTreeSet;
use std::path::Path;
use traininglog::LogFile;

impl Governing {
    pub(super) fn on_pod_event(&mut self, event: PodEvent, socket: &Path) {
        let mark = mark_of(socket);
        match event {
            PodEvent::Connected(runtime) => {
                self.runtime_connected(format!("{}: connected ({})", runtime.name, runtime.version));
                self.handle_limits(machine::Event::Connected(mark));
            }
            PodEvent::Lost(text) => self.runtime_lost(&text),
            PodEvent::Listed(pods) => self.pods_listed(&pods, &mark),
            PodEvent::Ended(uid, end) => {
                let id = ContainerId::new(&uid);
                if end.is_some_and(|end| end.out_of_memory) {
                    self.sign_of_end(&id, EndSign::OutOfMemory);
                }
                self.end(&id, end.map(|end| end.exit_code));
            }
        }
    }

    /// Handles a complete list of pods: those that are missing from it have ended.
    fn pods_listed(&mut self, pods: &[Pod], mark: &EngineMark) {
        let present: BTreeSet<ContainerId> = pods.iter().map(|pod| ContainerId::new(&pod.uid)).collect();
        self.end_missing(Runtime::Pod, &present);
        for pod in pods {
            let id = ContainerId::new(&pod.uid);
            if self.jobs.get(&id).is_none_or(|job| job.run != run_of(pod)) {
                self.begin(Job::of_pod(pod, mark), &id);
            }
        }
        self.all_listed(present);
    }
}

fn mark_of(socket: &Path) -> EngineMark {
    let socket = socket.canonicalize().unwrap_or_else(|_| socket.to_owned());
    EngineMark { id: None, socket: socket.display().to_string() }
}

/// Identifies the run of a pod's container: a pod whose container was started again trains anew.
fn run_of(pod: &Pod) -> machine::Run {
    (pod.container.pid, pod.container.started_unix_ms)
}

/// Opens the cgroup of a pod, which its containers' are below. Where systemd makes it, its name has `_` in place of `-`.
fn cgroup_of(pod: &Pod) -> Result<Cgroup, CgroupError> {
    let named = |uid: &str| Cgroup::of_container(pod.container.pid, uid);
    named(&pod.uid).or_else(|error| named(&pod.uid.replace('-', "_")).map_err(|_| error))
}

impl Job {
    /// Creates the job of a pod.
    fn of_pod(pod: &Pod, mark: &EngineMark) -> Result<(Job, Option<LogFeed>), CgroupError> {
        let (container, cgroup) = (&pod.container, cgroup_of(pod)?);
        let unit = unit_of_cgroup(cgroup.path(), false);
        let name = format!("{}/{}", pod.namespace, pod.name);
        let mut target = Target::new(ContainerId::new(&pod.uid), name, Runtime::Pod, cgroup);
        (target.started_unix_ms, target.mark, target.unit) = (container.started_unix_ms, Some(mark.clone()), unit);
        let mut job = Job::new(target, None, &pod.labels);
        job.created_unix_ms = container.created_unix_ms;
        job.owner = Owner::of_image(&container.image);
        let words = std::iter::once(container.image.as_str()).chain(container.command.iter().map(String::as_str));
        job.training = Some(TrainingId::of(words));
        job.parameters = Parameter::all(container.command.iter().map(String::as_str)).as_slice().into();
        job.group = job.group_of(None);
        job.restarts = Restarts::counted(container.restarts);
        let age = super::journal::unix_ms().saturating_sub(container.started_unix_ms);
        job.started = Millis(node::now().0.saturating_sub(age));
        job.run = run_of(pod);
        let of_label = job.feed(container.pid, &container.mounts);
        let feed = of_label.or_else(|| Some(job.wrapped_feed(container.log.clone()?, LogFile::cri())));
        Ok((job, feed))
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
