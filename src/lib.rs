//! flowcon: a governor for training jobs that share one machine.
//!
//! Each room (a folder of `src`) is a crate, and its manifest says which others it may use. This package has the programs and the tests of
//! the whole, and names the rooms for them. An arrow reads "may be used by".
//!
//! ```text
//! traininglog  ←  model  ←  policy, health, limits, config  ←  daemon, coordinator, sim
//!                 model  ←  host/*, api, chart, term        ←  daemon, coordinator, lab, cli        programs → one run() each
//! config, api  ←  notify
//! sim  ←  research/*  ←  flowsim
//! ```
//!
//! | crate | what is in it |
//! |---|---|
//! | [`traininglog`] | bytes of a log → evaluations and progress, curves and forecasts. A library of its own. Pure |
//! | [`model`] | plain data with units in the types: observations, limits, plans, reasons |
//! | [`policy`] | decisions for a node and for a cluster: growth, lists, allocation, the check of a plan. Pure |
//! | [`health`] | whether a running job learns, stalls, diverges, overfits …, with the evidence. Pure |
//! | [`limits`] | the limits of each container (original, written by flowcon, current owner) and the state machine that changes them. Pure |
//! | [`config`] | files and labels → validated settings |
//! | `host/*` | the interfaces to the system, one crate per concern; of ours, each uses `model` at most: |
//! | [`docker`](host::docker), [`swarm`](host::swarm) | the engine's API: containers, events, updates; services of a Swarm |
//! | [`cri`](host::cri) | pods, by the container runtime's interface |
//! | [`cgroup`](host::cgroup), [`systemd`](host::systemd), [`freezer`](host::freezer) | control files, units, and jobs that run in turns |
//! | [`tail`](host::tail), [`store`](host::store) | logs as they grow; the journal of originals and the history, in SQLite |
//! | [`scope`](host::scope), [`gpu`](host::gpu), [`node`](host::node) | commands without a container; GPUs; the machine, its clock and users |
//! | [`api`] | wire types, the server on a Unix socket, its client |
//! | [`daemon`] | `flowcond`: a loop that observes, passes events to the state machine of limits, and carries out its effects; the history |
//! | [`notify`] | `flowcon-notify`: sends messages about jobs. The only crate with clients for networks; the other programs do not link it |
//! | [`coordinator`] | `flowcoord`: places and moves jobs on a Docker Swarm; built like the daemon |
//! | [`sim`] | nodes and clusters on virtual time, governed by the same policy code |
//! | [`lab`] | real trainings; `demo` and `bench`, which compare policies on them |
//! | [`environment`] | variables with which the threads of a training wait asleep; `flowcon-runtime`, which adds them to containers |
//! | [`chart`], [`term`] | charts and HTML pages; text, tables and exit codes for the terminal |
//! | [`cli`] | the commands of `flowctl`, including `top` and the report |
//! | [`flowsim`] | the commands of `flowsim`: simulations, their reports, and replays of recorded decisions |
//! | `research/*` | what only repeats the work of others. Only `flowsim`, benchmarks and tests use it: |
//! | `papers` | published evaluations, with published figures beside simulated ones |
//! | `traces` | traces of rigid jobs on a cluster of GPUs, with the queueing disciplines of Tiresias |
//! | `deadlines` | instances with deadlines and rented nodes, on which the policies for them are compared |
//! | `testing` | what tests of several crates share |
//!
//! One tick is five calls: observe (`daemon`) → [`policy::Governor::tick`] → [`policy::diff`] → actuate (`daemon`, by the steps of
//! [`limits`]) → publish. The simulator makes the same two middle calls on virtual time.
//!
//! The path of one observation, from a log line to a kernel weight:
//!
//! ```text
//! host/tail/lib.rs              new bytes of the log (daemon/logs/worker.rs reads them in a separate thread)
//! traininglog/tracker.rs        bytes → lines → evaluations and progress
//! daemon/observe.rs             progress and cgroup readings: one NodeObservation
//! policy/node/governor.rs       lists, shares and their reasons: one NodePlan
//! policy/node/diff.rs           differences from the current limits: LimitChanges
//! limits/machine/handle.rs      the changes as an event: effects
//! limits/change.rs              record the original, read, write, read back
//! daemon/executor.rs            runs each step: journal (host/store), engine (host/docker), cgroup (host/cgroup)
//! daemon/publish.rs             the status that api/server/snapshot.rs serves
//! cli/status.rs                 the line that `flowctl status` prints
//! ```

pub use {
    api, chart, cli, config, coordinator, daemon, environment, flowsim, health, lab, limits, model, notify, policy,
    sim, term, traininglog,
};

/// Access to the operating system and its services, one crate per concern.
pub mod host {
    pub use node::users;
    pub use {cgroup, cri, docker, freezer, gpu, node, scope, store, swarm, systemd, tail};
}
