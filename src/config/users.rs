//! Users between whom the node can be divided: their weights, whose containers are, and how long their use is remembered.

use super::value::{WEIGHTS, user_name};
use model::{Millis, NOBODY};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Rules, and weights, at most.
const ENTRIES_AT_MOST: usize = 1024;

/// Settings about users.
#[derive(Clone, Debug, PartialEq)]
pub struct UserSettings {
    /// Time after which use counts half; `None` = use is not remembered.
    pub half_life: Option<Millis>,
    /// Weights of users by name; of all others it is 1.
    pub weights: BTreeMap<String, f64>,
    /// Whose containers without a label are; the first rule that fits decides.
    pub rules: Vec<UserRule>,
}

impl Default for UserSettings {
    fn default() -> Self {
        UserSettings { half_life: Some(Millis::from_secs(86_400)), weights: BTreeMap::new(), rules: Vec::new() }
    }
}

impl UserSettings {
    /// Returns the user of a container by the rules.
    pub fn user_of(&self, image: &str, project: Option<&str>) -> Option<&str> {
        let fits = |rule: &&UserRule| match rule.subject {
            Subject::Image => matches(&rule.pattern, image),
            Subject::Project => project.is_some_and(|project| matches(&rule.pattern, project)),
        };
        self.rules.iter().find(fits).map(|rule| rule.user.as_str())
    }

    /// Returns the weight of a user.
    pub fn weight_of(&self, user: &str) -> f64 {
        self.weights.get(user).copied().unwrap_or(1.0)
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The image, as `docker ps` shows it.
    Image,
    /// The Compose project.
    Project,
}

/// One rule: `image vision/* = alice` or `project nlp = bob`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRule {
    subject: Subject,
    pattern: String,
    user: String,
}

impl FromStr for UserRule {
    type Err = String;

    fn from_str(text: &str) -> Result<UserRule, String> {
        let parsed = || {
            let (what, user) = text.rsplit_once('=')?;
            let (subject, pattern) = what.trim().split_once(char::is_whitespace)?;
            let subject = match subject {
                "image" => Subject::Image,
                "project" => Subject::Project,
                _ => return None,
            };
            let pattern = Some(pattern.trim()).filter(|pattern| (1..=256).contains(&pattern.len()))?;
            Some(UserRule { subject, pattern: pattern.to_owned(), user: user_name(user)?.to_owned() })
        };
        parsed().ok_or_else(|| {
            "expected a list of rules such as \"image vision/* = alice\" or \"project nlp = bob\"".to_owned()
        })
    }
}

impl fmt::Display for UserRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = match self.subject {
            Subject::Image => "image",
            Subject::Project => "project",
        };
        write!(f, "{subject} {} = {}", self.pattern, self.user)
    }
}

/// Parses a list of rules.
pub(super) fn rules(items: &[String]) -> Result<Vec<UserRule>, String> {
    bounded(items)?.iter().map(|item| item.parse()).collect()
}

/// Parses a list of weights such as `alice = 2`; [`NOBODY`] may have one too.
pub(super) fn weights(items: &[String]) -> Result<BTreeMap<String, f64>, String> {
    let weight = |item: &String| {
        let (user, weight) = item.split_once('=')?;
        let user = if user.trim() == NOBODY { NOBODY } else { user_name(user)? };
        let weight = weight.trim().parse().ok().filter(|weight| WEIGHTS.contains(weight))?;
        Some((user.to_owned(), weight))
    };
    let expected = || {
        let (least, most) = (WEIGHTS.start(), WEIGHTS.end());
        format!("expected a list of weights from {least} to {most}, such as \"alice = 2\"")
    };
    bounded(items)?.iter().map(|item| weight(item).ok_or_else(expected)).collect()
}

fn bounded(items: &[String]) -> Result<&[String], String> {
    if items.len() > ENTRIES_AT_MOST {
        return Err(format!("expected at most {ENTRIES_AT_MOST} entries"));
    }
    Ok(items)
}

/// Whether a text fits a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(middle) = last.replace(piece) {
            let Some(at) = rest.find(middle) else { return false };
            rest = &rest[at + middle.len()..];
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, fits) in [
            ("vision/*", "vision/train:1", true),
            ("vision/*", "other/vision/train", false),
            ("*/vision/*", "registry.example/vision/train", true),
            ("*:latest", "a:latest", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("nlp", "nlp", true),
            ("nlp", "nlp2", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let texts = ["image vision/* = alice", "project nlp = bob", "image * = carol"].map(str::to_owned);
        let settings = UserSettings { rules: rules(&texts).unwrap(), ..UserSettings::default() };
        assert_eq!(settings.user_of("vision/train:2", Some("nlp")), Some("alice"));
        assert_eq!(settings.user_of("python", Some("nlp")), Some("bob"));
        assert_eq!(settings.user_of("python", None), Some("carol"));
        assert_eq!(settings.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn invalid_rules_and_weights_are_refused_with_an_example() {
        for wrong in ["image vision/*", "container x = alice", "image = alice", "image x = a b", "image x = -"] {
            assert!(wrong.parse::<UserRule>().is_err_and(|why| why.contains("image vision/* = alice")), "{wrong}");
        }
        for wrong in ["alice", "alice = 0", "alice = NaN", "alice = 101", "a b = 2", " = 2"] {
            assert!(weights(&[wrong.to_owned()]).is_err_and(|why| why.contains("alice = 2")), "{wrong}");
        }
        let weights = weights(&["alice=2".to_owned(), "- = 0.5".to_owned()]).unwrap();
        assert_eq!((weights["alice"], weights[NOBODY]), (2.0, 0.5));
        assert!(rules(&vec!["image x = y".to_owned(); ENTRIES_AT_MOST + 1]).is_err());
    }
}
