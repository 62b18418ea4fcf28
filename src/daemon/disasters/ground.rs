//! What outlives a daemon: world, disk and clock; and the steps of operations carried out on them, as the actuator does. Imports: limits,
//! the journal, the values, the world.

use super::super::journal::{Journal, promised_of};
use super::plant::Plant;
use super::values::{is_ours, raised};
use super::world::{Disk, Mood, Thing, Which};
use crate::host::store::Original;
use crate::limits::machine::{self, At};
use crate::limits::{Answer, Ask, Change, Operation, Outcome, Promised, Record, Return, Step};
use crate::model::{Adoption, ContainerId, EngineMark, Limits, Millis, Runtime, Setting};

#[derive(Clone, Debug)]
pub enum Steps {
    Change(Change),
    Return(Return),
}

/// One container on which an operation is carried out. `run`: whose cgroup it has, if it ran.
#[derive(Debug)]
pub struct Piece {
    pub thing: usize,
    pub run: Option<u32>,
    pub original: Promised,
    pub steps: Steps,
    pub ask: Ask,
    /// When it read last what stands: a change since then is lost to it.
    pub looked: u64,
}

/// World, disk and clock, which outlive a daemon.
pub struct Ground {
    pub things: Vec<Thing>,
    pub journal: Journal,
    /// Which of two engines answers, and how.
    pub engine: Which,
    pub mood: Mood,
    pub disk: Disk,
    pub now: Millis,
    /// What people's clock says.
    pub unix_ms: u64,
    /// Counts starts of the machine.
    pub boot: u32,
    pub at: u64,
    pub plant: Plant,
}

pub fn mark_of(engine: Which) -> EngineMark {
    EngineMark { id: Some(format!("{engine:?}")), socket: "/engine.sock".to_owned() }
}

/// A piece of the machine's, as it is carried out here.
pub trait IntoSteps {
    fn into_steps(self) -> Steps;
}

impl IntoSteps for Change {
    fn into_steps(self) -> Steps {
        Steps::Change(self)
    }
}

impl IntoSteps for Return {
    fn into_steps(self) -> Steps {
        Steps::Return(self)
    }
}

impl Ground {
    pub fn thing(&self, id: &ContainerId) -> Option<usize> {
        self.things.iter().position(|thing| thing.id == *id)
    }

    /// Whether whoever looks now finds it running.
    pub fn is_seen(&self, thing: usize) -> bool {
        let thing = &self.things[thing];
        thing.running && (thing.runtime == Runtime::Scope || thing.engine == self.engine)
    }

    pub fn piece<T: IntoSteps>(&self, piece: machine::Piece<T>) -> Piece {
        let machine::Piece { id, run, original, operation, ask } = piece;
        let thing = self.thing(&id).expect("one of the things");
        Piece { thing, run: run.map(|(run, _)| run), original, steps: operation.into_steps(), ask, looked: 0 }
    }

    pub fn moment(&self) -> At {
        At { now: self.now, unix_ms: self.unix_ms }
    }

    /// How the engine that is asked about a container answers.
    pub fn mood_for(&self, thing: usize) -> Mood {
        let thing = &self.things[thing];
        let is_elsewhere = thing.runtime == Runtime::Docker && thing.engine != self.engine;
        if is_elsewhere && self.mood == Mood::Answers { Mood::Missing } else { self.mood }
    }

    /// Remembers that a container is adopted, or no longer.
    pub fn adopt(&mut self, thing: usize, adoption: Option<&Adoption>) -> Result<(), String> {
        let id = self.things[thing].id.clone();
        let mut write = || match adoption {
            Some(adoption) => self.journal.adopt(&id, adoption),
            None => self.journal.disown(&id),
        };
        match self.disk {
            Disk::Full => Err("disk full".to_owned()),
            Disk::Works => write(),
            Disk::Lies => write().and(Err("disk full".to_owned())),
        }
    }

    /// What of ours came into force must have been promised.
    pub fn check(&mut self, thing: usize, came: &[Setting]) -> Result<(), String> {
        let id = self.things[thing].id.clone();
        for setting in came {
            let written = self.journal.written(&id)?;
            let is_promised = written.iter().any(|written| raised(*written) == *setting);
            if is_ours(*setting) && !is_promised {
                return Err(format!("{setting} came into force in {} and is not in the journal", id.short()));
            }
        }
        Ok(())
    }

    /// The engine does what waits at its socket.
    pub fn late(&mut self, thing: usize) -> Result<(), String> {
        let came = self.things[thing].late()?;
        self.check(thing, &came)
    }

    /// Whether the engine answers a question about a container, after what it was asked to do before.
    fn engine_answers(&mut self, thing: usize) -> Result<bool, String> {
        let answers = self.mood_for(thing) == Mood::Answers;
        while answers && self.things[thing].waits() {
            self.late(thing)?;
        }
        Ok(answers)
    }

    pub fn original(&self, thing: usize, promised: &Promised) -> Original {
        let thing = &self.things[thing];
        Original {
            id: thing.id.clone(),
            runtime: thing.runtime,
            name: thing.id.short().to_owned(),
            cgroup: "/x".to_owned(),
            boot_id: self.boot.to_string(),
            started_unix_ms: u64::from(thing.run),
            remembered_unix_ms: 1,
            limits: promised.original,
            engine: promised.engine,
            mark: (thing.runtime == Runtime::Docker).then(|| mark_of(thing.engine)),
        }
    }

