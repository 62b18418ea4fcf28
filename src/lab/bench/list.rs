//! A list of jobs to benchmark: TOML in, jobs out, every complaint with line, column and what is expected.
//!
//! Imports: the trial's jobs, workload.

use super::placeholder::{self, KNOWN};
use crate::lab::trial::job::{Job, Work};
use crate::lab::workload::{Amount, Kind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// More jobs than this at once measure the machine, not a policy.
const JOBS_AT_MOST: usize = 100;
/// A day.
const LATEST_START_S: f64 = 86_400.0;
const EPOCHS_AT_MOST: u64 = 100_000_000;
const SIZES: std::ops::RangeInclusive<u64> = 64..=10_000_000;

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
    labels: BTreeMap<String, String>,
    #[serde(default)]
    mounts: Vec<String>,
}

/// What one run of a list makes of it.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// Multiplies epochs and start times.
    pub scale: f64,
    /// How many threads a training gets that asks for none.
    pub cores: usize,
    /// Which repeat this is, 0 the first: each has seeds of its own.
    pub repeat: u64,
}

/// Between the seeds of two repeats.
const SEEDS_APART: u64 = 1000;

/// Reads a list.
///
/// # Errors
/// `PATH:LINE:COLUMN: what is wrong; what is expected`.
pub fn parse(path: &Path, text: &str, making: Making) -> Result<Vec<Job>, String> {
    let reader = Reader { path, text, making };
    let list: ListText = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        reader.at(place, error.message())
    })?;
    if list.job.is_empty() || list.job.len() > JOBS_AT_MOST {
        return Err(reader.at(0, &format!("{} jobs; expected 1 to {JOBS_AT_MOST} [[job]] tables", list.job.len())));
    }
    let mut jobs: Vec<Job> = Vec::new();
    for entry in &list.job {
        let job = reader.job(entry)?;
        if jobs.iter().any(|earlier| earlier.name == job.name) {
            let place = entry.get_ref().name.span().start;
            return Err(reader.at(place, &format!("a second job named {:?}; expected a name of its own", job.name)));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    making: Making,
}

impl Reader<'_> {
    fn at(&self, place: usize, what: &str) -> String {
        let before = self.text.get(..place).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        format!("{}:{line}:{column}: {what}", self.path.display())
    }

    fn job(&self, entry: &Spanned<JobText>) -> Result<Job, String> {
        let job = entry.get_ref();
        let name = job.name.get_ref();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) || !name.starts_with(char::is_alphanumeric) {
            let place = job.name.span().start;
            return Err(
                self.at(place, "name: expected 1 to 32 letters, digits, `.`, `_`, `-`, a letter or digit first")
            );
        }
        let start = self.number(&job.start_s, "start_s", 0.0, 0.0, LATEST_START_S)?;
        let labels = job.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let work = self.work(entry)?;
        Ok(Job { name: name.clone(), start: Duration::from_secs_f64(start * self.making.scale), labels, work })
    }

    fn work(&self, entry: &Spanned<JobText>) -> Result<Work, String> {
        let job = entry.get_ref();
        if let (None, Some(name)) = (&job.command, job.env.keys().next()) {
            return Err(self.at(name.span().start, "env: a built-in training reads none; expected it beside a command"));
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
        let line: Result<Vec<String>, String> = command.get_ref().iter().map(|word| self.filled(word, job)).collect();
        let environment =
            job.env.iter().map(|(name, value)| self.variable(name, value, job)).collect::<Result<_, _>>()?;
        let mounts = job.mounts.iter().map(|word| self.beside(word)).collect();
        Ok(Work::Command { line: line?.iter().map(|word| self.beside(word)).collect(), mounts, environment })
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
        let filled = self.filled(value, job)?;
        Ok((name.get_ref().clone(), self.beside(&filled)))
    }

    /// A word of the list with its placeholders replaced.
    fn filled(&self, word: &Spanned<String>, job: &JobText) -> Result<String, String> {
        if word.get_ref().contains('\0') {
            return Err(self.at(word.span().start, "a word with a NUL character; expected text"));
        }
        placeholder::filled(word.get_ref(), |name| match name {
            "epochs" if job.epochs.is_some() => Ok(self.epochs(job, 1)?.to_string()),
            "seed" => Ok(self.seed(job.seed.unwrap_or(1)).to_string()),
            "epochs" => {
                Err(self.at(self.place_of(name, word), "{epochs} stands for the key epochs; expected epochs = N"))
            }
            _ => {
                let known = KNOWN.map(|known| format!("{{{known}}}")).join(" or ");
                let what = format!("{{{name}}}; expected {known}, or {{{{{name}}}}} for the text {{{name}}}");
                Err(self.at(self.place_of(name, word), &what))
            }
        })
    }

    /// Where a placeholder stands in the list.
    fn place_of(&self, name: &str, word: &Spanned<String>) -> usize {
        let place = word.span();
        let within = self.text.get(place.clone()).and_then(|text| text.find(&format!("{{{name}}}")));
        place.start + within.unwrap_or(0)
    }

    fn seed(&self, seed: u64) -> u64 {
        seed.saturating_add(SEEDS_APART * self.making.repeat)
    }

    fn epochs(&self, job: &JobText, usual: usize) -> Result<usize, String> {
        let epochs = self.whole(&job.epochs, "epochs", usual, 1..=EPOCHS_AT_MOST)?;
        Ok(((epochs as f64 * self.making.scale).round() as usize).max(1))
    }

    /// A word that begins with `./` is a path beside the list.
    fn beside(&self, word: &str) -> String {
        let Some(relative) = word.strip_prefix("./") else { return word.to_owned() };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let path = std::path::absolute(folder.join(relative)).unwrap_or_else(|_| folder.join(relative));
        path.display().to_string()
    }

    fn amount(&self, kind: Kind, job: &JobText) -> Result<Amount, String> {
        let usual = Amount::usual(kind);
        Ok(Amount {
            epochs: self.epochs(job, usual.epochs)?,
            size: self.whole(&job.size, "size", usual.size, SIZES)?,
            threads: self.whole(&job.threads, "threads", self.making.cores, 1..=256)?,
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

    fn read(text: &str) -> Result<Vec<Job>, String> {
        parse(Path::new("jobs.toml"), text, Making { scale: 0.5, cores: 2, repeat: 0 })
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
    fn each_repeat_has_seeds_of_its_own() {
        let list = "[[job]]\nname = \"a\"\ntrain = \"vae\"\nseed = 3\n\
                    [[job]]\nname = \"b\"\ncommand = [\"x\", \"--seed\", \"{seed}\"]\nseed = 9\n";
        let seeds = |repeat| {
            let jobs =
                parse(Path::new("jobs.toml"), list, Making { scale: 1.0, cores: 2, repeat }).expect("a good list");
            jobs.iter().map(|job| job.work.command_line("flowctl").pop()).collect::<Vec<_>>()
        };
        assert_eq!(seeds(0), ["3", "9"].map(|seed| Some(seed.to_owned())));
        assert_eq!(seeds(2), ["2003", "2009"].map(|seed| Some(seed.to_owned())));
    }

    #[test]
    fn placeholders_are_replaced_inside_words_and_in_the_environment() {
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
    fn the_lists_that_come_with_the_program_are_good() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/bench");
        let mut sizes = Vec::new();
        for entry in std::fs::read_dir(folder).expect("config/bench") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let making = Making { scale: 1.0, cores: 2, repeat: 0 };
            sizes.push(parse(&path, &text, making).expect("a good list").len());
        }
        sizes.sort_unstable();
        assert_eq!(sizes, [3, 3, 5, 5, 10, 10, 10, 15, 15], "built-in trainings, frameworks, and unseen ones");
    }

    #[test]
    fn complaints_name_line_column_and_what_is_expected() {
        let cases = [
            ("[[job]]\nname = \"a\"\n", "jobs.toml:1:1: expected either train"),
            ("[[job]]\nname = \"a\"\ntrain = \"resnet\"\n", "jobs.toml:3:9: no training is called \"resnet\""),
            ("[[job]]\nname = \"a b\"\ntrain = \"vae\"\n", "jobs.toml:2:8: name: expected"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nepochs = 0\n", "jobs.toml:4:10: epochs = 0; expected 1 to"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nstart_s = -1.0\n", "jobs.toml:4:11: start_s = -1; expected 0 to"),
            ("[[job]]\nname = \"a\"\ntrain = \"vae\"\nepoch = 3\n", "unknown field `epoch`"),
            ("[[job]]\nname = \"a\"\ncommand = []\n", "jobs.toml:3:11: command: expected a program"),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\", \"{epochs}\"]\n",
                "jobs.toml:3:18: {epochs} stands for the key epochs; expected epochs = N",
            ),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\",\n  \"--lr={rate}\"]\n",
                "jobs.toml:4:9: {rate}; expected {epochs} or {seed}, or {{rate}} for the text {rate}",
            ),
            (
                "[[job]]\nname = \"a\"\ncommand = [\"x\"]\nenv = { N = \"{epoch}\" }\n",
                "jobs.toml:4:14: {epoch}; expected {epochs} or",
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
                "jobs.toml:5:8: a second job named \"a\"",
            ),
            ("job = []\n", "0 jobs; expected 1 to"),
        ];
        for (text, expected) in cases {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
