//! Tests that reading takes linear time, also for endless lines, nesting and redraws.

use crate::support::cost::cpu_time;
use flowcon::traininglog::{Hints, Millis, Tracker};
use std::time::Duration;

/// The shortest of three measurements.
fn time(piece: &str, bytes: usize) -> Duration {
    let log = piece.repeat(bytes / piece.len());
    let read = || {
        let started = cpu_time();
        let mut tracker = Tracker::new(&Hints::default());
        log.as_bytes().chunks(64 * 1024).for_each(|part| tracker.push(part, Millis(0)));
        cpu_time().saturating_sub(started)
    };
    (0..3).map(|_| read()).min().unwrap_or_default()
}

#[test]
fn reading_takes_linear_time() {
    for piece in [
        "x",
        "loss 0.5 ",
        "1",
        "1,",
        "a\n",
        "{\"a\":",
        "[",
        "\r",
        "\u{8}",
        "\r\u{8}",
        "x\u{8}",
        "\u{1b}[",
        "\u{1b}]0;",
        "epoch 1 loss 0.5\r",
        "{\"log\":\"\\u001b",
        "█",
        "\"value\": 1.5, ",
        "a|",
        "\t1",
        "float(a=",
        "<Tensor numpy=",
        "x: a(",
        "1'111",
    ] {
        let (short, long) = (time(piece, 1 << 18), time(piece, 1 << 21));
        // Quadratic time would be 64 times as long; the constant covers the clock and the first allocation.
        let most = short * 24 + Duration::from_millis(50);
        assert!(long <= most, "{piece:?}: {short:?} for 256 KiB, {long:?} for 2 MiB");
    }
}
