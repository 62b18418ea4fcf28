//! Finds the beginning of the message of a line, after times, levels, sources and workers.
//!
//! Problem: `I0821 09:22:27.1 5405 solver.cpp:222] `, `[1,0]<stdout>:`, `2022-04-12 17:05:16,552 - INFO - ` are full of irrelevant
//! numbers. Approach: strip atoms while the line begins with one; each atom is recognised by its form, not by the program that writes it.

use super::lexicon;
use super::meaning::{Meaning, Split};

/// Maximum number of stripped atoms.
const ATOMS_MAX: usize = 12;

/// Maximum number of words between a time and a level.
const NAMES_BEFORE_LEVEL: usize = 2;

/// Returns the offset of the message.
pub(crate) fn end(line: &[u8]) -> usize {
    let mut at = skip(line, 0, b" \t");
    let mut stripped = false;
    for _ in 0..ATOMS_MAX {
        let rest = &line[at..];
        let length = time(rest)
            .or_else(|| glog(rest))
            .or_else(|| syslog(rest))
            .or_else(|| level(rest))
            .or_else(|| bracket(rest))
            .or_else(|| open_bracket(rest))
            .or_else(|| if stripped && line[at - 1] == b']' { process(rest) } else { None })
            .or_else(|| worker(rest))
            .or_else(|| logger(rest))
            .or_else(|| {
                if stripped { levelled(rest).or_else(|| before_level(rest)).or_else(|| separator(rest)) } else { None }
            });
        let Some(length) = length else { break };
        stripped = true;
        at = skip(line, at + length, b" \t");
    }
    at
}

fn skip(line: &[u8], mut at: usize, set: &[u8]) -> usize {
    while line.get(at).is_some_and(|byte| set.contains(byte)) {
        at += 1;
    }
    at
}

fn word_end(text: &[u8]) -> usize {
    text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len())
}

/// A date, a time of day, or both: at least three groups of digits joined by `:`, `-` or `/`, possibly with `.`, `,`, `T`, `Z`, `+`.
fn time(text: &[u8]) -> Option<usize> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let mut end = text
        .iter()
        .position(|byte| {
            !(byte.is_ascii_digit() || matches!(byte, b'-' | b'/' | b':' | b'.' | b',' | b'T' | b'Z' | b'+'))
        })
        .unwrap_or(text.len());
    let token = &text[..end];
    let groups = |mark: u8| token.split(|byte| *byte == mark).filter(|group| group.len() >= 2).count();
    // `4,6.67,4:38:18` is a row whose last column is a duration.
    let hour = token.iter().position(|byte| *byte == b':').unwrap_or(0);
    let divided = token[..hour].iter().any(|byte| matches!(byte, b',' | b'.'));
    let clock = !divided && groups(b':') >= 3 && token.iter().filter(|byte| **byte == b':').count() >= 2;
    // `1.0,990.7,-22.6,-2.8` is a row.
    let digits = |mark: u8| token.split(|byte| *byte == mark).take(2).all(|group| group.iter().all(u8::is_ascii_digit));
    let dated = |mark: u8| groups(mark) >= 3 && digits(mark);
    let date = (dated(b'-') || dated(b'/')) && token.len() >= 8;
    if !(clock || date) {
        return None;
    }
    while text.get(end).is_some_and(|byte| matches!(byte, b':' | b',' | b'|' | b']')) {
        end += 1;
    }
    Some(end)
}

/// `I0821 09:22:27.165140  5405 solver.cpp:222] ` of glog and absl; its date has no marks, its source ends in `]`.
fn glog(text: &[u8]) -> Option<usize> {
    let [b'I' | b'W' | b'E' | b'F' | b'D', rest @ ..] = text else { return None };
    if !rest.get(..4)?.iter().all(u8::is_ascii_digit) || rest.get(4) != Some(&b' ') {
        return None;
    }
    let close = text.iter().take(160).position(|byte| *byte == b']')?;
    Some(close + 1)
}

/// `Jan  2 10:00:07 node17 trainer[4711]: ` of syslog and journald.
fn syslog(text: &[u8]) -> Option<usize> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    MONTHS.iter().find(|month| text.starts_with(month))?;
    let mut at = 3;
    let clock = |token: &[u8]| token.len() >= 8 && token[2] == b':' && token[5] == b':';
    for number in 0..4 {
        at = skip(text, at, b" ");
        let token = &text[at..at + word_end(&text[at..])];
        let right = match number {
            0 => token.len() <= 2 && token.iter().all(u8::is_ascii_digit),
            1 => clock(token),
            2 => true,
            _ => token.ends_with(b":"),
        };
        if token.is_empty() || !right {
            return None;
        }
        at += token.len();
    }
    Some(at)
}

const LEVELS: [&[u8]; 12] = [
    b"INFO",
    b"WARNING",
    b"WARN",
    b"ERROR",
    b"DEBUG",
    b"TRACE",
    b"CRITICAL",
    b"NOTICE",
    b"FATAL",
    b"SUCCESS",
    b"Info",
    b"info",
];

