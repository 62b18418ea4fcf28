//! Reading takes time in proportion to the bytes, also where a line, a nesting or a redraw has no end.

use flowcon::model::{Directives, Millis};
use flowcon::progress::Tracker;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// This thread's time on a processor: what other processes do does not count.
fn busy() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The best of three.
fn time(piece: &str, bytes: usize) -> Duration {
    let log = piece.repeat(bytes / piece.len());
    let read = || {
        let started = busy();
        let mut tracker = Tracker::new(&Directives::default());
        log.as_bytes().chunks(64 * 1024).for_each(|part| tracker.push(part, Millis(0)));
        busy().saturating_sub(started)
    };
    (0..3).map(|_| read()).min().unwrap_or_default()
}

#[test]
fn eight_times_the_bytes_take_about_eight_times_as_long() {
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
    ] {
        let (short, long) = (time(piece, 1 << 18), time(piece, 1 << 21));
        // Quadratic time would be 64 times as long; the constant is for the clock and the first allocation.
        let most = short * 24 + Duration::from_millis(50);
        assert!(long <= most, "{piece:?}: {short:?} for 256 KiB, {long:?} for 2 MiB");
    }
}
