//! What a person at a terminal gets: words and numbers, tables, colours, and exit codes with a next step. Imports: the API's client.

pub mod exit;
pub mod screen;
pub mod table;
pub mod text;
pub mod when;
