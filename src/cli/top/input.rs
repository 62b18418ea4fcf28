//! What comes into the state, what lies over the page, and what is wished for outside. Pure data. Imports: wire types.

use crate::api::wire::{ContainerDetail, Event, Sample, Status};
use ratatui::crossterm::event::KeyEvent;
use std::time::Duration;

/// The time on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Since `top` was started.
    pub up: Duration,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
}

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// The daemon's answer.
    Status(Box<Status>),
    /// The daemon answered, and nothing had changed.
    Unchanged,
    /// The job that is looked at.
    Detail(Box<ContainerDetail>),
    /// The understood lines at the end of the log of the job with this id, oldest first.
    Lines(String, Vec<String>),
    /// What the daemon's history knows of the job with this id.
    Past(String, Vec<Sample>),
    /// No answer, or one that makes no sense: why.
    Silence(String),
    /// Something happened on the node.
    Event(Event),
    /// A command was carried out, or why it was not.
    Answered(Result<String, String>),
}

/// What shall be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// End.
    Quit,
    /// Give the terminal back and stop until continued.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Ask the daemon now.
    Look,
    /// Give the command at this path.
    Command(String),
    /// Ask the daemon this often from now on.
    Delay(Duration),
}

/// A question that is being answered at the bottom of the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// What is asked.
    pub kind: PromptKind,
    /// What was typed so far.
    pub text: String,
}

/// What a prompt asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptKind {
    /// Words to look for; what was there before comes back with Esc.
    Filter {
        /// The filter before.
        before: String,
    },
    /// The share to pin a job to.
    Pin {
        /// The job.
        id: String,
        /// Its name.
        name: String,
    },
    /// Seconds between two looks.
    Delay,
}

/// What lies over the page.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys and signs, from this line on.
    Help(usize),
    /// The sort keys, and which is chosen.
    Sort(usize),
    /// Warnings about the node and its jobs, from this line on.
    Messages(usize),
    /// A question.
    Prompt(Prompt),
}
