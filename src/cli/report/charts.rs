//! The report's charts, one function each, drawn for the width of a phone and scaled up on larger screens.

use super::data::{Data, Series};
use super::estimate::Range;
use chart::{Margins, Plot, series};
use term::text;

const WIDTH: f64 = 460.0;
const FIELD: f64 = 190.0;
/// Width reserved for job names.
const NAMES: f64 = 124.0;
const NAME_LONGEST: usize = 14;
/// Characters at the end of a longer name that are kept.
const NAME_END: usize = 4;
const ROW: f64 = 18.0;
/// Names of the lines in the chart of the pressure.
pub(super) const PRESSURES: [&str; 3] = ["CPU", "memory", "I/O"];
/// Points in a line; more would be less than a pixel apart.
const POINTS: usize = 240;

fn margins(left: f64) -> Margins {
    Margins { top: 8.0, right: 26.0, bottom: 36.0, left }
}

/// A unit of time in which the report's length is a small number.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    seconds: f64,
    /// Name of the unit, for example `minutes`.
    pub name: &'static str,
}

/// Returns the unit for a length of time.
pub(super) fn unit(length_s: f64) -> Unit {
    let (seconds, name) = match length_s {
        s if s <= 600.0 => (1.0, "seconds"),
        s if s <= 5.0 * 3600.0 => (60.0, "minutes"),
        s if s <= 4.0 * 86_400.0 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    };
    Unit { seconds, name }
}

fn number(value: f64) -> String {
    text::number_text((value * 1e6).round() / 1e6)
}

fn percent(value: f64) -> String {
    format!("{:.0} %", 100.0 * value)
}

/// The jobs that are drawn; a job's position determines its colour.
pub(super) struct Drawn<'a> {
    data: &'a Data,
    jobs: Vec<&'a Series>,
    unit: Unit,
}

