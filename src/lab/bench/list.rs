//! Parses a list of jobs to benchmark from TOML; every error names the line, the column and the expected value.

use super::placeholder::{self, KNOWN};
use crate::trial::job::{TrialJob, Work};
use crate::workload::{Amount, Kind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// Maximum number of jobs: with more, the result depends on the machine rather than on the policy.
const MAX_JOBS: usize = 100;
/// One day.
const LATEST_START_S: f64 = 86_400.0;
const MAX_EPOCHS: u64 = 100_000_000;
const SIZES: std::ops::RangeInclusive<u64> = 64..=10_000_000;
const THREADS: std::ops::RangeInclusive<u64> = 1..=Amount::THREADS_AT_MOST as u64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListText {
    job: Vec<Spanned<JobText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobText {
    name: Spanned<String>,
    #[serde(default)]
    start_s: Option<Spanned<f64>>,
    #[serde(default)]
    train: Option<Spanned<String>>,
    #[serde(default)]
    command: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    epochs: Option<Spanned<u64>>,
    #[serde(default)]
    size: Option<Spanned<u64>>,
    #[serde(default)]
    threads: Option<Spanned<u64>>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    broken: bool,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    mounts: Vec<String>,
}

/// Parameters of one run of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunParams {
    /// Multiplies epochs and start times.
    pub scale: f64,
    /// Number of cores: the default number of threads of a training, up to the largest allowed number.
    pub cores: usize,
    /// Number of the repeat, from 0; each repeat uses different seeds.
    pub repeat: u64,
}

/// Difference between the seeds of two repeats.
const SEED_STEP: u64 = 1000;

/// Parses a list.
///
/// # Errors
/// `PATH:LINE:COLUMN: what is wrong; what is expected`.
pub(super) fn parse(path: &Path, text: &str, params: RunParams) -> Result<Vec<TrialJob>, String> {
    let reader = Reader { path, text, params };
    let list: ListText = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        reader.at(place, error.message())
    })?;
    if list.job.is_empty() || list.job.len() > MAX_JOBS {
        return Err(reader.at(0, &format!("found {} jobs; expected 1 to {MAX_JOBS} [[job]] tables", list.job.len())));
    }
    let mut jobs: Vec<TrialJob> = Vec::new();
    for entry in &list.job {
        let job = reader.job(entry)?;
        if jobs.iter().any(|earlier| earlier.name == job.name) {
            let place = entry.get_ref().name.span().start;
            return Err(reader.at(place, &format!("a second job is named {:?}; expected a unique name", job.name)));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    params: RunParams,
}

impl Reader<'_> {
    fn at(&self, place: usize, what: &str) -> String {
        let before = self.text.get(..place).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        format!("{}:{line}:{column}: {what}", self.path.display())
    }

    fn job(&self, entry: &Spanned<JobText>) -> Result<TrialJob, String> {
        let job = entry.get_ref();
        let name = job.name.get_ref();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) || !name.starts_with(char::is_alphanumeric) {
            let place = job.name.span().start;
            return Err(self
                .at(place, "name: expected 1 to 32 letters, digits, `.`, `_`, `-`, starting with a letter or digit"));
        }
        let start = self.number(&job.start_s, "start_s", 0.0, 0.0, LATEST_START_S)?;
        let labels = job.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let work = self.work(entry)?;
        let start = Duration::from_secs_f64(start * self.params.scale);
        Ok(TrialJob { name: name.clone(), start, is_broken: job.broken, labels, work })
    }

    fn work(&self, entry: &Spanned<JobText>) -> Result<Work, String> {
        let job = entry.get_ref();
        if let (None, Some(name)) = (&job.command, job.env.keys().next()) {
            return Err(
                self.at(name.span().start, "env: a built-in training reads no variables; use env only with command")
            );
        }
        match (&job.train, &job.command) {
            (Some(kind), None) => {
                let kind: Kind = kind.get_ref().parse().map_err(|error: String| self.at(kind.span().start, &error))?;
                Ok(Work::Training(kind, self.amount(kind, job)?))
            }
            (None, Some(command)) if command.get_ref().is_empty() => {
                Err(self.at(command.span().start, "command: expected a program and its arguments"))
            }
            (None, Some(command)) => self.command(command, job),
            _ => Err(self.at(entry.span().start, "expected either train = \"KIND\" or command = [\"PROGRAM\", …]")),
        }
    }

    fn command(&self, command: &Spanned<Vec<Spanned<String>>>, job: &JobText) -> Result<Work, String> {
        let line: Result<Vec<String>, String> = command.get_ref().iter().map(|word| self.replaced(word, job)).collect();
        let environment =
            job.env.iter().map(|(name, value)| self.variable(name, value, job)).collect::<Result<_, _>>()?;
        let mounts = job.mounts.iter().map(|word| self.resolve(word)).collect();
        Ok(Work::Command { line: line?.iter().map(|word| self.resolve(word)).collect(), mounts, environment })
    }

    fn variable(
        &self,
        name: &Spanned<String>,
        value: &Spanned<String>,
        job: &JobText,
    ) -> Result<(String, String), String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = name.get_ref().chars().all(fits) && name.get_ref().starts_with(|c: char| !c.is_ascii_digit());
        if !is_name {
            return Err(self.at(name.span().start, "env: expected NAME = \"value\", NAME of letters, digits and `_`"));
        }
        let replaced = self.replaced(value, job)?;
        Ok((name.get_ref().clone(), self.resolve(&replaced)))
    }

    /// Replaces the placeholders in a word of the list.
    fn replaced(&self, word: &Spanned<String>, job: &JobText) -> Result<String, String> {
        if word.get_ref().contains('\0') {
            return Err(self.at(word.span().start, "the word contains a NUL character; expected text"));
        }
        placeholder::replace(word.get_ref(), |name| match name {
            "epochs" if job.epochs.is_some() => Ok(self.epochs(job, 1)?.to_string()),
            "seed" => Ok(self.seed(job.seed.unwrap_or(1)).to_string()),
            "epochs" => {
                Err(self.at(self.position_of(name, word), "{epochs} needs the key epochs; expected epochs = N"))
            }
            _ => {
                let known = KNOWN.map(|known| format!("{{{known}}}")).join(" or ");
                let what = format!(
                    "unknown placeholder {{{name}}}; expected {known}, or {{{{{name}}}}} for the text {{{name}}}"
                );
                Err(self.at(self.position_of(name, word), &what))
            }
        })
    }

    /// The position of a placeholder in the list.
    fn position_of(&self, name: &str, word: &Spanned<String>) -> usize {
        let place = word.span();
        let within = self.text.get(place.clone()).and_then(|text| text.find(&format!("{{{name}}}")));
        place.start + within.unwrap_or(0)
    }

    fn seed(&self, seed: u64) -> u64 {
        seed.saturating_add(SEED_STEP * self.params.repeat)
    }

    fn epochs(&self, job: &JobText, usual: usize) -> Result<usize, String> {
        let epochs = self.whole(&job.epochs, "epochs", usual, 1..=MAX_EPOCHS)?;
        Ok(((epochs as f64 * self.params.scale).round() as usize).max(1))
    }

    /// Resolves a word that starts with `./` relative to the directory of the list.
    fn resolve(&self, word: &str) -> String {
        let Some(relative) = word.strip_prefix("./") else { return word.to_owned() };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let path = std::path::absolute(folder.join(relative)).unwrap_or_else(|_| folder.join(relative));
        path.display().to_string()
    }

    fn amount(&self, kind: Kind, job: &JobText) -> Result<Amount, String> {
        let usual = Amount::usual(kind);
        let threads = self.params.cores.min(usize::from(Amount::THREADS_AT_MOST));
        Ok(Amount {
            epochs: self.epochs(job, usual.epochs)?,
            size: self.whole(&job.size, "size", usual.size, SIZES)?,
            threads: self.whole(&job.threads, "threads", threads, THREADS)?,
            seed: self.seed(job.seed.unwrap_or(usual.seed)),
        })
    }

    fn whole(
        &self,
        value: &Option<Spanned<u64>>,
        key: &str,
        usual: usize,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<usize, String> {
        let Some(value) = value else { return Ok(usual) };
        if range.contains(value.get_ref()) {
            return Ok(*value.get_ref() as usize);
        }
        let (least, most) = (range.start(), range.end());
        Err(self.at(value.span().start, &format!("{key} = {}; expected {least} to {most}", value.get_ref())))
    }

    fn number(
        &self,
        value: &Option<Spanned<f64>>,
        key: &str,
        usual: f64,
        least: f64,
        most: f64,
    ) -> Result<f64, String> {
        let Some(value) = value else { return Ok(usual) };
        if (least..=most).contains(value.get_ref()) {
            return Ok(*value.get_ref());
        }
        Err(self.at(value.span().start, &format!("{key} = {}; expected {least} to {most}", value.get_ref())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<TrialJob>, String> {
        parse(Path::new("jobs.toml"), text, RunParams { scale: 0.5, cores: 2, repeat: 0 })
    }

    #[test]
    fn trainings_and_commands_are_read_and_scaled() {
        let jobs = read(
            "[[job]]\nname = \"a\"\ntrain = \"vae\"\nepochs = 10\n\
             [[job]]\nname = \"b\"\nstart_s = 8\ncommand = [\"python3\", \"./x.py\", \"{epochs}\"]\nepochs = 7\nmounts = [\"/opt/venv\"]\nlabels = { \"flowcon.total\" = \"4\" }\n",
        )
        .expect("a good list");
        let Work::Training(Kind::Vae, amount) = &jobs[0].work else { panic!("{jobs:?}") };
        assert_eq!((amount.epochs, amount.threads), (5, 2));
        assert_eq!(jobs[1].start, Duration::from_secs(4));
        let Work::Command { line, mounts, .. } = &jobs[1].work else { panic!("{jobs:?}") };
        let script = std::path::absolute("x.py").unwrap().display().to_string();
        assert_eq!((line.clone(), mounts.len()), (vec!["python3".to_owned(), script, "4".to_owned()], 1));
        assert_eq!(jobs[1].labels, [("flowcon.total".to_owned(), "4".to_owned())]);
    }

    #[test]
    fn a_training_has_at_most_the_largest_allowed_number_of_threads() {
        let params = RunParams { scale: 1.0, cores: 384, repeat: 0 };
        let list = "[[job]]\nname = \"a\"\ntrain = \"vae\"\n";
        let jobs = parse(Path::new("jobs.toml"), list, params).expect("a good list");
        let Work::Training(_, amount) = &jobs[0].work else { panic!("{jobs:?}") };
        assert_eq!(amount.threads, 256);
    }

    #[test]
    fn each_repeat_has_different_seeds() {
        let list = "[[job]]\nname = \"a\"\ntrain = \"vae\"\nseed = 3\n\
                    [[job]]\nname = \"b\"\ncommand = [\"x\", \"--seed\", \"{seed}\"]\nseed = 9\n";
        let seeds = |repeat| {
            let jobs =
                parse(Path::new("jobs.toml"), list, RunParams { scale: 1.0, cores: 2, repeat }).expect("a good list");
            jobs.iter().map(|job| job.work.command_line("flowctl").pop()).collect::<Vec<_>>()
        };
        assert_eq!(seeds(0), ["3", "9"].map(|seed| Some(seed.to_owned())));
        assert_eq!(seeds(2), ["2003", "2009"].map(|seed| Some(seed.to_owned())));
    }

    #[test]
    fn placeholders_are_replaced_within_words_and_in_the_environment() {
        let jobs = read(
            "[[job]]\nname = \"a\"\ncommand = [\"./train\", \"epochs={epochs}\", \"{\\\"a\\\":{seed}}\"]\nepochs = 8\nseed = 3\n\
             env = { EPOCHS = \"{epochs}\", CONFIG = \"./a.yaml\", KEEP = \"{{epochs}}\" }\n",
        )
        .expect("a good list");
        let Work::Command { line, environment, .. } = &jobs[0].work else { panic!("{jobs:?}") };
        assert_eq!(line[1..], ["epochs=4", "{\"a\":3}"]);
        let value = |name| environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let config = std::path::absolute("a.yaml").unwrap().display().to_string();
        assert_eq!(["EPOCHS", "CONFIG", "KEEP"].map(value), [Some("4"), Some(config.as_str()), Some("{epochs}")]);
    }

    #[test]
    fn a_job_is_healthy_unless_the_list_calls_it_broken() {
        let jobs =
            read("[[job]]\nname = \"a\"\ntrain = \"mlp\"\n[[job]]\nname = \"b\"\ntrain = \"mlp\"\nbroken = true")
                .unwrap();
        assert_eq!(jobs.iter().map(|job| job.is_broken).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn the_shipped_lists_are_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/bench");
        let mut sizes = Vec::new();
        for entry in std::fs::read_dir(folder).expect("config/bench") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let params = RunParams { scale: 1.0, cores: 2, repeat: 0 };
            sizes.push(parse(&path, &text, params).expect("a good list").len());
        }
        sizes.sort_unstable();
        assert_eq!(sizes, [3, 3, 4, 5, 5, 6, 10, 10, 10, 15, 15], "built-in trainings, frameworks, and unknown ones");
    }

    #[test]
    fn errors_name_the_line_the_column_and_the_expected_value() {
        let cases = [
            ("[[job]]\nname = \"a\"\n", "jobs.toml:1:1: expected either train"),
            ("[[job]]\nname = \"a\"\ntrain = \"resnet\"\n", "jobs.toml:3:9: unknown training \"resnet\""),
            ("[[job]]\nname = \"a b\"\ntrain = \"vae\"\n", "jobs.toml:2:8: name: expected"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nepochs = 0\n", "jobs.toml:4:10: epochs = 0; expected 1 to"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nstart_s = -1.0\n", "jobs.toml:4:11: start_s = -1; expected 0 to"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nepoch = 3\n", "unknown field `epoch`"),
            ("[[job]]\nname = \"a\"\ncommand = []\n", "jobs.toml:3:11: command: expected a program"),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\", \"{epochs}\"]\n",
                "jobs.toml:3:18: {epochs} needs the key epochs; expected epochs = N",
            ),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\",\n  \"--lr={rate}\"]\n",
                "jobs.toml:4:9: unknown placeholder {rate}; expected {epochs} or {seed}, or {{rate}} for the text {rate}",
            ),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { N = \"{epoch}\" }\n",
                "jobs.toml:4:14: unknown placeholder {epoch}; expected {epochs} or",
            ),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { \"A=B\" = \"1\" }\n",
                "jobs.toml:4:9: env: expected NAME",
            ),
            (
                "[[job]]\nname = \"a\"\ntrain = \"vae\"\nenv = { A = \"1\" }\n",
                "jobs.toml:4:9: env: a built-in training",
            ),
            (
                "[[job]]\nname = \"a\"\ntrain = \"vae\"\n[[job]]\nname = \"a\"\ntrain = \"mlp\"\n",
                "jobs.toml:5:8: a second job is named \"a\"",
            ),
            ("job = []\n", "found 0 jobs; expected 1 to"),
        ];
        for (text, expected) in cases {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
