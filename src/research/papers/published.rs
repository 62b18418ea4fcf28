//! The published figures, each with its place in the paper and the words that have it: a line of published.tsv. A figure that the paper gives
//! in seconds alone is their relative change. The schedule of a figure that only the notes have is [`NOTES`].

use super::{Evaluation, Row};

const FIGURES: &str = include_str!("published.tsv");

const NOTES: &str = "notes";

/// Lines of the file: paper, schedule, quantity, figure, place and words.
fn figures() -> impl Iterator<Item = [&'static str; 6]> {
    let fields = |line: &'static str| line.split('\t').collect::<Vec<_>>().try_into().ok();
    FIGURES.lines().skip(1).filter_map(fields)
}

/// Returns the place of a row's published figure, and its words there.
pub(super) fn place(evaluation: &Evaluation, row: &Row) -> Option<[&'static str; 2]> {
    let wanted = [paper(evaluation), &row.source, row.what, &row.published];
    figures().find(|figure| figure[..4] == wanted).map(|[.., place, words]| [place, words])
}

/// Returns the published figures of a paper's notes: quantity, figure, place, words.
pub(super) fn in_notes(evaluation: &Evaluation) -> impl Iterator<Item = [&'static str; 4]> {
    let paper = paper(evaluation);
    let own = figures().filter(move |[of, schedule, ..]| *of == paper && *schedule == NOTES);
    own.map(|[_, _, what, figure, place, words]| [what, figure, place, words])
}

/// The paper: two of them have schedules with the same words, and the same figures.
fn paper(evaluation: &Evaluation) -> &'static str {
    evaluation.title.split(':').next().unwrap_or(evaluation.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dragon, flowcon, procon, specon};
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_of_the_page_has_its_place_in_the_paper_and_every_figure_of_the_file_is_on_the_page() {
        assert_eq!(figures().count(), FIGURES.lines().count() - 1, "every line has six fields");
        let mut on_page: BTreeSet<[String; 4]> = crate::thesis::published().into();
        let thesis = Ok(crate::thesis::described(1, Vec::new()));
        for evaluation in [Ok(flowcon(1)), specon(1), procon(1), dragon(1), thesis].map(Result::unwrap) {
            for [what, figure, ..] in in_notes(&evaluation) {
                if evaluation.notes.iter().any(|note| note.contains(figure)) {
                    on_page.insert([paper(&evaluation), NOTES, what, figure].map(str::to_owned));
                }
            }
            let rows = evaluation.rows.iter().filter(|row| !row.published.is_empty());
            let figures = rows.map(|row| [paper(&evaluation), &row.source, row.what, &row.published]);
            on_page.extend(figures.map(|figure| figure.map(str::to_owned)));
        }
        let in_file: BTreeSet<[String; 4]> = figures()
            .map(|[paper, schedule, what, published, ..]| [paper, schedule, what, published].map(str::to_owned))
            .collect();
        assert_eq!(in_file.len(), figures().count(), "no figure has two places");
        assert_eq!(on_page, in_file);
    }

    #[test]
    fn the_notes_on_weighted_dragon_and_the_thesis_have_no_percentage_but_published_ones() {
        for evaluation in [dragon(1).unwrap(), crate::thesis::described(1, Vec::new())] {
            let published: Vec<&str> =
                figures().filter(|figure| figure[0] == paper(&evaluation)).map(|f| f[3]).collect();
            for note in evaluation.notes {
                let words: Vec<&str> = note.split([' ', ',', ';', '(', ')']).collect();
                for number in words.windows(2).filter(|pair| pair[1].starts_with('%')).map(|pair| pair[0]) {
                    let figure = format!("{} %", number.trim_start_matches(['-', '+']));
                    assert!(published.iter().any(|published| published.ends_with(&figure)), "{number} %: {note}");
                }
            }
        }
    }

    #[test]
    fn a_figure_is_in_its_words_or_their_relative_change() {
        for [paper, schedule, what, published, _, words] in figures() {
            let percent = published.trim_start_matches(['-', '+']).split(' ').next().unwrap().replace(',', "");
            let is_number = |number: &f64| percent.parse() == Ok(number.abs());
            let numbers = words.split([' ', '(', ')', ',', 's', '%']).filter_map(|word| word.parse::<f64>().ok());
            let numbers: Vec<f64> = numbers.collect();
            let is_change = |before: f64, after: f64| format!("{:.1}", 100.0 * (after / before - 1.0).abs()) == percent;
            let is_any_change = || numbers.iter().any(|a| numbers.iter().any(|b| is_change(*a, *b)));
            let is_count =
                || published.contains(" of ") && published.split(" of ").all(|number| words.contains(number));
            let is_range = || {
                published.contains(" … ")
                    && published.split(" … ").all(|end| words.contains(end.trim_matches(['-', ' ', '%'])))
            };
            assert!(
                numbers.iter().any(is_number) || is_any_change() || is_count() || is_range(),
                "{paper}, {schedule}, {what}: {published} is not in: {words}"
            );
        }
    }
}
