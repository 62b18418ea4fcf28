//! Compares real trainings on a GPU, plain and governed by flowcon. `integration/gpu/check` builds everything and starts this program.

mod daemon;
mod monitor;
mod observed;
mod training;

use daemon::Daemon;
use flowcon_gpu_check::figures::{Pair, Run, table};
use flowcon_gpu_check::log::{Line, pid};
use monitor::Monitor;
use observed::Observed;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use training::Training;

const NO_GPU: u8 = 77;
const USAGE: &str = "check FOLDER-OF-PROGRAMS TRAIN [--seconds N] [--jobs N,N…] [--cpu]
--seconds: duration of one training alone (30); --jobs: numbers of concurrent trainings (2,4); --cpu: dry run without a GPU";
/// A run times out after this multiple of its expected duration with equal shares.
const TIMEOUT_FACTOR: u32 = 4;

type Outcome<T> = Result<T, String>;

struct Check {
    flowcond: PathBuf,
    flowctl: PathBuf,
    train: PathBuf,
    folder: PathBuf,
    on_cpu: bool,
    seconds: f64,
    steps: u64,
    /// Speed of a training alone, in steps per second.
    speed_alone: f64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let seconds = value("--seconds").map_or(Some(30.0), |text| text.parse().ok());
    let jobs: Option<Vec<usize>> =
        value("--jobs").map_or("2,4", String::as_str).split(',').map(|text| text.parse().ok()).collect();
    let (Some(programs), Some(train), Some(seconds), Some(jobs)) = (words.first(), words.get(1), seconds, jobs) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    let folder = std::env::temp_dir().join(format!("flowcon-gpu-check-{}", std::process::id()));
    let mut check = Check {
        flowcond: Path::new(programs).join("flowcond"),
        flowctl: Path::new(programs).join("flowctl"),
        train: train.into(),
        folder: folder.clone(),
        on_cpu: words.iter().any(|word| word == "--cpu"),
        seconds,
        steps: 0,
        speed_alone: 0.0,
    };
    let outcome = fs::create_dir_all(&folder).map_err(|error| error.to_string()).and_then(|()| check.all(&jobs));
    match outcome {
        Ok(code) => {
            let _ = fs::remove_dir_all(&folder); // only logs
            code
        }
        Err(error) => {
            eprintln!("check: {error}; logs are in {}", folder.display());
            ExitCode::FAILURE
        }
    }
}