fn level(text: &[u8]) -> Option<usize> {
    let found = LEVELS.iter().find(|level| text.starts_with(level))?;
    let mut end = found.len();
    match text.get(end) {
        // `INFO:root:` and `INFO:tensorflow:` name the logger next.
        Some(b':') => {
            end += 1;
            let name = text[end..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
                .count();
            let word = String::from_utf8_lossy(&text[end..end + name]);
            // In `INFO:epoch: 3` the message follows.
            let is_message = !matches!(lexicon::meaning(&word), Meaning::Unknown | Meaning::Other);
            if name > 0 && text.get(end + name) == Some(&b':') && !is_message {
                end += name + 1;
            }
            Some(end)
        }
        Some(b' ' | b'\t' | b'|' | b']' | b'-') | None => Some(end),
        _ => None,
    }
}

/// `[INFO]`, `[LightGBM]`, `[11/19 08:55:03]`, `[1,0]<stdout>:`, `[rank0]:`; not `[3/40]` or `[119]`, which are counts.
fn bracket(text: &[u8]) -> Option<usize> {
    let (open, close) = match text.first()? {
        b'[' => (b'[', b']'),
        b'(' => (b'(', b')'),
        _ => return None,
    };
    let mut depth = 0usize;
    let end = text.iter().take(200).position(|byte| {
        depth += usize::from(*byte == open);
        depth -= usize::from(*byte == close && depth > 0);
        depth == 0
    })?;
    let inside = &text[1..end];
    let after = &text[end + 1..];
    if after.is_empty() {
        return None; // the bracket is the whole line
    }
    if after.starts_with(b"<std") {
        return Some(end + 1 + word_after_tag(after));
    }
    let contains = |part: &[u8]| inside.windows(part.len()).any(|window| window == part);
    let starts = |part: &[u8]| inside.len() >= part.len() && inside[..part.len()].eq_ignore_ascii_case(part);
    let digits = inside.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = inside.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let clock = inside.windows(6).any(|w| {
        w[0].is_ascii_digit()
            && w[1].is_ascii_digit()
            && w[2] == b':'
            && w[3].is_ascii_digit()
            && w[4].is_ascii_digit()
            && w[5] == b':'
    });
    let source = contains(b".py") || contains(b".cc") || contains(b".cpp") || contains(b"pid=");
    let worker =
        ["rank", "default", "worker", "pod/", "node", "gpu", "trainer"].iter().any(|word| starts(word.as_bytes()));
    // A tag is one or two words without numbers. A phrase, a setting or a data split in brackets is part of the message.
    let tag = open == b'['
        && digits == 0
        && letters > 0
        && inside.len() <= 24
        && !inside.contains(&b'=')
        && !inside.contains(&b':')
        && lexicon::split_of(&lexicon::words(&String::from_utf8_lossy(inside))) == Split::Unsaid;
    if !(clock || source || worker || tag) {
        return None;
    }
    Some(end + 1 + usize::from(after.first() == Some(&b':')))
}

/// The process number directly behind a bracket with a time: `[2023-02-01 10:00:00,123][12345] `.
fn process(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"[")?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits >= 3 && text.get(digits + 1) == Some(&b']')).then_some(digits + 2)
}

/// The opening bracket of a bracket around the whole line: `[2023-07-06 05:22:23 PM-train.py-INFO:epoch: 1]`.
fn open_bracket(text: &[u8]) -> Option<usize> {
    let (rest, last) = (text.strip_prefix(b"[")?, text.len() - 1);
    let closed = text.iter().take(200).position(|byte| *byte == b']').is_some_and(|at| at < last);
    (time(rest).is_some() && !closed).then_some(1)
}

/// The process, host or module between a time and a level: `P8266 INFO`, `node-3:0 lib.train:908 INFO`.
fn before_level(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for _ in 0..NAMES_BEFORE_LEVEL {
        at = skip(text, at + word_end(&text[at..]), b" \t");
        if level(&text[at..]).is_some() {
            return Some(at);
        }
    }
    None
}

/// `PM-train.py-INFO:` after a time: a token that ends in a level.
fn levelled(text: &[u8]) -> Option<usize> {
    let token = &text[..word_end(text).min(80)];
    let close = token.iter().position(|byte| *byte == b':')?;
    let at = token[..close].iter().rposition(|byte| !byte.is_ascii_uppercase())?;
    let is_level = LEVELS.contains(&&token[at + 1..close]) && matches!(token[at], b'-' | b'|' | b'.');
    is_level.then_some(close + 1)
}

fn word_after_tag(after: &[u8]) -> usize {
    let tag = after.iter().position(|byte| *byte == b'>').map_or(0, |close| close + 1);
    tag + usize::from(after.get(tag) == Some(&b':'))
}

