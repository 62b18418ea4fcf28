//! Gradient-boosted regression trees on histograms; prints in the format of XGBoost.
//!
//! Squared error, so a tree is fitted to residuals: a split's gain is GL²/(nL+λ) + GR²/(nR+λ) − G²/(n+λ) with G the sum of
//! residuals (Chen and Guestrin 2016, equation 7). The table is Friedman's first test function (1991) with noise and idle columns.

use super::worker_pool::with_workers;
use super::{Amount, generator, normal, print_line};
use rand::RngExt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError, RwLock};

const COLUMNS: usize = 20;
const BINS: usize = 64;
const DEPTH: usize = 5;
/// Maximum number of nodes in a level.
const NODES: usize = 1 << DEPTH;
const LEARNING_RATE: f32 = 0.03;
/// λ of the gain and the leaf values.
const SHRINKAGE: f64 = 1.0;

/// Binned columns and the targets.
struct Table {
    /// For each column, the bin of each row.
    columns: Vec<Vec<u8>>,
    targets: Vec<f32>,
}

impl Table {
    fn draw(rows: usize, seed: u64, stream: u64) -> Table {
        let mut rng = generator(seed, stream);
        let mut columns = vec![Vec::new(); COLUMNS];
        let mut targets = Vec::with_capacity(rows);
        for _ in 0..rows {
            let x: [f32; COLUMNS] = std::array::from_fn(|_| rng.random());
            let wave = 10.0 * (std::f32::consts::PI * x[0] * x[1]).sin();
            let clean = wave + 20.0 * (x[2] - 0.5).powi(2) + 10.0 * x[3] + 5.0 * x[4];
            targets.push(clean + normal(&mut rng));
            columns.iter_mut().zip(x).for_each(|(column, value)| column.push((value * BINS as f32) as u8));
        }
        Table { columns, targets }
    }
}

/// One level's histogram of one column: sum of residuals and rows for each node and bin.
#[derive(Clone)]
struct Histogram {
    sums: Vec<f64>,
    rows: Vec<u32>,
    best: Vec<Option<Split>>,
}

/// A split of a node: rows with a bin above `bin` go right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    gain: f64,
    column: usize,
    bin: u8,
}

/// Shared input of the workers that build histograms.
struct Level {
    residuals: Vec<f32>,
    /// The node of the current level that each row is in.
    node_of_row: Vec<u8>,
    nodes: usize,
}

/// A complete tree: the splits of each level (an unsplit node sends every row left) and the leaves' values.
struct Tree {
    levels: Vec<Vec<Option<Split>>>,
    leaves: Vec<f32>,
}

impl Tree {
    fn leaf(&self, table: &Table, row: usize) -> usize {
        self.levels.iter().fold(0, |node, splits| 2 * node + usize::from(goes_right(splits[node], table, row)))
    }
}

fn goes_right(split: Option<Split>, table: &Table, row: usize) -> bool {
    split.is_some_and(|split| table.columns[split.column][row] > split.bin)
}

fn build_histogram(column: usize, bins: &[u8], level: &Level, histogram: &mut Histogram) {
    let cells = level.nodes * BINS;
    histogram.sums[..cells].fill(0.0);
    histogram.rows[..cells].fill(0);
    for ((&bin, &node), &residual) in bins.iter().zip(&level.node_of_row).zip(&level.residuals) {
        let cell = usize::from(node) * BINS + usize::from(bin);
        histogram.sums[cell] += f64::from(residual);
        histogram.rows[cell] += 1;
    }
    for node in 0..level.nodes {
        let cells = node * BINS..(node + 1) * BINS;
        histogram.best[node] = best_split(column, &histogram.sums[cells.clone()], &histogram.rows[cells]);
    }
}

fn best_split(column: usize, sums: &[f64], rows: &[u32]) -> Option<Split> {
    let worth = |sum: f64, rows: f64| sum * sum / (rows + SHRINKAGE);
    let (all, all_rows) = (sums.iter().sum::<f64>(), f64::from(rows.iter().sum::<u32>()));
    let (mut left, mut left_rows) = (0.0, 0.0);
    let mut best: Option<Split> = None;
    for bin in 0..BINS - 1 {
        left += sums[bin];
        left_rows += f64::from(rows[bin]);
        if left_rows < 1.0 || left_rows >= all_rows {
            continue;
        }
        let gain = worth(left, left_rows) + worth(all - left, all_rows - left_rows) - worth(all, all_rows);
        if gain > best.map_or(1e-9, |split| split.gain) {
            best = Some(Split { gain, column, bin: bin as u8 });
        }
    }
    best
}

/// Returns the best split of each node over all columns; the lowest column on a tie.
fn choose_splits(histograms: &[Mutex<Histogram>], nodes: usize) -> Vec<Option<Split>> {
    let mut chosen: Vec<Option<Split>> = vec![None; nodes];
    for histogram in histograms {
        let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        for (best, candidate) in chosen.iter_mut().zip(&histogram.best) {
            if candidate.is_some_and(|split| best.is_none_or(|b| split.gain > b.gain)) {
                *best = *candidate;
            }
        }
    }
    chosen
}

