//! A training on the GPU, for the check: least squares by gradient descent, with a loss that falls until the end. Exit code 77: no GPU.

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use flowcon_gpu_check::problem::Problem;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const NO_GPU: u8 = 77;
/// Threads per block; the size of the kernels' shared memory.
const THREADS: u32 = 256;

const USAGE: &str = "train STEPS [SEED] [--cpu]
Does STEPS steps of gradient descent and prints about 100 losses. --cpu: a small problem without a GPU";

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let on_cpu = words.iter().any(|word| word == "--cpu");
    words.retain(|word| word != "--cpu");
    let number = |at: usize, default: Option<u64>| words.get(at).map_or(default, |word| word.parse().ok());
    let (Some(steps @ 1..), Some(seed)) = (number(0, None), number(1, Some(1))) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    println!("process {}", std::process::id());
    if on_cpu {
        let mut problem = Problem::of(seed, 512, 64);
        return train(steps, |rate| {
            problem.step(rate);
            Ok(problem.loss())
        });
    }
    // SAFETY: it only checks whether the loader finds a library of that name.
    if !unsafe { cudarc::driver::sys::is_culib_present() } {
        eprintln!("train: libcuda.so.1 was not found: the NVIDIA driver is not installed");
        return ExitCode::from(NO_GPU);
    }
    match Gpu::of(&Problem::of(seed, 32_768, 1024)) {
        Ok(mut gpu) => train(steps, |rate| gpu.step(rate)),
        Err(error) => {
            eprintln!("train: the GPU cannot be used: {error}");
            ExitCode::from(NO_GPU)
        }
    }
}

/// Runs a training; the learning rate makes the loss fall from the first step to the last.
fn train(steps: u64, mut step: impl FnMut(f32) -> Result<f32, DriverError>) -> ExitCode {
    let rate = (60.0 / steps as f32).min(0.5);
    let every = (steps / 100).max(1);
    let began = Instant::now();
    for done in 1..=steps {
        let loss = match step(rate) {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("train: step {done}: {error}");
                return ExitCode::FAILURE;
            }
        };
        if done % every == 0 || done == steps {
            println!("step {done}/{steps} loss: {loss:.6} time: {:.2}s", began.elapsed().as_secs_f64());
            let _ = std::io::stdout().flush(); // a closed pipe must not end the training
        }
    }
    ExitCode::SUCCESS
}

/// The problem in GPU memory.
struct Gpu {
    stream: Arc<CudaStream>,
    predict: CudaFunction,
    descend: CudaFunction,
    mean_square: CudaFunction,
    samples: CudaSlice<f32>,
    targets: CudaSlice<f32>,
    weights: CudaSlice<f32>,
    errors: CudaSlice<f32>,
    loss: CudaSlice<f32>,
    rows: u32,
    columns: u32,
}

/// Descents between two reads of the loss: a few milliseconds of work are queued on the GPU, as in most trainings.
const DESCENTS_A_STEP: u32 = 8;

impl Gpu {
    fn of(problem: &Problem) -> Result<Gpu, DriverError> {
        let context = CudaContext::new(0)?;
        let stream = context.default_stream();
        let module = context.load_module(Ptx::from_src(include_str!("../kernels.ptx")))?;
        Ok(Gpu {
            predict: module.load_function("predict")?,
            descend: module.load_function("descend")?,
            mean_square: module.load_function("mean_square")?,
            samples: stream.clone_htod(&problem.samples)?,
            targets: stream.clone_htod(&problem.targets)?,
            weights: stream.alloc_zeros(problem.columns)?,
            errors: stream.alloc_zeros(problem.rows)?,
            loss: stream.alloc_zeros(1)?,
            rows: problem.rows as u32,
            columns: problem.columns as u32,
            stream,
        })
    }

    /// Does `DESCENTS_A_STEP` descents and returns the loss before the last one.
    fn step(&mut self, rate: f32) -> Result<f32, DriverError> {
        let (rows, columns) = (self.rows as i32, self.columns as i32);
        let rate = rate / DESCENTS_A_STEP as f32;
        let config =
            |blocks: u32| LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 };
        for _ in 0..DESCENTS_A_STEP {
            let mut predict = self.stream.launch_builder(&self.predict);
            predict
                .arg(&self.samples)
                .arg(&self.weights)
                .arg(&self.targets)
                .arg(&mut self.errors)
                .arg(&rows)
                .arg(&columns);
            // SAFETY: the arguments are those of the kernel, and the slices have the lengths passed to it.
            unsafe { predict.launch(config(self.rows.div_ceil(THREADS))) }?;
            let mut descend = self.stream.launch_builder(&self.descend);
            descend.arg(&self.samples).arg(&self.errors).arg(&mut self.weights).arg(&rate).arg(&rows);
            // SAFETY: as above, with one block per weight.
            unsafe { descend.launch(config(self.columns)) }?;
        }
        let mut mean = self.stream.launch_builder(&self.mean_square);
        mean.arg(&self.errors).arg(&mut self.loss).arg(&rows);
        // SAFETY: as above, with one block.
        unsafe { mean.launch(config(1)) }?;
        Ok(self.stream.clone_dtoh(&self.loss)?[0])
    }
}
