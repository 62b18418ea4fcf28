//! Generates sentences from a small grammar, as character codes: text with structure at several ranges.

use super::generator;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

/// Number of characters: letters, the blank and the full stop.
pub(super) const ALPHABET: usize = 28;

const ADJECTIVES: &[&str] = &["old", "small", "quiet", "green", "heavy", "curious", "northern", "patient", "bright"];
const NOUNS: &[&str] =
    &["river", "sailor", "garden", "letter", "engine", "mountain", "teacher", "window", "harbour", "painter", "fox"];
const VERBS: &[&str] = &["follows", "remembers", "carries", "watches", "finds", "repairs", "crosses", "draws", "hears"];
const ADVERBS: &[&str] = &["slowly", "again", "at night", "without a word", "every morning", "for the last time"];

/// The code of a character, below [`ALPHABET`].
fn code(character: u8) -> u8 {
    match character {
        b'a'..=b'z' => character - b'a',
        b'.' => 27,
        _ => 26,
    }
}

/// Generates at least `length` characters of text, as codes.
pub(super) fn write(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = generator(seed, 0);
    let mut text = Vec::with_capacity(length + 100);
    while text.len() < length {
        sentence(&mut rng, &mut text);
    }
    text
}

fn sentence(rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    noun_phrase(rng, text);
    word(VERBS, rng, text);
    noun_phrase(rng, text);
    if rng.random_bool(0.4) {
        word(ADVERBS, rng, text);
    }
    text.pop();
    text.extend([code(b'.'), code(b' ')]);
}

fn noun_phrase(rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    word(&["the", "a", "this", "every"], rng, text);
    if rng.random_bool(0.5) {
        word(ADJECTIVES, rng, text);
    }
    word(NOUNS, rng, text);
}

fn word(words: &[&str], rng: &mut ChaCha8Rng, text: &mut Vec<u8>) {
    let word = words.choose(rng).copied().unwrap_or_default();
    text.extend(word.bytes().map(code));
    text.push(code(b' '));
}