impl<'a> Drawn<'a> {
    /// Selects the `most` jobs that used the most CPU, ordered by start.
    pub(super) fn new(data: &'a Data, most: usize) -> Drawn<'a> {
        let used = |series: &Series| series.work.last().map_or(0.0, |last| last.1);
        let mut jobs: Vec<&Series> = data.jobs.iter().collect();
        jobs.sort_by(|a, b| used(b).total_cmp(&used(a)));
        jobs.truncate(most);
        jobs.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.job.number.cmp(&b.job.number)));
        Drawn { data, jobs, unit: unit(data.length_s()) }
    }

    /// Names of the drawn jobs, in the order of their colours.
    pub(super) fn names(&self) -> Vec<String> {
        self.jobs.iter().map(|series| name(series)).collect()
    }

    /// Curves of the drawn jobs.
    pub(super) fn jobs(&self) -> &[&'a Series] {
        &self.jobs
    }

    fn over_time(&self, highest: f64, label: impl Fn(f64) -> String) -> Plot {
        let length = self.data.length_s() / self.unit.seconds;
        let mut plot = Plot::new(WIDTH, FIELD + 44.0, margins(48.0), (0.0, length), (0.0, highest));
        plot.x_axis(self.unit.name, number);
        plot.y_axis(label);
        plot
    }

    fn x(&self, seconds: f64) -> f64 {
        seconds / self.unit.seconds
    }

    fn rows(&self, from: f64, to: f64, count: usize) -> Plot {
        Plot::new(WIDTH, count as f64 * ROW + 44.0, margins(NAMES), (from, to), (0.0, count as f64))
    }

    /// Draws when each job ran, with a mark at 95 % of its improvement.
    pub(super) fn gantt(&self) -> String {
        let mut plot = self.rows(0.0, self.x(self.data.length_s()), self.jobs.len());
        plot.x_axis(self.unit.name, number);
        for (place, series_of) in self.jobs.iter().enumerate() {
            let y = row(self.jobs.len(), place);
            let end = series_of.seen_s;
            let open = if series_of.end_s.is_none() { ", still running" } else { "" };
            let title = format!("{}: {}{open}", name(series_of), text::duration(series_of.took_s));
            plot.bar((self.x(series_of.start_s), self.x(end)), (y - 0.33, y + 0.33), &series(place), &title);
            if let Some(quality) = series_of.quality_s {
                plot.mark(self.x(quality), y, 7.0, "95 % of its improvement");
            }
            label(&mut plot, y, series_of);
        }
        let description = "One bar for each job, from its start to its end; the mark on a bar shows when it reached 95 % of its improvement.";
        plot.described("gantt", "When each job ran", description)
    }

    /// Draws the measured completion times, and beneath each the estimate for plain sharing with its uncertainty.
    pub(super) fn completions(&self) -> String {
        let ended = self.ended();
        // The axis ends where the longest bar ends. The range of an estimate may go on.
        let bars = ended.iter().flat_map(|(_, job, plain)| [job.took_s, plain.map_or(0.0, |plain| plain.likely)]);
        let longest = 1.1 * bars.fold(1.0, f64::max);
        let unit = unit(longest);
        let mut plot = self.rows(0.0, longest / unit.seconds, ended.len());
        plot.x_axis(unit.name, number);
        for (place, (colour, job, plain)) in ended.iter().enumerate() {
            let y = row(ended.len(), place);
            let real = job.took_s;
            let title = format!("{}: {}", name(job), text::duration(real));
            plot.bar((0.0, real / unit.seconds), (y, y + 0.36), &series(*colour), &title);
            label(&mut plot, y, job);
            let Some(plain) = plain else { continue };
            let estimated = format!(
                "{} under plain sharing, estimated: {} ({} to {})",
                name(job),
                text::duration(plain.likely),
                text::duration(plain.low),
                text::duration(plain.high)
            );
            plot.bar((0.0, plain.likely / unit.seconds), (y - 0.04, y - 0.3), "plain", &estimated);
            let high = plain.high.min(longest);
            plot.line(&[(plain.low / unit.seconds, y - 0.17), (high / unit.seconds, y - 0.17)], "doubt", &estimated);
        }
        let description = "For each job that started and ended in this time, the time it took, and beneath it in grey the estimate for plain sharing; the line is its uncertainty.";
        plot.described("completions", "Completion times", description)
    }

    /// Draws the estimated gain or cost of each job, best first.
    pub(super) fn gains(&self) -> String {
        let mut gains: Vec<(&Series, Range)> =
            self.ended().iter().filter_map(|(_, job, plain)| Some((*job, gain(job, (*plain)?)))).collect();
        gains.sort_by(|a, b| a.1.likely.total_cmp(&b.1.likely));
        let widest = (1.5 * gains.iter().map(|(_, gain)| gain.likely.abs()).fold(0.1, f64::max)).min(2.0);
        let mut plot = self.rows(-widest, widest, gains.len());
        plot.x_axis("completion time compared with plain sharing", signed);
        plot.rule(0.0);
        for (place, (job, gain)) in gains.iter().enumerate() {
            let y = row(gains.len(), place);
            let class = if gain.low > 0.0 {
                "bad"
            } else if gain.high < 0.0 {
                "good"
            } else {
                "plain"
            };
            let title = format!("{}: {}", name(job), words(*gain));
            plot.bar((0.0, gain.likely.clamp(-widest, widest)), (y - 0.3, y + 0.3), class, &title);
            let ends = [(gain.low.clamp(-widest, widest), y), (gain.high.clamp(-widest, widest), y)];
            plot.line(&ends, "doubt", &title);
            label(&mut plot, y, job);
        }
        let description = "For each job that started and ended in this time, the estimated change of its completion time compared with plain sharing; \
                                   left is faster, the line is the uncertainty, grey bars are within it.";
        plot.described("gains", "Estimated gain or cost of each job", description)
    }

    /// Jobs that started and ended in the report, with their colour and their estimated completion time.
    fn ended(&self) -> Vec<(usize, &'a Series, Option<Range>)> {
        let estimated = |job: &Series| {
            let place = self.data.jobs.iter().position(|known| known.job.number == job.job.number)?;
            Some(self.data.estimate.jobs.get(place)?.as_ref()?.completion_s)
        };
        let whole = self.jobs.iter().enumerate().filter(|(_, job)| job.began_here && job.end_s.is_some());
        whole.map(|(colour, job)| (colour, *job, estimated(job))).collect()
    }

    /// Draws the planned shares of the node, stacked.
    pub(super) fn shares(&self) -> String {
        let times = self.times();
        let part =
            |job: &Series, at: f64| if at < job.start_s || at > job.seen_s { 0.0 } else { held(&job.shares, at) };
        let mut plot = self.over_time(1.0, percent);
        self.stack(&mut plot, &times, true, part);
        let description =
            "How the governor divided the node over time when every job wanted more than its share; jobs are stacked.";
        plot.described("shares", "Shares of the node over time", description)
    }

    /// Draws the cores used, stacked.
    pub(super) fn cpu(&self) -> String {
        let times = self.times();
        let used = |job: &Series, from: f64, to: f64| (at_work(job, to) - at_work(job, from)) / (to - from).max(1e-9);
        let spans: Vec<(f64, f64)> = times.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let all = spans.iter().map(|(from, to)| self.jobs.iter().map(|job| used(job, *from, *to)).sum::<f64>());
        let highest = all.fold(0.1, f64::max).min(2.0 * self.data.cores()) * 1.05;
        let mut plot = self.over_time(highest, number);
        let mut lower: Vec<(f64, f64)> =
            spans.iter().flat_map(|(from, to)| [(self.x(*from), 0.0), (self.x(*to), 0.0)]).collect();
        for (place, job) in self.jobs.iter().enumerate() {
            let steps = spans.iter().flat_map(|(from, to)| {
                let cores = used(job, *from, *to);
                [cores, cores]
            });
            let upper: Vec<(f64, f64)> = lower.iter().zip(steps).map(|((x, y), cores)| (*x, y + cores)).collect();
            plot.area(&lower, &upper, &series(place), &name(job));
            lower = upper;
        }
        let description = "Cores that each job used over time; jobs are stacked.";
        plot.described("cpu", "CPU used over time", description)
    }

    fn stack(&self, plot: &mut Plot, times: &[f64], stepped: bool, of: impl Fn(&Series, f64) -> f64) {
        let points = |values: Vec<f64>| -> Vec<(f64, f64)> {
            let xs = times.iter().map(|at| self.x(*at));
            if !stepped {
                return xs.zip(values).collect();
            }
            let next = times.iter().skip(1).chain(times.last()).map(|at| self.x(*at));
            xs.zip(next).zip(values).flat_map(|((from, to), value)| [(from, value), (to, value)]).collect()
        };
        let mut sums = vec![0.0; times.len()];
        let mut lower = points(sums.clone());
        for (place, job) in self.jobs.iter().enumerate() {
            for (sum, at) in sums.iter_mut().zip(times) {
                *sum += of(job, *at);
            }
            let upper = points(sums.iter().map(|sum| sum.min(1.0)).collect());
            plot.area(&lower, &upper, &series(place), &name(job));
            lower = upper;
        }
    }

    /// Evenly spaced instants, and those where a job starts or ends.
    fn times(&self) -> Vec<f64> {
        let length = self.data.length_s();
        let even = (0..=POINTS).map(|n| length * n as f64 / POINTS as f64);
        let edges = self.jobs.iter().flat_map(|job| [job.start_s, job.seen_s]);
        let mut times: Vec<f64> = even.chain(edges).filter(|at| (0.0..=length).contains(at)).collect();
        times.sort_by(f64::total_cmp);
        times.dedup_by(|a, b| (*a - *b).abs() < 1e-3);
        times
    }

    /// Draws the evaluations as fractions of each job's improvement.
    pub(super) fn evaluations(&self) -> String {
        let mut plot = self.over_time(1.05, percent);
        for (place, job) in self.jobs.iter().enumerate() {
            let every = job.improvement.len().div_ceil(POINTS / 2).max(1);
            let last = job.improvement.last().into_iter();
            let thinned = job.improvement.iter().step_by(every).chain(last);
            let points: Vec<(f64, f64)> =
                thinned.map(|(at, part)| (self.x(*at), part.clamp(-0.05, 1.05).max(0.0))).collect();
            if points.len() > 1 {
                plot.line(&points, &series(place), &name(job));
            }
        }
        let description = "Each job's evaluations over time, as fractions of the way from its first to its best.";
        plot.described("evaluations", "Evaluation curves", description)
    }

    /// Draws the node's pressure.
    pub(super) fn pressure(&self) -> String {
        let mut plot = self.over_time(1.0, percent);
        type Of = fn(&api::wire::NodeSample) -> Option<f64>;
        let kinds: [Of; 3] = [|node| node.pressure.cpu, |node| node.pressure.memory, |node| node.pressure.io];
        for (place, (of, name)) in kinds.into_iter().zip(PRESSURES).enumerate() {
            let at = |unix_ms: u64| (unix_ms as f64 - self.data.since as f64).max(0.0) / 1000.0;
            let mut points: Vec<(f64, f64)> =
                self.data.node.iter().filter_map(|node| Some((self.x(at(node.unix_ms)), of(node)?))).collect();
            // A reading holds until the next one.
            points.extend(points.last().map(|last| (self.x(self.data.length_s()), last.1)));
            if points.len() > 1 {
                plot.line(&points, &series(place), name);
            }
        }
        let description = "The fraction of time in which some task on the node waited for CPU, memory or block I/O.";
        plot.described("pressure", "Pressure on the node", description)
    }
}

