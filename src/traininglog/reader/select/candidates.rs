//! The ranked candidate series of a log. A weak, rarely seen series is evicted for a new one.

use super::series::{Named, Series, SeriesKey, SeriesState, recurrence};
use super::validation;
use crate::Direction;

/// Maximum number of series.
pub(crate) const SERIES_MAX: usize = 80;

/// All candidates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    series: Vec<Series>,
    generation: u16,
    /// The current line.
    line: u64,
}

impl Candidates {
    /// Forgets all series; keys of them become invalid.
    pub(crate) fn clear(&mut self) {
        self.series.clear();
    }

    /// Sets the current line.
    pub(crate) fn at_line(&mut self, line: u64) {
        self.line = line;
    }

    /// Returns the slot and generation of a series; adds the series if it is new.
    pub(crate) fn intern(&mut self, named: &Named<'_>) -> (u16, u16) {
        if let Some(slot) = self.series.iter().position(|series| series.is(named)) {
            return (slot as u16, self.series[slot].generation);
        }
        if let Some(slot) = self.begun(named) {
            let series = &mut self.series[slot];
            (series.signature, series.first_line) = (named.signature, self.line);
            return (slot as u16, series.generation);
        }
        self.generation = self.generation.wrapping_add(1);
        let series = Series::new(named, self.generation, self.line);
        if self.series.len() < SERIES_MAX {
            self.series.push(series);
            return ((self.series.len() - 1) as u16, self.generation);
        }
        let weakest = (0..SERIES_MAX).min_by_key(|slot| self.series[*slot].kept_until()).unwrap_or(0);
        self.series[weakest] = series;
        (weakest as u16, self.generation)
    }

    /// Returns the series without a counter that `named`, with a counter, continues.
    pub(crate) fn beginning_of(&self, named: &Named<'_>) -> Option<SeriesKey> {
        let slot = self.begun(named)?;
        Some(SeriesKey { slot: slot as u16, generation: self.series[slot].generation })
    }

    fn begun(&self, named: &Named<'_>) -> Option<usize> {
        let known = self.series.iter().any(|series| series.is(named));
        self.series.iter().position(|series| series.begins(named)).filter(|_| !known)
    }

    /// Restores a series of an earlier reader.
    pub(crate) fn restore(&mut self, state: &SeriesState) -> (u16, u16) {
        let (slot, generation) = self.intern(&state.named());
        if let Some(series) = self.get_mut(slot, generation) {
            series.resume(state);
        }
        (slot, generation)
    }

    pub(crate) fn get(&self, slot: u16, generation: u16) -> Option<&Series> {
        self.series.get(usize::from(slot)).filter(|series| series.generation == generation)
    }

    pub(crate) fn get_mut(&mut self, slot: u16, generation: u16) -> Option<&mut Series> {
        self.series.get_mut(usize::from(slot)).filter(|series| series.generation == generation)
    }

    pub(crate) fn all(&self) -> &[Series] {
        &self.series
    }

    /// Returns the possible evaluation functions with their scores, best first.
    pub(crate) fn ranked(&self) -> Vec<(u16, f64)> {
        let named = self.series.iter().filter(|series| series.weight > 0.0);
        let most = recurrence(named.map(|series| series.count).max().unwrap_or(1));
        let counted =
            self.series.iter().any(|series| series.signature != 0 && series.weight >= 0.4 && series.count >= 2);
        let nameless = self.series.iter().filter(|series| series.weight == 0.0 && series.count >= 2).count();
        let mut ranked: Vec<(u16, f64)> = self
            .series
            .iter()
            .enumerate()
            .map(|(slot, series)| (slot as u16, series.score(most, nameless, counted)))
            .filter(|(_, score)| *score > 0.0)
            .collect();
        validation::lift(&self.series, &mut ranked);
        ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        ranked
    }

    /// Returns the direction in which a series improves: by its name, by a printed best value, or by its trend.
    pub(crate) fn direction(&self, series: &Series) -> Option<Direction> {
        // Names such as `score` are ambiguous: DL4J's falls, a game's rises. The long-term trend decides.
        if series.contradicts() && series.is_softly_named() {
            return series
                .named_direction
                .map(|direction| if direction == Direction::Up { Direction::Down } else { Direction::Up });
        }
        series.named_direction.or_else(|| {
            let best = self.series.iter().find(|other| {
                let name = other.name.to_lowercase();
                (name.contains("best") || name.ends_with("#2"))
                    && name.contains(&series.name.to_lowercase())
                    && other.named_direction.is_none()
            });
            match best.map(|best| (best.rises, best.falls)) {
                Some((1.., 0)) => Some(Direction::Up),
                Some((0, 1..)) => Some(Direction::Down),
                _ if series.count < 3 || series.moved() == 0.0 => None,
                _ => Some(if series.moved() < 0.0 { Direction::Down } else { Direction::Up }),
            }
        })
    }
}
