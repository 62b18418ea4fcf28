//! The controllers of cgroups.

/// The controllers used here, by their names on version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Cpuacct,
    Memory,
    Blkio,
    Freezer,
}

impl Controller {
    pub(super) const ALL: [Controller; 5] =
        [Controller::Cpu, Controller::Cpuacct, Controller::Memory, Controller::Blkio, Controller::Freezer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Controller::Cpu => "cpu",
            Controller::Cpuacct => "cpuacct",
            Controller::Memory => "memory",
            Controller::Blkio => "blkio",
            Controller::Freezer => "freezer",
        }
    }
}
