//! An invented program: its loops, what it prints in them, and the truth noted as it prints. Imports: its siblings.

use super::decoys;
use super::layout::{Cell, Form, Layout};
use super::names::{self, one};
use super::{Counted, Invented, Kind, Series};
use flowcon::model::Direction;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// One quantity that learns.
struct Metric {
    name: String,
    direction: Direction,
    from: f64,
    to: f64,
    speed: f64,
    digits: usize,
    unit: &'static str,
    /// Index among the series.
    series: usize,
}

impl Metric {
    /// The text of its value after `done` of the work, 0 ..= 1.
    fn text(&self, rng: &mut ChaCha8Rng, done: f64) -> String {
        let left = (-self.speed * done).exp();
        let noise = rng.random_range(-0.03..0.03) * (self.from - self.to);
        let value = self.to + (self.from - self.to) * left + noise;
        format!("{:.*}{}", self.digits, value, self.unit)
    }
}

struct Log {
    text: String,
    prefix: &'static str,
    lines: usize,
    series: Vec<Series>,
}

impl Log {
    fn line(&mut self, text: &str) {
        for line in text.split('\n') {
            self.lines += 1;
            self.text += &self.prefix.replace("{}", &format!("{:02}", self.lines / 7 % 60));
            self.text += line;
            self.text.push('\n');
        }
    }

    fn note(&mut self, series: usize, text: &str, last: bool) {
        let value: f64 = text.trim_end_matches('%').parse().expect("a number was printed");
        self.series[series].redrawn.push(value);
        if last {
            self.series[series].values.push(value);
        }
    }
}

struct Program {
    kind: Kind,
    layout: Layout,
    epoch: String,
    step: String,
    metrics: Vec<Metric>,
    beside: Vec<&'static str>,
    first: usize,
    epochs: usize,
    /// Lines inside an epoch, and steps between two of them.
    lines: usize,
    stride: usize,
    log: Log,
    /// The work done so far, 0 ..= 1.
    done: f64,
}

/// Makes a program of this kind, and runs it.
pub fn run(kind: Kind, rng: &mut ChaCha8Rng) -> Invented {
    let mut program = Program::new(kind, rng);
    let shows = program.layout.shows_totals();
    let declared = !shows && rng.random_bool(0.3);
    for line in decoys::preamble(rng, declared.then_some(program.epochs)) {
        program.log.line(&line);
    }
    // Some are still running.
    let stop = if rng.random_bool(0.3) { program.epochs - program.epochs / 4 } else { program.epochs };
    let ends = match kind {
        Kind::Plain | Kind::Unknown | Kind::UnknownCount | Kind::Headless | Kind::Foreign => program.plain(rng, 0..stop),
        Kind::Resumed => program.resumed(rng, stop),
        Kind::Steps => program.steps(rng, stop),
        Kind::UnderHeading => program.under_heading(rng, stop),
        Kind::Bars => program.bars(rng, stop),
        Kind::Evaluations => program.evaluations(rng, stop),
        Kind::TwoSeries => program.two_series(rng, stop),
        Kind::Folds => program.folds(rng),
        Kind::Ranks => program.ranks(rng, stop),
        Kind::Nothing => Vec::new(),
    };
    if kind != Kind::Bars && rng.random_bool(0.3) {
        program.log.line("Done. The best model is in out/best.bin");
    }
    let with_declared = |end: Counted| match end.total {
        None if declared && end.current <= program.epochs as f64 => {
            Counted { total: Some(program.epochs as f64), only_declared: true, ..end }
        }
        _ => end,
    };
    let series = program.log.series.into_iter().filter(|series| !series.redrawn.is_empty()).collect();
    Invented { kind, log: program.log.text, series, progress: ends.into_iter().map(with_declared).collect() }
}

