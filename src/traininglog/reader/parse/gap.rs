//! The text between two numbers: names, boundaries and units. Parts of the grammar of `fields`.

use super::lexicon;
use super::meaning::Meaning;
use super::phrases;
use std::borrow::Cow;

/// Maximum characters of a name.
const NAME_MAX: usize = 64;

/// The text before a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Left {
    /// The name of the number, and the other words of the gap.
    Named { name: String, context: String },
    /// No words. `opened`: directly after a bracket; `separated`: after a colon, `=` or "is".
    Bare { opened: bool, separated: bool },
    /// `± 0.1`: the number is the spread of the one before.
    Spread,
}

/// Returns the unit attached to a number: `ms/step` of `3ms/step`, `%`.
pub(super) fn unit(text: &[u8]) -> &[u8] {
    if let Some(b"%") = text.strip_prefix(b" ").and_then(|text| text.get(..1)) {
        return &text[1..2];
    }
    let mut end = 0;
    while let Some(byte) = text.get(end) {
        let joins = *byte == b'/' && text.get(end + 1).is_some_and(u8::is_ascii_alphabetic) && end > 0;
        // Wide punctuation ends a unit: `第3轮，损失：0.5`.
        if ["±", "，", "：", "；", "。"].iter().any(|mark| text[end..].starts_with(mark.as_bytes())) {
            break;
        }
        let word = byte.is_ascii_alphabetic()
            || *byte >= 0xC2 && *byte != 0xE2
            || (end > 0 && (*byte & 0xC0 == 0x80 || byte.is_ascii_alphanumeric() || *byte == b'_'));
        if *byte == b'%' && end == 0 {
            return &text[..1];
        }
        if !(joins || word) {
            break;
        }
        end += 1;
    }
    &text[..end]
}

/// Whether the text behind a number is the level of another message: `loss: 0.5WARNING:root:…`.
fn is_level(unit: &[u8]) -> bool {
    matches!(unit, b"WARNING" | b"INFO" | b"ERROR" | b"DEBUG" | b"Traceback")
}

/// Whether a unit does not change the meaning of a number.
pub(super) fn is_plain_unit(unit: &[u8]) -> bool {
    matches!(unit, b"dB" | b"db" | b"x" | b"nats" | b"bits" | b"pts") || is_level(unit)
}

/// Whether the gap makes the next number the total of the one before.
pub(super) fn divides(gap: &[u8]) -> bool {
    const OF: [&[u8]; 12] = [
        b"/",
        b"of",
        b"out of",
        b"von",
        b"de",
        b"sur",
        b"di",
        "из".as_bytes(),
        b"//",
        "共".as_bytes(),
        "/共".as_bytes(),
        "/ 共".as_bytes(),
    ];
    let gap = gap.trim_ascii();
    // `[3]/[20]`: each in brackets.
    let gap = gap.strip_prefix(b"]").and_then(|gap| gap.strip_suffix(b"[")).map_or(gap, <[u8]>::trim_ascii);
    // `3 epoch / 20 epochs`.
    if let Some(word) = gap.strip_suffix(b"/")
        && matches!(lexicon::meaning(&String::from_utf8_lossy(word)), Meaning::Counter(_) | Meaning::Declared(_))
    {
        return true;
    }
    // `3 completed out of 10`
    let gap = [&b"completed "[..], b"done "].iter().find_map(|done| gap.strip_prefix(*done)).unwrap_or(gap);
    // `iteration: 1 of max_iter: 25` names its total.
    OF.contains(&gap) || (gap.starts_with(b"of ") && gap.len() < 24 && gap.ends_with(b":") && !gap.contains(&b','))
}

