//! Identifies runs of the same training, and what differs between them: the numbers in their commands.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A digest of the image and the command with numbers masked. Runs with the same digest are treated as runs of the same training, for
/// example with another seed, another learning rate, or more epochs. Commands can contain secrets, so only the digest is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrainingId(u128);

impl TrainingId {
    /// Computes the id from the words of a command line, preceded by whatever else distinguishes trainings (the image, the user).
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> TrainingId {
        // FNV-1a, whose value never changes between versions and machines.
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let mut digest = BASIS;
        let mut take = |byte: u8| digest = (digest ^ u128::from(byte)).wrapping_mul(PRIME);
        for word in words {
            // The script of a shell is a single word of the command.
            for piece in word.split_inclusive(|c: char| !c.is_alphanumeric() && !"._-+/".contains(c)) {
                mask_numbers(piece, &mut take);
            }
            take(0);
        }
        TrainingId(digest)
    }

    /// Computes the id of a user's command line. It never equals an id of another user: a digest can be forged, the uid cannot.
    pub fn of_user<'a>(uid: u32, words: impl IntoIterator<Item = &'a str>) -> TrainingId {
        TrainingId(u128::from(uid) << 96 | TrainingId::of(words).0 >> 32)
    }
}

/// A number in a command: what distinguishes one run of a training from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The option that it belongs to, `lr` for `--lr=0.1`, `--lr 0.1` and `optimizer.lr=0.1`; or its place among the numbers: `#2`.
    pub name: String,
    /// The number as written.
    pub value: String,
}

/// Bounds of what is kept of a command.
const PARAMETERS_AT_MOST: usize = 32;
const PARAMETER_LONGEST: usize = 32;

impl Parameter {
    /// Returns the numbers of a command, in order. Nothing else of a command is returned, because commands can contain secrets, but for the
    /// names of options. Runs of the same training have the same names in the same order.
    pub fn all<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        let mut option: Option<&str> = None;
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (Some(name), value),
                None => (option, word),
            };
            option = (word.starts_with('-') && !word.contains('=')).then_some(word);
            let named =
                name.and_then(|name| name.trim_start_matches('-').rsplit('.').next()).filter(|name| is_option(name));
            for number in numbers(value) {
                let name = named.map_or_else(|| format!("#{}", parameters.len() + 1), str::to_owned);
                parameters.push(Parameter { name, value: number.to_owned() });
            }
        }
        parameters.truncate(PARAMETERS_AT_MOST);
        parameters
    }
}

/// Whether this looks like the name of an option and not like part of a value.
fn is_option(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= PARAMETER_LONGEST
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The whole text if it is a number, else the runs of digits in it.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let pieces = if text.parse::<f64>().is_ok() {
        vec![text]
    } else {
        text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).collect()
    };
    pieces.into_iter().filter(|number| number.len() <= PARAMETER_LONGEST)
}

/// Masks numbers: `1e-4` and `0.001` both become `#`, `resnet18` becomes `resnet#`.
fn mask_numbers(piece: &str, take: &mut impl FnMut(u8)) {
    let end = piece.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '.').len();
    let (number, rest) = piece.split_at(end);
    let word = if number.parse::<f64>().is_ok() { "#" } else { number };
    let mut before = 0;
    for byte in word.bytes().chain(rest.bytes()) {
        let byte = if byte.is_ascii_digit() { b'#' } else { byte };
        if byte != b'#' || before != b'#' {
            take(byte);
        }
        before = byte;
    }
}

impl fmt::Display for TrainingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TrainingId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(TrainingId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(line: &str) -> TrainingId {
        TrainingId::of(line.split(' '))
    }

    #[test]
    fn the_same_command_of_another_user_is_another_training() {
        let of = |uid| TrainingId::of_user(uid, ["python", "train.py", "--seed", "1"]);
        assert_eq!(of(1000), TrainingId::of_user(1000, ["python", "train.py", "--seed", "2"]));
        assert_ne!(of(1000), of(1001));
        assert!(of(1000).to_string().starts_with("000003e8"));
    }

    #[test]
    fn trainings_are_distinguished_by_words_and_not_by_numbers() {
        let training = id("image python train.py --lr=1e-4 --seed 7 --epochs 100");
        assert_eq!(training, id("image python train.py --lr=0.003 --seed 12 --epochs 5"));
        assert_eq!(id("sh -c 'train.py --lr=1e-4; true'"), id("sh -c 'train.py --lr=0.5; true'"));
        assert_eq!(id("run /data/job-17/train.sh"), id("run /data/job-2041/train.sh"));
        for other in [
            "image python train.py --lr=1e-4 --seed 7 --epochs 100 --amp",
            "image python eval.py --lr=1e-4 --seed 7 --epochs 100",
            "image:v python train.py --lr=1e-4 --seed 7 --epochs 100",
            "image python train.py --lr=adaptive --seed 7 --epochs 100",
            "imagepython train.py --lr=1e-4 --seed 7 --epochs 100",
        ] {
            assert_ne!(training, id(other), "{other}");
        }
    }

    #[test]
    fn the_numbers_of_a_command_are_its_parameters() {
        let parameters = |line: &str| -> Vec<(String, String)> {
            Parameter::all(line.split(' ')).into_iter().map(|p| (p.name, p.value)).collect()
        };
        let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let line = "python train.py --lr=1e-4 --seed 7 -n -3 model.depth=18 --amp out/run-12 --data set";
        let pairs = [("lr", "1e-4"), ("seed", "7"), ("n", "-3"), ("depth", "18"), ("amp", "12")];
        assert_eq!(parameters(line), expected(&pairs));
        assert_eq!(parameters("train.py --name resnet18 0.5"), expected(&[("name", "18"), ("#2", "0.5")]));
    }

    #[test]
    fn a_secret_in_a_command_is_not_a_parameter() {
        let line = ["train.py", "--token", "abcdef", "hunter=s3cret!", "--lr", "0.1", "pass word=5"];
        let shown: Vec<String> = Parameter::all(line).into_iter().map(|p| format!("{} {}", p.name, p.value)).collect();
        assert_eq!(shown, ["hunter 3", "lr 0.1", "#3 5"]);
    }

    #[test]
    fn a_printed_id_parses_to_the_same_id() {
        let training = id("image sh -c 'python train.py'");
        assert_eq!(training.to_string().parse(), Ok(training));
        assert_eq!(training.to_string().len(), 32);
        assert!("a training".parse::<TrainingId>().is_err());
    }
}
