//! Turns files, environment and flags into valid settings, and the labels of a container into directives.
//!
//! One registry of keys ([`KEYS`]) is the source of the parser, `check-config`, `flowctl config` and the documented defaults. Errors name
//! file, line and key, and what is expected there.

mod entry;
mod keys;
pub mod labels;
mod load;
mod notify;
mod settings;
mod users;
mod value;

pub use entry::{ConfigError, Entry, Origin};
pub use keys::{KEYS, Key, shown};
pub use labels::{LABEL_PREFIX, LABELS, Label, check_labels, directives, pattern};
pub use load::{Sources, from_text, load, load_valid};
pub use notify::{FAILED, TARGET_KEYS, TargetKey, TargetSettings, Transport, WAITING, default_of, folder_of};
pub use settings::{EngineChoice, GpuControl, HistorySettings, OnExit, Settings};
pub use users::{UserRule, UserSettings};
pub use value::bytes;
