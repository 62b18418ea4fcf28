//! TensorBoard event files: arbitrary bytes as the data of records with valid checksums, followed by arbitrary bytes.
#![no_main]

use flowcon::traininglog::{Hints, Millis, Tracker};
use libfuzzer_sys::fuzz_target;

fn masked_crc(data: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), data, &masked_crc(data).to_le_bytes()].concat()
}

fuzz_target!(|data: &[u8]| {
    let mut tracker = Tracker::new(&Hints::default());
    tracker.push(&framed(b"\x1a\x0dbrain.Event:2"), Millis(0));
    let (records, tail) = data.split_at(data.len() / 4 * 3);
    for record in records.chunks(40) {
        tracker.push(&framed(record), Millis(1));
    }
    tracker.push(tail, Millis(2));
    let learning = tracker.close_interval(Millis(3));
    assert!((0.0..=1.0).contains(&learning.confidence));
});