/// What the picture of a sweep shows.
pub(super) struct Picture<'a> {
    /// Number of the picture on its page.
    pub(super) number: usize,
    /// For each trial its name, and its values by progress.
    pub(super) curves: Vec<(String, Vec<(f64, f64)>)>,
    /// The place of the trial to emphasise.
    pub(super) best: usize,
    /// Unit of progress.
    pub(super) unit: &'a str,
    /// Whether larger values are better.
    pub(super) is_up: bool,
}

/// Draws the curves of all trials of a sweep, the best one on top; `None` without two points of any. Values that are worse than the first
/// of most trials are cut off, so that a trial that diverges does not flatten all others.
pub(super) fn curves_of_sweep(picture: &Picture<'_>) -> Option<String> {
    let points = || picture.curves.iter().flat_map(|(_, points)| points);
    let furthest = points().map(|point| point.0).reduce(f64::max)?;
    let (low, high) = range_of_sweep(picture)?;
    if !picture.curves.iter().any(|(_, points)| points.len() > 1) {
        return None;
    }
    let mut plot = Plot::new(WIDTH, FIELD + 44.0, margins(56.0), (0.0, furthest), (low, high));
    plot.x_axis(picture.unit, number);
    plot.y_axis(number);
    let mut draw = |place: usize, class: &str| {
        let (name, points) = &picture.curves[place];
        let every = points.len().div_ceil(POINTS).max(1);
        let thinned = points.iter().step_by(every).chain(points.last());
        let within: Vec<(f64, f64)> = thinned.map(|(x, y)| (*x, y.clamp(low, high))).collect();
        plot.line(&within, class, name);
    };
    let others = (0..picture.curves.len()).filter(|place| *place != picture.best);
    others.for_each(|place| draw(place, "plain thin"));
    draw(picture.best, "s0 bold");
    let description = "The values of each trial by its progress; the trial with the best value is emphasised.";
    Some(plot.described(&format!("sweep-{}", picture.number), "Curves of a sweep", description))
}

