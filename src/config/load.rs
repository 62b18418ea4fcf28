//! Loads the configuration from files, the environment and flags. Later sources override earlier ones; all errors are reported, not only
//! the first.

use super::entry::{ConfigError, Entry, Origin};
use super::keys::{KEYS, Key};
use super::notify::{self, TARGET_KEYS};
use super::settings::Settings;
use super::value::Value;
use model::FairBetween;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Maximum size of a configuration file, in bytes.
const FILE_LONGEST: u64 = 1 << 20;

const FAIR_BETWEEN: &str = "policy.fair-between";

/// The sources of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What applies without any of the others.
    pub defaults: Settings,
    /// The main file. The `*.toml` files of the directory with the same name, ending in `.d` instead of `.toml`, are read after it, in
    /// order of names.
    pub file: PathBuf,
    /// Whether the main file must exist, because it was named explicitly.
    pub must_exist: bool,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Flags: key, value and name of the flag.
    pub flags: Vec<(String, String, String)>,
}

impl Sources {
    /// Whether mistakes may be the reason that this setting has its default: its value is one, or a file with it cannot be read.
    pub fn may_hide(&self, key: &str, mistakes: &[ConfigError]) -> bool {
        let in_environment =
            |(name, value): &(String, String)| from_environment(name, value).is_some_and(|of| of.key == key);
        let overridden = self.flags.iter().any(|(name, ..)| name == key) || self.environment.iter().any(in_environment);
        let hides = |mistake: &ConfigError| match mistake {
            ConfigError::Unreadable { .. } => !overridden,
            ConfigError::BadValue { key: of, .. } => of == key,
            ConfigError::Syntax { .. } | ConfigError::UnknownKey { .. } => false,
        };
        mistakes.iter().any(hides)
    }
}

/// Loads the settings.
///
/// # Errors
/// All errors of all sources.
pub fn load(sources: &Sources) -> Result<Settings, Vec<ConfigError>> {
    let (settings, errors) = load_valid(sources);
    if errors.is_empty() { Ok(settings) } else { Err(errors) }
}

/// Loads what is valid; the other settings have their defaults. Returns also all errors of all sources.
pub fn load_valid(sources: &Sources) -> (Settings, Vec<ConfigError>) {
    let mut errors = Vec::new();
    let mut entries = Vec::new();
    for file in files(sources, &mut errors) {
        match read(&file) {
            Ok(text) => parse(&file, &text, &mut entries, &mut errors),
            Err(error) => errors.push(unreadable(&file, &error)),
        }
    }
    entries.extend(sources.environment.iter().filter_map(|(name, value)| from_environment(name, value)));
    entries.extend(sources.flags.iter().map(|(key, value, flag)| Entry {
        key: key.clone(),
        value: Value::Text(value.clone()),
        origin: Origin::Flag(flag.clone()),
    }));
    let mut settings = sources.defaults.clone();
    for entry in &entries {
        if let Err(error) = apply(&mut settings, entry) {
            errors.push(error);
        }
    }
    for error in incomplete(&mut settings, &entries) {
        errors.push(error);
    }
    if let Some(error) = contradiction(&settings, &entries) {
        settings.policy.fair_between = FairBetween::Jobs;
        errors.push(error);
    }
    // Raising only the interval is allowed; there is then no back-off.
    settings.policy.max_interval = settings.policy.max_interval.max(settings.policy.interval);
    (settings, errors)
}

/// Parses a text written by [`shown`](super::shown).
pub fn from_text(text: &str) -> Result<Settings, Vec<ConfigError>> {
    let (mut entries, mut errors) = (Vec::new(), Vec::new());
    parse(Path::new("settings"), text, &mut entries, &mut errors);
    let mut settings = Settings::default();
    errors.extend(entries.iter().filter_map(|entry| apply(&mut settings, entry).err()));
    if errors.is_empty() {
        errors = incomplete(&mut settings, &entries);
    }
    if errors.is_empty() { Ok(settings) } else { Err(errors) }
}