/// Returns the name of a number from the text before it.
pub(super) fn left(gap: &[u8]) -> Left {
    let lossy = String::from_utf8_lossy(gap);
    let is_wide = gap.iter().any(|byte| matches!(byte, 0xE2 | 0xE3 | 0xEF));
    let text = if is_wide { Cow::Owned(lossy.replace(['│', '┃', '║', '，', '；', '。'], "|")) } else { lossy };
    let mut rest = text.trim_end();
    if ["±", "+/-", "+-", "(+/-"].iter().any(|spread| rest.ends_with(spread)) {
        return Left::Spread;
    }
    let (mut opened, mut separated) = (false, false);
    let quoted = rest.ends_with(['"', '\'']);
    loop {
        let before = rest;
        rest = rest.trim_end_matches(|c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '~' | '≈' | '<' | '>' | '*' | '$' | '#')
        });
        if let Some(shorter) = rest.strip_suffix(['=', ':', '：']) {
            (rest, separated) = (shorter, true);
        }
        if let Some(shorter) = rest.strip_suffix(['[', '(', '{']) {
            (rest, opened) = (shorter, !quoted);
        }
        for copula in [" is", " was", " of", " ist", " est", " è", " es"] {
            if let Some(shorter) = rest.strip_suffix(copula) {
                (rest, separated) = (shorter, true);
            }
        }
        if matches!(rest, "is" | "was") {
            (rest, separated) = ("", true);
        }
        if rest == before {
            break;
        }
    }
    if let Some(name) = called(rest).filter(|_| separated) {
        return Left::Named { name, context: String::new() };
    }
    // Before a pair of brackets without a number: `time (sec): 1.2`.
    let (rest, in_brackets) = unbracketed(rest);
    let (tail, head) = tail(rest);
    let name = cleaned(tail);
    // A bracket belongs to the name directly before it: `Epoch [3`, `lr=[1e-4`.
    if name.is_empty() {
        return Left::Bare { opened, separated };
    }
    // `Epoch(train) [3`: the brackets are context; the argument of `f(x)` is ignored.
    if !in_brackets.is_empty() && matches!(lexicon::meaning(&name), Meaning::Counter(_)) {
        return Left::Named { name, context: format!("{head} {in_brackets}") };
    }
    let name = if in_brackets.chars().count() < 2 { name } else { format!("{name} ({in_brackets})") };
    Left::Named { name, context: head.to_owned() }
}

/// Returns the evaluation that an expression calls, as shown by Julia: `loss` of `sum(loss.(data, labels))`.
fn called(expression: &str) -> Option<String> {
    let expression = expression.trim_start();
    let calls =
        expression.ends_with(')') && expression.contains(',') && !expression.contains([':', '|', '=', '[', '{']);
    if !calls {
        return None;
    }
    let before_calls = expression.split('(').map(|part| part.trim_end_matches('.'));
    let name = |part: &str| part.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().map(str::to_owned);
    before_calls.filter_map(name).find(|name| matches!(lexicon::meaning(name), Meaning::Metric { .. }))
}

/// Splits `time (sec)` into `time` and `sec`.
fn unbracketed(text: &str) -> (&str, &str) {
    let close = match text.chars().last() {
        Some(')') => ('(', ')'),
        Some(']') => ('[', ']'),
        _ => return (text, ""),
    };
    let Some(open) = text.rfind(close.0) else { return (text.trim_end_matches(close.1), "") };
    let inside = text[open + 1..].trim_end_matches(close.1);
    let before = text[..open].trim_end();
    // `loss(): 0.5`, `cost []: 0.5`
    if inside.trim().is_empty() {
        return (before, "");
    }
    if before.is_empty() || !inside.chars().any(char::is_alphabetic) || before.ends_with([',', ';', '|']) {
        return (inside, "");
    }
    (before, inside)
}

