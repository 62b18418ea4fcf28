//! Matrix factorisation of ratings by alternating least squares (Zhou et al. 2008); prints the error of each iteration.
//!
//! Each user's factors solve (VᵀV + λ·n·I) u = Vᵀr over the items that the user rated, and vice versa.

use super::matrix::{Matrix, add_scaled, dot};
use super::worker_pool::with_workers;
use super::{Amount, generator, normal, print_line};
use rand::RngExt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError, RwLock};

const RANK: usize = 24;
/// Rank of the matrix that the ratings are drawn from.
const TRUE_RANK: usize = 12;
const RATINGS_PER_USER: usize = 60;
/// λ.
const SHRINKAGE: f32 = 0.02;
/// Number of shards of the users and of the items.
const SHARDS: usize = 16;

/// For each row, the indices of the other side with the ratings.
type Ratings = Vec<Vec<(u32, f32)>>;

fn draw_ratings(count: usize, seed: u64) -> (Ratings, Ratings) {
    let mut rng = generator(seed, 0);
    let users = count.div_ceil(RATINGS_PER_USER);
    let items = (users / 2).max(RATINGS_PER_USER);
    let mut hidden = Matrix::zeros(users + items, TRUE_RANK);
    hidden.values.iter_mut().for_each(|value| *value = normal(&mut rng));
    let (mut by_user, mut by_item): (Ratings, Ratings) = (vec![Vec::new(); users], vec![Vec::new(); items]);
    for number in 0..count {
        let (user, item) = (number % users, rng.random_range(0..items));
        let clean = dot(hidden.row(user), hidden.row(users + item)) / (TRUE_RANK as f32).sqrt();
        let rating = clean + 0.2 * normal(&mut rng);
        by_user[user].push((item as u32, rating));
        by_item[item].push((user as u32, rating));
    }
    (by_user, by_item)
}

/// Computes the factors of one row that fit its ratings best, with the other side fixed; returns the squared error.
fn solve_row(ratings: &[(u32, f32)], others: &Matrix, into: &mut [f32]) -> f64 {
    let mut normal_matrix = [[0.0f32; RANK]; RANK];
    let mut right_side = [0.0f32; RANK];
    for &(other, rating) in ratings {
        let factors = others.row(other as usize);
        add_scaled(&mut right_side, rating, factors);
        for (row, &factor) in normal_matrix.iter_mut().zip(factors) {
            add_scaled(row, factor, factors);
        }
    }
    for (diagonal, row) in normal_matrix.iter_mut().enumerate() {
        row[diagonal] += SHRINKAGE * ratings.len().max(1) as f32;
    }
    solve(&mut normal_matrix, &mut right_side);
    into.copy_from_slice(&right_side);
    ratings.iter().map(|&(other, rating)| f64::from(rating - dot(into, others.row(other as usize))).powi(2)).sum()
}

/// Solves A·x = b for a symmetric positive definite A by Cholesky's decomposition; x replaces b.
fn solve(a: &mut [[f32; RANK]; RANK], b: &mut [f32; RANK]) {
    for column in 0..RANK {
        for row in column..RANK {
            let known = dot(&a[row][..column], &a[column][..column]);
            let rest = a[row][column] - known;
            a[row][column] = if row == column { rest.max(1e-12).sqrt() } else { rest / a[column][column] };
        }
    }
    for row in 0..RANK {
        b[row] = (b[row] - dot(&a[row][..row], &b[..row])) / a[row][row];
    }
    for row in (0..RANK).rev() {
        let known: f32 = (row + 1..RANK).map(|below| a[below][row] * b[below]).sum();
        b[row] = (b[row] - known) / a[row][row];
    }
}

/// The side to be solved, and the fixed factors of the other side.
struct Half<'a> {
    ratings: &'a Ratings,
    others: Matrix,
}

#[derive(Default)]
struct Solved {
    factors: Vec<f32>,
    squared_error: f64,
}