    pub fn read(&mut self, thing: usize, run: Option<u32>) -> (Limits, bool) {
        let at = self.at;
        let thing = &mut self.things[thing];
        if thing.running && run == Some(thing.run) {
            thing.seen(at);
            (thing.cgroup, true)
        } else {
            (Limits::default(), false)
        }
    }

    fn forget(&mut self, thing: usize) -> Result<(), String> {
        let id = self.things[thing].id.clone();
        match self.disk {
            Disk::Full => Err("disk full".to_owned()),
            Disk::Works => self.journal.forget(&id),
            Disk::Lies => self.journal.forget(&id).and(Err("disk full".to_owned())),
        }
    }

    /// Carries out one step.
    pub fn answer(&mut self, piece: &Piece) -> Result<Answer, String> {
        let thing = piece.thing;
        Ok(match &piece.ask {
            Ask::Promise(_) if self.plant == Plant::SkipsThePromise => Answer::Promised(Ok(piece.original)),
            Ask::Promise(settings) => {
                let row = (self.original(thing, &piece.original), settings.clone());
                let mut promise = || self.journal.before_writing(std::slice::from_ref(&row)).remove(0);
                Answer::Promised(match self.disk {
                    Disk::Full => Err("disk full".to_owned()),
                    Disk::Works => promise(),
                    Disk::Lies => promise().and(Err("disk full".to_owned())),
                })
            }
            Ask::Read => {
                let (stands, runs) = self.read(thing, piece.run);
                Answer::Read { stands, runs }
            }
            Ask::Write(settings) => {
                let (run, mood) = (piece.run.unwrap_or(0), self.mood_for(thing));
                let (wrote, came) = self.things[thing].write(piece.looked, run, settings, mood)?;
                self.check(thing, &came)?;
                Answer::Wrote(wrote)
            }
            Ask::ReturnRecord(known) => {
                let (id, mood) = (self.things[thing].id.clone(), self.mood_for(thing));
                match self.journal.original(&id)? {
                    Some(original) => {
                        if self.plant == Plant::TrustsAMissingContainer && mood == Mood::Missing {
                            return Ok(Answer::Record(Record::Back(Vec::new())));
                        }
                        let limits = original.limits;
                        Answer::Record(self.things[thing].return_record(piece.looked, known, &limits, mood)?)
                    }
                    None => Answer::Record(Record::Back(Vec::new())),
                }
            }
            Ask::LookAtRecord(known) => {
                let answers = self.engine_answers(thing)?;
                Answer::Kept(!answers || self.things[thing].keeps(known))
            }
            Ask::Forget => Answer::Forgot(self.forget(thing)),
        })
    }
}

pub fn next(piece: Piece, answer: Answer) -> Result<Piece, Box<Outcome>> {
    let Piece { thing, run, original, steps, looked, .. } = piece;
    let step = match steps {
        Steps::Change(change) => match change.answer(answer) {
            Step::Ask(change, ask) => Ok((Steps::Change(change), ask)),
            Step::Done(outcome) => Err(outcome),
        },
        Steps::Return(back) => match back.answer(answer) {
            Step::Ask(back, ask) => Ok((Steps::Return(back), ask)),
            Step::Done(outcome) => Err(outcome),
        },
    };
    step.map(|(steps, ask)| Piece { thing, run, original, steps, ask, looked })
}

pub fn of_record(thing: usize, original: &Original, written: Vec<Setting>) -> Piece {
    let original = promised_of(original);
    let (steps, ask) = Return::of_record(original, written);
    Piece { thing, run: None, original, steps: Steps::Return(steps), ask, looked: 0 }
}

/// A container of the journal, as a restore finds it; `None`: it cannot be found now, or is not remembered.
pub fn find(ground: &mut Ground, thing: usize) -> Result<Option<Piece>, String> {
    let is_engines = ground.things[thing].runtime == Runtime::Docker;
    if is_engines && !ground.engine_answers(thing)? {
        return Ok(None);
    }
    let Thing { id, running, run, .. } = &ground.things[thing];
    let Some(original) = ground.journal.original(id)? else { return Ok(None) };
    let written = ground.journal.written(id)?;
    let is_of_this_boot = is_engines || original.boot_id == ground.boot.to_string();
    if !running || !is_of_this_boot {
        return Ok(Some(of_record(thing, &original, written)));
    }
    let promised = promised_of(&original);
    let (steps, ask) = Return::of_journal(promised, written, is_engines);
    Ok(Some(Piece { thing, run: Some(*run), original: promised, steps: Steps::Return(steps), ask, looked: 0 }))
}

/// What `flowcond restore` does without a daemon.
pub fn restore_alone(ground: &mut Ground) -> Result<(), String> {
    for thing in 0..ground.things.len() {
        let Some(mut piece) = find(ground, thing)? else { continue };
        loop {
            let answer = ground.answer(&piece)?;
            match next(piece, answer) {
                Ok(further) => piece = further,
                Err(_) => break,
            }
        }
    }
    Ok(())
}