fn parse(path: &Path, text: &str, entries: &mut Vec<Entry>, errors: &mut Vec<ConfigError>) {
    let origin = |offset: usize| Origin::File { path: path.to_owned(), line: line_of(text, offset) };
    let (table, mistakes) = DeTable::parse_recoverable(text);
    let Some(mistake) = mistakes.first() else { return collect(table.get_ref(), "", &origin, entries, errors) };
    errors.push(ConfigError::Syntax {
        origin: origin(mistake.span().map_or(0, |span| span.start)),
        reason: mistake.message().to_owned(),
    });
    // What follows a mistake of syntax may be misunderstood, so only this one is reported.
    let mut found = Vec::new();
    collect(table.get_ref(), "", &origin, &mut found, &mut Vec::new());
    entries.extend(found.into_iter().filter(|entry| apply(&mut Settings::default(), entry).is_ok()));
}

fn collect(
    table: &DeTable<'_>,
    section: &str,
    origin: &dyn Fn(usize) -> Origin,
    entries: &mut Vec<Entry>,
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in table {
        let key = if section.is_empty() { name.get_ref().to_string() } else { format!("{section}.{}", name.get_ref()) };
        let at = origin(name.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => collect(inner, &key, origin, entries, errors),
            other => match plain(other) {
                Some(value) => entries.push(Entry { key, value, origin: at }),
                None => {
                    let expected = "expected text, a number, true or false, or a list of texts".to_owned();
                    errors.push(ConfigError::BadValue { origin: at, key, expected });
                }
            },
        }
    }
}

fn plain(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Number(i64::from_str_radix(number.as_str(), number.radix()).ok()? as f64),
        DeValue::Float(number) => Value::Number(number.as_str().parse().ok()?),
        DeValue::Boolean(on) => Value::Switch(*on),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    DeValue::Integer(number) => Some(number.as_str().to_owned()),
                    _ => None,
                })
                .collect::<Option<_>>()?,
        ),
        _ => return None,
    })
}

fn apply(settings: &mut Settings, entry: &Entry) -> Result<(), ConfigError> {
    let known = KEYS.iter().find(|key| key.name == entry.key).map(|key| (key.set)(settings, &entry.value));
    let Some(set) = known.or_else(|| notify::set(&mut settings.notify, &entry.key, &entry.value)) else {
        let suggestion = suggestion(&entry.key);
        return Err(ConfigError::UnknownKey { origin: entry.origin.clone(), key: entry.key.clone(), suggestion });
    };
    set.map_err(|expected| ConfigError::BadValue { origin: entry.origin.clone(), key: entry.key.clone(), expected })
}

/// Drops the targets of messages that lack something. A target with another mistake may only lack what that mistake was about.
fn incomplete(settings: &mut Settings, entries: &[Entry]) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    settings.notify.retain(|name, target| {
        let problem = target.problem();
        let prefix = format!("{}{name}.", notify::SECTION);
        if let Some((expected, entry)) = problem.zip(entries.iter().find(|entry| entry.key.starts_with(&prefix))) {
            let key = prefix.trim_end_matches('.').to_owned();
            errors.push(ConfigError::BadValue { origin: entry.origin.clone(), key, expected: expected.to_owned() });
        }
        problem.is_none()
    });
    errors
}

/// The paper's policies have no entitlements that could be divided between users.
fn contradiction(settings: &Settings, entries: &[Entry]) -> Option<ConfigError> {
    settings.policy.can_be_fair_between_users().err().and_then(|expected| {
        let entry = entries.iter().rev().find(|entry| entry.key == FAIR_BETWEEN)?;
        Some(ConfigError::BadValue { origin: entry.origin.clone(), key: entry.key.clone(), expected })
    })
}

/// Returns the main file and the `*.toml` files of its directory. Only a main file that was named explicitly must exist.
fn files(sources: &Sources, errors: &mut Vec<ConfigError>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    match sources.file.try_exists() {
        Ok(true) => files.push(sources.file.clone()),
        Ok(false) if sources.must_exist => {
            errors.push(unreadable(&sources.file, &io::Error::other("no such file")));
        }
        Ok(false) => {}
        Err(error) => errors.push(unreadable(&sources.file, &error)),
    }
    let folder = sources.file.with_extension("d");
    let mut fragments: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(found) => found.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                errors.push(unreadable(&folder, &error));
            }
            Vec::new()
        }
    };
    fragments.retain(|path| path.extension().is_some_and(|ext| ext == "toml"));
    fragments.sort();
    files.extend(fragments);
    files
}

