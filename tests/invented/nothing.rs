//! Logs of jobs that are not trainings: nothing may be reported. Imports: its siblings.

use super::Invented;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;

pub fn log(rng: &mut ChaCha8Rng) -> Invented {
    let mut log = String::new();
    let what = rng.random_range(0..12);
    for step in 0..rng.random_range(25..90usize) {
        let number = rng.random_range(100..9000);
        let part: f64 = rng.random_range(0.0..1.0);
        let _ = match what {
            0 => writeln!(log, "[{:3}%] Building CXX object src/part{step}.cpp.o", step + 1),
            1 => writeln!(
                log,
                "10.0.0.{} - - [04/Mar/2026:10:00:{:02}] \"GET /item/{number} HTTP/1.1\" 200 {number}",
                step % 9,
                step % 60
            ),
            2 => writeln!(
                log,
                "{:5.1}% of 812.5MiB at {:.2}MiB/s ETA 00:{:02}",
                step as f64 * 1.1,
                10.0 * part,
                step % 60
            ),
            3 => writeln!(log, "tests/unit/part_{step}.py::case_{number} PASSED [{:3}%]", step + 1),
            4 => writeln!(
                log,
                "frame={:5} fps={:.1} q=28.0 size={:8}kB time=00:00:{:02}.40 bitrate={:.1}kbits/s speed=1.2x",
                step * 25,
                30.0 + part,
                number,
                step % 60,
                900.0 * part
            ),
            5 => writeln!(log, "Compiling crate_{number} v0.{}.{} ({step}/90)", step % 10, number % 20),
            6 => writeln!(
                log,
                "2026-03-04 10:00:{:02} INFO request handled in {:.3} ms, queue length {}",
                step % 60,
                20.0 * part,
                number % 7
            ),
            7 => writeln!(
                log,
                "cpu {:.1}% mem {:.1}% load {:.2} {:.2} {:.2}",
                100.0 * part,
                50.0 + part,
                part,
                part / 2.0,
                part / 3.0
            ),
            8 => writeln!(
                log,
                "backup: {number} files, {:.2} GB copied, {} errors, {:.1} MB/s",
                step as f64 * 0.4,
                0,
                80.0 + part
            ),
            9 => writeln!(log, "64 bytes from 10.0.0.1: icmp_seq={step} ttl=64 time={:.3} ms", part),
            10 => write!(
                log,
                "\rDownloading: {:3}%|{:10}| {step}/90 [00:{:02}<00:10, {:.1}MB/s]",
                step * 100 / 90,
                "#".repeat(step / 9),
                step % 60,
                9.0 * part
            ),
            _ => writeln!(
                log,
                "checkpoint segment {step} written: {number} buffers ({:.1}%); write={:.3} s, sync={:.3} s",
                100.0 * part,
                part,
                part / 9.0
            ),
        };
    }
    Invented { log, series: Vec::new(), progress: Vec::new() }
}
