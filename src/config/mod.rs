//! From files, environment and flags to valid settings; from a container's labels to directives.
//!
//! One registry of keys ([`KEYS`]) is the source of the parser, of `check-config`, of `flowctl config` and of the documented
//! defaults. Errors name file, line and key, and what is expected there. Imports: model only.

mod entry;
mod keys;
pub mod labels;
mod load;
mod settings;
mod value;

pub use entry::{ConfigError, Entry, Origin};
pub use keys::{KEYS, Key, shown};
pub use labels::{LABEL_PREFIX, LABELS, Label, directives, obeyable};
pub use load::{Sources, from_text, load};
pub use settings::{EngineChoice, GpuControl, HistorySettings, OnExit, Settings};
pub use value::bytes;
