//! Recognizes names of settings that give the length of a training, and their units.
//!
//! Every word of a name must be known: one unit, and words such as `num`. A name in an unknown section (`x.max_epochs`) has a lower weight;
//! a name in a section about something else (`scheduler.epochs`) is rejected.

use crate::ProgressUnit::{self, Epoch, Iteration, Round, Sample, Step};

/// Maximum bytes of a name; longer ones are ignored.
const MAX_NAME: usize = 64;

/// Weight factor for a name in an unknown section.
const UNKNOWN_SECTION: f64 = 0.6;

/// Words that may accompany a unit.
const QUALIFIERS: &str = "n num nb nr number of max maximum total tot train training trainer optimizer optimization \
    optim boost boosting learning end fit run";

/// Prefixes of hyperparameters in environment variables: `SM_HP_EPOCHS`.
const PREFIXES: &str = "sm hp pl hparam hparams";

/// Sections with settings of the whole training.
const SECTIONS: &str = "trainer train training args arguments cfg config configs conf param params parameters hparams \
    hyperparameters hyperparams hyper hp run runner runtime experiment exp solver learner learning algo algorithm fit \
    optimization opt general global main base common default defaults setting settings option options loop epochbased \
    based booster boosting xgb xgboost lgbm lightgbm catboost trial job task ppo sac dqn";

/// Words in the names of sections about something else.
const OTHER_SECTIONS: &str = "scheduler sched schedule lr rate warmup eval evaluation evaluator val valid validation test \
    testing infer inference predict data dataset dataloader loader sampler sampling early stop stopping stopper checkpoint \
    checkpointing ckpt callback callbacks log logging logger diffusion noise augment augmentation pretrain pretraining \
    optimizer swa ema decay anneal annealing tune tuning search profiler profile env environment save monitor report";

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub unit: ProgressUnit,
    /// Whether a related unit may be meant.
    pub near: bool,
    /// Confidence by the name alone, 0 ..= 1.
    pub weight: f64,
    /// The name as written, without unknown sections.
    pub shown: String,
}

/// Returns the meaning of `written` if it names a total: `--num_train_epochs`, `+trainer.max_steps`, `SM_HP_EPOCHS`.
pub(super) fn key(written: &str) -> Option<Key> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+');
    if written.len() > MAX_NAME || !written.bytes().all(is_name) {
        return None;
    }
    let bare = written.trim_start_matches(['-', '+']);
    let marks = &written[..written.len() - bare.len()];
    if marks.len() > 2 {
        return None;
    }
    let (sections, name) = match bare.rfind(['.', '/']) {
        Some(at) => (&bare[..at], &bare[at + 1..]),
        None => ("", bare),
    };
    let (unit, near, weight) = meaning(&words(name))?;
    if sections.is_empty() {
        return Some(Key { unit, near, weight, shown: written.to_owned() });
    }
    let within: Vec<String> = sections.split(['.', '/']).flat_map(words).collect();
    if within.iter().any(|word| in_list(OTHER_SECTIONS, word)) {
        return None;
    }
    let known = within.iter().all(|word| in_list(SECTIONS, word));
    let (weight, shown) =
        if known { (weight, written.to_owned()) } else { (weight * UNKNOWN_SECTION, format!("{marks}{name}")) };
    Some(Key { unit, near, weight, shown })
}

/// Whether a section of a file is about something other than the length of the training.
pub(super) fn is_about_something_else(section: &str) -> bool {
    words(section).iter().any(|word| in_list(OTHER_SECTIONS, word))
}

fn in_list(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// Splits `num_train_epochs`, `max-iter`, `nEpochs` or `MAX_STEPS` into lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split(['_', '-']).filter(|part| !part.is_empty()) {
        let mut before_is_small = false;
        for (at, letter) in part.char_indices() {
            let begins = at == 0 || letter.is_ascii_uppercase() && before_is_small;
            before_is_small = !letter.is_ascii_uppercase();
            match words.last_mut().filter(|_| !begins) {
                Some(word) => word.push(letter.to_ascii_lowercase()),
                None => words.push(letter.to_ascii_lowercase().to_string()),
            }
        }
    }
    words
}

