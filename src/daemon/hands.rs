//! Carries out the steps of changes and returns: on the journal, the cgroups, the engine and systemd.
//!
//! Operations go step by step beside each other, so that one transaction makes all their promises durable and several containers are
//! written at once. Which step follows which is said in `limits`, not here. Imports: limits, the journal, the writer, targets.

use super::journal::{Journal, original_of};
use super::piece::Piece;
use super::pulse::Pulse;
use super::target::Target;
use super::writer::Writer;
use crate::host::store::Original;
use crate::limits::machine::{self, Came};
use crate::limits::{Answer, Ask, Operation, Record, Step};
use crate::model::{Limits, Runtime, Setting};
use futures_util::{StreamExt, stream};
use tokio::task::block_in_place;

/// Containers whose limits are written at the same time.
const WRITES_AT_ONCE: usize = 4;

/// Whatever can change a limit.
pub(super) struct Hands {
    pub journal: Journal,
    pub writer: Writer,
    /// Beats with each call.
    pub pulse: Pulse,
}

impl Hands {
    /// Carries operations to their ends.
    pub async fn carry_out<T: Operation>(&mut self, mut open: Vec<Piece<T>>) -> Vec<Came> {
        let mut outcomes = Vec::new();
        while !open.is_empty() {
            let answers = self.answers(&open).await;
            let answered = std::mem::take(&mut open).into_iter().zip(answers);
            for (Piece { of, target }, answer) in answered {
                let machine::Piece { id, run, mut original, operation, .. } = of;
                if let Answer::Promised(Ok(durable)) = &answer {
                    original = *durable;
                }
                match operation.answer(answer) {
                    Step::Ask(operation, ask) => {
                        open.push(Piece { of: machine::Piece { id, run, original, operation, ask }, target });
                    }
                    Step::Done(outcome) => outcomes.push(Came { id, run, outcome }),
                }
            }
        }
        outcomes
    }

    /// One answer for each, in order.
    async fn answers<T>(&mut self, pieces: &[Piece<T>]) -> Vec<Answer> {
        let mut promised = self.promise(pieces).into_iter();
        let written = self.write(pieces).await;
        let mut written = written.into_iter();
        let mut answers = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let answer = match &piece.of.ask {
                Ask::Promise(_) => promised.next(),
                Ask::Write(_) => written.next(),
                Ask::Read => Some(read(piece.target.as_ref())),
                Ask::ReturnRecord(known) => Some(Answer::Record(self.return_record(piece, known).await)),
                Ask::LookAtRecord(known) => Some(Answer::Kept(self.is_in_record(piece, known).await)),
                Ask::Forget => Some(Answer::Forgot(block_in_place(|| self.journal.forget(&piece.of.id)))),
            };
            self.pulse.beat();
            answers.push(answer.unwrap_or(Answer::Forgot(Err("it was not carried out".to_owned()))));
        }
        answers
    }

    fn promise<T>(&mut self, pieces: &[Piece<T>]) -> Vec<Answer> {
        let row = |piece: &Piece<T>| match (&piece.of.ask, &piece.target) {
            (Ask::Promise(settings), Some(target)) => Some((original_of(target, &piece.of.original), settings.clone())),
            _ => None,
        };
        let rows: Vec<_> = pieces.iter().filter_map(row).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        self.pulse.beat();
        let promised = block_in_place(|| self.journal.before_writing(&rows));
        promised.into_iter().map(Answer::Promised).collect()
    }

    async fn write<T>(&mut self, pieces: &[Piece<T>]) -> Vec<Answer> {
        let mut asked = Vec::new();
        for piece in pieces {
            if let (Ask::Write(settings), Some(target)) = (&piece.of.ask, &piece.target) {
                asked.push((target.clone(), piece.of.original.engine.unwrap_or_default(), settings.clone()));
            }
        }
        self.writer.connect_systemd(asked.iter().map(|(target, ..)| target)).await;
        let mut writes = Vec::new();
        for (target, engine, settings) in asked {
            let (writer, pulse) = (&self.writer, &self.pulse);
            writes.push(async move {
                let wrote = writer.write(&target, &engine, &settings).await;
                pulse.beat();
                Answer::Wrote(wrote)
            });
        }
        stream::iter(writes).buffered(WRITES_AT_ONCE).collect().await
    }

    /// Whether the engine keeps one of these of a container that runs.
    async fn is_in_record<T>(&mut self, piece: &Piece<T>, known: &[Setting]) -> bool {
        match self.row_of_engine(piece) {
            Ok(Some(original)) => self.writer.is_in_record(&original, known).await,
            _ => false,
        }
    }

    /// An engine keeps our update over a restart of the container, so its record is put back when it ends.
    async fn return_record<T>(&mut self, piece: &Piece<T>, known: &[Setting]) -> Record {
        match self.row_of_engine(piece) {
            Ok(Some(original)) => self.writer.return_record(&original, known).await,
            Ok(None) => Record::Back(Vec::new()),
            Err(why) => Record::NotNow(why),
        }
    }

    /// What the journal remembers of it, if an engine keeps anything of it.
    fn row_of_engine<T>(&self, piece: &Piece<T>) -> Result<Option<Original>, String> {
        let row = block_in_place(|| self.journal.original(&piece.of.id))?;
        Ok(row.filter(|original| original.runtime == Runtime::Docker))
    }
}

fn read(target: Option<&Target>) -> Answer {
    let Some(target) = target else { return Answer::Read { stands: Limits::default(), runs: false } };
    let cgroup = target.cgroup();
    Answer::Read { stands: cgroup.limits(), runs: cgroup.populated() }
}
