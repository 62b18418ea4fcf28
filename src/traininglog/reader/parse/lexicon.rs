//! Finds the meaning of a printed name: an evaluation function with its direction and weight, a counter, or something else.
//!
//! Problem: there are thousands of names, but few words. Approach: split a name into words (`train_loss`, `TrainDeviance`, `ep_rew_mean`)
//! and look up the words, in the common languages of training scripts. A word for a time, a size, a setting or a spread outweighs any word
//! for an evaluation.

use super::meaning::{ASIDE, Count, Meaning, Split};
use super::vocabulary::{FNV_OFFSET, METRICS_WITHIN, Word, fnv1a, word as known};
use crate::Direction::{self, Down, Up};
use std::borrow::Cow;
use std::ops::Range;

/// Minimum bytes of an ending that gives a compound its meaning.
const ENDING_MIN: usize = 4;

/// Maximum bytes of a pair of words that is looked up as one.
const PAIR_MAX: usize = 40;

/// Words behind the name of a counter that say that its units are in the past.
const DONE: [&str; 6] = ["seen", "done", "completed", "processed", "finished", "trained"];

/// Direction, weight, and the words of the name that decide them.
type Decided = (Direction, f32, Range<usize>);

/// Splits a name into lower-case words: at marks, at `lowUp`, and between an acronym and a word (`CELoss`).
pub(crate) fn words(name: &str) -> Vec<Cow<'_, str>> {
    let mut words = Vec::new();
    for part in name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()) {
        // Fast path for lower-case names.
        if part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            words.push(Cow::Borrowed(part));
            continue;
        }
        let chars: Vec<char> = part.chars().collect();
        let mut word = String::new();
        for (at, c) in chars.iter().enumerate() {
            let starts = at > 0
                && (c.is_uppercase()
                    && (chars[at - 1].is_lowercase()
                        || chars[at - 1].is_ascii_digit()
                        || chars.get(at + 1).is_some_and(|next| next.is_lowercase()))
                    || is_unspaced(*c) != is_unspaced(chars[at - 1]));
            if starts && !word.is_empty() {
                words.push(Cow::Owned(std::mem::take(&mut word)));
            }
            word.extend(c.to_lowercase());
        }
        words.push(Cow::Owned(word));
    }
    words
}

/// Whether the character belongs to a script without blanks between words: `训练Epoch` is two words.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}')
}

/// Returns the meaning of `name`; see the module.
pub(crate) fn meaning(name: &str) -> Meaning {
    let words = words(name);
    if words.is_empty() || words.len() > 12 {
        return Meaning::Unknown;
    }
    if name.trim() == "E" {
        return Meaning::Counter(Count::Epoch);
    }
    // A command line or a path is no name.
    if name.contains(" /") || name.contains("../") {
        return Meaning::Other;
    }
    let meanings: Vec<Word> = words.iter().map(|word| known(word)).collect();
    if meanings.iter().all(|word| word.joining) {
        return Meaning::Other;
    }
    in_section(name).or_else(|| counter(&words)).unwrap_or_else(|| metric(name, &words, &meanings))
}

/// Returns a hash of the name of a counter: equal for names of the same counter (`Train Epoch`, `cur_epoch`), different for `global step`
/// and `step`.
pub(crate) fn label_of(name: &str) -> u16 {
    const OTHERS: &str =
        "global valid val validation eval evaluation test testing dev total load learner actor agent env environment";
    let words = words(name);
    let is_significant =
        |word: &&Cow<'_, str>| OTHERS.split(' ').any(|other| other == **word) || !known(word).before_counter;
    let mut hash = FNV_OFFSET;
    for word in words.iter().filter(is_significant) {
        let word =
            if known(word).counter == Some(Count::Epoch) { "epoch" } else { word.strip_suffix('s').unwrap_or(word) };
        hash = fnv1a(hash, word);
    }
    let hash = (hash ^ (hash >> 32)) as u16;
    if matches!(split_of(&words), Split::Valid | Split::Test) { hash | ASIDE } else { hash & !ASIDE }
}

