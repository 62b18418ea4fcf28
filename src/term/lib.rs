//! Terminal output: numbers as text, tables, colours, times, messages, and exit codes with a next step.

pub mod exit;
pub mod hint;
pub mod message;
pub mod screen;
pub mod table;
pub mod text;
pub mod when;
