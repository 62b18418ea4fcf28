//! Kinds of logs that are easily misread: totals in other places, merged outputs, two forms of one report, other counts and settings.
//!
//! Imports: its siblings.

use super::Counted;
use super::layout::Cell;
use super::names::one;
use super::program::{Program, metric};
use flowcon::model::Direction;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How a collector writes a carriage return.
const RETURNS: &[&str] = &["#015", "^M", "\\u000d", "\\r"];

fn bar(done: usize, of: usize) -> String {
    format!("{:3}%|{:10}| {done}/{of} [00:07<00:09,  2.31it/s", done * 100 / of, "█".repeat(done * 10 / of))
}

fn counted(current: usize, total: usize) -> Counted {
    Counted { current: current as f64, total: Some(total as f64), only_declared: false }
}

impl Program {
    /// The report of the next line as text.
    fn report(&mut self, rng: &mut ChaCha8Rng, last: bool) -> String {
        let cells = self.values(rng, last);
        self.layout.render(&cells)
    }

    /// The total is printed once, or beside an epoch that says nothing.
    pub fn totals(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form) = (self.epochs * self.stride * 10, rng.random_range(0..9));
        match form {
            0 => self.log.line(&format!("config:\n  name: first\n  iteration_count: {of}\n  batch_size: 32")),
            1 => {
                self.log.line(&format!("{{\n  \"model\": \"mlp\",\n  \"train_steps\": {of},\n  \"batch_size\": 32\n}}"))
            }
            2 => self.log.line(&format!("Training for {of} iterations")),
            _ => {}
        }
        let mut ran = 0;
        for at in 0..stop {
            self.done = at as f64 / self.epochs as f64;
            ran = (at + 1) * self.stride * 10;
            let report = self.report(rng, true);
            self.log.line(&match form {
                0 | 2 => format!("iteration {ran}, {report}"),
                1 => format!("step {ran}: {report}"),
                3 => format!("Epoch:[1/1]({ran}/{of}) {report}"),
                4 => format!("epoch 0, iteration {ran}/{of}, {report}"),
                5 => format!("epoch: {}, iter: {ran}/{of}, {report}", at / 5),
                6 => format!("{ran} ({:.2}%) {report}", 100.0 * ran as f64 / of as f64),
                7 => format!("Train Epoch: 0 [{ran}/{of} ({}%)] {report}", ran * 100 / of),
                _ => format!("Number of trials: 1/1 step {ran} of {of}, {report}"),
            });
            self.chatter(rng, at);
        }
        let percent = (10_000.0 * ran as f64 / of as f64).round() / 100.0;
        let share = Counted { current: percent, total: Some(100.0), only_declared: false };
        if form == 6 { vec![share] } else { vec![counted(ran, of)] }
    }

    /// Reports behind bars without a newline, and carriage returns that a collector wrote as text.
    pub fn merged(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form, written) = (self.epochs * self.stride, rng.random_range(0..5), one(rng, RETURNS));
        let name = one(rng, &["", "Training: ", "epoch 1: "]);
        let mut redraws = 0;
        for at in 0..stop {
            self.done = at as f64 / self.epochs as f64;
            let (ran, is_last) = ((at + 1) * self.stride, at % 6 == 5 || at + 1 == stop);
            let cells = self.values(rng, form > 2 || is_last);
            let pairs = |quote: &str, assign: &str| {
                let pair = |cell: &Cell| match cell {
                    Cell::Value { name, text } => {
                        format!("{quote}{name}{quote}{assign}{}", text.trim_end_matches(['%', 's']))
                    }
                    Cell::Count { .. } => String::new(),
                };
                cells.iter().map(pair).collect::<Vec<_>>().join(", ")
            };
            let shown = bar(ran, of);
            self.log.text += &match form {
                0..3 => {
                    redraws += 1;
                    let begin = if redraws == 1 { "" } else { written };
                    format!("{begin}{name}{shown}, {}]{}", pairs("", "="), if is_last { "\n" } else { "" })
                }
                3 => format!("\r{name}{shown}]{}{{{}}}\n", ["", "\n"][at % 2], pairs("'", ": ")),
                _ => format!("step {ran}/{of} {}{written}\n", pairs("", "=")),
            };
            redraws *= usize::from(!is_last);
        }
        vec![counted(stop * self.stride, of)]
    }

    /// Two forms of one report, or training lines under the heading of an evaluation.
    pub fn two_forms(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form) = (self.epochs, rng.random_range(0..3));
        self.metrics.iter_mut().for_each(|metric| (metric.digits, metric.unit) = (6, ""));
        self.metrics.truncate(1);
        self.beside.clear();
        for at in 0..stop {
            let epoch = self.first + at;
            let mut report = String::new();
            if form == 2 {
                self.log.line(&format!("Epoch {epoch}/{of}"));
            }
            for line in 0..if form == 2 { 4 } else { 1 } {
                self.done = (at as f64 + line as f64 / 4.0) / of as f64;
                report = self.report(rng, true);
                self.log.line(&if form == 2 { format!("  {report}") } else { format!("Epoch {epoch}/{of} {report}") });
                if form == 2 && line == 1 && at % 2 == 0 {
                    self.log.line(&format!("Evaluating\nheld-out PSNR = {:.3}", 20.0 + at as f64 / 9.0));
                }
            }
            let (name, value) =
                report.split_at(report.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |last| last + 1));
            let rounded = value.parse::<f64>().unwrap_or_default();
            match form {
                0 => self.log.line(&format!("Epoch {epoch}/{of} summary: {name}{rounded:.2}, took 12s")),
                1 => self.log.line(&format!("Epoch {epoch}/{of} done ({name}{rounded:.3})")),
                _ => {}
            }
        }
        self.end(stop - 1, of, true)
    }

    /// Counts of other things than the progress, on the lines of the reports.
    pub fn wrong_pairs(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form) = (self.epochs, rng.random_range(0..3));
        for at in 0..stop {
            self.done = at as f64 / of as f64;
            let (epoch, report) = (self.first + at, self.report(rng, true));
            self.log.line(&match form {
                0 => format!("epoch {epoch}/{of} {report} (best @ epoch {}/{of}) patience {}/5", at * 2 / 3, at % 4),
                1 => format!("Batch {epoch}/{}, {report}", 203_800 + at * 1000),
                _ => format!("{report} | epoch {epoch} of {of} | worker {}/8", 1 + at % 8),
            });
            self.chatter(rng, at);
        }
        let mut ends = self.end(stop - 1, of, form != 1);
        if form == 1 {
            ends.push(Counted { current: (203_800 + (stop - 1) * 1000) as f64, total: None, only_declared: false });
        }
        ends
    }
}

