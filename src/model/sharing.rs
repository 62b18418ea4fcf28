//! Division of a resource: weighted max-min fairness with caps, as the kernel's scheduler shares CPU.
//!
//! Given `n` claims with weights w and caps l on a capacity C, water-filling raises one level x until the shares min(l, w·x) add up to C or
//! every claim is at its cap: what one claim cannot use flows to the others.

/// One claim on the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Relative weight, positive.
    pub weight: f64,
    /// Upper limit of its share, in the capacity's unit.
    pub cap: f64,
}

/// Divides `capacity` by weight; `shares` gets one entry per claim.
pub fn water_fill(capacity: f64, claims: &[Claim], shares: &mut Vec<f64>) {
    shares.clear();
    shares.resize(claims.len(), -1.0);
    let mut left = capacity;
    let mut weight: f64 = claims.iter().map(|claim| claim.weight).sum();
    let mut open = claims.len();
    while open > 0 {
        let level = left / weight;
        let mut capped = 0;
        for (claim, share) in claims.iter().zip(shares.iter_mut()) {
            if *share < 0.0 && claim.cap <= claim.weight * level {
                *share = claim.cap;
                left -= claim.cap;
                weight -= claim.weight;
                capped += 1;
            }
        }
        if capped == 0 {
            for (claim, share) in claims.iter().zip(shares.iter_mut()) {
                if *share < 0.0 {
                    *share = claim.weight * level;
                }
            }
            return;
        }
        open -= capped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(capacity: f64, claims: &[(f64, f64)]) -> Vec<f64> {
        let claims: Vec<Claim> = claims.iter().map(|&(weight, cap)| Claim { weight, cap }).collect();
        let mut shares = Vec::new();
        water_fill(capacity, &claims, &mut shares);
        shares
    }

    #[test]
    fn weights_divide_the_capacity() {
        assert_eq!(filled(4.0, &[(100.0, 4.0), (300.0, 4.0)]), [1.0, 3.0]);
    }

    #[test]
    fn unusable_capacity_flows_to_the_others() {
        assert_eq!(filled(4.0, &[(300.0, 1.0), (100.0, 4.0), (100.0, 4.0)]), [1.0, 1.5, 1.5]);
    }

    #[test]
    fn no_claim_gets_more_than_its_cap() {
        assert_eq!(filled(8.0, &[(1.0, 1.0), (1.0, 2.0)]), [1.0, 2.0]);
    }

    proptest! {
        #[test]
        fn shares_conserve_work_and_respect_caps(
            capacity in 0.1f64..64.0,
            claims in prop::collection::vec((1.0f64..10_000.0, 0.01f64..64.0), 1..20),
        ) {
            let shares = filled(capacity, &claims);
            let demand: f64 = claims.iter().map(|claim| claim.1).sum();
            prop_assert!((shares.iter().sum::<f64>() - demand.min(capacity)).abs() < 1e-9 * capacity.max(demand));
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(*share >= 0.0 && *share <= claim.1);
            }
        }

        #[test]
        fn all_claims_below_their_caps_have_the_same_level(
            capacity in 0.1f64..64.0,
            claims in prop::collection::vec((1.0f64..10_000.0, 0.01f64..64.0), 1..20),
        ) {
            let shares = filled(capacity, &claims);
            let open: Vec<f64> = shares.iter().zip(&claims).filter(|(s, c)| **s < c.1).map(|(s, c)| s / c.0).collect();
            let level = open.iter().copied().fold(0.0, f64::max);
            for (share, claim) in shares.iter().zip(&claims) {
                prop_assert!(open.is_empty() || share / claim.0 <= level * (1.0 + 1e-9));
            }
            for one in &open {
                prop_assert!((one - level).abs() <= 1e-9 * level);
            }
        }
    }
}
