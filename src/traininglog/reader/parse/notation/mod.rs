//! How programs print a number, and the plain notation in which the rest of the reader expects it.
//!
//! Problem: one value is printed as `0.5`, `np.float32(0.5)`, `tensor([0.5], device='cuda:0')`, `<tf.Tensor: shape=(), numpy=0.5>`,
//! `1'234.5`, `1.234,5` or `−0.5`, and the name of a call is not the name of its value. Approach: a line is rewritten before it is
//! scanned, so that all later stages read what a program would have printed plainly. Tables say which marks, words and keys belong to a
//! number; no framework is known by name. What is ambiguous stays as it is. Properties: whether a line is rewritten does not depend on
//! the values of its digits, so that it is part of the line's layout; a rewritten line is never longer.

mod call;
mod digits;
mod form;
mod line;
mod marks;
#[cfg(test)]
mod tests;

pub(crate) use call::{begins_in_angles, may_wrap};
pub(crate) use line::{is_plain, parse, rewrite};
pub(crate) use marks::is_missing;
