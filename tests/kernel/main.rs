//! Tests on the kernel's interfaces, cgroups first, with a daemon but without an engine. They need root.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod cgroup;
mod domain;
mod ended;
mod exporter;
mod flowctl;
mod freezer;
mod gpu;
mod mail;
mod notify;
mod output;
mod packages;
mod prometheus;
#[path = "../pty/mod.rs"]
mod pty;
mod record;
mod report;
mod run_signals;
mod scope;
#[path = "../served/mod.rs"]
mod served;
#[path = "../support/mod.rs"]
mod support;
mod sweeps;
mod top;
mod turns;
mod uninstall;
mod unprivileged;
mod users;
mod watching;
