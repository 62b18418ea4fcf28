//! GPUs and the jobs that use them, read in a separate thread because a faulty driver blocks its callers.
//!
//! The thread stores its last reading, and the loop uses it with its age. After three intervals the data counts as missing. Without the
//! library the thread only looks for it from time to time. A process is assigned to a job by its cgroup, found through `/proc`, and its
//! start time: a process id that was reused meanwhile is ignored.

use super::event::{Component, Event};
use super::gpu_means::GpuMeans;
use super::job::{Job, Jobs};
use cgroup::{ProcessCgroup, ProcessCgroups, start_time};
use gpu::{Fault, GpuProcess, GpuReadings, Library, NoGpu, Reader};
use model::{Bytes, ContainerId, Gpu, GpuUse, Millis};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the GPUs are read; less often where a reading costs more than one part in [`COSTS_AT_MOST`] of a core.
const EVERY: Duration = Duration::from_secs(2);
const AT_LATEST: Duration = Duration::from_secs(15);
const COSTS_AT_MOST: u32 = 1000;
/// A reading counts for this many intervals.
const FRESH_FOR: u32 = 3;
/// Time before the driver is loaded again after a failure, or opened anew after a GPU was lost.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Time before a missing library is looked for again. Most machines never get one.
const LIBRARY_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// How long a fault is shown as a warning.
const FAULT_MATTERS_FOR: Duration = Duration::from_secs(3600);
/// A process may be moved to another cgroup: its cgroup is looked up again after this many readings.
const LOOK_AGAIN_AFTER: u32 = 8;

/// The loop's handle.
pub(super) struct Gpus {
    latest: Latest,
    was_silent: bool,
    pub means: GpuMeans,
    /// Ends the thread when it is dropped.
    _stop: Sender<()>,
}

type Latest = Arc<Mutex<Option<Arc<Snapshot>>>>;

/// One reading, with the cgroups of its processes.
struct Snapshot {
    at: Instant,
    fresh_for: Duration,
    gpus: Vec<Gpu>,
    processes: Vec<Located>,
}

/// A process that uses a GPU.
struct Located {
    /// Cgroups of the process.
    directories: Arc<[PathBuf]>,
    gpu: u32,
    uuid: String,
    process: GpuProcess,
}

impl Gpus {
    /// Starts to read the GPUs with the library of this name or path; `None`: GPUs are not read.
    pub(crate) fn start(library: Option<&Path>, events: tokio::sync::mpsc::Sender<Event>) -> Gpus {
        let latest = Latest::default();
        let (stop, stopped) = channel();
        if let Some(library) = library {
            let library = library.to_owned();
            let watch = Watch {
                latest: Arc::clone(&latest),
                events,
                stopped,
                locator: ProcessLocator::default(),
                reported: BTreeMap::new(),
            };
            let thread = std::thread::Builder::new().name("gpu".to_owned()).spawn(move || watch.run(&library));
            if let Err(error) = thread {
                tracing::warn!("the GPUs are not read: no thread could be started: {error}");
            }
        }
        Gpus { latest, was_silent: false, means: GpuMeans::default(), _stop: stop }
    }

    /// Returns the new state if the driver stopped answering (its problem) or answers again (`None`).
    pub(crate) fn health_change(&mut self) -> Option<Option<String>> {
        let silent_for = self
            .snapshot()
            .map(|snapshot| (snapshot.at.elapsed(), snapshot.fresh_for))
            .filter(|(age, fresh)| age > fresh);
        let was_silent = std::mem::replace(&mut self.was_silent, silent_for.is_some());
        let text = || {
            "the NVIDIA driver does not answer: the GPU use of jobs is unknown; see `dmesg` and `nvidia-smi`".to_owned()
        };
        (was_silent != self.was_silent).then(|| silent_for.map(|_| text()))
    }