/// `stdout F ` of the CRI, `wandb: `, `:::MLPv0.5.0 ncf 1541731873.6 `, `worker-1  | ` of compose.
fn worker(text: &[u8]) -> Option<usize> {
    for tag in [&b"stdout F "[..], b"stderr F ", b"stdout P ", b"stderr P ", b"wandb: "] {
        if text.starts_with(tag) {
            return Some(tag.len());
        }
    }
    if text.starts_with(b":::") {
        let mut end = word_end(text);
        for _ in 0..2 {
            end = skip(text, end, b" ");
            end += word_end(&text[end..]);
        }
        return Some(end);
    }
    let name = word_end(text);
    let numbered = name > 2
        && matches!(text[name - 2], b'-' | b'_')
        && text[name - 1].is_ascii_digit()
        && text[0].is_ascii_alphabetic();
    let bar = skip(text, name, b" ");
    (numbered && text.get(bar) == Some(&b'|') && text.get(bar + 1) == Some(&b' ')).then_some(bar + 1)
}

/// A dotted name of a logger or a source with a following mark: `d2.utils.events `, `train.py:100 - `, `absl: `.
fn logger(text: &[u8]) -> Option<usize> {
    let end = word_end(text);
    let token = &text[..end];
    let dotted = token.iter().filter(|byte| **byte == b'.').count();
    let named = token.first()?.is_ascii_alphabetic()
        && token.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'<' | b'>'));
    let sourced = token.windows(4).any(|w| w == b".py:") || token.windows(3).any(|w| w == b".c:");
    let followed = text.get(end..).is_some_and(|rest| {
        rest.starts_with(b" INFO")
            || rest.starts_with(b" - INFO")
            || rest.starts_with(b" WARNING")
            || rest.starts_with(b" - ")
    });
    let plain = dotted >= 2
        && !token.iter().any(|byte| matches!(byte, b':' | b'='))
        && !token.last().is_some_and(u8::is_ascii_digit);
    (named
        && end < text.len()
        && (sourced || plain || (dotted >= 1 && followed) || (followed && text[end..].starts_with(b" - INFO"))))
    .then_some(end)
}

/// A separator between two atoms or after the last one.
fn separator(text: &[u8]) -> Option<usize> {
    match text {
        [b'-' | b':' | b'|', b' ', ..] => Some(2),
        [b':' | b']', ..] => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn times_levels_sources_and_workers_are_not_the_message() {
        let cases: &[(&str, &str)] = &[
            (
                "I0821 09:22:27.165140  5405 solver.cpp:222] Iteration 1300, loss = 0.026",
                "Iteration 1300, loss = 0.026",
            ),
            ("2022-04-12 20:30:45,686 - INFO - epoch: 11, loss:0.08", "epoch: 11, loss:0.08"),
            ("INFO:root:Epoch[0] Batch [0-20]", "Epoch[0] Batch [0-20]"),
            ("[11/19 08:55:34] d2.utils.events INFO:  eta: 20:50:49", "eta: 20:50:49"),
            ("[1,0]<stdout>:loss 0.5", "loss 0.5"),
            ("[LightGBM] [Info] Total Bins 5100", "Total Bins 5100"),
            ("[119]\ttrain-rmse:1.2", "[119]\ttrain-rmse:1.2"),
            ("[ 12/400] loss: 0.53", "[ 12/400] loss: 0.53"),
            (":::MLPv0.5.0 ncf 1541731873.658 (ncf.py:379) train_epoch: 6", "train_epoch: 6"),
            ("2026-11-21T00:24:01.000000456+00:00 stdout F | epoch   1 |", "epoch   1 |"),
            ("2024-01-02 10:00:00.123 | INFO     | __main__:train:42 - loss 3", "__main__:train:42 - loss 3"),
            ("epoch 3: loss 0.2", "epoch 3: loss 0.2"),
            ("(PPO pid=123) reward 3", "reward 3"),
            ("worker-1  | step 3", "step 3"),
            ("Jan  2 10:00:07 node17 trainer[4711]: step 3", "step 3"),
            ("May 12 epochs were run", "May 12 epochs were run"),
            ("[2023-07-06 05:22:23 PM-train_kd.py-INFO:epoch: 1, dice: 0.64]", "epoch: 1, dice: 0.64]"),
            ("[2023-07-06 05:22:23 PM-train_kd.py-INFO:epoch: 1, dice: 0.64", "epoch: 1, dice: 0.64"),
            ("INFO:epoch: 3", "epoch: 3"),
            ("2021-01-25 07:46:56,137 P8266 INFO Train loss: 3", "Train loss: 3"),
            ("[2023-02-01 10:00:00,123][12345] frames: 3", "frames: 3"),
            ("[2023-02-01 10:00:00,123] [12345] loss: 3", "[12345] loss: 3"),
            ("1.0,990.7049,-22.6574,-2.8545,52.7", "1.0,990.7049,-22.6574,-2.8545,52.7"),
            ("06/21/18 - 12:15.20AM, iter: 004", "12:15.20AM, iter: 004"),
        ];
        for (line, message) in cases {
            assert_eq!(&line[end(line.as_bytes())..], *message, "{line}");
        }
    }
}