/// Reports with something beside them that has the same form.
impl Program {
    /// An evaluation under a decorated heading, with lines like those of the training.
    pub fn sections(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form) = (self.epochs, rng.random_range(0..4));
        self.metrics.truncate(1);
        let (name, falls) = (self.metrics[0].name.clone(), self.metrics[0].direction == Direction::Down);
        let held_out = metric(rng, &name, falls, &mut self.log.series);
        for at in 0..stop {
            let epoch = self.first + at;
            self.log.line(&format!("==> Epoch {epoch}/{of}"));
            for batch in 1..=3 {
                self.done = (at as f64 + f64::from(batch) / 3.0) / of as f64;
                let report = self.report(rng, true);
                self.log.line(&format!("batch {}/30 {report}", batch * 10));
            }
            self.log.line(&match form {
                0 => format!("++> Evaluate at epoch {epoch} ..."),
                1 => "***** Running Evaluation *****".to_owned(),
                2 => format!("=== Validation epoch {epoch} ==="),
                _ => "--> Start evaluation on dev set:".to_owned(),
            });
            let trained = std::mem::replace(&mut self.metrics[0], held_out.clone());
            let report = self.report(rng, true);
            self.metrics[0] = trained;
            self.log.line(&format!("batch 5/5 {report}"));
        }
        self.end(stop - 1, of, true)
    }

    /// Scores with the counts that they are the ratio of.
    pub fn ratios(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form, all) = (self.epochs, rng.random_range(0..3), rng.random_range(900..9000));
        let score = metric(rng, "acc", false, &mut self.log.series);
        for at in 0..stop {
            self.done = at as f64 / of as f64;
            let (epoch, report, right) = (self.first + at, self.report(rng, true), all * (at + 1) / (of + 1));
            let (share, percent) = (right as f64 / all as f64, 100.0 * right as f64 / all as f64);
            let (text, shown) = match form {
                0 => (format!("{percent:.2}"), format!("acc: {percent:.2}% ({right}/{all})")),
                1 => (format!("{share:.4}"), format!("acc {share:.4} ({right} / {all})")),
                _ => (format!("{percent:.1}"), format!("acc = {percent:.1}% ({right}/{all})")),
            };
            self.log.note(score.series, &text, true);
            self.log.line(&format!("Epoch: {epoch}\n{report} | {shown}"));
            self.chatter(rng, at);
        }
        self.end(stop - 1, of, false)
    }

    /// A list of items with names of metrics after each report.
    pub fn lists(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, items) = (self.epochs, rng.random_range(2..5));
        for at in 0..stop {
            self.done = at as f64 / of as f64;
            let (epoch, report) = (self.first + at, self.report(rng, true));
            self.log.line(&format!("Epoch {epoch}/{of} {report}"));
            self.log.line("   ID   age  size  fitness  adj fit");
            for item in 1..=items {
                let (size, fitness) = (rng.random_range(5..30), rng.random_range(2.0..20.0));
                self.log.line(&format!("{item:5}{at:6}{size:6}{fitness:9.3}{:9.3}", fitness / 30.0));
            }
        }
        self.end(stop - 1, of, true)
    }
}

