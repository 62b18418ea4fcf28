//! Draws images of handwritten digits: strokes, shifted, rotated, scaled, of varying thickness, with noise.

use super::matrix::Matrix;
use super::{generator, normal};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Width and height of an image in pixels.
pub(super) const SIDE: usize = 16;
/// Number of pixels of an image.
pub(super) const PIXELS: usize = SIDE * SIDE;
/// Number of digits.
pub(super) const CLASSES: usize = 10;

/// A stroke's corner points in the unit square, y downwards.
type Stroke = &'static [(f32, f32)];

const STROKES: [&[Stroke]; CLASSES] = [
    &[&[
        (0.5, 0.1),
        (0.25, 0.25),
        (0.2, 0.55),
        (0.3, 0.85),
        (0.5, 0.92),
        (0.7, 0.85),
        (0.8, 0.55),
        (0.75, 0.25),
        (0.5, 0.1),
    ]],
    &[&[(0.35, 0.25), (0.55, 0.1), (0.55, 0.9)]],
    &[&[(0.25, 0.28), (0.4, 0.12), (0.65, 0.12), (0.75, 0.3), (0.55, 0.55), (0.25, 0.88), (0.78, 0.88)]],
    &[&[(0.27, 0.15), (0.6, 0.12), (0.72, 0.28), (0.5, 0.47), (0.75, 0.65), (0.62, 0.87), (0.27, 0.87)]],
    &[&[(0.6, 0.1), (0.22, 0.62), (0.8, 0.62)], &[(0.62, 0.4), (0.62, 0.92)]],
    &[&[(0.74, 0.12), (0.32, 0.12), (0.29, 0.45), (0.6, 0.43), (0.75, 0.65), (0.6, 0.88), (0.27, 0.87)]],
    &[&[(0.65, 0.1), (0.35, 0.38), (0.27, 0.7), (0.45, 0.9), (0.68, 0.82), (0.7, 0.6), (0.5, 0.5), (0.3, 0.62)]],
    &[&[(0.22, 0.13), (0.78, 0.13), (0.42, 0.9)]],
    &[
        &[(0.5, 0.48), (0.3, 0.3), (0.5, 0.1), (0.7, 0.3), (0.5, 0.48)],
        &[(0.5, 0.48), (0.25, 0.7), (0.5, 0.92), (0.75, 0.7), (0.5, 0.48)],
    ],
    &[&[(0.72, 0.35), (0.5, 0.5), (0.3, 0.35), (0.45, 0.12), (0.7, 0.18), (0.72, 0.35), (0.62, 0.9)]],
];

/// Draws `count` images, one per row, brightness 0 ..= 1; returns them with their classes.
pub(super) fn draw(count: usize, seed: u64) -> (Matrix, Vec<usize>) {
    let mut rng = generator(seed, 0);
    let mut pictures = Matrix::zeros(count, PIXELS);
    let classes: Vec<usize> = (0..count).map(|_| rng.random_range(0..CLASSES)).collect();
    for (row, class) in classes.iter().enumerate() {
        draw_one(*class, pictures.row_mut(row), &mut rng);
    }
    (pictures, classes)
}

fn draw_one(class: usize, picture: &mut [f32], rng: &mut ChaCha8Rng) {
    let hand = Hand::new(rng);
    let pen: f32 = rng.random_range(0.045..0.085);
    let segments: Vec<[(f32, f32); 2]> = STROKES[class]
        .iter()
        .flat_map(|stroke| stroke.windows(2))
        .map(|ends| [hand.place(ends[0]), hand.place(ends[1])])
        .collect();
    for (index, pixel) in picture.iter_mut().enumerate() {
        let point = ((index % SIDE) as f32 + 0.5, (index / SIDE) as f32 + 0.5);
        let point = (point.0 / SIDE as f32, point.1 / SIDE as f32);
        let distance = segments.iter().map(|segment| squared_distance(point, segment)).fold(f32::INFINITY, f32::min);
        let ink = (-distance / (pen * pen)).exp();
        *pixel = (ink + 0.12 * normal(rng)).clamp(0.0, 1.0);
    }
}

/// A random placement of a digit: rotation, slant, scale and shift.
struct Hand {
    turn: [f32; 4],
    shift: (f32, f32),
}

impl Hand {
    fn new(rng: &mut ChaCha8Rng) -> Hand {
        let angle = 0.22 * normal(rng);
        let lean = 0.2 * normal(rng);
        let (wide, tall) = (rng.random_range(0.7..1.1), rng.random_range(0.75..1.05));
        let (sin, cos) = angle.sin_cos();
        Hand {
            turn: [cos * wide, (lean * cos - sin) * tall, sin * wide, (lean * sin + cos) * tall],
            shift: (0.5 + 0.05 * normal(rng), 0.5 + 0.05 * normal(rng)),
        }
    }

    fn place(&self, (x, y): (f32, f32)) -> (f32, f32) {
        let (x, y) = (x - 0.5, y - 0.5);
        (self.shift.0 + self.turn[0] * x + self.turn[1] * y, self.shift.1 + self.turn[2] * x + self.turn[3] * y)
    }
}

fn squared_distance(point: (f32, f32), [from, to]: &[(f32, f32); 2]) -> f32 {
    let along = (to.0 - from.0, to.1 - from.1);
    let reach = (point.0 - from.0, point.1 - from.1);
    let length = along.0 * along.0 + along.1 * along.1;
    let part = ((reach.0 * along.0 + reach.1 * along.1) / length.max(1e-9)).clamp(0.0, 1.0);
    let away = (reach.0 - part * along.0, reach.1 - part * along.1);
    away.0 * away.0 + away.1 * away.1
}
