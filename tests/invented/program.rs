//! An invented program: its loops and its output; the expected readings are recorded as it prints. Imports: its siblings.

use super::decoys;
use super::hard;
use super::layout::{Cell, Form, Layout};
use super::names::{self, one};
use super::{Counted, Invented, Kind, Series};
use flowcon::model::Direction;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A metric that improves.
#[derive(Clone)]
pub struct Metric {
    pub name: String,
    pub direction: Direction,
    pub from: f64,
    pub to: f64,
    pub speed: f64,
    pub digits: usize,
    pub unit: &'static str,
    /// Index among the series.
    pub series: usize,
}

impl Metric {
    /// Its formatted value after the fraction `done` of the work, 0 ..= 1.
    pub fn text(&self, rng: &mut ChaCha8Rng, done: f64) -> String {
        let left = (-self.speed * done).exp();
        let noise = rng.random_range(-0.03..0.03) * (self.from - self.to);
        let value = self.to + (self.from - self.to) * left + noise;
        format!("{:.*}{}", self.digits, value, self.unit)
    }
}

pub struct Log {
    pub text: String,
    pub prefix: &'static str,
    pub lines: usize,
    pub series: Vec<Series>,
}

impl Log {
    pub fn line(&mut self, text: &str) {
        for line in text.split('\n') {
            self.lines += 1;
            self.text += &self.prefix.replace("{}", &format!("{:02}", self.lines / 7 % 60));
            self.text += line;
            self.text.push('\n');
        }
    }

    pub fn note(&mut self, series: usize, text: &str, last: bool) {
        let value: f64 = text.trim_end_matches('%').parse().expect("a number was printed");
        self.series[series].redrawn.push(value);
        if last {
            self.series[series].values.push(value);
        }
    }
}

pub struct Program {
    pub layout: Layout,
    pub epoch: String,
    pub step: String,
    pub metrics: Vec<Metric>,
    pub beside: Vec<&'static str>,
    pub first: usize,
    pub epochs: usize,
    /// Lines per epoch.
    pub lines: usize,
    /// Steps between two lines.
    pub stride: usize,
    pub log: Log,
    /// The work done so far, 0 ..= 1.
    pub done: f64,
    /// How numbers with decimals are printed; `{}` is replaced by the number.
    notation: &'static str,
}

