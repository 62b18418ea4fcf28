//! FlowCon's three lists, and how a measured growth moves a container between them (Algorithm 1, lines 4–13).
//!
//! Called only for measured growth: unknown growth is not slow growth.

use model::List;

/// Returns the list after a measured growth. Two slow intervals lead from New to Completing; one fast interval leads back.
pub(super) fn after(list: List, growth: f64, growth_threshold: f64) -> List {
    if growth >= growth_threshold {
        return List::New;
    }
    match list {
        List::New => List::Watching,
        List::Watching | List::Completing => List::Completing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_growth_leads_to_completing_and_fast_growth_back_from_anywhere() {
        assert_eq!(after(List::New, 0.004, 0.005), List::Watching);
        assert_eq!(after(List::Watching, 0.004, 0.005), List::Completing);
        assert_eq!(after(List::Completing, -1.0, 0.005), List::Completing);
        for list in [List::New, List::Watching, List::Completing] {
            assert_eq!(after(list, 0.005, 0.005), List::New);
        }
    }
}