fn solve_shard(half: &Half<'_>, shard: usize, solved: &mut Solved) {
    let at = |n: usize| n * half.ratings.len() / SHARDS;
    let rows = &half.ratings[at(shard)..at(shard + 1)];
    solved.factors.resize(rows.len() * RANK, 0.0);
    let targets = rows.iter().zip(solved.factors.chunks_exact_mut(RANK));
    solved.squared_error = targets.map(|(ratings, into)| solve_row(ratings, &half.others, into)).sum();
}

/// Prints `Iteration 3/50: rmse = 0.412345` for each iteration.
pub(super) fn train(amount: Amount, log: &mut dyn Write) -> io::Result<f64> {
    let (by_user, by_item) = draw_ratings(amount.size, amount.seed);
    let mut rng = generator(amount.seed, 1);
    let mut items = Matrix::zeros(by_item.len(), RANK);
    items.values.iter_mut().for_each(|value| *value = 0.1 * normal(&mut rng));
    let half = RwLock::new(Half { ratings: &by_user, others: items });
    let shards: Vec<Mutex<Solved>> = (0..SHARDS).map(|_| Mutex::new(Solved::default())).collect();

    let do_shard = |shard: usize| {
        let half = half.read().unwrap_or_else(PoisonError::into_inner);
        solve_shard(&half, shard, &mut shards[shard].lock().unwrap_or_else(PoisonError::into_inner));
    };
    with_workers(amount.threads, SHARDS, do_shard, |do_all_shards| {
        let mut error = 0.0;
        for iteration in 1..=amount.epochs {
            let mut squared_error = 0.0;
            for next in [&by_item, &by_user] {
                do_all_shards();
                let mut half = half.write().unwrap_or_else(PoisonError::into_inner);
                let mut factors = Vec::with_capacity(half.ratings.len() * RANK);
                squared_error = 0.0;
                for solved in &shards {
                    let solved = solved.lock().unwrap_or_else(PoisonError::into_inner);
                    factors.extend_from_slice(&solved.factors);
                    squared_error += solved.squared_error;
                }
                half.others = Matrix { rows: half.ratings.len(), columns: RANK, values: factors };
                half.ratings = next;
            }
            error = (squared_error / amount.size as f64).sqrt();
            print_line(log, format_args!("Iteration {iteration}/{}: rmse = {error:.6}", amount.epochs))?;
        }
        Ok(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_solver_inverts_a_symmetric_positive_definite_matrix() {
        let mut rng = generator(3, 0);
        let mut roots = Matrix::zeros(RANK, RANK);
        roots.values.iter_mut().for_each(|value| *value = normal(&mut rng));
        let mut a = [[0.0; RANK]; RANK];
        for (row, values) in a.iter_mut().enumerate() {
            for (column, value) in values.iter_mut().enumerate() {
                *value = dot(roots.row(row), roots.row(column)) + f32::from(u8::from(row == column));
            }
        }
        let wanted: [f32; RANK] = std::array::from_fn(|n| n as f32 - 10.0);
        let mut b: [f32; RANK] = std::array::from_fn(|row| dot(&a[row], &wanted));
        solve(&mut a.clone(), &mut b);
        for (found, wanted) in b.iter().zip(wanted) {
            assert!((found - wanted).abs() < 0.02, "{found} for {wanted}");
        }
    }

    #[test]
    fn fitted_factors_minimise_the_regularised_error() {
        let (by_user, by_item) = draw_ratings(640, 3);
        let mut rng = generator(4, 0);
        let mut items = Matrix::zeros(by_item.len(), RANK);
        items.values.iter_mut().for_each(|value| *value = normal(&mut rng));
        let mut fitted = vec![0.0; RANK];
        solve_row(&by_user[0], &items, &mut fitted);
        let objective = |factors: &[f32]| {
            let error: f32 = by_user[0].iter().map(|&(i, r)| (r - dot(factors, items.row(i as usize))).powi(2)).sum();
            error + SHRINKAGE * by_user[0].len() as f32 * dot(factors, factors)
        };
        let best = objective(&fitted);
        for unit in 0..RANK {
            for nudge in [-0.05, 0.05] {
                let mut moved = fitted.clone();
                moved[unit] += nudge;
                assert!(objective(&moved) > best, "unit {unit}, {nudge}");
            }
        }
    }
}
