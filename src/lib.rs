//! flowcon: a governor for training jobs that share one machine.
//!
//! The rooms (folders of `src`) and their imports; an arrow reads "may be imported by". `tests/architecture.rs` enforces it, and that
//! files do not import each other in a circle.
//!
//! ```text
//! model  ←  policy, limits, progress, config  ←  daemon, coordinator, sim
//! model  ←  host, api, chart, term            ←  daemon, lab, sim, cli bin → one run() each
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`model`] | plain data with units in the types: observations, limits, plans, reasons |
//! | [`policy`] | decisions for a node and for a cluster: growth, lists, allocation, the check of a plan. Pure |
//! | [`limits`] | the limits of each container (original, written by flowcon, current owner) and the state machine that changes them. Pure |
//! | [`progress`] | bytes of a log → evaluations and progress, curves and forecasts. Pure |
//! | [`config`] | files and labels → validated settings |
//! | [`host`] | the interfaces to the system, one folder each: docker, cgroup, gpu, tail, store, scope, systemd |
//! | [`api`] | wire types, the server on a Unix socket, its client |
//! | [`daemon`] | `flowcond`: a loop that observes, passes events to the state machine of limits, and carries out its effects; the history |
//! | [`coordinator`] | `flowcoord`: places and moves jobs on a Docker Swarm; built like the daemon |
//! | [`sim`] | `flowsim`: the same policy code on virtual time |
//! | [`lab`] | real trainings; `demo` and `bench`, which compare policies on them |
//! | [`chart`], [`term`] | charts and HTML pages; text, tables and exit codes for the terminal |
//! | [`cli`] | the commands of `flowctl`, including `top` and the report |
//!
//! One tick is five calls: observe (`daemon`) → [`policy::Governor::tick`] → [`policy::diff`] → actuate (`daemon`, by the steps of
//! [`limits`]) → publish. The simulator makes the same two middle calls on virtual time.
//!
//! The path of one observation, from a log line to a kernel weight:
//!
//! ```text
//! host/tail/mod.rs              new bytes of the log (daemon/logs/worker.rs reads them in a separate thread)
//! progress/tracker.rs           bytes → lines → evaluations and progress
//! daemon/observe.rs             progress and cgroup readings: one NodeObservation
//! policy/node/governor.rs       lists, shares and their reasons: one NodePlan
//! policy/node/diff.rs           differences from the current limits: LimitChanges
//! limits/machine/handle.rs      the changes as an event: effects
//! limits/change.rs              record the original, read, write, read back
//! daemon/executor.rs            runs each step: journal (host/store), engine (host/docker), cgroup (host/cgroup)
//! daemon/publish.rs             the status that api/server/snapshot.rs serves
//! cli/status.rs                 the line that `flowctl status` prints
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