impl Program {
    fn new(kind: Kind, rng: &mut ChaCha8Rng) -> Program {
        let words = names::FOREIGN[rng.random_range(0..names::FOREIGN.len())];
        let (epoch, step) = match kind {
            Kind::Foreign => (words[0], words[1]),
            Kind::UnknownCount => (one(rng, names::TALLIES), "batch"),
            Kind::Plain | Kind::Unknown | Kind::Resumed if rng.random_bool(0.3) => (one(rng, names::ROUNDS), "batch"),
            Kind::TwoSeries => (one(rng, &names::EPOCHS[..6]), "step"),
            _ => (one(rng, names::EPOCHS), one(rng, names::STEPS)),
        };
        let layout = match kind {
            Kind::Headless => Layout::headless(rng),
            Kind::Plain | Kind::Resumed | Kind::Ranks | Kind::Unknown | Kind::UnknownCount | Kind::Foreign => Layout::any(rng),
            Kind::Steps => loop {
                let layout = Layout::any(rng);
                if layout.form != Form::Prose {
                    break layout;
                }
            },
            _ => Layout::line(rng),
        };
        let many = rng.random_range(1..3);
        let mut log = Log { text: String::new(), prefix: one(rng, decoys::PREFIXES), lines: 0, series: Vec::new() };
        if matches!(kind, Kind::Bars | Kind::Ranks) {
            log.prefix = "";
        }
        let mut metrics: Vec<Metric> = Vec::new();
        while metrics.len() < many {
            let falls = if metrics.is_empty() { rng.random_bool(0.6) } else { metrics[0].direction == Direction::Up };
            let name = match kind {
                Kind::Unknown => one(rng, names::UNKNOWN),
                Kind::Foreign => words[if falls { 2 } else { 3 }],
                // `valid: train_loss=0.5` would contradict itself.
                Kind::TwoSeries if falls => one(rng, &names::LOSSES[..6]),
                Kind::TwoSeries => one(rng, &names::SCORES[..10]),
                _ if falls => one(rng, names::LOSSES),
                _ => one(rng, names::SCORES),
            };
            metrics.push(metric(rng, name, falls, &mut log.series));
        }
        let mut beside: Vec<&'static str> = Vec::new();
        for _ in 0..rng.random_range(0..4) {
            let name = one(rng, decoys::BESIDE);
            if !beside.contains(&name) && layout.form != Form::Prose && kind != Kind::Headless {
                beside.push(name);
            }
        }
        Program {
            kind,
            layout,
            epoch: epoch.to_owned(),
            step: step.to_owned(),
            metrics,
            beside,
            first: rng.random_range(0..2),
            epochs: rng.random_range(8..40),
            lines: rng.random_range(3..9),
            stride: rng.random_range(1..60),
            log,
            done: 0.0,
        }
    }

    fn count(&self, name: &str, at: usize, of: usize) -> Cell {
        Cell::Count { name: name.to_owned(), current: self.first + at, total: Some(of) }
    }

    fn end(&self, at: usize, of: usize, shown: bool) -> Vec<Counted> {
        let total = shown.then_some(of as f64);
        vec![Counted { current: (self.first + at) as f64, total, only_declared: false }]
    }

    /// The metrics' cells, noted, and what stands beside them.
    fn values(&mut self, rng: &mut ChaCha8Rng, last: bool) -> Vec<Cell> {
        let mut cells = Vec::new();
        for metric in &self.metrics {
            let text = metric.text(rng, self.done);
            self.log.note(metric.series, &text, last);
            cells.push(Cell::Value { name: metric.name.clone(), text });
        }
        for name in &self.beside {
            let text = decoys::beside(rng, name, (self.done * 100.0) as usize);
            let at = if self.layout.form == Form::Block { cells.len() } else { rng_free_place(name, cells.len()) };
            cells.insert(at, Cell::Value { name: (*name).to_owned(), text });
        }
        cells
    }

    fn plain(&mut self, rng: &mut ChaCha8Rng, epochs: std::ops::Range<usize>) -> Vec<Counted> {
        let (of, last) = (self.epochs, epochs.end - 1);
        for at in epochs {
            self.done = at as f64 / of as f64;
            let mut cells = vec![self.count(&self.epoch.clone(), at, of)];
            cells.extend(self.values(rng, true));
            let line = self.layout.render(&cells);
            self.log.line(&line);
            self.chatter(rng, at);
        }
        self.end(last, of, self.layout.shows_totals())
    }