/// Returns the data split that the words name.
pub(crate) fn split_of(words: &[Cow<'_, str>]) -> Split {
    let found = words.iter().rev().find_map(|word| match &**word {
        "trn" | "learn" => Some(Split::Train),
        "val" | "vali" | "valid" | "validation" | "dev" | "eval" | "evaluation" | "holdout" | "cv" | "evaluating"
        | "validating" => Some(Split::Valid),
        "验证" | "検証" | "검증" => Some(Split::Valid),
        "训练" | "訓練" | "学習" | "훈련" => Some(Split::Train),
        "test" | "testing" | "测试" => Some(Split::Test),
        // Also compounds: `Trainingsverlust`, `Validierungsverlust`.
        word if word.starts_with("train") => Some(Split::Train),
        word if word.starts_with("valid") => Some(Split::Valid),
        _ => None,
    });
    found.unwrap_or(Split::Unsaid)
}

/// Whether a name consists of a data split: `Train`, `validation`.
pub(crate) fn names_a_split(name: &str) -> bool {
    let words = words(name);
    let splits = |word: &Cow<'_, str>| known(word).neutral && split_of(std::slice::from_ref(word)) != Split::Unsaid;
    !words.is_empty() && words.iter().all(splits)
}

/// Returns the meaning of a counter in a section: `misc/total_timesteps` counts steps; `ms/step` is a speed.
fn in_section(name: &str) -> Option<Meaning> {
    let (section, rest) = name.rsplit_once('/')?;
    let speed = words(section).iter().any(|word| known(word).other || word.len() < 3);
    if speed { None } else { counter(&words(rest)) }
}

fn counted(word: &str) -> Option<Count> {
    known(word).counter
}

fn counter(words: &[Cow<'_, str>]) -> Option<Meaning> {
    let last = words.last()?;
    // `Epochs seen: 30`, `steps_done=100`
    if let [counted @ .., last] = words
        && DONE.contains(&&**last)
        && let Some(Meaning::Counter(count) | Meaning::Declared(count)) = counter(counted)
    {
        return Some(Meaning::Counter(count));
    }
    // `epoch_num` is the number of the epoch; `num_epochs` and `epoch_count` are totals.
    let declares = match &**last {
        "id" | "idx" | "no" | "nr" | "num" | "number" | "numero" | "número" | "nummer" | "i" => Some(false),
        "count" | "total" | "max" | "maximum" => Some(true),
        _ => None,
    };
    if let Some(declares) = declares.filter(|_| words.len() >= 2)
        && let Some(Meaning::Counter(count) | Meaning::Declared(count)) = counter(&words[..words.len() - 1])
    {
        return Some(if declares { Meaning::Declared(count) } else { Meaning::Counter(count) });
    }
    let count = counted(last)?;
    let before: Vec<&Cow<'_, str>> = words.iter().filter(|word| *word != last).collect();
    if before.iter().all(|word| known(word).before_counter || counted(word).is_some()) {
        let declares = before.iter().any(|word| matches!(&***word, "num" | "n" | "total"));
        let is_plural = last.strip_suffix('s').is_some_and(|one| counted(one).is_some());
        // `epochs: 30`, `train_steps: 1000`
        let is_declared = is_plural && before.iter().all(|word| known(word).declares);
        return Some(if declares || is_declared { Meaning::Declared(count) } else { Meaning::Counter(count) });
    }
    let declared = before.iter().all(|word| known(word).declares);
    // Lightning's `train_loss_step` and `val_loss_epoch` are values of one step and means of an epoch. `acc_steps` is no value.
    let is_of_one = matches!(&**last, "step" | "epoch" | "batch" | "iter" | "iteration");
    if !declared && is_of_one && before.iter().any(|word| known_metric(word).is_some()) {
        return None;
    }
    Some(if declared { Meaning::Declared(count) } else { Meaning::Other })
}

fn metric(name: &str, words: &[Cow<'_, str>], meanings: &[Word]) -> Meaning {
    let split = split_of(words);
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if has("rate") || has("rates") {
        return match meanings.iter().find_map(|word| word.rated) {
            Some(direction) => Meaning::Metric { direction: Some(direction), weight: 0.75, split },
            None => Meaning::Other,
        };
    }
    if let [word] = meanings
        && let Some((direction, weight)) = word.bare
    {
        return Meaning::Metric { direction, weight, split };
    }
    // `training l2`, `valid_0's l1`: alone `l1` and `l2` are norms, with a data split they are errors.
    if split != Split::Unsaid && words.last().is_some_and(|word| matches!(&**word, "l1" | "l2")) {
        return Meaning::Metric { direction: Some(Down), weight: 0.7, split };
    }
    // `cross entropy` and `box_loss` are losses, although `entropy` and `box` alone are not.
    let crossed = words.windows(2).any(|pair| pair[0] == "cross" && pair[1] == "entropy");
    let part_of_loss = words.last().is_some_and(|word| word == "loss");
    // In `gamma-nloglik`, `gamma` is the distribution.
    let is_likelihood =
        |word: &Cow<'_, str>| word == "deviance" || word.ends_with("loglik") || word.ends_with("likelihood");
    let is_other = |(word, entry): (&Cow<'_, str>, &Word)| {
        let excused = || match &**word {
            "kl" if words.len() == 2 => part_of_loss || has("divergence"), // the objective of t-SNE
            "box" | "entropy" | "kl" | "p" | "layer" => crossed || part_of_loss,
            "gamma" => words.iter().any(is_likelihood),
            "data" => split != Split::Unsaid, // `cost on training data`
            _ => false,
        };
        entry.other && !excused()
    };
    if words.iter().zip(meanings).any(is_other) {
        return Meaning::Other;
    }
    let found = match crossed {
        true => Some((Down, 0.95, 0..words.len())),
        false => paired(words)
            .filter(|(direction, ..)| !part_of_loss || *direction == Down) // an `IoULoss` falls
            .or_else(|| last_metric(words))
            .or_else(|| within(name).map(|(direction, weight)| (direction, weight, 0..words.len()))),
    };
    found.map_or(Meaning::Unknown, |decided| graded(words, meanings, decided, split))
}

/// Looks up pairs that are known only as one word: `log loss`, `SmoothL1`, `log likelihood`.
fn paired(words: &[Cow<'_, str>]) -> Option<Decided> {
    words.windows(2).enumerate().rev().find_map(|(at, pair)| {
        let (length, mut room) = (pair[0].len() + pair[1].len(), [0u8; PAIR_MAX]);
        let joined = room.get_mut(..length)?;
        joined[..pair[0].len()].copy_from_slice(pair[0].as_bytes());
        joined[pair[0].len()..].copy_from_slice(pair[1].as_bytes());
        let joined = std::str::from_utf8(joined).ok()?;
        let (direction, weight) =
            exact(joined).or_else(|| exact(joined.trim_end_matches(|c: char| c.is_ascii_digit())))?;
        Some((direction, weight, at..at + 2))
    })
}

fn last_metric(words: &[Cow<'_, str>]) -> Option<Decided> {
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let (direction, weight) = known_metric(word)?;
        Some((direction, weight, at..at + 1))
    })
}

fn exact(word: &str) -> Option<(Direction, f32)> {
    known(word).metric
}

fn known_metric(word: &str) -> Option<(Direction, f32)> {
    // mAP50, rouge2, fid50k, pixacc: a number is a variant, and a compound has the meaning of its ending.
    let bare = word.split(|c: char| c.is_ascii_digit()).next().unwrap_or(word);
    let ending = || {
        let long = |at: &usize| word.len() - at >= ENDING_MIN;
        word.char_indices().skip(1).map(|(at, _)| at).take_while(long).find_map(|at| exact(&word[at..]))
    };
    exact(word).or_else(|| if bare.len() >= 2 && bare.len() < word.len() { exact(bare) } else { ending() })
}

/// Whether a word does not turn a phrase into a setting, a time or a reference to an earlier value.
pub(crate) fn is_plain(word: &str) -> bool {
    let known = known(word);
    !(known.other || known.secondary || known.declares)
}

fn within(name: &str) -> Option<(Direction, f32)> {
    let mut known = METRICS_WITHIN.iter();
    known
        .find(|(.., list)| list.split_ascii_whitespace().any(|word| name.contains(word)))
        .map(|(direction, weight, _)| (*direction, *weight))
}

fn graded(words: &[Cow<'_, str>], meanings: &[Word], decided: Decided, split: Split) -> Meaning {
    let (direction, mut weight, deciding) = decided;
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    // sklearn's `neg_mean_squared_error` rises; a `negative log likelihood` falls.
    let direction = match direction {
        Up if has("neg") || has("negative") => Down,
        Down if has("neg") => Up,
        direction => direction,
    };
    let of_the_name = |word: &str| matches!(word, "cross" | "entropy" | "log" | "likelihood");
    // Another metric qualifies a name like an unknown word: an `accuracy_reward` is one term of the reward.
    let qualifies = |(at, (word, entry)): &(usize, (&Cow<'_, str>, &Word))| {
        !entry.neutral && !of_the_name(word) && (!deciding.contains(at) || known_metric(word).is_none())
    };
    weight *= 0.95f32.powi(words.iter().zip(meanings).enumerate().filter(qualifies).count().min(3) as i32);
    if meanings.iter().any(|word| word.secondary) {
        weight *= 0.5;
    }
    if words.iter().zip(meanings).any(|(word, entry)| entry.part || word.ends_with("l1") || word.ends_with("l2")) {
        weight *= 0.9;
    }
    // The parts of an agent's loss measure how well its networks fit, not how well it acts; entropies and divergences even less.
    for (word, factor) in
        [("policy", 0.6), ("rl", 0.6), ("value", 0.6), ("critic", 0.6), ("actor", 0.6), ("entropy", 0.4), ("kl", 0.4)]
    {
        if direction == Down && words.len() > 1 && has(word) && !has("cross") {
            weight *= factor;
        }
    }
    // Training values are dense and are preferred until a validation improves. Test values are few and often printed at the end.
    weight *= match split {
        Split::Unsaid | Split::Train => 1.0,
        Split::Valid => 0.85,
        Split::Test => 0.75,
    };
    Meaning::Metric { direction: Some(direction), weight, split }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(name: &str) -> Option<Direction> {
        match meaning(name) {
            Meaning::Metric { direction, .. } => direction,
            _ => None,
        }
    }

    #[test]
    fn losses_fall_and_scores_rise_in_many_spellings() {
        for name in [
            "loss",
            "Train-SmoothL1",
            "val_loss",
            "RCNNL1Loss",
            "cross-entropy",
            "valid's binary_logloss",
            "TrainDeviance",
            "perte",
            "训练损失",
            "box_loss",
            "word error rate",
            "abs_REL",
            "TrainLossPerSample",
            "IoULoss",
            "eval-gamma-nloglik",
            "gamma-deviance",
            "negloglik",
            "NELBO",
        ] {
            assert_eq!(direction(name), Some(Down), "{name}");
        }
        for name in [
            "acc",
            "mAP50-95",
            "rollout/ep_rew_mean",
            "HR@10",
            "Acc@1",
            "Validation score",
            "success rate",
            "точность",
            "pixAcc",
            "ENTS_F1",
            "episode_return_mean",
            "loglik",
            "ELBO",
        ] {
            assert_eq!(direction(name), Some(Up), "{name}");
        }
    }

    #[test]
    fn another_metric_in_a_name_qualifies_it() {
        let weight = |name: &str| match meaning(name) {
            Meaning::Metric { weight, .. } => weight,
            _ => 0.0,
        };
        assert!(weight("rewards/accuracy_reward/mean") < weight("reward"));
        assert!(weight("nll_loss") < weight("loss"));
        assert_eq!(weight("log likelihood"), weight("loglikelihood"), "both words decide");
    }

    #[test]
    fn settings_timings_and_sizes_are_no_evaluation() {
        for name in [
            "lr",
            "learning rate",
            "loss scale",
            "grad norm",
            "ms/batch",
            "samples/sec",
            "Std of Reward",
            "Desired error",
            "loss_weight",
            "lr_decay_epoch",
            "elapsed time per iteration (ms)",
            "GPU_mem",
            "gamma",
        ] {
            assert_eq!(meaning(name), Meaning::Other, "{name}");
        }
    }

    #[test]
    fn counters_are_distinguished_from_their_totals() {
        assert_eq!(meaning("Train Epoch"), Meaning::Counter(Count::Epoch));
        assert_eq!(meaning("global step"), Meaning::Counter(Count::Step));
        assert_eq!(meaning("batch_id"), Meaning::Counter(Count::Batch));
        assert_eq!(meaning("num_train_epochs"), Meaning::Declared(Count::Epoch));
        assert_eq!(meaning("MAX_ITER"), Meaning::Declared(Count::Iteration));
        assert_eq!(meaning("Total optimization steps"), Meaning::Declared(Count::Step));
        assert_eq!(meaning("Scheduled epochs"), Meaning::Declared(Count::Epoch));
        assert_eq!(meaning("warmup_epochs"), Meaning::Other);
        assert_eq!(meaning("time per iteration"), Meaning::Other);
    }
}
