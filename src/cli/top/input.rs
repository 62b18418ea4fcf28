//! Inputs and effects of the state, and the overlays of the page. Pure data.

use api::wire::{ContainerDetail, Event, Sample, Status};
use ratatui::crossterm::event::KeyEvent;
use std::time::Duration;

/// The current time on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Now {
    /// Time since `top` was started.
    pub up: Duration,
    /// Unix time in milliseconds.
    pub unix_ms: u64,
}

/// An input of the state.
#[derive(Debug)]
pub(super) enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal was resized.
    Resized,
    /// The daemon's status.
    Status(Box<Status>),
    /// The daemon replied with an unchanged status.
    Unchanged,
    /// The job on the detail page.
    Detail(Box<ContainerDetail>),
    /// The parsed lines at the end of the log of the job with this id, oldest first.
    Lines(String, Vec<String>),
    /// The history of the job with this id.
    History(String, Vec<Sample>),
    /// The daemon did not reply, or its reply is invalid: the reason.
    NoReply(String),
    /// An event on the node.
    Event(Event),
    /// The result of a command.
    CommandDone(Result<String, String>),
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Exit.
    Quit,
    /// Restore the terminal and stop until continued.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
    /// Request the status immediately.
    Refresh,
    /// Send the command at this path.
    Command(String),
    /// Change the update interval.
    Delay(Duration),
}

/// A prompt at the bottom of the screen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prompt {
    /// What it asks for.
    pub kind: PromptKind,
    /// The text typed so far.
    pub text: String,
}

/// What a prompt asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PromptKind {
    /// Words to filter by; Esc restores the previous filter.
    Filter {
        /// The previous filter.
        before: String,
    },
    /// The share to pin a job to.
    Pin {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
    },
    /// Seconds between updates.
    Delay,
}

/// An overlay on top of the page.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Overlay {
    /// The help, scrolled to this line.
    Help(usize),
    /// The sort keys, with the index of the selected one.
    Sort(usize),
    /// Warnings about the node and its jobs, scrolled to this line.
    Messages(usize),
    /// A prompt.
    Prompt(Prompt),
}
