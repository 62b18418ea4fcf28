//! The columns of the list: selection, widths and content. Pure.

use super::theme::padded;
use crate::health;
use crate::time_left;
use crate::top::jobs::SortKey;
use crate::top::share::ShareSpan;
use crate::top::spark::spark;
use api::wire::{Container, Metric, Node, Notice};
use term::screen::Tone;
use term::text::{self, clean};

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The name.
    Name,
    /// The condition of the job.
    Health,
    /// The metric's name.
    Metric,
    /// The metric's value and its trend.
    Value,
    /// The metric's recent values.
    Curve,
    /// Growth efficiency.
    Growth,
    /// The share.
    Share,
    /// The share with floor and bound as a bar.
    Bar,
    /// CPU used.
    Cpu,
    /// Memory charged.
    Memory,
    /// Progress.
    Done,
    /// Time left.
    Left,
    /// The 80 % range of the time left.
    Range,
    /// `cpu.weight`.
    Weight,
    /// The reason of the decision.
    Why,
}

/// All columns from left to right.
const ORDER: [Column; 15] = [
    Column::Name,
    Column::Health,
    Column::Metric,
    Column::Value,
    Column::Curve,
    Column::Growth,
    Column::Share,
    Column::Bar,
    Column::Cpu,
    Column::Memory,
    Column::Done,
    Column::Left,
    Column::Range,
    Column::Weight,
    Column::Why,
];

/// Columns by priority, with the width that each needs.
const PRIORITY: [(Column, usize); 14] = [
    (Column::Share, 5),
    (Column::Done, 4),
    (Column::Health, 8),
    (Column::Left, 6),
    (Column::Value, 7),
    (Column::Cpu, 4),
    (Column::Bar, 7),
    (Column::Curve, 7),
    (Column::Memory, 6),
    (Column::Growth, 8),
    (Column::Why, 18),
    (Column::Metric, 10),
    (Column::Range, 14),
    (Column::Weight, 6),
];

/// Distribution of the remaining width: the maximum width of each column, in turn.
const MAX_WIDTHS: [(Column, usize); 8] = [
    (Column::Name, 20),
    (Column::Health, 11),
    (Column::Why, 40),
    (Column::Done, 13),
    (Column::Curve, 16),
    (Column::Bar, 16),
    (Column::Name, 32),
    (Column::Why, 80),
];

/// Width of the cursor and flag at the left edge.
pub(super) const MARGIN: usize = 3;

/// Selects the columns that fit a page, each with its width, from left to right.
pub(super) fn fitting(page: usize) -> Vec<(Column, usize)> {
    let mut left = page.saturating_sub(MARGIN);
    let name = (page / 5).clamp(6, 14).min(left);
    let mut fitting = vec![(Column::Name, name)];
    left -= name;
    for (column, width) in PRIORITY {
        if left > width {
            left -= width + 1;
            fitting.push((column, width));
        } else {
            break;
        }
    }
    for (column, most) in MAX_WIDTHS {
        if let Some((_, width)) = fitting.iter_mut().find(|(known, _)| *known == column) {
            let more = most.saturating_sub(*width).min(left);
            *width += more;
            left -= more;
        }
    }
    fitting.sort_by_key(|(column, _)| ORDER.iter().position(|known| known == column));
    fitting
}

impl Column {
    /// Its title, exactly `columns` wide.
    pub(super) fn title(self, columns: usize) -> String {
        let title = match self {
            Column::Name => "NAME",
            Column::Health => "HEALTH",
            Column::Metric => "METRIC",
            Column::Value => "VALUE",
            Column::Curve => "CURVE",
            Column::Growth => "GROWTH",
            Column::Share => "SHARE",
            Column::Bar if columns < 14 => "OF NODE",
            Column::Bar => "FLOOR NOW BOUND",
            Column::Cpu => "CPU",
            Column::Memory => "MEMORY",
            Column::Done => "DONE",
            Column::Left => "LEFT",
            Column::Range => "80% RANGE",
            Column::Weight => "WEIGHT",
            Column::Why => "WHY",
        };
        padded(title, columns, self.is_number())
    }

