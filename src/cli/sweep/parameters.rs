//! The numbers in the commands of trials: only those that differ are shown.

use api::wire::Parameter;
use term::text::clean;

/// Parameters that are shown; more would leave no room for the results.
const AT_MOST: usize = 6;

/// The places of the parameters that are not equal in all trials.
pub(crate) fn differing(trials: &[&[Parameter]]) -> Vec<usize> {
    let most = trials.iter().map(|parameters| parameters.len()).max().unwrap_or(0);
    let differs = |place: &usize| {
        let first = trials.first().and_then(|parameters| parameters.get(*place));
        trials.iter().any(|parameters| parameters.get(*place) != first)
    };
    (0..most).filter(differs).take(AT_MOST).collect()
}

/// `lr=0.1 depth=18`, the parameters of one trial at these places.
pub(crate) fn shown(parameters: &[Parameter], places: &[usize]) -> String {
    let shown = places.iter().filter_map(|place| parameters.get(*place));
    let shown: Vec<String> = shown.map(|parameter| format!("{}={}", parameter.name, parameter.value)).collect();
    clean(&shown.join(" "))
}
