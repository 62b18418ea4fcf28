//! Phrases around a counter: names of counters, values reported after a count, announcements of a total.

use super::lexicon;
use super::meaning::{Count, Meaning};

/// Returns the counter of a phrase whose last word is a counter directly before its number: `pretrain epoch 3`. `None` if another word
/// makes it a setting or a reference to an earlier count (`warmup step 3`, `best epoch 5`).
pub(super) fn counting_phrase(gap: &[u8], name: &str) -> Option<Count> {
    if !gap.trim_ascii_end().last().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'#') {
        return None;
    }
    let (head, word) = name.trim_end_matches(['#', ' ']).rsplit_once(' ')?;
    let Meaning::Counter(count) = lexicon::meaning(word) else { return None };
    // `Saved model at epoch 3` contains a valid count.
    let is_plain = |word: &str| lexicon::is_plain(word) || matches!(word, "saved" | "saving" | "save");
    let plain = lexicon::words(head).iter().all(|word| is_plain(word));
    (plain && counter_with_rest(name).is_none()).then_some(count)
}

/// Splits `Cost after iteration` into `Cost` and the counter.
pub(super) fn counter_with_rest(name: &str) -> Option<(String, Count)> {
    const BETWEEN: [&str; 7] = ["after", "at", "for", "on", "in", "@", "of"];
    let words: Vec<&str> = name.split_whitespace().collect();
    let at = words.iter().rposition(|word| BETWEEN.contains(word))?;
    let head = words[..at].join(" ");
    match (lexicon::meaning(&words[at + 1..].join(" ")), lexicon::meaning(&head)) {
        (Meaning::Counter(count) | Meaning::Declared(count), Meaning::Metric { .. }) => Some((head, count)),
        (Meaning::Unknown, Meaning::Metric { .. }) if words[at] == "after" && words.len() == at + 2 => {
            Some((head, Count::Tally))
        }
        _ => None,
    }
}

/// Returns the metric of `loss after` before a count.
pub(super) fn head_of_a_count(name: &str) -> Option<String> {
    let head = name.strip_suffix(" after")?;
    matches!(lexicon::meaning(head), Meaning::Metric { .. }).then(|| head.to_owned())
}

/// Whether the text after a number names its unit and a value follows: `3 epochs: 0.5`.
pub(super) fn is_unit_before_value(gap: &[u8]) -> bool {
    let Some(word) = gap.trim_ascii().strip_suffix(b":") else { return false };
    let is_word = word.iter().all(u8::is_ascii_alphabetic);
    is_word && matches!(lexicon::meaning(&String::from_utf8_lossy(word)), Meaning::Counter(_) | Meaning::Declared(_))
}

/// Whether the last word of a name is an index: `t_idx`, `block no`.
pub(super) fn indexes(name: &str) -> bool {
    lexicon::words(name).last().is_some_and(|word| matches!(&**word, "idx" | "index" | "no" | "nr" | "number"))
}

/// Returns the counter that is attached to its number as a unit: `3epoch`, `第3轮`.
pub(super) fn counter_unit(unit: &[u8]) -> Option<Count> {
    if unit.first().is_some_and(|byte| !byte.is_ascii()) {
        // The unit is the first character of `轮训练结束`.
        let text = String::from_utf8_lossy(unit);
        let first = text.chars().next().map(String::from);
        return [Some(text.into_owned()), first].into_iter().flatten().find_map(|unit| match lexicon::meaning(&unit) {
            Meaning::Counter(count) => Some(count),
            _ => None,
        });
    }
    match unit {
        b"epoch" => Some(Count::Epoch),
        b"iter" => Some(Count::Iteration),
        b"batch" => Some(Count::Batch),
        b"step" => Some(Count::Step),
        _ => None,
    }
}

/// Whether words beside a count are about an early stop: `No improvement for 2/10 epochs`, `waiting 3/10 epochs before stopping`.
pub(super) fn is_about_a_stop(text: &str) -> bool {
    const STEMS: [&str; 4] = ["improv", "patien", "stop", "wait"];
    let stops = |word: &str| word == "without" || STEMS.iter().any(|stem| word.starts_with(stem));
    lexicon::words(text).iter().any(|word| stops(word))
}

/// Whether words are about a preparation, a build or an evaluation, whose bar is not the progress of the job.
pub(super) fn prepares(text: &str) -> bool {
    const STEMS: [&str; 36] = [
        "download", "upload", "load", "extract", "unpack", "unzip", "token", "map", "filter", "cach", "prepar",
        "preproc", "pars", "index", "build", "compil", "link", "install", "collect", "fetch", "copy", "scan", "read",
        "writ", "sav", "generat", "evaluat", "validat", "test", "predict", "infer", "convert", "export", "import",
        "resolv", "verif",
    ];
    // `Mapping`, `Evaluation`, `Download`; not `saved`, `loader` or `tests`.
    let is_doing = |word: &str, stem: &str| {
        word.strip_prefix(stem)
            .is_some_and(|rest| rest.ends_with("ing") || rest == "ion" || rest.is_empty() && word.len() > 2)
    };
    lexicon::words(text).iter().any(|word| STEMS.iter().any(|stem| is_doing(word, stem)))
}

/// Whether a name before a number of epochs announces a total.
pub(super) fn announces(name: &str) -> bool {
    let words = lexicon::words(name);
    let repeats = words.iter().any(|word| matches!(&**word, "consecutive" | "every" | "after"));
    !repeats
        && !is_about_a_stop(name)
        && words
            .last()
            .is_some_and(|word| matches!(&**word, "for" | "max" | "maximum" | "total" | "run" | "running" | "training"))
}