    fn chatter(&mut self, rng: &mut ChaCha8Rng, at: usize) {
        let best = 0.5 / (1.0 + at as f64);
        if let Some(line) = decoys::between(rng, at, best) {
            self.log.line(&line);
        }
    }

    fn resumed(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let broken = stop * 2 / 3;
        self.plain(rng, 0..broken);
        let again = broken - rng.random_range(1..3usize);
        self.log.line(&format!("resuming from out/ckpt_{again:04}.bin"));
        self.plain(rng, again..stop)
    }

    fn steps(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
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

    fn under_heading(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (of, inner, form, style) = (self.epochs, self.lines * self.stride, rng.random_range(0..6), rng.random_range(0..4));
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

    fn bars(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
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
                    0 => format!("Epoch {epoch}/{of}: {:3}%|{filled:10}| {ran}/{inner} [00:0{line}<00:09, 9.1it/s, {}]", ran * 100 / inner, pairs(", ", "=")),
                    1 => format!("{ran}/{inner} [{}>{}] - {line}s 12ms/step - {}", "=".repeat(line), ".".repeat(self.lines - line), pairs(" - ", ": ")),
                    _ => format!("{} {epoch} of {of} |{filled:10}| {:.1}% {}", self.epoch, 100.0 * ran as f64 / inner as f64, pairs(" ", "=")),
                };
                self.log.text += &bar;
                self.log.text.push(if last { '\n' } else { '\r' });
            }
        }
        self.end(stop - 1, of, true)
    }

    fn evaluations(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
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
                    0 => self.log.line(&format!("Evaluating: {:3}%|{:9}| {}/30", part * 33, "#".repeat(part * 3), part * 10)),
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

    fn two_series(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
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

    fn folds(&mut self, rng: &mut ChaCha8Rng) -> Vec<Counted> {
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

    fn ranks(&mut self, rng: &mut ChaCha8Rng, stop: usize) -> Vec<Counted> {
        let (ranks, form) = (rng.random_range(2..5usize), rng.random_range(0..4));
        let of = self.epochs;
        // A header once for each worker would be another program's.
        if matches!(self.layout.form, Form::Blanks | Form::Bars | Form::Tabs | Form::Commas) {
            self.layout = Layout::line(rng);
        }
        for at in 0..stop {
            for rank in 0..ranks {
                self.log.prefix = [["[rank0] ", "[rank1] ", "[rank2] ", "[rank3] "], ["0: ", "1: ", "2: ", "3: "], ["worker-0 | ", "worker-1 | ", "worker-2 | ", "worker-3 | "], ["[1,0]<stdout>:", "[1,1]<stdout>:", "[1,2]<stdout>:", "[1,3]<stdout>:"]][form][rank];
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

/// The same place for the same name in each line of a program.
fn rng_free_place(name: &str, places: usize) -> usize {
    name.len() * 7 % (places + 1)
}

fn metric(rng: &mut ChaCha8Rng, name: &str, falls: bool, series: &mut Vec<Series>) -> Metric {
    let size = [1.0, 1.0, 10.0, 100.0][rng.random_range(0..4)];
    let (low, high) = (rng.random_range(0.05..0.3) * size, rng.random_range(0.6..0.98) * size);
    let (from, to) = if falls { (high, low) } else { (low, high) };
    let direction = if falls { Direction::Down } else { Direction::Up };
    let digits = rng.random_range(3..7);
    let unit = if size == 100.0 && !falls && rng.random_bool(0.3) { "%" } else { "" };
    series.push(Series { name: name.to_owned(), direction, values: Vec::new(), redrawn: Vec::new() });
    Metric { name: name.to_owned(), direction, from, to, speed: rng.random_range(1.5..5.0), digits, unit, series: series.len() - 1 }
}
