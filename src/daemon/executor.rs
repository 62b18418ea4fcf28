//! Executes the steps of changes and restores on the journal, the cgroups, the engine and systemd.
//!
//! All operations advance together, one step at a time, so that one transaction journals all of them and several containers are written
//! at once. The order of steps is decided in `limits`.

use super::journal::{Journal, original_of};
use super::operation::Piece;
use super::pulse::Pulse;
use super::target::Target;
use super::writer::Writer;
use futures_util::{StreamExt, stream};
use limits::machine::{self, ContainerOutcome};
use limits::{Ask, EngineRecord, Operation, RecordResult, Step, StepResult};
use model::{Limits, Runtime, Setting};
use store::Original;
use tokio::task::block_in_place;

/// Containers whose limits are written at the same time.
const WRITES_AT_ONCE: usize = 4;

/// Everything that is needed to change a limit.
pub(super) struct Executor {
    pub journal: Journal,
    pub writer: Writer,
    /// Beats with each call.
    pub pulse: Pulse,
}

impl Executor {
    /// Carries operations out to their ends.
    pub(crate) async fn carry_out<T: Operation>(&mut self, mut open: Vec<Piece<T>>) -> Vec<ContainerOutcome> {
        let mut outcomes = Vec::new();
        while !open.is_empty() {
            let answers = self.answers(&open).await;
            let answered = std::mem::take(&mut open).into_iter().zip(answers);
            for (Piece { of, target }, answer) in answered {
                let machine::Piece { id, run, mut original, operation, .. } = of;
                if let StepResult::Journalled(Ok(durable)) = &answer {
                    original = *durable;
                }
                match operation.answer(answer) {
                    Step::Ask(operation, ask) => {
                        open.push(Piece { of: machine::Piece { id, run, original, operation, ask }, target });
                    }
                    Step::Done(outcome) => outcomes.push(ContainerOutcome { id, run, outcome }),
                }
            }
        }
        outcomes
    }

    /// Carries out one step of each operation. Returns the results in order.
    async fn answers<T: Operation>(&mut self, pieces: &[Piece<T>]) -> Vec<StepResult> {
        let mut journalled = self.journal_writes(pieces).into_iter();
        let written = self.write(pieces).await;
        let mut written = written.into_iter();
        let mut answers = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let answer = match &piece.of.ask {
                Ask::Journal(_) => journalled.next(),
                Ask::Write(_) => written.next(),
                Ask::Read => Some(read(piece.target.as_ref())),
                Ask::RestoreRecord(known) => Some(StepResult::Record(self.restore_record(piece, known).await)),
                Ask::ReadRecord(known) => Some(StepResult::ReadRecord(self.read_record(piece, known).await)),
                Ask::Forget => Some(StepResult::Forgot(block_in_place(|| self.journal.forget(&piece.of.id)))),
            };
            self.pulse.beat();
            answers.push(answer.unwrap_or(StepResult::Forgot(Err("it was not carried out".to_owned()))));
        }
        answers
    }

    fn journal_writes<T>(&mut self, pieces: &[Piece<T>]) -> Vec<StepResult> {
        let row = |piece: &Piece<T>| match (&piece.of.ask, &piece.target) {
            (Ask::Journal(settings), Some(target)) => Some((original_of(target, &piece.of.original), settings.clone())),
            _ => None,
        };
        let rows: Vec<_> = pieces.iter().filter_map(row).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        self.pulse.beat();
        let journalled = block_in_place(|| self.journal.journal_changes(&rows));
        journalled.into_iter().map(StepResult::Journalled).collect()
    }

    async fn write<T: Operation>(&mut self, pieces: &[Piece<T>]) -> Vec<StepResult> {
        let mut requested = Vec::new();
        for piece in pieces {
            if let (Ask::Write(settings), Some(target)) = (&piece.of.ask, &piece.target) {
                let forgotten = piece.of.operation.forgotten().to_vec();
                let engine = piece.of.original.engine.unwrap_or_default();
                requested.push((target.clone(), engine, settings.clone(), forgotten));
            }
        }
        self.writer.connect_systemd(requested.iter().map(|(target, ..)| target)).await;
        let mut writes = Vec::new();
        for (target, engine, settings, forgotten) in requested {
            let (writer, pulse) = (&self.writer, &self.pulse);
            writes.push(async move {
                let wrote = writer.write(&target, &engine, &settings, &forgotten).await;
                pulse.beat();
                StepResult::Wrote(wrote)
            });
        }
        stream::iter(writes).buffered(WRITES_AT_ONCE).collect().await
    }

    /// Reads what the engine keeps of a running container for its next run, and whether it keeps one of these values.
    async fn read_record<T>(&mut self, piece: &Piece<T>, known: &[Setting]) -> Result<EngineRecord, String> {
        match &piece.target {
            Some(target) => self.writer.read_record(target, &piece.of.original, known).await,
            None => Ok(EngineRecord::default()),
        }
    }

    /// Restores the engine's record of a container that ended, because the engine keeps our update over a restart.
    async fn restore_record<T>(&mut self, piece: &Piece<T>, known: &[Setting]) -> RecordResult {
        match self.row_of_engine(piece) {
            Ok(Some(original)) => self.writer.restore_record(&original, known).await,
            Ok(None) => RecordResult::Restored(Vec::new()),
            Err(why) => RecordResult::Failed(why),
        }
    }

    /// Returns the journal's row of a container that an engine runs.
    fn row_of_engine<T>(&self, piece: &Piece<T>) -> Result<Option<Original>, String> {
        let row = block_in_place(|| self.journal.original(&piece.of.id))?;
        Ok(row.filter(|original| original.runtime == Runtime::Docker))
    }
}

fn read(target: Option<&Target>) -> StepResult {
    let Some(target) = target else { return StepResult::Read { current: Limits::default(), runs: false } };
    let cgroup = target.cgroup();
    StepResult::Read { current: cgroup.limits(), runs: cgroup.runs() }
}
