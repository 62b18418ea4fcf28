//! Reads the log of any training: finds the metric and the progress, fits the learning curve, and forecasts the end.
//!
//! Training programs print what they know about themselves, but each in its own way: `Epoch 3/10 - loss: 0.41`, a progress bar that redraws
//! itself, a table, CSV, JSON lines, TensorBoard events. This crate reads them all with the same rules. It knows no framework by name:
//! it finds names, numbers, tables and counters, and ranks the series that they form.
//!
//! ```
//! use traininglog::{Direction, Hints, Millis, ProgressUnit, Tracker};
//!
//! let mut tracker = Tracker::new(&Hints::default());
//! let mut now = Millis(0);
//! for epoch in 1..=12 {
//!     let loss = 0.2 + (-f64::from(epoch) / 4.0).exp();
//!     now = now.after(Millis::from_secs(30));
//!     tracker.push(format!("Epoch {epoch}/40 - lr: 0.001 - loss: {loss:.4}\n").as_bytes(), now);
//!     if epoch % 2 == 0 {
//!         tracker.close_interval(now); // fits the curve
//!     }
//! }
//!
//! let learning = tracker.peek(now);
//! assert_eq!((learning.metric.as_deref(), learning.direction), (Some("loss"), Some(Direction::Down)));
//! assert!(learning.confidence > 0.9);
//! let progress = learning.progress.expect("the log counts epochs");
//! assert_eq!((progress.unit, progress.current, progress.total), (ProgressUnit::Epoch, 12.0, Some(40.0)));
//! assert_eq!(learning.units_to_completion.map(|left| left.likely), Some(28.0));
//! assert!(learning.units_per_second.is_some_and(|rate| (rate * 30.0 - 1.0).abs() < 0.1)); // epochs
//! assert!(learning.curve.is_some_and(|curve| curve.quality > 0.8)); // of the final improvement
//! ```
//!
//! # What it does
//!
//! - [`Tracker`] follows a log while it grows, and answers with a [`Learning`]: the metric and its latest value, the progress, the gain of
//!   the last interval, the fitted [`Curve`], and the units left until completion and until 95 % of the final improvement.
//! - [`survey`] reads a whole log and returns every value, with its line number, and all other candidates.
//! - [`Hints`] are what the caller knows better: the metric's name, the total, a [`pattern`] of the lines to read.
//! - [`claim`] finds the length of a training in its command, environment and configuration, for logs that do not print it.
//! - [`PriorRun`] is the curve of a completed run: the best forecast for another run of the same training.
//! - [`Checkpoint`] and [`LearningRecord`] let a tracker continue in the middle of a log, after a restart or on another machine.
//!
//! Text is read as a terminal shows it: control sequences, redrawn bars and backspaces are resolved. UTF-16, `json-file` logs of container
//! engines and TensorBoard event files are recognised by their first bytes. `cargo run --example watch FILE` follows a log.
//!
//! # How the metric is chosen
//!
//! Each series of numbers that is printed under the same name is a candidate, and is scored by its name, its frequency and its trend:
//!
//! - The words of the name are looked up: `val_acc`, `TrainDeviance` and `ep_rew_mean` measure learning; a time, a size, a setting or a
//!   spread does not. The words also give the [`Direction`].
//! - A frequent series outranks a rare one, and a series that is printed with a counter outranks one that is not.
//! - A constant is a setting, and a "loss" that only grows is probably a sum: both score less. So does a column of a list, such as the
//!   members of a population.
//! - The validation of a quantity outranks its training value, if it is printed at least half as often and has improved.
//! - A series with an unknown name counts only if it is nearly alone, frequent, and moves in one direction.
//!
//! The choice may be revised while the log grows, if another series is clearly better. What was answered before is not.
//!
//! # Confidence
//!
//! [`Learning::confidence`] is from 0 to 1. It is high if the name is typical, at least five values were read, the direction is known, and
//! the values vary, are printed with a counter, and move as the name says; each of these that is missing lowers it. It is 1 if the hints
//! name the metric or have a pattern, and never more than 0.99 otherwise. Below 0.5 the reading is a guess. Nothing is found rather than
//! something unlikely: [`Learning::metric`] is then `None`.
//!
//! # Bounds
//!
//! - The reader of a stream takes at most 64 KiB, and the history of its evaluations some KiB more, for any content and any length of the
//!   log: endless lines, a new name on each line, nested braces (`tests/memory.rs`). A [`survey`] keeps all values of the metric instead.
//! - Reading takes linear time; matching a [`pattern`] takes at most about a millisecond per line.
//! - Answers do not depend on how the bytes are cut.
//! - Instants are the caller's: [`Millis`] on any clock that does not go backwards.
//!
//! # What it never does
//!
//! - It has no clock, and opens no files, sockets, threads or random numbers: the same bytes at the same instants give the same answers.
//! - It never fails or panics on a log, however broken: what cannot be read is skipped.
//! - It contains no unsafe code.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod claim;
mod curve;
#[cfg(test)]
mod formats_tests;
mod hints;
mod learning;
mod millis;
mod number;
#[cfg(test)]
mod numbers_tests;
pub mod pattern;
mod plausible;
mod prior_run;
#[cfg(test)]
mod properties_tests;
mod reader;
mod record;
#[cfg(test)]
mod record_tests;
pub mod survey;
mod tracker;
#[cfg(test)]
mod tracker_tests;

pub use hints::Hints;
pub use learning::{
    Curve, Decline, Direction, Estimate, Evaluation, Gain, Learning, Phase, PrintedMean, Progress, ProgressUnit, Streak,
};
pub use millis::Millis;
pub use prior_run::PriorRun;
pub use reader::{CriFile, JsonFile, LogFile};
pub use record::LearningRecord;
pub use tracker::{Checkpoint, Tracker};

/// The example in the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
struct Readme;
