//! Work on limits, executed one step at a time, as the daemon's actuator does.

use super::super::actuator::disown_result;
use super::host::{Host, Piece, find, next, of_record};
use limits::machine::{ContainerOutcome, Restored, Work};
use limits::{Ask, End, Outcome};
use model::{Adoption, ContainerId};
use std::collections::{BTreeSet, VecDeque};

/// Result of work.
#[derive(Debug)]
pub(super) enum Finished {
    Outcomes { outcomes: Vec<ContainerOutcome>, is_last: bool },
    Restored(Restored),
    Adopted { container: usize, adoption: Adoption, problem: Option<String> },
    Disowned { container: usize, problem: Option<String> },
}

/// Work in progress.
#[derive(Debug)]
enum OpenWork {
    Begin(Work),
    /// Runs `pieces`, then the pieces of `then`; `disowns`: the container whose adoption is removed afterwards.
    Carry {
        pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        outcomes: Vec<ContainerOutcome>,
        disowns: Option<usize>,
    },
    Restore {
        left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        settled: BTreeSet<ContainerId>,
    },
}

/// Executes work items one after another.
#[derive(Debug, Default)]
pub(super) struct Actuator {
    works: VecDeque<OpenWork>,
    done: Option<Finished>,
}

impl Actuator {
    pub(super) fn is_busy(&self) -> bool {
        !self.works.is_empty()
    }

    pub(super) fn ask(&mut self, work: Work) {
        self.works.push_back(OpenWork::Begin(work));
    }

    /// Runs one step of the current work; returns its result once it is finished.
    pub(super) fn step(&mut self, host: &mut Host) -> Result<Option<Finished>, String> {
        let Some(doing) = self.works.pop_front() else { return Ok(None) };
        let next = match doing {
            OpenWork::Begin(work) => self.begin(host, work)?,
            OpenWork::Carry { pieces, then, outcomes, disowns } => self.carry(host, pieces, then, outcomes, disowns)?,
            OpenWork::Restore { left, piece, settled } => self.restore(host, left, piece, settled)?,
        };
        if let Some(next) = next {
            self.works.push_front(next);
        }
        Ok(self.done.take())
    }

    fn begin(&mut self, host: &mut Host, work: Work) -> Result<Option<OpenWork>, String> {
        let (outcomes, then, disowns) = (Vec::new(), VecDeque::new(), None);
        Ok(Some(match work {
            Work::Change { loosen, tighten } => {
                let pieces = loosen.into_iter().map(|piece| host.piece(piece)).collect();
                let then = tighten.into_iter().map(|piece| host.piece(piece)).collect();
                OpenWork::Carry { pieces, then, outcomes, disowns }
            }
            Work::Restore(pieces) => {
                let pieces = pieces.into_iter().map(|piece| host.piece(piece)).collect();
                OpenWork::Carry { pieces, then, outcomes, disowns }
            }
            Work::Ended(id) => {
                let (pieces, outcomes) = ended(host, &id)?;
                OpenWork::Carry { pieces, then, outcomes, disowns }
            }
            Work::Unlisted(id) => {
                let container = host.container(&id).ok_or("an unknown container is not listed")?;
                let (pieces, outcomes) = match host.journal.original(&id)? {
                    None => ended(host, &id)?,
                    Some(_) => (find(host, container)?.into_iter().collect(), outcomes),
                };
                OpenWork::Carry { pieces, then, outcomes, disowns }
            }
            Work::Adopt(id, adoption) => {
                let container = host.container(&id).ok_or("an unknown container is adopted")?;
                let problem = host.adopt(container, Some(&adoption)).err();
                self.done = Some(Finished::Adopted { container, adoption, problem });
                return Ok(None);
            }
            Work::Disown { id, running } => {
                let disowns = host.container(&id);
                let (pieces, outcomes) = match running {
                    Some(piece) => (VecDeque::from([host.piece(*piece)]), outcomes),
                    None => ended(host, &id)?,
                };
                OpenWork::Carry { pieces, then, outcomes, disowns }
            }
            Work::RestoreAll { .. } => {
                let all = host.journal.everything()?;
                let left = all.iter().filter_map(|(original, _)| host.container(&original.id)).collect();
                OpenWork::Restore { left, piece: None, settled: BTreeSet::new() }
            }
        }))
    }

    fn carry(
        &mut self,
        host: &mut Host,
        mut pieces: VecDeque<Piece>,
        then: VecDeque<Piece>,
        mut outcomes: Vec<ContainerOutcome>,
        disowns: Option<usize>,
    ) -> Result<Option<OpenWork>, String> {
        let Some(piece) = pieces.pop_front() else {
            if let Some(container) = disowns {
                let end = outcomes.into_iter().next().map(|done| done.outcome.end);
                let problem = disown_result(end).err();
                let problem = problem.or_else(|| host.adopt(container, None).err());
                self.done = Some(Finished::Disowned { container, problem });
                return Ok(None);
            }
            let is_last = then.is_empty();
            self.done = Some(Finished::Outcomes { outcomes, is_last });
            let next = OpenWork::Carry { pieces: then, then: VecDeque::new(), outcomes: Vec::new(), disowns };
            return Ok((!is_last).then_some(next));
        };
        let id = host.containers[piece.container].id.clone();
        let run = piece.run.filter(|_| piece.is_governed).map(|run| (run, 0));
        match advance(host, piece)? {
            Ok(piece) => pieces.push_back(piece),
            Err(outcome) => outcomes.push(ContainerOutcome { id, run, outcome }),
        }
        Ok(Some(OpenWork::Carry { pieces, then, outcomes, disowns }))
    }

    fn restore(
        &mut self,
        host: &mut Host,
        mut left: VecDeque<usize>,
        piece: Option<Box<Piece>>,
        mut settled: BTreeSet<ContainerId>,
    ) -> Result<Option<OpenWork>, String> {
        let piece = match piece {
            Some(piece) => {
                let id = host.containers[piece.container].id.clone();
                match advance(host, *piece)? {
                    Ok(piece) => Some(Box::new(piece)),
                    Err(outcome) => {
                        settled.extend(matches!(outcome.end, End::Restored { forgotten: true, .. }).then_some(id));
                        None
                    }
                }
            }
            None => match left.pop_front() {
                Some(container) => find(host, container)?.map(Box::new),
                None => {
                    self.done = Some(Finished::Restored(Restored { settled, ..Restored::default() }));
                    return Ok(None);
                }
            },
        };
        Ok(Some(OpenWork::Restore { left, piece, settled }))
    }
}

fn ended(host: &Host, id: &ContainerId) -> Result<(VecDeque<Piece>, Vec<ContainerOutcome>), String> {
    Ok(match host.journal.original(id)? {
        None => {
            let outcome = ContainerOutcome { id: id.clone(), run: None, outcome: Box::new(Outcome::forgotten()) };
            (VecDeque::new(), vec![outcome])
        }
        Some(original) => {
            let container = host.container(id).ok_or("an unknown container ended")?;
            (VecDeque::from([of_record(container, &original, host.journal.written(id)?)]), Vec::new())
        }
    })
}

fn advance(host: &mut Host, mut piece: Piece) -> Result<Result<Piece, Box<Outcome>>, String> {
    if piece.ask == Ask::Read {
        piece.looked = host.at;
    }
    let answer = host.answer(&piece)?;
    Ok(next(piece, answer))
}