    /// The key that sorts by it.
    pub(super) fn sort_key(self) -> Option<SortKey> {
        match self {
            Column::Name => Some(SortKey::Name),
            Column::Health => Some(SortKey::Health),
            Column::Growth => Some(SortKey::Growth),
            Column::Share => Some(SortKey::Share),
            Column::Cpu => Some(SortKey::Cpu),
            Column::Memory => Some(SortKey::Memory),
            Column::Value => Some(SortKey::Value),
            Column::Done => Some(SortKey::Progress),
            Column::Left => Some(SortKey::Left),
            _ => None,
        }
    }

    /// Whether its cell shows a bar or a curve.
    pub(super) fn is_picture(self, columns: usize) -> bool {
        matches!(self, Column::Curve | Column::Bar) || (self == Column::Done && columns >= 9)
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            Column::Value
                | Column::Growth
                | Column::Share
                | Column::Cpu
                | Column::Memory
                | Column::Left
                | Column::Weight
        )
    }

    /// Content of its cell for a job, exactly `columns` wide.
    pub(super) fn cell(self, job: &Container, node: &Node, jobs: usize, columns: usize) -> (Tone, String) {
        let (tone, words) = self.words(job, node, jobs, columns);
        (tone, padded(&clean(&words), columns, self.is_number()))
    }

    fn words(self, job: &Container, node: &Node, jobs: usize, columns: usize) -> (Tone, String) {
        let number = |words: Option<String>| (Tone::Plain, words.unwrap_or_else(|| "–".to_owned()));
        let metric = job.metric.as_ref();
        match self {
            Column::Name => (Tone::Bold, name(job)),
            Column::Health => condition(job, columns),
            Column::Metric => number(metric.map(|metric| metric.name.clone().unwrap_or_else(|| "value".to_owned()))),
            Column::Value => metric.map_or_else(|| number(None), value),
            Column::Curve => (Tone::Accent, metric.map_or_else(String::new, |metric| spark(&metric.recent, columns))),
            Column::Growth => number(job.growth.map(text::number_text)),
            Column::Share => number(job.share.map(text::percent)),
            Column::Bar => (Tone::Accent, ShareSpan::of(job, node, jobs).bar(columns)),
            Column::Cpu => number(job.cpu_used.map(text::percent)),
            Column::Memory => number(job.memory_bytes.map(text::bytes)),
            Column::Done => (Tone::Plain, done(job, columns)),
            Column::Left => number(left(job).map(|(likely, _)| likely)),
            Column::Range => (Tone::Dim, left(job).map_or_else(String::new, |(_, range)| range)),
            Column::Weight => number(job.cpu_weight.map(|weight| weight.to_string())),
            Column::Why => why(job),
        }
    }
}

/// The name, or the short id if the name has no printable characters.
pub(super) fn name(job: &Container) -> String {
    let name = clean(&job.name);
    if name.trim().is_empty() { clean(&job.short_id) } else { name }
}

/// A one-character flag for a special state of a job; the help explains the flags.
pub(super) fn flag(job: &Container) -> (Tone, char) {
    match job.hold.as_ref().map(|hold| hold.kind.as_str()) {
        Some("released") => (Tone::Warn, 'R'),
        Some("settling") => (Tone::Dim, '~'),
        Some(_) => (Tone::Warn, '!'),
        None if job.state == "paused" => (Tone::Dim, 'z'),
        None if job.pinned_share.is_some() => (Tone::Accent, '='),
        None if job.notices.iter().any(Notice::is_warning) => (Tone::Warn, '!'),
        None => (Tone::Plain, ' '),
    }
}

/// The condition; a longer word has a short form for a narrow column.
fn condition(job: &Container, columns: usize) -> (Tone, String) {
    let Some((tone, word)) = health::word(job.health.as_ref()) else { return (Tone::Dim, "–".to_owned()) };
    let short = match word.as_str() {
        _ if text::width(&word) <= columns => &word,
        "overfitting" => "overfits",
        "diverging" => "diverges",
        "GPU waits" => "GPU idle",
        long => long,
    };
    (tone, short.to_owned())
}

