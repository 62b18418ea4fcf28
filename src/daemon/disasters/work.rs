//! Work on limits, carried out a step at a time, as the daemon's actuator does. Imports: limits, the actuator, the ground.

use super::super::actuator::why_not_disowned;
use super::ground::{Ground, Piece, find, next, of_record};
use crate::limits::machine::{Came, Restored, Work};
use crate::limits::{Ask, End, Outcome};
use crate::model::{Adoption, ContainerId};
use std::collections::{BTreeSet, VecDeque};

/// What came of work.
#[derive(Debug)]
pub enum Done {
    Came { came: Vec<Came>, is_last: bool },
    Restored(Restored),
    Adopted { thing: usize, adoption: Adoption, problem: Option<String> },
    Disowned { thing: usize, problem: Option<String> },
}

/// Work on its way.
#[derive(Debug)]
enum Doing {
    Begin(Work),
    /// These, then those; `disowns`: it is forgotten afterwards that this one was adopted.
    Carry {
        pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        came: Vec<Came>,
        disowns: Option<usize>,
    },
    Restore {
        left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        settled: BTreeSet<ContainerId>,
    },
}

/// Does one thing after another.
#[derive(Debug, Default)]
pub struct Actuator {
    works: VecDeque<Doing>,
    done: Option<Done>,
}

impl Actuator {
    pub fn is_busy(&self) -> bool {
        !self.works.is_empty()
    }

    pub fn ask(&mut self, work: Work) {
        self.works.push_back(Doing::Begin(work));
    }

    /// Carries out one step of what it is at; what came of it, if anything.
    pub fn step(&mut self, ground: &mut Ground) -> Result<Option<Done>, String> {
        let Some(doing) = self.works.pop_front() else { return Ok(None) };
        let next = match doing {
            Doing::Begin(work) => self.begin(ground, work)?,
            Doing::Carry { pieces, then, came, disowns } => self.carry(ground, pieces, then, came, disowns)?,
            Doing::Restore { left, piece, settled } => self.restore(ground, left, piece, settled)?,
        };
        if let Some(next) = next {
            self.works.push_front(next);
        }
        Ok(self.done.take())
    }

    fn begin(&mut self, ground: &mut Ground, work: Work) -> Result<Option<Doing>, String> {
        let (came, then, disowns) = (Vec::new(), VecDeque::new(), None);
        Ok(Some(match work {
            Work::Change { loosen, tighten } => {
                let pieces = loosen.into_iter().map(|piece| ground.piece(piece)).collect();
                let then = tighten.into_iter().map(|piece| ground.piece(piece)).collect();
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Return(pieces) => {
                let pieces = pieces.into_iter().map(|piece| ground.piece(piece)).collect();
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Ended(id) => {
                let (pieces, came) = ended(ground, &id)?;
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::Adopt(id, adoption) => {
                let thing = ground.thing(&id).ok_or("an unknown container is adopted")?;
                let problem = ground.adopt(thing, Some(&adoption)).err();
                self.done = Some(Done::Adopted { thing, adoption, problem });
                return Ok(None);
            }
            Work::Disown { id, running } => {
                let disowns = ground.thing(&id);
                let (pieces, came) = match running {
                    Some(piece) => (VecDeque::from([ground.piece(*piece)]), came),
                    None => ended(ground, &id)?,
                };
                Doing::Carry { pieces, then, came, disowns }
            }
            Work::RestoreAll { .. } => {
                let all = ground.journal.everything()?;
                let left = all.iter().filter_map(|(original, _)| ground.thing(&original.id)).collect();
                Doing::Restore { left, piece: None, settled: BTreeSet::new() }
            }
        }))
    }

    fn carry(
        &mut self,
        ground: &mut Ground,
        mut pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        mut came: Vec<Came>,
        disowns: Option<usize>,
    ) -> Result<Option<Doing>, String> {
        let Some(piece) = pieces.pop_front() else {
            if let Some(thing) = disowns {
                let end = came.into_iter().next().map(|came| came.outcome.end);
                let problem = why_not_disowned(end).err();
                let problem = problem.or_else(|| ground.adopt(thing, None).err());
                self.done = Some(Done::Disowned { thing, problem });
                return Ok(None);
            }
            let is_last = then.is_empty();
            self.done = Some(Done::Came { came, is_last });
            let next = Doing::Carry { pieces: then, then: VecDeque::new(), came: Vec::new(), disowns };
            return Ok((!is_last).then_some(next));
        };
        let (id, run) = (ground.things[piece.thing].id.clone(), piece.run.map(|run| (run, 0)));
        match advance(ground, piece)? {
            Ok(piece) => pieces.push_back(piece),
            Err(outcome) => came.push(Came { id, run, outcome }),
        }
        Ok(Some(Doing::Carry { pieces, then, came, disowns }))
    }

    fn restore(
        &mut self,
        ground: &mut Ground,
        mut left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        mut settled: BTreeSet<ContainerId>,
    ) -> Result<Option<Doing>, String> {
        let piece = match piece {
            Some(piece) => {
                let id = ground.things[piece.thing].id.clone();
                match advance(ground, *piece)? {
                    Ok(piece) => Some(Box::new(piece)),
                    Err(outcome) => {
                        settled.extend(matches!(outcome.end, End::Returned { forgotten: true, .. }).then_some(id));
                        None
                    }
                }
            }
            None => match left.pop_front() {
                Some(thing) => find(ground, thing)?.map(Box::new),
                None => {
                    self.done = Some(Done::Restored(Restored { settled, ..Restored::default() }));
                    return Ok(None);
                }
            },
        };
        Ok(Some(Doing::Restore { left, piece, settled }))
    }
}

fn ended(ground: &Ground, id: &ContainerId) -> Result<(VecDeque<Piece>, Vec<Came>), String> {
    Ok(match ground.journal.original(id)? {
        None => {
            let came = Came { id: id.clone(), run: None, outcome: Box::new(Outcome::forgotten()) };
            (VecDeque::new(), vec![came])
        }
        Some(original) => {
            let thing = ground.thing(id).ok_or("an unknown container ended")?;
            (VecDeque::from([of_record(thing, &original, ground.journal.written(id)?)]), Vec::new())
        }
    })
}

fn advance(ground: &mut Ground, mut piece: Piece) -> Result<Result<Piece, Box<Outcome>>, String> {
    if piece.ask == Ask::Read {
        piece.looked = ground.at;
    }
    let answer = ground.answer(&piece)?;
    Ok(next(piece, answer))
}
