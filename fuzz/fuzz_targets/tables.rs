//! CSV and JSON files: a valid beginning, then arbitrary bytes; a tracker resumed from its checkpoint has the same metric.
#![no_main]

use flowcon::traininglog::{Hints, Millis, Tracker};
use libfuzzer_sys::fuzz_target;

const BEGINNINGS: [&str; 6] = [
    "epoch,step,train_loss,val_loss\n",
    "| epoch | loss | acc |\n|---|---|---|\n",
    "epoch\tloss\tlr\n",
    "{\"step\": 1, \"loss\": 0.5}\n",
    "{\n  \"log_history\": [\n    {\n      \"epoch\": 0.1,\n      \"loss\": 2.5,\n",
    "      Epoch  GPU_mem  box_loss\n",
];

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let mut tracker = Tracker::new(&Hints::default());
    tracker.push(BEGINNINGS[usize::from(first) % BEGINNINGS.len()].as_bytes(), Millis(0));
    tracker.push(rest, Millis(1));
    tracker.push(b"\n3,4,0.5,0.25\n{\"step\": 2, \"loss\": 0.25}\n", Millis(2));
    let learning = tracker.close_interval(Millis(3));
    let resumed = Tracker::resume(&Hints::default(), &tracker.checkpoint());
    assert_eq!(resumed.peek(Millis(3)).metric, learning.metric);
});
