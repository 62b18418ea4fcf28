//! Progress bars built from pieces that redraw, move the cursor and set colours: observations stay in order and within the log.
#![no_main]

use flowcon::traininglog::Hints;
use flowcon::traininglog::survey::Survey;
use libfuzzer_sys::fuzz_target;

const PIECES: [&str; 16] = [
    "\r", "\n", "\u{8}", "\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}", "\x1b[A", "\x1b[2K", "\x1b[32m", "█▌ ", " 12/100 ", "50%|", "| ", "loss: 0.",
    "5", "Epoch 3/9", "[00:01<00:02, 3.1it/s]", "\x1b]0;",
];

fuzz_target!(|data: &[u8]| {
    let log: String = data.iter().map(|byte| PIECES[usize::from(byte % 16)]).collect();
    let mut survey = Survey::new(&Hints::default());
    for part in log.as_bytes().chunks(1 + data.len() % 7) {
        survey.push(part);
    }
    survey.finish();
    let lines = log.matches('\n').count() as u64 + 1;
    let reading = survey.reading();
    assert!(reading.observations.windows(2).all(|pair| pair[0].line <= pair[1].line));
    assert!(reading.observations.iter().all(|observation| observation.line <= lines));
    assert!((0.0..=1.0).contains(&reading.confidence));
});
