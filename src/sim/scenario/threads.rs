//! Trainings whose threads wait for each other, with what that costs as measured for each library.
//!
//! A library starts a thread for each core, and its threads meet at barriers. While a job has `c` of the `p` cores that its threads want, a
//! unit costs it 1 + waste·(p/c − 1) times the CPU that it costs alone; beside n − 1 equal jobs, 1 + waste·(n − 1) times.
//!
//! The constants are from four at once on two cores under plain sharing (`config/bench/threads/train.py`, `flowctl help threads`): one
//! measurement each for HistGradientBoosting, PyTorch and Keras; XGBoost is what remains of two with LightGBM and two with XGBoost, in two
//! runs between 0.87 and 1.03. With LightGBM at other weights, one job ahead of three in turns from 20 : 1 to 2045 : 1, the model is within 14 %
//! of the CPU-seconds measured (`node/tests/waste.rs`). It does not know that turns below a quarter of a second do not help, and that a set of
//! weights that stays for long costs the last jobs more than this.

use super::NodeShape;
use crate::job::{GpuLoad, JobPlan};

/// The libraries, and their waste.
const LIBRARIES: [(&str, f64); 5] =
    [("lightgbm", 0.6), ("xgboost", 0.95), ("histgb", 0.75), ("torch", 0.0), ("keras", 0.0)];

/// GPU-seconds of a step, and the part of its time in which a job needs a core.
const KERNEL_S: f64 = 0.05;
const ON_CPU: f64 = 0.1;

/// Makes a training one of the next library; `mixed`: in place of those that waste nothing, one has a single thread and one waits for its GPU.
pub(super) fn training(number: usize, plan: JobPlan, mixed: bool, node: &NodeShape) -> JobPlan {
    let alone_s = plan.work / node.cores;
    let (library, waste) = LIBRARIES[number % LIBRARIES.len()];
    let named = |what: &str, plan: JobPlan| JobPlan { name: format!("{}-{what}", number + 1), ..plan };
    match library {
        "torch" if mixed => named("single", JobPlan { work: alone_s, parallelism: 1.0, ..plan }),
        "keras" if mixed => {
            let gpu = Some(GpuLoad { device: 0, every: KERNEL_S * ON_CPU, kernel_s: KERNEL_S });
            named("gpu", JobPlan { work: alone_s * ON_CPU, parallelism: 1.0, gpu, ..plan })
        }
        _ => named(library, JobPlan { waste, ..plan }),
    }
}