    /// Returns the current GPUs, and how each job uses them.
    pub(crate) fn observed(&self, jobs: &Jobs) -> (Vec<Gpu>, BTreeMap<ContainerId, Vec<GpuUse>>) {
        let Some(snapshot) = self.snapshot().filter(|snapshot| snapshot.at.elapsed() <= snapshot.fresh_for) else {
            return Default::default();
        };
        let age = Millis(u64::try_from(snapshot.at.elapsed().as_millis()).unwrap_or(u64::MAX));
        let gpus = snapshot.gpus.iter().map(|gpu| Gpu { age, ..gpu.clone() }).collect();
        (gpus, if snapshot.processes.is_empty() { BTreeMap::new() } else { uses(&snapshot.processes, jobs) })
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the use of each GPU by each job: the sums over the processes in its cgroup and in the cgroups below.
fn uses(processes: &[Located], jobs: &Jobs) -> BTreeMap<ContainerId, Vec<GpuUse>> {
    let paths = |job: &Job| job.target.cgroup().directories();
    let homes: BTreeMap<PathBuf, &ContainerId> =
        jobs.values().flat_map(|job| paths(job).into_iter().map(move |path| (path, job.id()))).collect();
    let home = |directory: &Path| directory.ancestors().find_map(|path| homes.get(path).copied());
    let mut uses: BTreeMap<ContainerId, BTreeMap<(u32, Option<u32>), GpuUse>> = BTreeMap::new();
    for located in processes {
        let Some(job) = located.directories.iter().find_map(|directory| home(directory)) else { continue };
        let process = &located.process;
        let of_job = uses.entry(job.clone()).or_default();
        let part = of_job.entry((located.gpu, process.instance)).or_insert_with(|| GpuUse {
            gpu: located.gpu,
            instance: process.instance,
            uuid: located.uuid.clone(),
            ..GpuUse::default()
        });
        part.processes += 1;
        part.share = process.share.map(|share| share + part.share.unwrap_or(0.0)).or(part.share);
        part.memory =
            process.memory.map(|held| Bytes(held.0.saturating_add(part.memory.unwrap_or_default().0))).or(part.memory);
    }
    uses.into_iter().map(|(job, parts)| (job, parts.into_values().collect())).collect()
}

/// State of the thread.
struct Watch {
    latest: Latest,
    events: tokio::sync::mpsc::Sender<Event>,
    stopped: Receiver<()>,
    locator: ProcessLocator,
    /// Current problems, as their notices say them, and since when.
    reported: BTreeMap<Component, (String, Instant)>,
}

/// The daemon has ended.
struct Stopped;

impl Watch {
    fn run(mut self, library: &Path) {
        let is_named = library != Path::new(gpu::DEFAULT);
        let mut reader = Reader::default();
        loop {
            let (problem, again_after) = match Library::open(library) {
                Ok(opened) => {
                    if let Err(Stopped) = self.session(&opened, &mut reader) {
                        return;
                    }
                    continue;
                }
                Err(NoGpu::NoLibrary { .. }) if !is_named => (None, LIBRARY_AGAIN_AFTER),
                Err(NoGpu::NoDriver) => (None, AGAIN_AFTER),
                Err(error) => (Some(format!("the GPUs are not read: {error}; run `flowctl doctor`")), AGAIN_AFTER),
            };
            self.store(None);
            if self.report(Component::GpuDriver, problem).is_err() || self.wait(again_after).is_err() {
                return;
            }
        }
    }

    /// Reads until the driver should be opened anew: there is no GPU, or a lost one does not come back.
    fn session(&mut self, library: &Library, reader: &mut Reader) -> Result<(), Stopped> {
        self.report(Component::GpuDriver, None)?;
        let began = Instant::now();
        let mut session = reader.begin(library);
        let mut is_first = true;
        loop {
            let (started, cost) = (node::now(), thread_time());
            let reading = session.read(reader);
            let lost = !reading.lost.is_empty();
            self.warn(&reading)?;
            if reading.gpus.is_empty() {
                self.store(None);
                drop(session);
                return self.wait(AGAIN_AFTER);
            }
            let (gpus, processes) = self.locator.locate(reading, started);
            // The first reading costs several times as much as each later one.
            let cost = if std::mem::take(&mut is_first) { Duration::ZERO } else { thread_time().saturating_sub(cost) };
            let every = (cost * COSTS_AT_MOST).clamp(EVERY, AT_LATEST);
            self.store(Some(Snapshot { at: Instant::now(), fresh_for: every * FRESH_FOR, gpus, processes }));
            self.wait(every)?;
            if lost && began.elapsed() >= AGAIN_AFTER {
                return Ok(());
            }
        }
    }

    fn store(&self, snapshot: Option<Snapshot>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = snapshot.map(Arc::new);
    }

    fn wait(&self, time: Duration) -> Result<(), Stopped> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            _ => Err(Stopped),
        }
    }