fn read(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_LONGEST {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    fs::read_to_string(path)
}

fn unreadable(path: &Path, error: &io::Error) -> ConfigError {
    ConfigError::Unreadable { path: path.display().to_string(), reason: error.to_string() }
}

/// Parses an environment variable: `FLOWCON_POLICY_INTERVAL` sets `policy.interval`. Other `FLOWCON_…` variables are not settings.
fn from_environment(name: &str, value: &str) -> Option<Entry> {
    let key = KEYS.iter().find(|key| variable(key) == name)?;
    let value = Value::Text(value.to_owned());
    Some(Entry { key: key.name.to_owned(), value, origin: Origin::Environment(name.to_owned()) })
}

fn variable(key: &Key) -> String {
    format!("FLOWCON_{}", key.name.to_uppercase().replace(['.', '-'], "_"))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the key that was probably meant.
fn suggestion(wrong: &str) -> Option<String> {
    if let Some((target, key)) = wrong.strip_prefix(notify::SECTION).and_then(|rest| rest.rsplit_once('.')) {
        let meant = nearest(key, TARGET_KEYS.iter().map(|known| known.name))?;
        return Some(format!("{}{target}.{meant}", notify::SECTION));
    }
    let without_section = KEYS.iter().find(|key| key.name.rsplit('.').next() == Some(wrong)).map(|key| key.name);
    without_section.or_else(|| nearest(wrong, KEYS.iter().map(|key| key.name))).map(str::to_owned)
}

/// Returns the most similar word, if it is similar enough.
pub(super) fn nearest<'word>(wrong: &str, words: impl Iterator<Item = &'word str>) -> Option<&'word str> {
    let (distance, similar) = words.map(|word| (strsim::levenshtein(wrong, word), word)).min()?;
    (distance <= 1 + wrong.len() / 4).then_some(similar)
}

#[cfg(test)]
mod tests {
    use super::super::keys::shown;
    use super::super::settings::OnExit;
    use super::*;
    use model::{Millis, PolicyName};