fn leaf_values(level: &Level) -> Vec<f32> {
    let (mut sums, mut rows) = (vec![0.0f64; level.nodes], vec![0.0f64; level.nodes]);
    for (&node, &residual) in level.node_of_row.iter().zip(&level.residuals) {
        sums[usize::from(node)] += f64::from(residual);
        rows[usize::from(node)] += 1.0;
    }
    sums.iter().zip(rows).map(|(sum, rows)| LEARNING_RATE * (sum / (rows + SHRINKAGE)) as f32).collect()
}

/// Grows one tree on `level.residuals`; `build_histograms` processes every column of the level.
fn grow(table: &Table, level: &RwLock<Level>, histograms: &[Mutex<Histogram>], build_histograms: &dyn Fn()) -> Tree {
    let mut levels = Vec::with_capacity(DEPTH);
    for depth in 0..DEPTH {
        build_histograms();
        let splits = choose_splits(histograms, 1 << depth);
        let mut level = level.write().unwrap_or_else(PoisonError::into_inner);
        for (row, node) in level.node_of_row.iter_mut().enumerate() {
            let right = goes_right(splits[usize::from(*node)], table, row);
            *node = 2 * *node + u8::from(right);
        }
        level.nodes = 2 << depth;
        levels.push(splits);
    }
    let leaves = leaf_values(&level.read().unwrap_or_else(PoisonError::into_inner));
    Tree { levels, leaves }
}

fn root_mean_square(residuals: &[f32]) -> f64 {
    let sum: f64 = residuals.iter().map(|residual| f64::from(*residual).powi(2)).sum();
    (sum / residuals.len() as f64).sqrt()
}

/// Prints `[12]\ttrain-rmse:1.53201\ttest-rmse:1.60512` for each round, counted from 0.
pub(super) fn train(amount: Amount, log: &mut dyn Write) -> io::Result<f64> {
    let table = Table::draw(amount.size, amount.seed, 0);
    let held_out = Table::draw(amount.size / 5, amount.seed, 1);
    let mean = table.targets.iter().sum::<f32>() / table.targets.len() as f32;
    let mut test_residuals: Vec<f32> = held_out.targets.iter().map(|target| target - mean).collect();
    let level = RwLock::new(Level {
        residuals: table.targets.iter().map(|target| target - mean).collect(),
        node_of_row: vec![0; table.targets.len()],
        nodes: 1,
    });
    let empty = Histogram { sums: vec![0.0; NODES * BINS], rows: vec![0; NODES * BINS], best: vec![None; NODES] };
    let histograms: Vec<Mutex<Histogram>> = (0..COLUMNS).map(|_| Mutex::new(empty.clone())).collect();

    let do_column = |column: usize| {
        let level = level.read().unwrap_or_else(PoisonError::into_inner);
        let mut histogram = histograms[column].lock().unwrap_or_else(PoisonError::into_inner);
        build_histogram(column, &table.columns[column], &level, &mut histogram);
    };
    with_workers(amount.threads, COLUMNS, do_column, |do_all_columns| {
        let mut train_rmse = 0.0;
        for round in 0..amount.epochs {
            let tree = grow(&table, &level, &histograms, do_all_columns);
            {
                let mut level = level.write().unwrap_or_else(PoisonError::into_inner);
                let Level { residuals, node_of_row, nodes } = &mut *level;
                for (residual, node) in residuals.iter_mut().zip(node_of_row.iter_mut()) {
                    *residual -= tree.leaves[usize::from(*node)];
                    *node = 0;
                }
                *nodes = 1;
                train_rmse = root_mean_square(residuals);
            }
            for (row, residual) in test_residuals.iter_mut().enumerate() {
                *residual -= tree.leaves[tree.leaf(&held_out, row)];
            }
            let test_rmse = root_mean_square(&test_residuals);
            print_line(log, format_args!("[{round}]\ttrain-rmse:{train_rmse:.5}\ttest-rmse:{test_rmse:.5}"))?;
        }
        Ok(train_rmse)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_split_is_where_the_residuals_change() {
        let sums: Vec<f64> = (0..BINS).map(|bin| if bin <= 20 { -3.0 } else { 3.0 }).collect();
        let split = best_split(4, &sums, &vec![3; BINS]).expect("a split has a gain");
        assert_eq!((split.column, split.bin), (4, 20));
    }

    #[test]
    fn equal_residuals_are_not_split() {
        assert_eq!(best_split(0, &vec![0.0; BINS], &vec![3; BINS]), None);
        assert_eq!(best_split(0, &vec![5.0; BINS], &[vec![0; BINS - 1], vec![9]].concat()), None);
    }
}
