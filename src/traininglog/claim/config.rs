//! Finds totals in a configuration file: JSON, TOML or YAML, with sections.
//!
//! Lists are skipped: an item of a list is one of several stages, callbacks or data sets.

use super::key::{is_about_something_else, key};
use super::{Claim, ClaimOrigin, claim, gathered, number, yaml};

/// Weight of a file: it may be a default that the command overrides.
const FILE: f64 = 0.9;
/// Maximum nesting of sections.
const MAX_DEPTH: usize = 8;
/// Maximum settings that are read.
const MAX_SETTINGS: usize = 10_000;

/// Format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigFormat {
    Json,
    Yaml,
    Toml,
}

/// Returns the format by the extension of a path.
pub(super) fn format_of(path: &str) -> Option<ConfigFormat> {
    match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "json" => Some(ConfigFormat::Json),
        "yaml" | "yml" => Some(ConfigFormat::Yaml),
        "toml" => Some(ConfigFormat::Toml),
        _ => None,
    }
}

/// Returns the claims of the file at `path` with the content `text`. Text that is not in the extension's format claims nothing.
pub fn of_config(path: &str, text: &str) -> Vec<Claim> {
    let mut settings = Settings::default();
    match format_of(path) {
        Some(ConfigFormat::Json) => {
            if let Ok(root) = serde_json::from_str(text) {
                settings.walk(&mut Vec::new(), &root);
            }
        }
        Some(ConfigFormat::Toml) => {
            if let Ok(root) = toml::from_str(text) {
                settings.walk(&mut Vec::new(), &root);
            }
        }
        Some(ConfigFormat::Yaml) => yaml::settings(text, MAX_SETTINGS, &mut |path, value| settings.take(path, value)),
        None => {}
    }
    gathered(settings.found)
}

#[derive(Default)]
struct Settings {
    found: Vec<Claim>,
    seen: usize,
}

impl Settings {
    fn walk(&mut self, path: &mut Vec<String>, value: &serde_json::Value) {
        self.seen += 1;
        if path.len() > MAX_DEPTH || self.seen > MAX_SETTINGS {
            return;
        }
        match value {
            serde_json::Value::Object(entries) => {
                for (name, value) in entries {
                    path.push(name.clone());
                    self.walk(path, value);
                    path.pop();
                }
            }
            serde_json::Value::Number(number) => self.take(path, &number.to_string()),
            serde_json::Value::String(text) => self.take(path, text),
            _ => {}
        }
    }

    fn take(&mut self, path: &[String], value: &str) {
        let Some((name, sections)) = path.split_last() else { return };
        let Some(total) = number::total(value) else { return };
        if sections.iter().any(|section| is_about_something_else(section)) {
            return;
        }
        // A section whose name is no identifier is ignored and not shown.
        let whole = key(&path.join("."));
        let shown = whole.or_else(|| key(name).filter(|_| !name.contains(['.', '-', '+'])));
        if let Some(key) = shown {
            self.found.extend(claim(key, total, ClaimOrigin::ConfigFile, FILE));
        }
    }
}