    fn loaded(text: &str) -> Result<Settings, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flowcond.toml");
        fs::write(&file, text).unwrap();
        let sources = Sources { file, ..Sources::default() };
        let bare = |error: &ConfigError| error.to_string().replace(folder.path().to_str().unwrap(), "");
        load(&sources).map_err(|errors| errors.iter().map(bare).collect())
    }

    #[test]
    fn an_error_names_file_line_and_key_and_what_is_expected() {
        let errors = loaded("[policy]\nname = \"flowcon\"\ninterval = \"soon\"\n").unwrap_err();
        let expected = "/flowcond.toml:3: `policy.interval`: expected a time from 0.5s to 3600s, such as \"20s\"";
        assert_eq!(errors, [expected]);
    }

    #[test]
    fn all_errors_are_reported_at_once_and_a_misspelt_key_gets_a_suggestion() {
        let errors = loaded("interval = \"5s\"\n[policy]\nintervall = \"5s\"\nmemory = 3\n").unwrap_err();
        let expected = [
            "/flowcond.toml:1: unknown key `interval`; did you mean `policy.interval`?",
            "/flowcond.toml:3: unknown key `policy.intervall`; did you mean `policy.interval`?",
            "/flowcond.toml:4: `policy.memory`: expected true or false",
        ];
        let mut sorted = errors;
        sorted.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let errors = loaded("socket = \"/a\"\n[policy\n").unwrap_err();
        assert!(errors[0].starts_with("/flowcond.toml:2: "), "{errors:?}");
    }

    #[test]
    fn what_is_valid_beside_a_mistake_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        for mistake in ["state-dirr = \"/x\"", "label = ", "interval = \"long\""] {
            let file = folder.path().join("flowcond.toml");
            fs::write(&file, format!("state-dir = \"/srv/flowcon\"\non-exit = \"keep\"\n[policy]\n{mistake}\n"))
                .unwrap();
            let (settings, errors) = load_valid(&Sources { file, must_exist: true, ..Sources::default() });
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(
                (settings.state_dir.as_path(), settings.on_exit),
                (Path::new("/srv/flowcon"), OnExit::Keep),
                "{mistake}"
            );
        }
    }

    #[test]
    fn only_the_default_policy_can_divide_the_node_between_users() {
        let errors = loaded("[policy]\nname = \"flowcon\"\nfair-between = \"users\"\n").unwrap_err();
        let expected = "/flowcond.toml:3: `policy.fair-between`: \"users\" works only with policy.name = \"balanced\", and it is \
                        \"flowcon\"; set policy.name = \"balanced\" or policy.fair-between = \"jobs\"";
        assert_eq!(errors, [expected]);
        for name in ["balanced", "fair"] {
            let text = format!("policy.fair-between = \"users\"\npolicy.name = \"{name}\"\n");
            assert_eq!(loaded(&text).map(|settings| settings.policy.fair_between), Ok(FairBetween::Users));
        }
    }

    #[test]
    fn users_have_weights_rules_and_a_half_life() {
        let text = "[users]\nweights = [\"alice = 2\"]\nrules = [\"image vision/* = alice\"]\nhalf-life = \"36h\"\n";
        let settings = loaded(text).unwrap();
        assert_eq!((settings.users.weight_of("alice"), settings.users.weight_of("bob")), (2.0, 1.0));
        assert_eq!(settings.users.user_of("vision/train", None), Some("alice"));
        assert_eq!(settings.users.half_life, Some(Millis::from_secs(36 * 3600)));
        assert_eq!(loaded(&shown(&settings)), Ok(settings));
        let off = loaded("users.half-life = \"off\"\n").unwrap();
        assert_eq!((off.users.half_life, loaded(&shown(&off))), (None, Ok(off)));
        let wrong = loaded("users.half-life = \"0\"\n").unwrap_err();
        assert!(wrong[0].ends_with("expected \"off\", or a time from 60s to 31622400s, such as \"1d\""), "{wrong:?}");
    }

    #[test]
    fn fragments_override_the_file_the_environment_overrides_both_and_flags_override_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flowcond.toml");
        let fragments = folder.path().join("flowcond.d");
        fs::create_dir(&fragments).unwrap();
        fs::write(&file, "[policy]\nname = \"fair\"\ninterval = \"11s\"\nmax-interval = \"1h\"\nfloor = 0.5\n")
            .unwrap();
        fs::write(fragments.join("10-a.toml"), "policy.interval = \"12s\"\npolicy.floor = 0.4\n").unwrap();
        fs::write(fragments.join("20-b.toml"), "policy.interval = \"13s\"\n").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment = vec![
            pair("FLOWCON_POLICY_NAME", "flowcon"),
            pair("FLOWCON_SOCKET", "/from/env"),
            pair("FLOWCON_CONFIG", "ignored"),
        ];
        let flags = vec![("socket".to_owned(), "/from/flag".to_owned(), "--socket".to_owned())];
        let settings = load(&Sources { file, must_exist: true, environment, flags, ..Sources::default() }).unwrap();
        assert_eq!(settings.policy.policy, PolicyName::Flowcon);
        assert_eq!(settings.policy.interval, Millis::from_secs(13));
        assert_eq!(settings.policy.floor.fraction(), 0.4);
        assert_eq!(settings.socket, Path::new("/from/flag"));
    }

    #[test]
    fn shown_settings_parse_to_the_same_settings() {
        let changed = loaded("[policy]\nobjective = 0.3\n[api]\nadmins = [\"a\", \"1000\"]\ngroup = \"\"\n").unwrap();
        assert_eq!(loaded(&shown(&changed)), Ok(changed));
        assert_eq!(loaded(&shown(&Settings::default())), Ok(Settings::default()));
    }

    #[test]
    fn an_explicitly_named_file_must_exist_and_the_default_file_need_not() {
        let sources = Sources { file: "/nonexistent/x.toml".into(), ..Sources::default() };
        assert_eq!(load(&sources), Ok(Settings::default()));
        assert!(load(&Sources { must_exist: true, ..sources }).is_err());
    }
}