impl Check {
    fn all(&mut self, jobs: &[usize]) -> Outcome<ExitCode> {
        if !self.measure_alone()? {
            eprintln!("check: this machine has no usable NVIDIA GPU; nothing was checked (exit code {NO_GPU})");
            return Ok(ExitCode::from(NO_GPU));
        }
        let gpu = self.gpu();
        println!(
            "{gpu}: a training alone does {:.1} steps per second; {} steps per training",
            self.speed_alone, self.steps
        );
        if let Err(why) = self.can_govern() {
            println!(
                "accounting only: commands cannot get their own cgroups, so GPU use cannot be attributed to jobs: {why}"
            );
            return self.accounting_of_the_whole();
        }
        let mut pairs = Vec::new();
        for &jobs in jobs {
            let plain = self.run(jobs, &["policy.name=fair"])?;
            let governed = self.run(jobs, &["gpu.control=duty-cycle", "policy.interval=2s"])?;
            pairs.push(Pair { plain, governed });
        }
        let frozen = self.frozen_after_a_crash()?;
        println!("{}", table(&pairs));
        match frozen {
            Some(frozen) => println!("{frozen} of 2 trainings frozen after the daemon was killed"),
            None => println!("no training was frozen when the daemon was killed: the crash test is inconclusive"),
        }
        let lost: usize = pairs.iter().map(|pair| pair.plain.lost + pair.governed.lost).sum();
        for pair in &pairs {
            println!("{}", pair.json(&gpu, frozen));
        }
        Ok(if lost > 0 || frozen.is_some_and(|frozen| frozen > 0) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Measures the speed of one training alone and sets the number of steps for the requested duration. Returns `false` without a GPU.
    fn measure_alone(&mut self) -> Outcome<bool> {
        let mut steps = 100;
        loop {
            let output =
                self.training(steps, 1).output().map_err(|error| format!("{}: {error}", self.train.display()))?;
            if output.status.code() == Some(i32::from(NO_GPU)) {
                eprint!("{}", String::from_utf8_lossy(&output.stderr));
                return Ok(false);
            }
            let log = String::from_utf8_lossy(&output.stdout);
            let (Some(last), true) = (Line::last(&log), output.status.success()) else {
                return Err(format!("the training alone failed: {}", String::from_utf8_lossy(&output.stderr)));
            };
            if last.seconds >= 3.0 {
                self.speed_alone = last.speed();
                self.steps = ((self.speed_alone * self.seconds) as u64).max(1);
                return Ok(true);
            }
            steps *= (4.0 / last.seconds.max(0.02)).ceil() as u64;
        }
    }

    fn training(&self, steps: u64, seed: usize) -> Command {
        let mut command = Command::new(&self.train);
        command.args([steps.to_string(), seed.to_string()]);
        if self.on_cpu {
            command.arg("--cpu");
        }
        command
    }

    fn gpu(&self) -> String {
        let output =
            Command::new("nvidia-smi").args(["--query-gpu=name,driver_version", "--format=csv,noheader"]).output();
        let output = output.ok().filter(|output| output.status.success());
        let name = output.map(|output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("").to_owned());
        match name {
            Some(name) => name,
            None if self.on_cpu => "no GPU (dry run)".to_owned(),
            None => "unknown GPU (nvidia-smi is not available)".to_owned(),
        }
    }

    /// Checks that `flowctl run` can give commands their own cgroups; the error is its first message.
    fn can_govern(&self) -> Outcome<()> {
        let socket = self.folder.join("none.sock");
        let output = Command::new(&self.flowctl).arg("--socket").arg(socket).args(["run", "--", "true"]).output();
        let output = output.map_err(|error| format!("{}: {error}", self.flowctl.display()))?;
        let why = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("").to_owned();
        if output.status.success() { Ok(()) } else { Err(why) }
    }

    /// Runs several trainings concurrently until all have ended.
    fn run(&self, jobs: usize, settings: &[&str]) -> Outcome<Run> {
        let daemon = Daemon::start(self, settings)?;
        let monitor = Monitor::start();
        let began = Instant::now();
        let mut trainings: Vec<Training> =
            (0..jobs).map(|number| Training::start(self, &daemon, number, self.steps)).collect::<Outcome<_>>()?;
        let timeout = Duration::from_secs_f64(self.seconds * jobs as f64 + 30.0) * TIMEOUT_FACTOR;
        let mut observed = Observed::new();
        while trainings.iter().any(|training| training.ended.is_none()) {
            if began.elapsed() > timeout {
                return Err(format!(
                    "the trainings did not end within {timeout:?}; log of the daemon:\n{}",
                    daemon.log()
                ));
            }
            sleep(Duration::from_millis(200));
            for training in &mut trainings {
                training.poll(began)?;
            }
            observed.add(&trainings, &daemon.status());
        }
        let monitored = monitor.end(observed.shared_time());
        let run = observed.run(&trainings, &monitored, self.speed_alone);
        if !self.on_cpu && run.accounting_error.is_none() {
            println!(
                "{jobs} trainings: shares were not compared: nvidia-smi pmon reported {} processes",
                monitored.processes()
            );
        }
        daemon.end()?;
        Ok(run)
    }

    /// Kills the daemon while one of two trainings is frozen and returns how many make no progress afterwards; `None` if none was frozen.
    fn frozen_after_a_crash(&self) -> Outcome<Option<usize>> {
        let mut daemon = Daemon::start(self, &["gpu.control=duty-cycle", "policy.interval=2s"])?;
        let mut trainings: Vec<Training> =
            (0..2).map(|number| Training::start(self, &daemon, number, self.steps * 4)).collect::<Outcome<_>>()?;
        let timeout = Duration::from_secs_f64(self.seconds.max(60.0));
        let is_frozen = |container: &Value| container["frozen_share"].as_f64().is_some_and(|share| share > 0.05);
        let (began, mut was_frozen) = (Instant::now(), false);
        while !was_frozen && began.elapsed() < timeout && trainings.iter().all(|training| training.ended.is_none()) {
            sleep(Duration::from_millis(200));
            trainings.iter_mut().try_for_each(|training| training.poll(began))?;
            was_frozen = daemon.status()["containers"].as_array().is_some_and(|all| all.iter().any(is_frozen));
        }
        daemon.child.kill().map_err(|error| error.to_string())?;
        sleep(Duration::from_secs(1));
        let steps = |trainings: &[Training]| -> Vec<Option<u64>> {
            trainings.iter().map(|training| Line::last(&training.log()).map(|line| line.step)).collect()
        };
        let before = steps(&trainings);
        // A training prints a line after each hundredth of its steps, and these have four times as many.
        sleep(Duration::from_secs_f64((self.seconds * 0.4).max(5.0)));
        let stuck = steps(&trainings).iter().zip(&before).filter(|(now, before)| now == before).count();
        for training in &mut trainings {
            let _ = training.child.kill(); // may have ended already
            let _ = training.child.wait();
            if let Some(pid) = pid(&training.log()) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
            }
        }
        Ok(was_frozen.then_some(stuck))
    }

    /// Prints what the daemon and nvidia-smi report about the GPU while two trainings run.
    fn accounting_of_the_whole(&self) -> Outcome<ExitCode> {
        let daemon = Daemon::start(self, &["policy.name=fair"])?;
        let mut trainings: Vec<Child> = (0..2)
            .map(|number| self.training(self.steps, number + 1).stdout(Stdio::null()).spawn())
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        sleep(Duration::from_secs_f64(self.seconds / 2.0));
        println!("daemon: {}", daemon.status()["node"]["gpus"]);
        let query = ["--query-gpu=utilization.gpu,memory.used,power.draw,temperature.gpu", "--format=csv"];
        println!(
            "nvidia-smi: {}",
            Command::new("nvidia-smi")
                .args(query)
                .output()
                .map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned(),)
        );
        for training in &mut trainings {
            training.wait().map_err(|error| error.to_string())?;
        }
        daemon.end()?;
        Ok(ExitCode::SUCCESS)
    }
}
