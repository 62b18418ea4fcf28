//! The published figures, each with its place in the paper and the words that have it: a line of published.tsv. A figure that the paper gives
//! in seconds alone is their relative change.

use super::Row;

const FIGURES: &str = include_str!("published.tsv");

/// Lines of the file: schedule, quantity, figure, place and words.
fn figures() -> impl Iterator<Item = [&'static str; 5]> {
    let fields = |line: &'static str| line.split('\t').collect::<Vec<_>>().try_into().ok();
    FIGURES.lines().skip(1).filter_map(fields)
}

/// Returns the place of a row's published figure, and its words there.
pub(super) fn place(row: &Row) -> Option<[&'static str; 2]> {
    let is_it = |figure: &[&str; 5]| figure[..3] == [row.source.as_str(), row.what, row.published.as_str()];
    figures().find(is_it).map(|[.., place, words]| [place, words])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dragon, flowcon, procon, specon, thesis};
    use std::collections::BTreeSet;

    #[test]
    fn every_figure_of_the_page_has_its_place_in_the_paper_and_every_figure_of_the_file_is_on_the_page() {
        assert_eq!(figures().count(), FIGURES.lines().count() - 1, "every line has five fields");
        let simulated = [Ok(flowcon(1)), specon(1), procon(1), dragon(1)];
        let rows = simulated.into_iter().flat_map(|evaluation| evaluation.unwrap().rows);
        let rows = rows.filter(|row| !row.published.is_empty());
        let on_page = rows.map(|row| [row.source, row.what.to_owned(), row.published]);
        let on_page: BTreeSet<[String; 3]> = on_page.chain(thesis::published()).collect();
        let in_file = figures().map(|[schedule, what, published, ..]| [schedule, what, published].map(str::to_owned));
        assert_eq!(on_page, in_file.collect());
    }

    #[test]
    fn a_figure_is_in_its_words_or_their_relative_change() {
        for [schedule, what, published, _, words] in figures() {
            let percent = published.trim_start_matches(['-', '+']).trim_end_matches(" %");
            let numbers = words.split([' ', '(', ')', ',', 's', '%']).filter_map(|word| word.parse::<f64>().ok());
            let numbers: Vec<f64> = numbers.collect();
            let is_change = |before: f64, after: f64| format!("{:.1}", 100.0 * (after / before - 1.0).abs()) == percent;
            let is_any_change = || numbers.iter().any(|a| numbers.iter().any(|b| is_change(*a, *b)));
            let is_count = || published.split(" of ").all(|number| words.contains(number));
            let is_range = || published.split(" … ").all(|end| words.contains(end.trim_matches(['-', ' ', '%'])));
            assert!(
                words.contains(&format!("{percent}%")) || is_any_change() || is_count() || is_range(),
                "{schedule}, {what}: {published} is not in: {words}"
            );
        }
    }
}
