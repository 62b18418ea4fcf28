//! Caches the plan of each line shape, so that a template is analysed once and not for each line.
//!
//! There are two tables of bounded size: plans of shapes with values, and fingerprints of shapes without values or not yet analysed. A
//! collision of fingerprints (32 equal bits) loses only the values of one template. Both tables start small, because most logs have few
//! templates and a node has many logs, and grow to their bound. Then entries are replaced at random: otherwise a log that cycles through
//! more templates than fit would always evict the next one.

use super::series::SeriesKey;
use crate::reader::parse::layout::{Dice, set_of};
use crate::reader::parse::meaning::{Count, Counted};

/// Ways of a set: eight keys fill a cache line.
const WAYS: usize = 8;
const SETS_FIRST: usize = 2;
const SETS: usize = 40;
const NOTHING_SETS_FIRST: usize = 6;
const NOTHING_SETS: usize = 384;
/// Growth factor of a full table.
const GROWTH: usize = 4;

/// Maximum fields of all plans; more evict plans. Bounds the memory for a hostile log.
const FIELDS_MAX: usize = 768;

/// One number to read on a line of a known shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Field {
    pub number: u8,
    /// Index of the counter's total, or [`NO_TOTAL`].
    pub total: u8,
    pub use_as: Use,
}

/// Value of [`Field::total`] without a total.
pub(crate) const NO_TOTAL: u8 = u8::MAX;

/// Use of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Use {
    Series { slot: u16, generation: u16 },
    Counter(Counted),
    Declared(Count),
}

/// How a line counts epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epochs {
    NotCounted,
    Counted,
    /// `Epoch 3/40` alone on its line: the heading of an epoch that begins.
    Announced,
}

/// How to read a line of a known shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Read these numbers.
    Fields { fields: Box<[Field]>, epochs: Epochs },
    /// A row of a table: look up the shape combined with the header's hash.
    Row,
    /// A header of a table.
    Header,
    /// A heading of an evaluation (`true`) or of training.
    Heading(bool),
}

/// State of a shape without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    New,
    /// Seen, but not analysed.
    Seen,
    /// Analysed, without values.
    Nothing,
}

/// Position of a plan, valid until the next insertion.
pub(crate) type PlanAt = (usize, usize);

#[derive(Debug)]
pub(crate) struct Cache {
    keys: Vec<[u64; WAYS]>,
    plans: Vec<[Option<Plan>; WAYS]>,
    fields: usize,
    nothing: Vec<[u32; WAYS]>,
    dice: Dice,
}

impl Cache {
    pub(crate) fn new() -> Self {
        Cache {
            keys: vec![[0; WAYS]; SETS_FIRST],
            plans: empty_plans(SETS_FIRST),
            fields: 0,
            nothing: vec![[0; WAYS]; NOTHING_SETS_FIRST],
            dice: Dice::default(),
        }
    }

    /// Returns the state of a shape without a plan.
    pub(crate) fn known(&self, key: u64) -> Known {
        let set = &self.nothing[set_of(key, self.nothing.len())];
        match fingerprint(key) {
            nothing if set.contains(&nothing) => Known::Nothing,
            nothing if set.contains(&(nothing & !ANALYSED)) => Known::Seen,
            _ => Known::New,
        }
    }

    /// Records that lines of this shape have no values.
    pub(crate) fn set_nothing(&mut self, key: u64) {
        self.note(key, fingerprint(key));
    }

    /// Records that a line of this shape was seen and not analysed.
    pub(crate) fn set_seen(&mut self, key: u64) {
        self.note(key, fingerprint(key) & !ANALYSED);
    }

    fn note(&mut self, key: u64, mark: u32) {
        let roll = self.dice.roll(WAYS);
        let is_full = |set: &[u32; WAYS]| set.iter().all(|known| *known != 0);
        if self.nothing.len() < NOTHING_SETS && is_full(&self.nothing[set_of(key, self.nothing.len())]) {
            // The new set cannot be computed from a fingerprint: forgotten shapes are analysed again.
            self.nothing = vec![[0; WAYS]; (self.nothing.len() * GROWTH).min(NOTHING_SETS)];
        }
        let sets = self.nothing.len();
        let set = &mut self.nothing[set_of(key, sets)];
        let same = |known: &u32| *known | ANALYSED == mark | ANALYSED;
        let way = set.iter().position(same).or_else(|| set.iter().position(|known| *known == 0)).unwrap_or(roll);
        set[way] = mark;
    }

    /// Returns the position of a shape's plan.
    pub(crate) fn find(&self, key: u64) -> Option<PlanAt> {
        let set = set_of(key, self.keys.len());
        let way = self.keys[set].iter().position(|known| *known == key)?;
        self.plans[set][way].is_some().then_some((set, way))
    }

    pub(crate) fn plan(&self, (set, way): PlanAt) -> Option<&Plan> {
        self.plans[set][way].as_ref()
    }

    /// Removes a plan for use. Return it with [`Cache::put_back`]; otherwise the shape is analysed again.
    pub(crate) fn take(&mut self, (set, way): PlanAt) -> Option<Plan> {
        let plan = self.plans[set][way].take();
        self.fields -= fields_of(plan.as_ref());
        plan
    }

