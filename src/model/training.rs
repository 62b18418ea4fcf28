//! Identifies runs of the same training.

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
    fn a_printed_id_parses_to_the_same_id() {
        let training = id("image sh -c 'python train.py'");
        assert_eq!(training.to_string().parse(), Ok(training));
        assert_eq!(training.to_string().len(), 32);
        assert!("a training".parse::<TrainingId>().is_err());
    }
}
