//! The parts of the GPU check that can be tested without a GPU.

pub mod figures;
pub mod log;
pub mod pmon;
pub mod problem;
