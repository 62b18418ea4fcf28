//! The environment that a training should start with on a shared machine: threads that sleep while they wait for each other.
//!
//! Most libraries let the threads of a team spin at each barrier. Beside another job one of the team is always late, and most of the CPU
//! goes there. What the user has set is never changed. Used by `flowctl run`, `flowctl env` and the OCI runtime `flowcon-runtime`.

mod oci;
pub mod runtime;

/// A variable that makes the threads of some libraries wait asleep.
struct Waiting {
    name: &'static str,
    value: &'static str,
    /// Variables by which a user says how these threads wait; if one is set, nothing is added.
    said_by: &'static [&'static str],
}

/// `integration/bench/threads` measures them. Pools that never spin for long (TBB, Go, Rust's rayon) need nothing.
const WAITING: &[Waiting] = &[
    // GNU's, LLVM's and Intel's OpenMP: LightGBM, XGBoost, scikit-learn, MKL, PyTorch.
    Waiting {
        name: "OMP_WAIT_POLICY",
        value: "passive",
        said_by: &["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY"],
    },
    // OpenBLAS with threads of its own, in NumPy and SciPy: 2^4 cycles, the least that it takes, instead of 2^26.
    Waiting { name: "OPENBLAS_THREAD_TIMEOUT", value: "4", said_by: &["OPENBLAS_THREAD_TIMEOUT"] },
];

/// The variables that the libraries of numerical Python, R and C++ read the number of their threads from.
const NUMBERS: &[&str] = &[
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
];

/// The variables to add so that threads wait asleep, as (name, value); `is_set` says whether the user or the image has set one.
pub fn passive_waiting(is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, &'static str)> {
    let unsaid = WAITING.iter().filter(|waiting| !waiting.said_by.iter().any(|name| is_set(name)));
    unsaid.map(|waiting| (waiting.name, waiting.value)).collect()
}

/// The variables that limit each library to `threads` threads, as (name, value).
pub fn number_of_threads(threads: usize) -> Vec<(&'static str, String)> {
    NUMBERS.iter().map(|name| (*name, threads.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_added_to_what_the_user_has_said() {
        let names = |set: &[&str]| passive_waiting(|name| set.contains(&name)).iter().map(|(name, _)| *name).collect();
        let all: Vec<&str> = names(&["PATH"]);
        assert_eq!(all, ["OMP_WAIT_POLICY", "OPENBLAS_THREAD_TIMEOUT"]);
        for said in ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY"] {
            let rest: Vec<&str> = names(&[said]);
            assert_eq!(rest, ["OPENBLAS_THREAD_TIMEOUT"], "{said} is set");
        }
        let rest: Vec<&str> = names(&["OPENBLAS_THREAD_TIMEOUT", "GOMP_SPINCOUNT"]);
        assert!(rest.is_empty());
    }
}
