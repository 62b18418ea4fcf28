//! Where a container may run, and the cgroup within which its weight counts: the basis of contention domains.

use super::Quota;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where a container may run. A value that could not be read is `None`; the container is then assumed to compete with all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Processors that its processes may run on: its effective cpuset, restricted by their affinity.
    pub cpus: Option<Numbers>,
    /// NUMA nodes that they may allocate memory from.
    pub memory_nodes: Option<Numbers>,
    /// Its parent cgroup. The kernel compares weights only between children of the same cgroup.
    pub parent: Option<Arc<str>>,
    /// The weight of the parent cgroup among its siblings, on the scale of `cpu.weight`.
    pub parent_weight: Option<u32>,
    /// The tightest CPU quota of its ancestor cgroups, which all of their children share.
    pub parent_quota: Option<Quota>,
}

/// A set of processor or NUMA node numbers, in the list format of the kernel: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Numbers {
    /// Number n is bit n % 64 of word n / 64; the last word is not zero.
    words: Vec<u64>,
}

impl Numbers {
    /// One more than the largest valid number: no machine has more, so a list with higher numbers does not come from the kernel.
    const MOST: usize = 1 << 16;

    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether `number` is in the set.
    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Whether the two have a number in common.
    pub fn meets(&self, other: &Numbers) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.words.len() * 64).filter(|number| self.contains(*number))
    }
}

impl FromIterator<usize> for Numbers {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Numbers::default();
        set.extend(numbers);
        set
    }
}

impl Extend<usize> for Numbers {
    /// Ignores numbers that are too large.
    fn extend<I: IntoIterator<Item = usize>>(&mut self, numbers: I) {
        for number in numbers.into_iter().filter(|number| *number < Numbers::MOST) {
            if self.words.len() <= number / 64 {
                self.words.resize(number / 64 + 1, 0);
            }
            self.words[number / 64] |= 1 << (number % 64);
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

/// A list of numbers that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidNumbers(String);

impl fmt::Display for InvalidNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a list of processors; expected numbers and ranges, such as `0-3,8`", self.0)
    }
}

impl std::error::Error for InvalidNumbers {}

impl FromStr for Numbers {
    type Err = InvalidNumbers;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidNumbers(text.to_owned());
        let mut set = Numbers::default();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().ok().filter(|number| *number < Numbers::MOST);
            let (first, last) = (number(first).ok_or_else(invalid)?, number(last).ok_or_else(invalid)?);
            if last < first {
                return Err(invalid());
            }
            set.extend(first..=last);
        }
        Ok(set)
    }
}

impl TryFrom<String> for Numbers {
    type Error = InvalidNumbers;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Numbers> for String {
    fn from(numbers: Numbers) -> String {
        numbers.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Numbers {
        text.parse().expect("a list")
    }

    #[test]
    fn lists_are_parsed_and_formatted_as_by_the_kernel() {
        for text in ["", "0", "0-3", "0,2-3,64-127", "5,7"] {
            assert_eq!(numbers(text).to_string(), text);
        }
        assert_eq!(numbers(" 0-1,3\n").count(), 3);
        for text in ["a", "3-1", "0-99999999999", "1-", "0 1"] {
            assert!(text.parse::<Numbers>().is_err(), "{text}");
        }
    }

    #[test]
    fn two_sets_meet_if_they_have_a_number_in_common() {
        assert!(numbers("0-7").meets(&numbers("7,100")));
        assert!(!numbers("0-7").meets(&numbers("8-15,100")));
        assert!(!numbers("").meets(&numbers("")));
    }
}
