//! What a line's shape was found to mean, kept so that the analysis runs once per template and not once per line.
//!
//! Two tables of fixed size: plans for shapes that say something, and fingerprints of shapes that say nothing (most chatter).
//! A collision of fingerprints loses a line's values, never more; it takes 32 equal bits. Imports: nothing.

use super::lexicon::Count;

/// Eight keys are one cache line.
const WAYS: usize = 8;
const SETS: usize = 64;
const NOTHING_PAIRS: usize = 2048;

/// One number to read on a line of a known shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field {
    pub number: u8,
    /// Index of the number that is the counter's total; [`NO_TOTAL`] = none.
    pub total: u8,
    pub use_as: Use,
}

/// No number is the total.
pub(super) const NO_TOTAL: u8 = u8::MAX;

/// What the number is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    Series { slot: u16, generation: u16 },
    Counter(Count),
    Declared(Count),
}

/// What to do with a line of a known shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    /// Read these numbers.
    Fields { fields: Box<[Field]>, has_epoch: bool },
    /// A row of a table: look again with the header's hash.
    Row,
    /// A header: remember the line.
    Header,
    /// A heading: evaluation begins (`true`) or ends.
    Heading(bool),
}

#[derive(Debug)]
pub(super) struct Cache {
    keys: Vec<[u64; WAYS]>,
    plans: Vec<[Option<Plan>; WAYS]>,
    next: Vec<u8>,
    nothing: Vec<[u32; 2]>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Cache {
            keys: vec![[0; WAYS]; SETS],
            plans: (0..SETS).map(|_| [const { None }; WAYS]).collect(),
            next: vec![0; SETS],
            nothing: vec![[0; 2]; NOTHING_PAIRS],
        }
    }

    /// Whether lines of this shape say nothing.
    pub(super) fn is_nothing(&self, key: u64) -> bool {
        self.nothing[(key >> 32) as usize % NOTHING_PAIRS].contains(&fingerprint(key))
    }

    pub(super) fn set_nothing(&mut self, key: u64) {
        let pair = &mut self.nothing[(key >> 32) as usize % NOTHING_PAIRS];
        *pair = [fingerprint(key), pair[0]];
    }

    /// The plan's place, stable until the next insertion.
    pub(super) fn find(&self, key: u64) -> Option<(usize, usize)> {
        let set = (key >> 40) as usize % SETS;
        let way = self.keys[set].iter().position(|known| *known == key)?;
        self.plans[set][way].is_some().then_some((set, way))
    }

    pub(super) fn plan(&self, (set, way): (usize, usize)) -> Option<&Plan> {
        self.plans[set][way].as_ref()
    }

    /// Takes a plan out for the time of its use; [`Cache::put_back`] returns it.
    pub(super) fn take(&mut self, (set, way): (usize, usize)) -> Option<Plan> {
        self.plans[set][way].take()
    }

    pub(super) fn put_back(&mut self, (set, way): (usize, usize), plan: Plan) {
        self.plans[set][way] = Some(plan);
    }

    pub(super) fn insert(&mut self, key: u64, plan: Plan) {
        let set = (key >> 40) as usize % SETS;
        let way = self.keys[set].iter().position(|known| *known == key).unwrap_or(usize::from(self.next[set]) % WAYS);
        self.next[set] = self.next[set].wrapping_add(1);
        self.keys[set][way] = key;
        self.plans[set][way] = Some(plan);
    }
}

fn fingerprint(key: u64) -> u32 {
    (key as u32) | 1
}
