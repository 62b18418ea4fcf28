//! Names of the variants of enums, as serde writes them: one spelling for the API, metrics, the store and the terminal.

use serde::Serialize;

/// Returns the serde name of a unit variant, such as `no-place`; `unknown` for any other value.
pub fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}
