//! Queueing disciplines with the semantics of the published Tiresias simulator.
//!
//! | name | jobs that run |
//! |---|---|
//! | `fifo` | in order of submission; the first that does not fit blocks the rest |
//! | `fjf` | in order of submission, skipping what does not fit |
//! | `shortest`, `shortest-gpu` | least remaining time (times GPUs) first, preempting; `srpt` is `shortest` |
//! | `dlas`, `dlas-gpu` | three queues by attained seconds (times GPUs), preempting; `las` is `dlas-gpu` |

use super::cluster::Cluster;
use std::collections::VecDeque;
use std::str::FromStr;

/// Rule by which waiting jobs get GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served.
    Fifo,
    /// First job that fits.
    Fjf,
    /// Least remaining time first.
    Shortest {
        /// Time is multiplied by the number of GPUs.
        by_gpu: bool,
    },
    /// Discretised least attained service.
    Dlas {
        /// Service is multiplied by the number of GPUs.
        by_gpu: bool,
    },
}

/// The names of the disciplines.
pub const DISCIPLINES: [&str; 8] = ["fifo", "fjf", "shortest", "shortest-gpu", "srpt", "dlas", "dlas-gpu", "las"];

/// Attained seconds (or GPU-seconds) at which a job leaves the first and the second queue.
const LIMITS: [u64; 2] = [3_250, 7_200];

impl FromStr for Discipline {
    type Err = String;

    fn from_str(name: &str) -> Result<Discipline, String> {
        match name {
            "fifo" => Ok(Discipline::Fifo),
            "fjf" => Ok(Discipline::Fjf),
            "shortest" | "srpt" => Ok(Discipline::Shortest { by_gpu: false }),
            "shortest-gpu" => Ok(Discipline::Shortest { by_gpu: true }),
            "dlas" => Ok(Discipline::Dlas { by_gpu: false }),
            "dlas-gpu" | "las" => Ok(Discipline::Dlas { by_gpu: true }),
            _ => Err(format!("expected one of {}", DISCIPLINES.join(", "))),
        }
    }
}

impl Discipline {
    pub(super) fn queue(self) -> Queue {
        match self {
            Discipline::Fifo => Queue::Fifo(VecDeque::new()),
            Discipline::Fjf => Queue::Fjf(Vec::new()),
            Discipline::Shortest { by_gpu } => Queue::Shortest { by_gpu, order: Vec::new() },
            Discipline::Dlas { by_gpu } => Queue::Dlas { by_gpu, queues: Default::default() },
        }
    }
}

/// State of a discipline; jobs are indices into the trace.
pub(super) enum Queue {
    /// Waiting jobs.
    Fifo(VecDeque<usize>),
    /// Waiting jobs.
    Fjf(Vec<usize>),
    /// Active jobs in the last order.
    Shortest { by_gpu: bool, order: Vec<usize> },
    /// Active jobs.
    Dlas { by_gpu: bool, queues: [Vec<usize>; 3] },
}

impl Queue {
    pub(super) fn arrive(&mut self, job: usize) {
        match self {
            Queue::Fifo(waiting) => waiting.push_back(job),
            Queue::Fjf(waiting) => waiting.push(job),
            Queue::Shortest { order, .. } => order.push(job),
            Queue::Dlas { queues, .. } => queues[0].push(job),
        }
    }

    /// Demotes running jobs, in order of submission; must be called before any of them ends.
    pub(super) fn demote_running(&mut self, cluster: &Cluster) {
        let Queue::Dlas { by_gpu, queues } = self else { return };
        let [first, second, third] = queues;
        let due = |queue: &Vec<usize>, limit: u64| {
            let attained = |job: usize| cluster.executed_s(job) * if *by_gpu { cluster.gpus(job) } else { 1 };
            let mut due: Vec<usize> =
                queue.iter().copied().filter(|job| cluster.is_running(*job) && attained(*job) >= limit).collect();
            due.sort_unstable();
            due
        };
        let (to_second, to_third) = (due(first, LIMITS[0]), due(second, LIMITS[1]));
        first.retain(|job| !to_second.contains(job));
        second.retain(|job| !to_third.contains(job));
        second.extend(to_second);
        third.extend(to_third);
    }

    /// Runs one scheduling pass.
    pub(super) fn pass(&mut self, cluster: &mut Cluster) {
        match self {
            Queue::Fifo(waiting) => {
                while waiting.front().is_some_and(|job| cluster.try_start(*job)) {
                    waiting.pop_front();
                }
            }
            Queue::Fjf(waiting) => waiting.retain(|job| cluster.is_full() || !cluster.try_start(*job)),
            Queue::Shortest { by_gpu, order } => {
                order.retain(|job| !cluster.is_done(*job));
                order.sort_by_key(|job| cluster.remaining_s(*job) * if *by_gpu { cluster.gpus(*job) } else { 1 });
                cluster.run_first_that_fit(order.iter().copied());
            }
            Queue::Dlas { queues, .. } => {
                for queue in queues.iter_mut() {
                    queue.retain(|job| !cluster.is_done(*job));
                }
                cluster.run_first_that_fit(queues.iter().flatten().copied());
                for queue in queues.iter_mut() {
                    queue.sort_by_key(|job| !cluster.is_running(*job));
                }
            }
        }
    }

    /// Time at which the next running job is due to leave its queue, by the formula of the original: it divides the missing part of the
    /// executed *seconds* by the GPUs, so the demotion of a job on several GPUs comes late.
    pub(super) fn next_jump(&self, cluster: &Cluster) -> Option<u64> {
        let Queue::Dlas { by_gpu, queues } = self else { return None };
        let jumps = queues.iter().zip(LIMITS).flat_map(|(queue, limit)| {
            queue.iter().copied().take_while(|job| cluster.is_running(*job)).map(move |job| {
                let missing = limit.saturating_sub(cluster.executed_s(job));
                cluster.now() + missing / if *by_gpu { cluster.gpus(job) } else { 1 }
            })
        });
        jumps.min()
    }
}