/// The range of values that is drawn: to the best value of all, from the first value of most trials or of the best one.
fn range_of_sweep(picture: &Picture<'_>) -> Option<(f64, f64)> {
    let values = || picture.curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let mut first: Vec<f64> = picture.curves.iter().filter_map(|(_, points)| Some(points.first()?.1)).collect();
    first.sort_by(f64::total_cmp);
    let usual = *first.get(first.len() / 2)?;
    let own = picture.curves.get(picture.best)?.1.first().map_or(usual, |point| point.1);
    let (low, high) = if picture.is_up {
        (usual.min(own), values().reduce(f64::max)?)
    } else {
        (values().reduce(f64::min)?, usual.max(own))
    };
    let room = (0.04 * (high - low)).max(f64::MIN_POSITIVE);
    Some((low - room, high + room))
}

/// The relative change of a job's completion time compared with plain sharing: negative is faster.
pub(super) fn gain(job: &Series, plain: Range) -> Range {
    let real = job.took_s;
    let against = |plain: f64| if plain > 0.0 && plain.is_finite() { real / plain - 1.0 } else { -1.0 };
    Range {
        low: against(plain.high),
        likely: against(plain.likely),
        high: if plain.low > 0.0 { against(plain.low) } else { 1.0 },
    }
}

/// Formats a gain as `-23% (-31% to -12%)`.
pub(super) fn words(gain: Range) -> String {
    format!("{} ({} to {})", signed(gain.likely), signed(gain.low), signed(gain.high))
}

/// Formats a change as a whole percentage with its sign.
pub(super) fn signed(part: f64) -> String {
    let percent = (100.0 * part).round();
    if percent == 0.0 { "0%".to_owned() } else { format!("{percent:+}%") }
}

/// A job's name without control characters.
pub(super) fn name(series: &Series) -> String {
    text::clean(&series.job.name)
}

/// The start and the end of a long name: the names of similar jobs often differ only at the end.
fn short(name: &str) -> String {
    if text::width(name) <= NAME_LONGEST {
        return name.to_owned();
    }
    let end: String = name.chars().rev().take(NAME_END).collect::<Vec<_>>().into_iter().rev().collect();
    format!("{}{end}", text::fit(name, NAME_LONGEST.saturating_sub(text::width(&end))))
}

fn label(plot: &mut Plot, y: f64, job: &Series) {
    let at = plot.y.at(y) + 4.0;
    plot.text(NAMES - 8.0, at, "end", &short(&name(job)));
}

fn row(count: usize, place: usize) -> f64 {
    count as f64 - place as f64 - 0.5
}

fn at_work(job: &Series, at: f64) -> f64 {
    super::estimate::at(&job.work, at)
}

/// The value of a step function at an instant; 0 before its first step.
pub(super) fn held(steps: &[(f64, f64)], at: f64) -> f64 {
    let after = steps.partition_point(|step| step.0 <= at);
    after.checked_sub(1).map_or(0.0, |n| steps[n].1)
}