/// The value with the mark of its trend.
pub(super) fn value(metric: &Metric) -> (Tone, String) {
    let (tone, mark) = health::trend(metric);
    (tone, format!("{}{mark}", text::value(metric.value)))
}

fn done(job: &Container, columns: usize) -> String {
    let Some(progress) = &job.progress else { return "–".to_owned() };
    // Rounds down: 99.6 % is not done yet.
    let percent = |fraction: f64| format!("{:>3.0}%", (fraction * 100.0).floor());
    match (progress.fraction, progress.current) {
        (Some(fraction), _) if columns >= 9 => format!("{} {}", text::bar(fraction, columns - 5), percent(fraction)),
        (Some(fraction), _) => percent(fraction),
        (None, Some(current)) => {
            let of = progress.claimed_total.map_or_else(String::new, |total| format!("/~{}", text::number_text(total)));
            let count = format!("{}{of}", text::number_text(current));
            let whole = format!("{} {count}", progress.unit);
            let shown = [&whole, &count].into_iter().find(|words| columns >= 9 && text::width(words) <= columns);
            shown.cloned().unwrap_or_else(|| text::number_text(current))
        }
        (None, None) => "–".to_owned(),
    }
}

/// The time left and its 80 % range.
pub(super) fn left(job: &Container) -> Option<(String, String)> {
    Some(time_left::in_words(job.progress.as_ref()?.remaining_s?))
}

/// The reason for the share, or for the hold.
pub(super) fn why(job: &Container) -> (Tone, String) {
    match &job.hold {
        Some(hold) if hold.kind == "settling" => (Tone::Dim, hold.why.clone()),
        Some(hold) => (Tone::Warn, hold.why.clone()),
        None => (Tone::Plain, job.why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::{containers, status};

    fn total_width(columns: &[(Column, usize)]) -> usize {
        MARGIN + columns.iter().map(|(_, width)| width).sum::<usize>() + columns.len() - 1
    }

    #[test]
    fn the_columns_fit_any_page_with_room_for_a_name() {
        for page in 9..400 {
            let columns = fitting(page);
            assert!(total_width(&columns) <= page, "{page}: {columns:?}");
            assert_eq!(columns[0].0, Column::Name);
        }
    }

    #[test]
    fn a_wider_page_never_shows_fewer_columns() {
        for page in 10..300 {
            assert!(fitting(page + 1).len() >= fitting(page).len(), "{page}");
        }
        assert_eq!(fitting(200).len(), ORDER.len());
        let at_80: Vec<Column> = fitting(80).into_iter().map(|(column, _)| column).collect();
        for needed in
            [Column::Health, Column::Curve, Column::Bar, Column::Cpu, Column::Memory, Column::Done, Column::Left]
        {
            assert!(at_80.contains(&needed), "{needed:?} is not in {at_80:?}");
        }
    }

    #[test]
    fn a_claimed_total_is_marked() {
        let mut job = containers().remove(0);
        let progress = job.progress.as_mut().expect("it counts");
        (progress.current, progress.total, progress.fraction) = (Some(12.0), None, None);
        progress.claimed_total = Some(50.0);
        assert_eq!([13, 9, 4].map(|columns| done(&job, columns)), ["epoch 12/~50", "12/~50", "12"]);
    }

    #[test]
    fn each_cell_is_as_wide_as_its_column() {
        let status = status(containers());
        for column in ORDER {
            for columns in [1, 4, 5, 9, 13, 40] {
                for job in &status.containers {
                    let (_, words) = column.cell(job, &status.node, 4, columns);
                    assert_eq!(text::width(&words), columns, "{column:?}: {words:?}");
                }
                assert_eq!(text::width(&column.title(columns)), columns);
            }
        }
    }
}
