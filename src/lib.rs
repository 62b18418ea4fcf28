//! flowcon: a governor for training jobs that share one machine.
//!
//! The house, room by room; an arrow reads "may be imported by". `tests/architecture.rs` enforces it, and that no files import each
//! other in a circle.
//!
//! ```text
//! model  ←  policy, limits, progress, config  ←  daemon, coordinator, sim
//! model  ←  host, api, chart, term            ←  daemon, lab, cli      bin → one run() each
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`model`] | plain data with units in the types: observations, limits, plans, reasons |
//! | [`policy`] | decisions: growth, lists, allocation, the check of a plan; for a cluster too. Pure |
//! | [`limits`] | the ledger of each container's limits and the machine around it: original, ours, whose. Pure |
//! | [`progress`] | bytes of a log → evaluations and progress, curves and forecasts. Pure |
//! | [`config`] | files and labels → validated settings |
//! | [`host`] | the world, one concern a folder: docker, cgroup, gpu, tail, store, scope, systemd |
//! | [`api`] | wire types, the server on a Unix socket, its client |
//! | [`daemon`] | `flowcond`: a loop that reads, tells the machine, and carries its effects out; the history |
//! | [`coordinator`] | `flowcoord`: places and moves jobs on a Docker Swarm; a machine of the same shape as the daemon's |
//! | [`sim`] | `flowsim`: the same policy code on virtual time |
//! | [`lab`] | real trainings, and `demo` and `bench`, which compare policies on them |
//! | [`chart`], [`term`] | pictures and HTML pages; words, tables and exit codes of a terminal |
//! | [`cli`] | the commands of `flowctl`, `top` and the report among them |
//!
//! One tick is five calls: observe (`daemon`) → [`policy::Governor::tick`] → [`policy::diff`] → actuate (`daemon`, by the steps of
//! [`limits`]) → publish. The simulator makes the same two middle calls on virtual time.
//!
//! The way of one observation, from a line of a log to a weight of the kernel:
//!
//! ```text
//! host/tail/mod.rs              the log grew: new bytes (daemon/logs/worker.rs reads them in a thread of its own)
//! progress/tracker.rs           bytes → lines → evaluations and progress
//! daemon/observe.rs             with the cgroup's readings: one NodeObservation
//! policy/node/governor.rs       lists, shares, a Reason for each: one NodePlan
//! policy/node/diff.rs           what differs from what stands: LimitChanges
//! limits/machine/handle.rs      the machine is told, and answers with effects
//! limits/change.rs              promise the original, look, write, read back
//! daemon/hands.rs               carries each step out: journal (host/store), engine (host/docker), cgroup (host/cgroup)
//! daemon/publish.rs             the status that api/server/snapshot.rs serves
//! cli/status.rs                 the line that you see
//! ```

pub mod api;
pub mod chart;
pub mod cli;
pub mod config;
pub mod coordinator;
pub mod daemon;
pub mod host;
pub mod lab;
pub mod limits;
pub mod model;
pub mod policy;
pub mod progress;
pub mod sim;
pub mod term;