    pub(crate) fn put_back(&mut self, (set, way): PlanAt, plan: Plan) {
        self.fields += fields_of(Some(&plan));
        self.plans[set][way] = Some(plan);
    }

    pub(crate) fn insert(&mut self, key: u64, plan: Plan) {
        self.make_room(fields_of(Some(&plan)));
        let roll = self.dice.roll(WAYS);
        while self.keys.len() < SETS && self.is_full_for(key) {
            self.grow();
        }
        let set = set_of(key, self.keys.len());
        let known = self.keys[set].iter().position(|known| *known == key);
        let way = known.or_else(|| self.plans[set].iter().position(Option::is_none)).unwrap_or(roll);
        self.fields += fields_of(Some(&plan));
        self.fields -= fields_of(self.plans[set][way].as_ref());
        self.keys[set][way] = key;
        self.plans[set][way] = Some(plan);
    }

    /// Forgets the plans that read this series.
    pub(crate) fn forget(&mut self, series: SeriesKey) {
        let SeriesKey { slot, generation } = series;
        let reads = |field: &Field| field.use_as == Use::Series { slot, generation };
        for plan in self.plans.iter_mut().flatten() {
            if matches!(plan, Some(Plan::Fields { fields, .. }) if fields.iter().any(reads)) {
                self.fields -= fields_of(plan.take().as_ref());
            }
        }
    }

    /// Whether an insertion of this key would evict a plan.
    fn is_full_for(&self, key: u64) -> bool {
        let set = set_of(key, self.keys.len());
        !self.keys[set].contains(&key) && self.plans[set].iter().all(Option::is_some)
    }

    fn grow(&mut self) {
        let sets = (self.keys.len() * GROWTH).min(SETS);
        let keys = std::mem::replace(&mut self.keys, vec![[0; WAYS]; sets]);
        let plans = std::mem::replace(&mut self.plans, empty_plans(sets));
        let known = keys.into_iter().flatten().zip(plans.into_iter().flatten());
        for (key, plan) in known.filter(|(_, plan)| plan.is_some()) {
            let set = set_of(key, sets);
            match self.plans[set].iter().position(Option::is_none) {
                Some(way) => (self.keys[set][way], self.plans[set][way]) = (key, plan),
                None => self.fields -= fields_of(plan.as_ref()), // the set is full: the shape is analysed again
            }
        }
    }

    /// Evicts sets of plans until `wanted` fields fit.
    fn make_room(&mut self, wanted: usize) {
        if self.fields + wanted <= FIELDS_MAX {
            return;
        }
        let sets = self.plans.len();
        let first = self.dice.roll(sets);
        for victim in (first..sets).chain(0..first) {
            if self.fields + wanted <= FIELDS_MAX {
                return;
            }
            for plan in &mut self.plans[victim] {
                self.fields -= fields_of(plan.take().as_ref());
            }
        }
    }
}

fn empty_plans(sets: usize) -> Vec<[Option<Plan>; WAYS]> {
    (0..sets).map(|_| [const { None }; WAYS]).collect()
}

fn fields_of(plan: Option<&Plan>) -> usize {
    match plan {
        Some(Plan::Fields { fields, .. }) => fields.len(),
        _ => 0,
    }
}

/// Set in the fingerprints of shapes that were analysed. No fingerprint is zero without it.
const ANALYSED: u32 = 1;

fn fingerprint(key: u64) -> u32 {
    (key as u32).max(2) | ANALYSED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn plan(number: u64) -> Plan {
        let fields = [Field { number: number as u8, total: NO_TOTAL, use_as: Use::Series { slot: 0, generation: 0 } }];
        Plan::Fields { fields: Box::new(fields), epochs: Epochs::NotCounted }
    }

    #[test]
    fn entries_are_kept_while_the_tables_grow() {
        let mut cache = Cache::new();
        for number in 1..=100 {
            cache.insert(key(number), plan(number));
            let found =
                |number: &u64| cache.find(key(*number)).and_then(|place| cache.plan(place)) == Some(&plan(*number));
            assert_eq!((1..=number).filter(found).count() as u64, number);
            assert_eq!(cache.fields as u64, number);
        }
        cache.set_nothing(key(1));
        assert_eq!((cache.known(key(1)), cache.known(key(2))), (Known::Nothing, Known::New));
        cache.set_seen(key(2));
        assert_eq!(cache.known(key(2)), Known::Seen);
        cache.set_nothing(key(2));
        assert_eq!(cache.known(key(2)), Known::Nothing);
        (1..=9000).for_each(|number| cache.set_nothing(key(number)));
        assert_eq!(cache.nothing.len(), NOTHING_SETS);
        assert!((1..=9000).filter(|number| cache.known(key(*number)) == Known::Nothing).count() > 2000);
    }

    #[test]
    fn more_templates_than_fit_evict_others_within_the_bounds() {
        let mut cache = Cache::new();
        (1..=5000).for_each(|number| cache.insert(key(number), plan(number)));
        assert_eq!((cache.keys.len(), cache.plans.len()), (SETS, SETS));
        assert_eq!(cache.fields, cache.plans.iter().flatten().filter(|plan| plan.is_some()).count());
    }
}
