//! The nested loops of an invented program, one function per kind. Each returns the counters that show its progress.
//!
//! Imports: its siblings.

use super::Counted;
use super::layout::{Cell, Form, Layout};
use super::names::{self, one};
use super::program::{Program, metric};
use flowcon::model::Direction;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

impl Program {
    pub fn steps(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let global = self.step.starts_with("global");
        let (of, inner) = (self.epochs, self.lines * self.stride);
        let mut ran = 0;
        for at in 0..stop {
            for line in 0..self.lines {
                self.done = (at as f64 + line as f64 / self.lines as f64) / of as f64;
                ran = line * self.stride + if global { at * inner } else { 0 };
                let mut cells = vec![
                    self.count(&self.epoch.clone(), at, of),
                    self.count(&self.step.clone(), ran, if global { inner * of } else { inner }),
                ];
                cells.extend(self.values(rng, true));
                let line = self.layout.render(&cells);
                self.log.line(&line);
            }
            self.chatter(rng, at);
        }
        let shows = self.layout.shows_totals();
        let mut ends = self.end(stop - 1, of, shows);
        if global {
            ends.extend(self.end(ran, inner * of, shows));
        }
        ends
    }

    fn heading(&mut self, rng_choice: usize, name: &str, at: usize, of: usize) -> bool {
        let at = self.first + at;
        let (line, shown) = match rng_choice {
            0 => (format!("===== {name} {at}/{of} ====="), true),
            1 => (format!("{name} {at}"), false),
            2 => (format!("--- Starting {name} {at} of {of} ---"), true),
            3 => (format!("[{name} {at}]"), false),
            4 => (format!("{name}: {at}"), false),
            _ => (format!("{name} {at}/{of}"), true),
        };
        self.log.line(&line);
        shown
    }

