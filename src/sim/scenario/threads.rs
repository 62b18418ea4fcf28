//! Trainings whose threads wait for each other, with what that costs as measured for each library.
//!
//! A library starts a thread for each core, and its threads meet at barriers. While a job has `c` of the `p` cores that its threads want, a
//! unit costs it 1 + waste·(p/c − 1) times the CPU that it costs alone; beside n − 1 equal jobs, 1 + waste·(n − 1) times.
//!
//! From four at once on two cores under plain sharing (`flowctl help threads`): LightGBM, HistGradientBoosting, PyTorch and Keras, one measurement
//! each. XGBoost is what remains of two with LightGBM and two with XGBoost (0.87 and 1.03 in two runs; 0.8 is cautious). Those with 0.2 are not
//! measured yet, but assumed. With LightGBM at other weights, one job ahead of three in turns from 20 : 1 to 2045 : 1, the model is within
//! 14 % of the CPU-seconds measured (`node/tests/waste.rs`). It does not know that turns below a quarter of a second do not help, and that
//! a set of weights that stays for long costs the last jobs more than this.

use super::NodeShape;
use crate::job::{GpuLoad, JobPlan};

/// The libraries, and their waste.
const LIBRARIES: [(&str, f64); 8] = [
    ("lightgbm", 0.6),
    ("xgboost", 0.8),
    ("histgb", 0.72),
    ("mlp", 0.2),
    ("torch", 0.0),
    ("numpy", 0.2),
    ("tensorflow", 0.0),
    ("statsmodels", 0.2),
];

/// GPU-seconds of a step, and the part of its time in which a job needs a core.
const KERNEL_S: f64 = 0.05;
const ON_CPU: f64 = 0.1;

/// Makes a training one of the next library; `mixed`: of five one has a single thread, and one waits for its GPU.
pub(super) fn training(number: usize, plan: JobPlan, mixed: bool, node: &NodeShape) -> JobPlan {
    let alone_s = plan.work / node.cores;
    let (library, waste) = LIBRARIES[number % LIBRARIES.len()];
    let name = |what: &str| format!("{}-{what}", number + 1);
    match number % 5 {
        3 if mixed => JobPlan { name: name("single"), work: alone_s, parallelism: 1.0, ..plan },
        4 if mixed => {
            let gpu = Some(GpuLoad { device: 0, every: KERNEL_S * ON_CPU, kernel_s: KERNEL_S });
            JobPlan { name: name("gpu"), work: alone_s * ON_CPU, parallelism: 1.0, gpu, ..plan }
        }
        _ => JobPlan { name: name(library), waste, ..plan },
    }
}
