//! Dense `f32` matrices in row-major order, and the three products needed for training.
//!
//! The inner loops run over contiguous slices of equal length, so that the compiler vectorises them.

/// A matrix that owns its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    /// `rows × columns` values in row-major order.
    pub values: Vec<f32>,
}

impl Matrix {
    pub(super) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub(super) fn view(&self) -> View<'_> {
        View { rows: self.rows, columns: self.columns, values: &self.values }
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub(super) fn map(mut self, change: impl Fn(f32) -> f32) -> Matrix {
        self.values.iter_mut().for_each(|value| *value = change(*value));
        self
    }
}

/// A matrix with borrowed values, for example parameters of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub rows: usize,
    pub columns: usize,
    pub values: &'a [f32],
}

impl<'a> View<'a> {
    /// Creates a view; `values.len()` must be `rows × columns`.
    pub(super) fn new(rows: usize, columns: usize, values: &'a [f32]) -> View<'a> {
        assert_eq!(values.len(), rows * columns, "a {rows} × {columns} matrix");
        View { rows, columns, values }
    }

    pub(super) fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }
}

/// `into += factor · row`.
pub(super) fn add_scaled(into: &mut [f32], factor: f32, row: &[f32]) {
    for (sum, value) in into.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

/// Σ a·b, in eight partial sums for vectorisation.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

/// a·b: (m × k)(k × n).
pub(super) fn product(a: View<'_>, b: View<'_>) -> Matrix {
    assert_eq!(a.columns, b.rows, "inner dimensions");
    let mut result = Matrix::zeros(a.rows, b.columns);
    for row in 0..a.rows {
        let into = result.row_mut(row);
        for (inner, &factor) in a.row(row).iter().enumerate() {
            if factor != 0.0 {
                add_scaled(into, factor, b.row(inner));
            }
        }
    }
    result
}

/// a·bᵀ: (m × k)(n × k)ᵀ.
pub(super) fn product_transposed(a: View<'_>, b: View<'_>) -> Matrix {
    assert_eq!(a.columns, b.columns, "inner dimensions");
    let mut result = Matrix::zeros(a.rows, b.rows);
    for row in 0..a.rows {
        let left = a.row(row);
        for (column, value) in result.row_mut(row).iter_mut().enumerate() {
            *value = dot(left, b.row(column));
        }
    }
    result
}

/// into += aᵀ·b: (k × m)ᵀ(k × n); `into` is m × n.
pub(super) fn add_transposed_product(a: View<'_>, b: View<'_>, into: &mut [f32]) {
    assert_eq!(a.rows, b.rows, "inner dimensions");
    assert_eq!(into.len(), a.columns * b.columns, "the result's size");
    for inner in 0..a.rows {
        for (factor, sum) in a.row(inner).iter().zip(into.chunks_exact_mut(b.columns)) {
            if *factor != 0.0 {
                add_scaled(sum, *factor, b.row(inner));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: usize, columns: usize, values: &[f32]) -> Matrix {
        View::new(rows, columns, values);
        Matrix { rows, columns, values: values.to_vec() }
    }

    #[test]
    fn the_three_products_agree_with_a_calculation_by_hand() {
        let a = matrix(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = matrix(3, 2, &[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
        assert_eq!(product(a.view(), b.view()).values, [58.0, 64.0, 139.0, 154.0]);

        let b_transposed = matrix(2, 3, &[7.0, 9.0, 11.0, 8.0, 10.0, 12.0]);
        assert_eq!(product_transposed(a.view(), b_transposed.view()).values, [58.0, 64.0, 139.0, 154.0]);

        let a_transposed = matrix(3, 2, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let mut sum = vec![1.0; 4];
        add_transposed_product(a_transposed.view(), b.view(), &mut sum);
        assert_eq!(sum, [59.0, 65.0, 140.0, 155.0]);
    }

    #[test]
    fn a_dot_product_includes_the_values_after_the_last_full_block() {
        let ones = vec![1.0; 19];
        let numbers: Vec<f32> = (0..19).map(|n| n as f32).collect();
        assert_eq!(dot(&ones, &numbers), 171.0);
    }
}