/// Splits at the last boundary. Returns the text after it and the text before it.
fn tail(text: &str) -> (&str, &str) {
    let mut cut = 0;
    let bytes = text.as_bytes();
    for at in 0..bytes.len() {
        let two = &bytes[at..(at + 2).min(bytes.len())];
        let three = &bytes[at..(at + 3).min(bytes.len())];
        let boundary = match bytes[at] {
            b',' | b';' | b'|' | b'\t' | b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'=' | b':' | b'?' => 1,
            _ if three == b" - " => 3,
            _ if two == b"  " => 2,
            _ if two == b". " && !abbreviates(&text[..at]) => 2,
            _ => 0,
        };
        if boundary > 0 {
            // A separator at the end is no boundary: `cross-entropy : 48.2`.
            let behind = &text[at + boundary..];
            if behind.chars().any(char::is_alphanumeric) {
                cut = at + boundary;
            }
        }
    }
    let cut = (cut..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (&text[cut..], &text[..cut])
}

/// Whether a full stop after `text` belongs to an abbreviation: `Neg. LLF`, `Avg. loss`.
fn abbreviates(text: &str) -> bool {
    let letters = text.chars().rev().take_while(|c| c.is_alphabetic()).count();
    (1..=4).contains(&letters)
}

/// Removes decoration and a leading phrase from a name: `finished with value` becomes `value`.
fn cleaned(text: &str) -> String {
    const LEADS_TO: [&str; 10] = ["with", "after", "at", "for", "and", "has", "got", "reached", "the", "by"];
    let trimmed = text.trim_matches(|c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\''
                    | '`'
                    | '.'
                    | '*'
                    | '-'
                    | '>'
                    | '<'
                    | '!'
                    | '/'
                    | '~'
                    | '&'
                    | '^'
                    | '\\'
                    | '+'
                    | '='
                    | ':'
                    | '_'
                    | ','
                    | '→'
                    | '%'
            )
    });
    let words: Vec<&str> = trimmed.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).collect();
    if words.is_empty() || !trimmed.chars().any(char::is_alphabetic) {
        return String::new();
    }
    let cut = match words.len() {
        0..=2 => words.iter().position(|word| matches!(*word, "and" | "with" | "the" | "has")).map_or(0, |at| at + 1),
        _ => words.iter().rposition(|word| LEADS_TO.contains(word)).map_or(0, |at| at + 1),
    };
    let kept = if cut < words.len() { &words[cut..] } else { &words[..] };
    let kept = &kept[kept.len().saturating_sub(6)..];
    // A phrase before a counter is kept: `Cost after iteration` names the value after the count.
    let counted = cut > 0
        && match lexicon::meaning(&kept.join(" ")) {
            Meaning::Counter(_) => true,
            Meaning::Unknown => phrases::counter_with_rest(&words.join(" ")).is_some(),
            _ => false,
        };
    let kept = if counted { &words[words.len().saturating_sub(6)..] } else { kept };
    kept.join(" ").chars().take(NAME_MAX).collect()
}

/// Whether a percentage before this text is that of a bar, or is done.
pub(super) fn is_of_progress(right: &[u8]) -> bool {
    right.starts_with(b"|") || matches!(first_word(right).as_deref(), Some("complete" | "completed" | "done"))
}

/// Whether the words after a number make it a time, a size or a speed.
pub(super) fn is_measured(right: &[u8]) -> bool {
    const UNITS: [&str; 14] =
        ["us", "min", "mins", "h", "MB", "GB", "KB", "MiB", "GiB", "kB", "bytes", "it", "params", "M"];
    let text = String::from_utf8_lossy(right);
    let word = unit_word(&text);
    is_timed(right) || text.starts_with(' ') && (UNITS.contains(&word) || word.contains("/s") || word.ends_with("/sec"))
}

/// Whether the words after a number make it a time, regardless of its name: `Cost: 715.7 sec`.
pub(super) fn is_timed(right: &[u8]) -> bool {
    const TIMES: [&str; 8] = ["s", "sec", "secs", "second", "seconds", "ms", "minutes", "hours"];
    let text = String::from_utf8_lossy(right);
    text.starts_with(' ') && TIMES.contains(&unit_word(&text))
}

/// Returns the word after a number, unless it names the next value: `0.25  sec = 3.1`.
fn unit_word(right: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | ')' | ']');
    if right.starts_with("  ") {
        return ""; // `6.42  sec 2.9s`
    }
    let right = right.trim_start();
    let word = right.split(ends).next().unwrap_or("");
    let names = word.ends_with([':', '=']) || right[word.len()..].trim_start().starts_with([':', '=']);
    if names { "" } else { word }
}

/// Whether a whole number at the beginning of a line is a counter: `149: 2.6`, `[119]\ttrain`, `3 | 0.5`.
pub(super) fn leads(before: &[u8], after: &[u8]) -> bool {
    // `=====>>>>[3] `: a bracket behind a rule.
    let in_bracket = matches!(before.last(), Some(b'[' | b'(')) && matches!(after.first(), Some(b']' | b')'));
    let opens = before.iter().all(|byte| match byte {
        b' ' | b'\t' | b'[' | b'(' | b'#' | b'|' => true,
        b'=' | b'-' | b'>' | b'*' | b'~' | b'+' => in_bracket,
        _ => false,
    });
    let trimmed = after.trim_ascii_start();
    let spaced = after.len() - trimmed.len() >= 2;
    let marked = matches!(trimmed.first(), Some(b':' | b']' | b')' | b'|' | b',' | b'-' | b'=' | b'>'));
    opens && (marked || spaced || before.ends_with(b"#") || after.first() == Some(&b'\t'))
}