/// Output before a training that looks like its progress or its evaluation.
pub fn before(rng: &mut ChaCha8Rng) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..rng.random_range(1..4) {
        match rng.random_range(0..8) {
            0 => lines.extend((1..=4).map(|worker| format!("Launching worker {worker}/4"))),
            1 => lines.push(
                (0..=10).map(|part| format!("Tokenizing: {}]", bar(part * 500, 5000))).collect::<Vec<_>>().join("\r"),
            ),
            2 => lines.push((0..=10).map(|part| format!("{}]", bar(part * 40, 400))).collect::<Vec<_>>().join("\r")),
            3 => lines.push("Trial 17 started with {'lr': 0.1, 'depth': 6}".to_owned()),
            4 => lines.extend((1..=3).map(|part| format!("Loading checkpoint shards: {}]", bar(part, 3)))),
            5 => lines.extend(
                [
                    "settings:",
                    "  loss        = 2",
                    "  max_error   = 0.01",
                    "  val_split   = 0.2",
                    "  target_acc  = 0.95",
                ]
                .map(str::to_owned),
            ),
            6 => lines.extend(
                [
                    "{",
                    "  \"loss_weight\": 0.5,",
                    "  \"accuracy_threshold\": 0.9,",
                    "  \"train\": {\"score\": 3, \"num_epochs\": 7000}",
                    "}",
                ]
                .map(str::to_owned),
            ),
            _ => lines.extend((0..6).map(|image| format!("Test {}.jpg", 10_043_785_683u64 + image * 7919))),
        }
    }
    lines
}

/// Output after the end of a training.
pub fn after(rng: &mut ChaCha8Rng, epochs: usize) -> Vec<String> {
    let best = epochs / 3;
    let traceback = [
        "Traceback (most recent call last):",
        "  File \"train.py\", line 88, in <module>",
        "    run(step=3, epoch=0)",
        "  File \"lib/loop.py\", line 12, in run",
        "RuntimeError: out of memory: tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total, 9.59 GiB in use)",
    ];
    let killed = "srun: error: *** STEP 3011.0 ON node7 CANCELLED AT 2026-03-04T10:00:00 DUE TO TIME LIMIT ***";
    match rng.random_range(0..6) {
        0 => traceback.map(str::to_owned).to_vec(),
        1 => vec![killed.to_owned()],
        2 => vec![format!("Early stopping, best epoch: {best}"), format!("Restored the weights of epoch {best}")],
        3 => vec![(0..=10).map(|part| format!("Testing: {}]", bar(part * 5, 50))).collect::<Vec<_>>().join("\r")],
        4 => (1..=3).map(|part| format!("Exporting: {}]", bar(part, 3))).collect(),
        _ => vec![format!("Loading checkpoint epoch {best}"), "Predicting 100/100".to_owned()],
    }
}