/// Returns the unit, whether a related one may be meant, and the weight.
fn meaning(words: &[String]) -> Option<(ProgressUnit, bool, f64)> {
    let mut beside: Vec<&str> = Vec::new();
    let mut units: Vec<&str> = Vec::new();
    for word in words {
        match word.as_str() {
            word if is_unit(word) => units.push(word),
            word if in_list(QUALIFIERS, word) => beside.push(word),
            word if in_list(PREFIXES, word) && units.is_empty() => {}
            word => {
                let (before, unit) = compound(word)?;
                beside.push(before);
                units.push(unit);
            }
        }
    }
    let [unit] = units.as_slice() else { return None };
    let has = |wanted: &[&str]| beside.iter().any(|word| wanted.contains(word));
    let (bounded, counted) =
        (has(&["max", "maximum", "total", "tot", "end"]), has(&["n", "num", "nb", "nr", "number"]));
    let (trained, alone) = (has(&["train", "training", "trainer"]), beside.is_empty());
    let first = |choices: &[(bool, f64)]| choices.iter().find(|(applies, _)| *applies).map(|(_, weight)| *weight);
    let (unit, near, weight) = match *unit {
        "epochs" => (Epoch, false, Some(0.95)),
        "epoch" => (Epoch, false, first(&[(bounded || counted, 0.9), (trained, 0.8), (alone, 0.6)])),
        "steps" => (
            Step,
            true,
            first(&[(bounded, 0.9), (trained, 0.85), (has(&["n", "num"]), 0.4), (alone, 0.6), (true, 0.7)]),
        ),
        "step" => (Step, true, first(&[(bounded, 0.85)])),
        // Diffusion models use this name for their steps too.
        "timesteps" => (Step, false, first(&[(bounded, 0.95), (trained, 0.3), (counted, 0.6), (alone, 0.4)])),
        "updates" => (Step, true, first(&[(bounded || counted, 0.85), (alone, 0.6)])),
        "update" => (Step, true, first(&[(bounded, 0.9)])),
        "batches" => (Step, true, first(&[(bounded, 0.7)])),
        "frames" => (Step, false, first(&[(bounded || counted, 0.75), (alone, 0.4)])),
        "iterations" | "iters" | "iteration" | "iter" => {
            let plural = unit.ends_with('s');
            (Iteration, true, first(&[(bounded, 0.9), (trained, 0.85), (counted, 0.75), (alone && plural, 0.6)]))
        }
        "episodes" | "generations" => (Iteration, false, Some(if alone { 0.75 } else { 0.85 })),
        "episode" | "generation" => (Iteration, false, first(&[(bounded || counted, 0.75)])),
        "trials" => (Iteration, false, Some(0.5)),
        "rounds" => {
            (Round, true, first(&[(has(&["boost", "boosting"]), 0.95), (bounded || counted, 0.85), (alone, 0.6)]))
        }
        "round" => (Round, true, first(&[(has(&["boost", "boosting"]), 0.95), (bounded || counted, 0.85)])),
        "estimators" | "trees" => (Round, true, first(&[(bounded || counted, 0.9)])),
        // `--train-samples` is the length of the training, `--max-train-samples` the amount of data.
        "samples" => (Sample, false, first(&[(words.len() == 2 && words[0] == "train", 0.6)])),
        "kimg" => (Sample, false, Some(0.9)),
        _ => return None,
    };
    Some((unit, near, weight?))
}

fn is_unit(word: &str) -> bool {
    let stem = word.strip_suffix('s').unwrap_or(word);
    let singular = ["epoch", "step", "update", "iteration", "iter", "episode", "generation", "round"].contains(&stem);
    singular || ["timesteps", "batches", "frames", "trials", "estimators", "trees", "samples", "kimg"].contains(&word)
}

/// Splits `nepochs` or `maxiter` into a qualifier and a unit.
fn compound(word: &str) -> Option<(&str, &str)> {
    ["n", "num", "nb", "max", "total", "train"].iter().find_map(|before| {
        let unit = word.strip_prefix(before)?;
        is_unit(unit).then_some((*before, unit))
    })
}