/// Whether a number is alone in a drawn rule: `-----3------`, `=== 3 ===`.
pub(super) fn is_ruled_off(before: &[u8], after: &[u8]) -> bool {
    let is_drawn = |text: &[u8]| {
        let marks = text.trim_ascii();
        marks.len() >= 3 && b"-=*#~_".contains(&marks[0]) && marks.iter().all(|byte| *byte == marks[0])
    };
    is_drawn(before) && is_drawn(after)
}

/// Whether the next number is in the same or a following bracket: `[1,  2000]`, `[0][20]`, `(3) [40]`.
pub(super) fn continues_bracket(gap: &[u8]) -> bool {
    gap.iter().all(|byte| matches!(byte, b' ' | b',' | b'[' | b']' | b'(' | b')' | b':'))
        && gap.iter().any(|byte| matches!(byte, b',' | b'[' | b'('))
}

/// Whether a message is about a checkpoint or the best values so far.
pub(super) fn repeats(message: &[u8]) -> bool {
    let word = message.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    ["saving", "saved", "save", "best"].iter().any(|begin| message[..word].eq_ignore_ascii_case(begin.as_bytes()))
}

/// Returns the factor of an abbreviated count, whose unit begins `text`: 1000 of `50K`.
pub(crate) fn scale(text: &[u8]) -> f64 {
    let ends = text.get(1).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'/');
    match text.first() {
        Some(b'K' | b'k') if ends => 1e3,
        Some(b'M') if ends => 1e6,
        Some(b'B' | b'G') if ends => 1e9,
        _ => 1.0,
    }
}

/// Returns the string under `key`, `name`, `metric` or `tag` in an object that is open at the end of `before`.
pub(super) fn key_before(before: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(before);
    let is_open = |after: &str| after.matches('}').count() <= after.matches('{').count();
    ["\"key\":", "\"name\":", "\"metric\":", "\"tag\":"].iter().find_map(|key| {
        let begin = text.rfind(key)? + key.len();
        let value = text[begin..].trim_start().strip_prefix('"')?;
        let end = value.find('"')?;
        (end <= NAME_MAX && is_open(&value[end..])).then(|| value[..end].to_owned())
    })
}

/// Returns the words after a number that name it, if a boundary and not another number follows.
pub(super) fn right_name(right: &[u8], ends_line: bool) -> Option<String> {
    let text = String::from_utf8_lossy(right);
    // `0.8734 = Validation score (accuracy)`
    let name =
        text.trim_start().strip_prefix("= ").filter(|_| ends_line).map(|name| name.split('(').next().unwrap_or(name));
    if let Some(name) = name.map(cleaned).filter(|name| !name.is_empty()) {
        return Some(name);
    }
    if !text.starts_with(' ') || is_measured(right) {
        return None;
    }
    // `300.5 perplexity estimate based on …`: the name is the first word of a sentence.
    let mut sentence = text.split_whitespace();
    if let (Some(first), Some(second), Some(_)) = (sentence.next(), sentence.next(), sentence.next())
        && matches!(lexicon::meaning(first), Meaning::Metric { weight, .. } if weight >= 0.6)
        && !first.ends_with([':', '=', ','])
        && !second.starts_with([':', '='])
    {
        return Some(first.to_owned());
    }
    let end = text.find([',', ';', '|', '\t', ')', ']']);
    let words = match end {
        Some(end) => &text[..end],
        None if ends_line => &text,
        None => return None,
    };
    let short = words.split_whitespace().count() <= 3 && !words.contains([':', '=']);
    let name = cleaned(words);
    (short && !name.is_empty()).then_some(name)
}

/// Returns the first word after a number.
pub(super) fn first_word(right: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(right);
    let word = text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty())?;
    text.trim_start().starts_with(word).then(|| word.to_owned())
}

/// Whether a number is whole but printed with decimals: `4.0`.
pub(super) fn is_whole_decimal(number: &[u8]) -> bool {
    let mut parts = number.split(|byte| *byte == b'.');
    let whole = parts.next().is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    whole && parts.next().is_some_and(|part| part.iter().all(|byte| *byte == b'0'))
}