    pub fn under_heading(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, inner, form, style) =
            (self.epochs, self.lines * self.stride, rng.random_range(0..6), rng.random_range(0..4));
        let mut shown = false;
        for at in 0..stop {
            shown = self.heading(form, &self.epoch.clone(), at, of);
            for line in 0..self.lines {
                self.done = (at as f64 + line as f64 / self.lines as f64) / of as f64;
                let ran = line * self.stride + 1;
                let cells = self.values(rng, true);
                let values = self.layout.render(&cells);
                let line = match style {
                    0 => format!("[{ran}/{inner}] {values}"),
                    1 => format!("  {} {ran}/{inner}: {values}", self.step),
                    2 => format!("{} {ran}, {values}", self.step),
                    _ => format!("{:3}% {ran}/{inner} {values}", ran * 100 / inner),
                };
                self.log.line(&line);
            }
            self.chatter(rng, at);
        }
        self.end(stop - 1, of, shown)
    }

    pub fn bars(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, inner, style) = (self.epochs, self.lines * self.stride, rng.random_range(0..3));
        for at in 0..stop {
            let epoch = self.first + at;
            if style == 1 {
                self.log.text += &format!("Epoch {epoch}/{of}\n");
            }
            for line in 1..=self.lines {
                self.done = (at as f64 + line as f64 / self.lines as f64) / of as f64;
                let (ran, last) = (line * self.stride, line == self.lines);
                let values = self.values(rng, last);
                let pairs = |divide: &str, assign: &str| {
                    let pair = |cell: &Cell| match cell {
                        Cell::Value { name, text } => format!("{name}{assign}{text}"),
                        Cell::Count { .. } => String::new(),
                    };
                    values.iter().map(pair).collect::<Vec<_>>().join(divide)
                };
                let filled = "█".repeat(10 * line / self.lines);
                let bar = match style {
                    0 => format!(
                        "Epoch {epoch}/{of}: {:3}%|{filled:10}| {ran}/{inner} [00:0{line}<00:09, 9.1it/s, {}]",
                        ran * 100 / inner,
                        pairs(", ", "=")
                    ),
                    1 => format!(
                        "{ran}/{inner} [{}>{}] - {line}s 12ms/step - {}",
                        "=".repeat(line),
                        ".".repeat(self.lines - line),
                        pairs(" - ", ": ")
                    ),
                    _ => format!(
                        "{} {epoch} of {of} |{filled:10}| {:.1}% {}",
                        self.epoch,
                        100.0 * ran as f64 / inner as f64,
                        pairs(" ", "=")
                    ),
                };
                self.log.text += &bar;
                self.log.text.push(if last { '\n' } else { '\r' });
            }
        }
        self.end(stop - 1, of, true)
    }

    pub fn evaluations(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let of = self.epochs;
        let (form, name) = (rng.random_range(0..4), self.metrics[0].name.clone());
        let name = names::validation(rng, &name);
        let falls = self.metrics[0].direction == Direction::Down;
        let held_out = metric(rng, &name, falls, &mut self.log.series);
        let mut layout = Layout::line(rng);
        for at in 0..stop {
            self.plain(rng, at..at + 1);
            if form == 3 && at % 2 == 1 {
                continue;
            }
            for part in 1..=3 {
                match form {
                    0 => self.log.line(&format!(
                        "Evaluating: {:3}%|{:9}| {}/30",
                        part * 33,
                        "#".repeat(part * 3),
                        part * 10
                    )),
                    1 => self.log.line(&format!("eval batch {}/30", part * 10)),
                    2 => self.log.line(&format!("validating {}/30 ...", part * 10)),
                    _ => {}
                }
            }
            let text = held_out.text(rng, self.done);
            self.log.note(held_out.series, &text, true);
            let line = layout.render(&[Cell::Value { name: name.clone(), text }]);
            self.log.line(&format!("{}{line}", ["", "  -> ", "Evaluation: ", "* "][form]));
        }
        self.end(stop - 1, of, self.layout.shows_totals())
    }

    pub fn two_series(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, form) = (self.epochs, rng.random_range(0..4));
        let parts = [["train", "valid"], ["Train", "Test"], ["TRAIN", "DEV"], ["training set", "validation set"]];
        let parts = parts[rng.random_range(0..parts.len())];
        let held_out = self.log.series.clone();
        self.log.series.extend(held_out);
        let many = self.metrics.len();
        let mut shown = false;
        for at in 0..stop {
            self.done = at as f64 / of as f64;
            if form >= 2 {
                shown = self.heading(form * 2 - 4, &self.epoch.clone(), at, of);
            }
            for (nth, part) in parts.iter().enumerate() {
                for metric in &mut self.metrics {
                    metric.series = metric.series % many + nth * many;
                }
                let mut cells = if form < 2 { vec![self.count(&self.epoch.clone(), at, of)] } else { Vec::new() };
                shown |= form < 2 && self.layout.shows_totals();
                cells.extend(self.values(rng, true));
                let line = self.layout.render(&cells);
                self.log.line(&match form {
                    0 | 2 => format!("{part}: {line}"),
                    1 => format!("[{part}] {line}"),
                    _ => format!("  {part} - {line}"),
                });
            }
            self.chatter(rng, at);
        }
        self.end(stop - 1, of, shown)
    }

    pub fn folds(&mut self, rng: &mut ChaCha8Rng) -> Vec<Counted> {
        let folds = rng.random_range(3..7);
        let (form, inner) = (rng.random_range(0..6), self.epochs / 2);
        let name = one(rng, &["fold", "Fold", "FOLD", "cv fold"]);
        let mut shown = false;
        for fold in 0..folds {
            if form < 5 {
                shown = self.heading(form, name, fold, folds);
            }
            for at in 0..inner {
                self.done = at as f64 / inner as f64;
                let mut cells = vec![self.count(&self.epoch.clone(), at, inner)];
                if form == 5 {
                    cells.insert(0, self.count(name, fold, folds));
                    shown = self.layout.shows_totals();
                }
                cells.extend(self.values(rng, true));
                let line = self.layout.render(&cells);
                self.log.line(&line);
            }
        }
        self.end(folds - 1, folds, shown)
    }

    pub fn ranks(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (ranks, form) = (rng.random_range(2..5usize), rng.random_range(0..4));
        let of = self.epochs;
        // With several workers, a table would need one header per worker.
        if matches!(self.layout.form, Form::Blanks | Form::Bars | Form::Tabs | Form::Commas) {
            self.layout = Layout::line(rng);
        }
        for at in 0..stop {
            for rank in 0..ranks {
                self.log.prefix = [
                    ["[rank0] ", "[rank1] ", "[rank2] ", "[rank3] "],
                    ["0: ", "1: ", "2: ", "3: "],
                    ["worker-0 | ", "worker-1 | ", "worker-2 | ", "worker-3 | "],
                    ["[1,0]<stdout>:", "[1,1]<stdout>:", "[1,2]<stdout>:", "[1,3]<stdout>:"],
                ][form][rank];
                self.done = at as f64 / of as f64;
                let mut cells = vec![self.count(&self.epoch.clone(), at, of)];
                cells.extend(self.values(rng, true));
                let line = self.layout.render(&cells);
                self.log.line(&line);
            }
        }
        self.end(stop - 1, of, self.layout.shows_totals())
    }
}