/// Generates a program of this kind and runs it.
pub fn run(kind: Kind, rng: &mut ChaCha8Rng) -> Invented {
    let mut program = Program::new(kind, rng);
    let shows = program.layout.shows_totals();
    let has_own_total = matches!(kind, Kind::Totals | Kind::Merged | Kind::Mixed);
    let declared = !shows && !has_own_total && rng.random_bool(0.3);
    let mut preamble = decoys::preamble(rng, declared.then_some(program.epochs));
    if matches!(kind, Kind::Settings | Kind::WrongPairs | Kind::Mixed) {
        preamble.extend(hard::before(rng));
    }
    for line in preamble {
        program.log.line(&line);
    }
    // Some programs are still running.
    let stop = if rng.random_bool(0.3) { program.epochs - program.epochs / 4 } else { program.epochs };
    let ends = match kind {
        Kind::Plain | Kind::Unknown | Kind::UnknownCount | Kind::Headless | Kind::Foreign | Kind::Notations => {
            program.plain(rng, 0..stop)
        }
        Kind::Resumed => program.resumed(rng, stop),
        Kind::Steps => program.steps(rng, stop),
        Kind::UnderHeading => program.under_heading(rng, stop),
        Kind::Bars => program.bars(rng, stop),
        Kind::Evaluations => program.evaluations(rng, stop),
        Kind::TwoSeries => program.two_series(rng, stop),
        Kind::Folds => program.folds(rng),
        Kind::Ranks => program.ranks(rng, stop),
        Kind::Totals => program.totals(rng, stop),
        Kind::Merged => program.merged(rng, stop),
        Kind::TwoForms => program.two_forms(rng, stop),
        Kind::WrongPairs => program.wrong_pairs(rng, stop),
        Kind::Settings | Kind::AfterEnd => program.plain(rng, 0..stop),
        Kind::Mixed => match rng.random_range(0..6) {
            0 => program.plain(rng, 0..stop),
            1 => program.steps(rng, stop),
            2 => program.under_heading(rng, stop),
            3 => program.evaluations(rng, stop),
            4 => program.wrong_pairs(rng, stop),
            _ => program.totals(rng, stop),
        },
        Kind::Sections => program.sections(rng, stop),
        Kind::Ratios => program.ratios(rng, stop),
        Kind::Lists => program.lists(rng, stop),
        Kind::Nothing => Vec::new(),
    };
    if matches!(kind, Kind::AfterEnd | Kind::Mixed) {
        for line in hard::after(rng, program.epochs) {
            program.log.line(&line);
        }
    }
    if !matches!(kind, Kind::Bars | Kind::Merged) && rng.random_bool(0.3) {
        program.log.line("Done. The best model is in out/best.bin");
    }
    let with_declared = |end: Counted| match end.total {
        None if declared && end.current <= program.epochs as f64 => {
            Counted { total: Some(program.epochs as f64), only_declared: true, ..end }
        }
        _ => end,
    };
    let series = program.log.series.into_iter().filter(|series| !series.redrawn.is_empty()).collect();
    Invented { log: program.log.text, series, progress: ends.into_iter().map(with_declared).collect() }
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
            Kind::Plain
            | Kind::Resumed
            | Kind::Ranks
            | Kind::Unknown
            | Kind::UnknownCount
            | Kind::Foreign
            | Kind::Notations => Layout::any(rng),
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
        if matches!(kind, Kind::Bars | Kind::Ranks | Kind::Merged) {
            log.prefix = "";
        }
        let mut metrics: Vec<Metric> = Vec::new();
        while metrics.len() < many {
            let falls = if metrics.is_empty() { rng.random_bool(0.6) } else { metrics[0].direction == Direction::Up };
            let name = match kind {
                Kind::Unknown => one(rng, names::UNKNOWN),
                Kind::Foreign => words[if falls { 2 } else { 3 }],
                // `valid: train_loss=0.5` would be contradictory.
                Kind::TwoSeries | Kind::Sections if falls => one(rng, &names::LOSSES[..6]),
                Kind::TwoSeries | Kind::Sections => one(rng, &names::SCORES[..10]),
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
            notation: if kind == Kind::Notations { one(rng, names::NOTATIONS) } else { "{}" },
        }
    }

    pub fn count(&self, name: &str, at: usize, of: usize) -> Cell {
        Cell::Count { name: name.to_owned(), current: self.first + at, total: Some(of) }
    }

    pub fn end(&self, at: usize, of: usize, shown: bool) -> Vec<Counted> {
        let total = shown.then_some(of as f64);
        vec![Counted { current: (self.first + at) as f64, total, only_declared: false }]
    }

    /// Records the metrics' values and returns their cells, with decoys.
    pub fn values(&mut self, rng: &mut ChaCha8Rng, last: bool) -> Vec<Cell> {
        let mut cells = Vec::new();
        for metric in &self.metrics {
            let text = metric.text(rng, self.done);
            self.log.note(metric.series, &text, last);
            cells.push(Cell::Value { name: metric.name.clone(), text: self.in_notation(text) });
        }
        for name in &self.beside {
            let text = self.in_notation(decoys::beside(rng, name, (self.done * 100.0) as usize));
            let at = if self.layout.form == Form::Block { cells.len() } else { fixed_position(name, cells.len()) };
            cells.insert(at, Cell::Value { name: (*name).to_owned(), text });
        }
        cells
    }

    /// A number with decimals and without a unit as the program prints it.
    fn in_notation(&self, text: String) -> String {
        if text.parse::<f64>().is_err() || !text.contains('.') {
            return text;
        }
        match self.notation {
            // With three decimals it could be a separator of thousands, and in a list the next number.
            "," if text.rsplit('.').next().is_some_and(|decimals| decimals.len() > 3)
                && self.layout.form != Form::Commas =>
            {
                text.replace('.', ",")
            }
            "," => text,
            notation => notation.replace("{}", &text),
        }
    }

    pub fn plain(&mut self, rng: &mut ChaCha8Rng, epochs: std::ops::Range<usize>) -> Vec<Counted> {
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

    pub fn chatter(&mut self, rng: &mut ChaCha8Rng, at: usize) {
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
}

/// A position that is the same for a name in each line of a program.
fn fixed_position(name: &str, places: usize) -> usize {
    name.len() * 7 % (places + 1)
}

pub fn metric(rng: &mut ChaCha8Rng, name: &str, falls: bool, series: &mut Vec<Series>) -> Metric {
    let size = [1.0, 1.0, 10.0, 100.0][rng.random_range(0..4)];
    let (low, high) = (rng.random_range(0.05..0.3) * size, rng.random_range(0.6..0.98) * size);
    let (from, to) = if falls { (high, low) } else { (low, high) };
    let direction = if falls { Direction::Down } else { Direction::Up };
    let digits = rng.random_range(3..7);
    let unit = if size == 100.0 && !falls && rng.random_bool(0.3) { "%" } else { "" };
    series.push(Series { name: name.to_owned(), direction, values: Vec::new(), redrawn: Vec::new() });
    Metric {
        name: name.to_owned(),
        direction,
        from,
        to,
        speed: rng.random_range(1.5..5.0),
        digits,
        unit,
        series: series.len() - 1,
    }
}