    /// Reports GPUs that are lost or back, and faults.
    fn warn(&mut self, reading: &GpuReadings) -> Result<(), Stopped> {
        let lost = |gpu: &gpu::LostGpu| {
            let text = format!("{gpu}; its use by jobs is unknown; see `dmesg` and `nvidia-smi`");
            (Component::Gpu(gpu.index), text)
        };
        let fault = |fault: &Fault| (Component::GpuFault(fault.gpu()), fault.to_string());
        let now: BTreeMap<Component, String> =
            reading.lost.iter().map(lost).chain(reading.faults.iter().map(fault)).collect();
        let is_over = |component: &Component, since: &Instant| match component {
            Component::Gpu(_) => !now.contains_key(component),
            Component::GpuFault(_) => since.elapsed() > FAULT_MATTERS_FOR,
            _ => false,
        };
        let over = self.reported.iter().filter(|(component, (_, since))| is_over(component, since));
        for component in over.map(|(component, _)| *component).collect::<Vec<Component>>() {
            self.report(component, None)?;
        }
        now.into_iter().try_for_each(|(component, text)| self.report(component, Some(text)))
    }

    /// Reports a change in the problem of a component to the loop.
    fn report(&mut self, component: Component, problem: Option<String>) -> Result<(), Stopped> {
        let before = self.reported.get(&component).map(|(text, _)| text);
        if before == problem.as_ref() {
            return Ok(());
        }
        match &problem {
            Some(text) => self.reported.insert(component, (text.clone(), Instant::now())),
            None => self.reported.remove(&component),
        };
        self.events.blocking_send(Event::Health(component, problem)).map_err(|_| Stopped)
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Cgroups of processes, as looked up so far.
#[derive(Default)]
struct ProcessLocator {
    residences: Option<ProcessCgroups>,
    known: BTreeMap<u32, Found>,
}

struct Found {
    residence: ProcessCgroup,
    directories: Arc<[PathBuf]>,
    looks: u32,
}

impl ProcessLocator {
    /// Looks up the processes of a reading that began at `began`.
    fn locate(&mut self, reading: GpuReadings, began: Millis) -> (Vec<Gpu>, Vec<Located>) {
        let mut before = std::mem::take(&mut self.known);
        let (mut gpus, mut located) = (Vec::new(), Vec::new());
        for gpu::GpuReading { gpu, processes } in reading.gpus {
            for process in processes {
                if !self.known.contains_key(&process.pid) {
                    let Some(found) = self.found(process.pid, before.remove(&process.pid), began) else { continue };
                    self.known.insert(process.pid, found);
                }
                let Some(found) = self.known.get(&process.pid) else { continue };
                let of = |number| gpu.instances.iter().find(|instance| instance.index == number);
                let uuid = process.instance.and_then(of).map_or(&gpu.uuid, |instance| &instance.uuid).clone();
                let directories = Arc::clone(&found.directories);
                located.push(Located { directories, gpu: gpu.index, uuid, process });
            }
            gpus.push(gpu);
        }
        // Mounts are read again for the next new process.
        self.residences = None;
        (gpus, located)
    }

    /// Returns the known process, or looks up a new one. A process id that belonged to another process in the last reading is left out
    /// of this reading: the driver's data may still be about the other.
    fn found(&mut self, pid: u32, before: Option<Found>, began: Millis) -> Option<Found> {
        if let Some(before) = before {
            if start_time(pid)? != before.residence.started {
                return None;
            }
            if before.looks < LOOK_AGAIN_AFTER {
                return Some(Found { looks: before.looks + 1, ..before });
            }
        }
        if self.residences.is_none() {
            self.residences = ProcessCgroups::of_host();
        }
        let residence = self.residences.as_ref()?.of(pid)?;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let started = Millis(residence.started.0.saturating_mul(1000) / ticks);
        if started > began {
            return None; // not the process that the driver meant
        }
        Some(Found { directories: residence.directories.clone().into(), residence, looks: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::GpuReading;

    fn reading(pid: u32) -> GpuReadings {
        let process = GpuProcess { pid, instance: None, share: Some(0.5), memory: None };
        GpuReadings {
            gpus: vec![GpuReading { gpu: Gpu::default(), processes: vec![process] }],
            ..GpuReadings::default()
        }
    }

    #[test]
    fn a_reused_process_id_is_ignored_until_the_next_reading() {
        let mut locator = ProcessLocator::default();
        let me = std::process::id();
        assert_eq!(locator.locate(reading(me), node::now()).1.len(), 1);
        locator.known.get_mut(&me).unwrap().residence.started.0 -= 1;
        assert_eq!(locator.locate(reading(me), node::now()).1.len(), 0);
        assert_eq!(locator.locate(reading(me), node::now()).1.len(), 1);
    }

    #[test]
    fn a_process_that_started_after_the_driver_was_asked_is_ignored() {
        assert_eq!(ProcessLocator::default().locate(reading(std::process::id()), Millis(1)).1.len(), 0);
    }
}
