//! Throughput of the log reader on one core, compared with `grep -cE '[Ll]oss'` on the same bytes in the same run.
//!
//! `cargo bench --bench reader [-- DIRECTORY]`: the logs in DIRECTORY (one after the other), or generated logs in ten formats,
//! are repeated up to `FLOWCON_BENCH_BYTES` (default 1 GiB) in a temporary file. The reader gets 64 KiB at a time, as in the
//! daemon. Memory: the growth of the process's resident set while one tracker reads everything.

use flowcon::traininglog::{Hints, Millis, Tracker};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn main() {
    let directory = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let wanted = std::env::var("FLOWCON_BENCH_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1usize << 30);
    let mixed = directory.map_or_else(generate_log, |directory| read_logs(Path::new(&directory)));
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("mixed.log");
    let bytes = repeat(&mixed, wanted, &path);

    let resident = resident_kib();
    let started = Instant::now();
    let mut tracker = Tracker::new(&Hints::default());
    let mut file = File::open(&path).expect("the file just written");
    let mut chunk = vec![0u8; 64 * 1024];
    loop {
        let read = file.read(&mut chunk).expect("a readable file");
        if read == 0 {
            break;
        }
        tracker.push(&chunk[..read], Millis(0));
    }
    let reader_seconds = started.elapsed().as_secs_f64();
    let grown = resident_kib().saturating_sub(resident);

    let started = Instant::now();
    let grep = Command::new("grep").args(["-cE", "[Ll]oss"]).arg(&path).output().expect("grep is installed");
    let grep_seconds = started.elapsed().as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    let learning = tracker.peek(Millis(0));
    println!("input   {megabytes:.0} MB, {} distinct", mixed.len());
    println!(
        "reader  {:.0} MB/s, {} evaluations of {:?}, resident set grew {grown} KiB",
        megabytes / reader_seconds,
        learning.evaluations,
        learning.metric
    );
    println!("grep    {:.0} MB/s, {} lines", megabytes / grep_seconds, String::from_utf8_lossy(&grep.stdout).trim());
    println!("ratio   {:.2} (target: at least 0.25, and 250 MB/s)", grep_seconds / reader_seconds);
}

fn read_logs(directory: &Path) -> Vec<u8> {
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("a readable directory").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).flat_map(|path| fs::read(path).expect("a readable log")).collect()
}

fn repeat(mixed: &[u8], wanted: usize, path: &Path) -> usize {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).expect("a temporary file"));
    let mut written = 0;
    while written < wanted {
        out.write_all(mixed).expect("room for the file");
        written += mixed.len();
    }
    out.flush().expect("room for the file");
    written
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A log in ten alternating formats: progress bars, dictionaries, tables, key-value lines, and lines without values.
fn generate_log() -> Vec<u8> {
    let mut log = String::new();
    for i in 0..4000u32 {
        let loss = 2.0 / f64::from(i + 1).sqrt();
        let _ = match i / 50 % 10 {
            0 => writeln!(
                log,
                "2026-01-01 10:00:{:02},{:03} - INFO - epoch: {}, batch: {i}, loss:{loss:.6}, ips: {}.5 ins/s",
                i % 60,
                i % 1000,
                i / 100,
                1800 + i % 50
            ),
            1 => writeln!(
                log,
                "{{'loss': {loss:.4}, 'grad_norm': {:.3}, 'learning_rate': {:.3e}, 'epoch': {:.2}}}",
                loss * 3.0,
                loss / 1e4,
                f64::from(i) / 100.0
            ),
            2 => write!(
                log,
                "\rEpoch {}/40: {}%|{}{}| {}/100 [00:{:02}<01:00, 3.2it/s]",
                i / 100,
                i % 100,
                "█".repeat((i % 10) as usize),
                " ".repeat(10 - (i % 10) as usize),
                i % 100,
                i % 60
            ),
            3 => writeln!(
                log,
                "I0101 10:00:00.{:06} {} solver.cpp:222] Iteration {i}, loss = {loss:.6}",
                i * 37 % 1_000_000,
                5405
            ),
            4 => writeln!(
                log,
                " iteration {i:8}/  500000 | consumed samples: {:12} | elapsed time per iteration (ms): 493.5 | learning rate: 8.859E-06 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.722 |",
                i * 32
            ),
            5 => writeln!(
                log,
                "    (layer{}): Conv2d({}, {}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)",
                i % 50,
                i % 512,
                i % 256
            ),
            6 => writeln!(log, "{i:6} {loss:12.5} {:12.5} 00:{:02}", loss * 1.1, i % 60),
            7 => writeln!(log, "[{i}]\ttrain-rmse:{loss:.5}\ttest-rmse:{:.5}", loss * 1.2),
            8 => writeln!(log, "Downloading shard {i} of the data set to the cache directory, please be patient"),
            _ => writeln!(
                log,
                "{{\"step\": {i}, \"train\": {{\"loss\": {loss:.5}, \"acc\": 0.{:03}}}, \"time\": 17{i}.5}}",
                i % 1000
            ),
        };
    }
    log.into_bytes()
}
