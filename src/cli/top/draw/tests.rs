//! Snapshot tests: the whole screen as text, on large and small terminals.

use super::*;
use crate::top::app::Detail;
use crate::top::input::Input;
use crate::top::jobs::Order;
use crate::top::testing::{NOW, container, containers, detail, event, sample, status};
use api::wire::{Container, Ended, Gpu, Status};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Style};
use std::time::Duration;

fn at(seconds: u64) -> Now {
    Now { up: Duration::from_secs(seconds), unix_ms: NOW + seconds * 1000 }
}

fn render(app: &mut App, width: u16, height: u16, now: Now, color: bool) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&mut buffer, app, now, Theme { color, ascii: false });
    buffer
}

fn screen(app: &mut App, width: u16, height: u16, now: Now) -> String {
    lines(&render(app, width, height, now, false))
}

fn golden(name: &str, screen: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, screen));
}

fn watching() -> App {
    let mut app = App::new(Duration::from_secs(1), Order::default(), "");
    app.take(Input::Status(Box::new(status(containers()))), at(0));
    app
}

fn with_detail() -> App {
    let mut app = watching();
    for second in 1..60 {
        let mut status = status(containers());
        status.node.unix_ms = NOW + second * 1000;
        status.containers[0].share = Some(0.25 + 0.38 * second as f64 / 60.0);
        app.take(Input::Status(Box::new(status)), at(second));
    }
    app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
    let values: Vec<f64> = (0..40).map(|at| 0.1 + 2.0 * (-0.1 * f64::from(at)).exp()).collect();
    app.take(Input::Detail(Box::new(detail("vae", &values, 40, "Epoch 36/50 - loss: 0.1302"))), at(59));
    app.take(Input::Detail(Box::new(detail("vae", &values, 40, "Epoch 37/50 - loss: \u{1b}[31m0.1235"))), at(59));
    for sequence in 1..4 {
        app.take(Input::Event(event(sequence, "vae", &format!("vae: New list, growing {sequence}"))), at(59));
    }
    app
}

#[test]
fn the_list_on_a_small_terminal() {
    golden("list_80x24", &screen(&mut watching(), 80, 24, at(1)));
}

#[test]
fn the_list_on_a_large_terminal() {
    golden("list_200x60", &screen(&mut watching(), 200, 60, at(1)));
}

#[test]
fn the_list_on_a_tiny_terminal() {
    golden("list_40x10", &screen(&mut watching(), 40, 10, at(1)));
    golden("list_20x5", &screen(&mut watching(), 20, 5, at(1)));
}

#[test]
fn a_node_without_jobs_explains_how_to_start_one() {
    let mut app = App::new(Duration::from_secs(1), Order::default(), "");
    app.take(Input::Status(Box::new(status(Vec::new()))), at(0));
    golden("idle_80x24", &screen(&mut app, 80, 24, at(1)));
}

#[test]
fn a_job_on_a_small_and_on_a_large_terminal() {
    golden("detail_80x24", &screen(&mut with_detail(), 80, 24, at(60)));
    golden("detail_200x60", &screen(&mut with_detail(), 200, 60, at(60)));
    golden("detail_40x10", &screen(&mut with_detail(), 40, 10, at(60)));
}

#[test]
fn a_job_with_history_shows_it() {
    let mut app = with_detail();
    let past = (0..300).map(|at| {
        let share = if at < 150 { 0.2 } else { 0.5 };
        sample(
            NOW - 3_600_000 + at * 12_000,
            share,
            if at < 150 { "learning fast: 20% of all growth" } else { "learning fast: 50%" },
        )
    });
    app.take(Input::History(container("vae").id, past.collect()), at(60));
    app.take(Input::Lines(container("vae").id, vec!["Epoch 37/50 - loss: 0.1235".to_owned(); 40]), at(60));
    golden("past_80x24", &screen(&mut app, 80, 24, at(60)));
}

#[test]
fn help_sort_keys_and_a_prompt_are_drawn_over_the_list() {
    let mut app = watching();
    app.overlay = Some(Overlay::Help(0));
    golden("help_80x24", &screen(&mut app, 80, 24, at(1)));
    app.overlay = Some(Overlay::Sort(3));
    golden("sort_80x24", &screen(&mut app, 80, 24, at(1)));
    app.overlay = None;
    app.take(Input::Key(KeyCode::Char('x').into()), at(1));
    golden("pin_80x24", &screen(&mut app, 80, 24, at(1)));
}

#[test]
fn a_silent_daemon_is_reported_on_every_terminal_and_the_jobs_stay_visible() {
    let mut app = watching();
    app.take(Input::NoReply("no daemon answers at /run/flowcon/flowcond.sock".to_owned()), at(2));
    golden("silent_80x24", &screen(&mut app, 80, 24, at(4)));
    for (width, height) in [(200, 60), (40, 10), (20, 5)] {
        assert!(screen(&mut app, width, height, at(4)).contains("no reply for 4 s"), "{width}×{height}");
    }
    app.detail = Some(Detail { id: container("vae").id, ..Detail::default() });
    assert!(screen(&mut app, 80, 24, at(4)).contains("no reply for 4 s"));
}

#[test]
fn drawing_works_at_any_size_with_any_overlay() {
    let pages: [fn() -> App; 3] = [watching, with_detail, || App::new(Duration::from_secs(1), Order::default(), "")];
    for page in pages {
        let mut app = page();
        for key in ['?', 's', 'm', '/', 'x', 'd', ' '] {
            app.overlay = None;
            app.take(Input::Key(KeyCode::Char(key).into()), at(1));
            for width in [0, 1, 2, 3, 8, 20, 33, 64, 80, 131] {
                for height in [0, 1, 2, 3, 5, 6, 9, 13, 14, 24] {
                    render(&mut app, width, height, at(100), true);
                }
            }
        }
    }
}

#[test]
fn untrusted_text_cannot_control_the_terminal() {
    let mut job = container("\u{1b}[2J\u{202e}模型训练-大型语言模型-大型语言模型");
    job.why = "a\r\nb\u{9b}31m".to_owned();
    job.list = Some("\u{1b}c".to_owned());
    let mut status = status(vec![job]);
    status.node.hostname = "\u{1b}]0;owned\u{7}".to_owned();
    let mut app = App::new(Duration::from_secs(1), Order::default(), "");
    app.take(Input::Status(Box::new(status)), at(0));
    for (width, height) in [(200, 60), (80, 24), (40, 10), (20, 5)] {
        let screen = screen(&mut app, width, height, at(1));
        assert!(!screen.chars().any(|c| c.is_control() && c != '\n'), "{screen:?}");
        assert!(screen.lines().all(|line| term::text::width(line) <= usize::from(width)), "{screen}");
    }
}

#[test]
fn colour_can_be_disabled_and_does_not_change_the_text() {
    for mut app in [watching(), with_detail()] {
        let plain = render(&mut app, 200, 60, at(60), false);
        let coloured = render(&mut app, 200, 60, at(60), true);
        let is_coloured = |style: Style| ![None, Some(Color::Reset)].contains(&style.fg);
        assert!(!plain.content.iter().any(|cell| is_coloured(cell.style())));
        assert!(coloured.content.iter().any(|cell| is_coloured(cell.style())));
        assert!(plain.content.iter().zip(&coloured.content).all(|(a, b)| a.symbol() == b.symbol()));
    }
}

#[test]
fn an_ascii_screen_keeps_its_layout() {
    let plain = |app: &mut App, width, height, now| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        draw(&mut buffer, app, now, Theme { color: false, ascii: true });
        lines(&buffer)
    };
    golden("ascii_list_80x24", &plain(&mut watching(), 80, 24, at(1)));
    golden("ascii_detail_200x60", &plain(&mut with_detail(), 200, 60, at(60)));
    let mut helped = watching();
    helped.overlay = Some(Overlay::Help(0));
    golden("ascii_help_80x24", &plain(&mut helped, 80, 24, at(1)));
    for (width, height) in [(200, 60), (80, 24), (40, 10), (20, 5)] {
        for mut app in [watching(), with_detail()] {
            let screen = plain(&mut app, width, height, at(60));
            assert!(screen.is_ascii(), "{screen}");
        }
    }
}

#[test]
fn the_help_can_be_scrolled_to_its_end() {
    let mut app = watching();
    app.overlay = Some(Overlay::Help(1000));
    assert!(screen(&mut app, 80, 24, at(1)).contains("its 80% range"));
    assert!(screen(&mut app, 80, 10, at(1)).contains("its 80% range"));
}

#[test]
fn a_selected_job_far_down_is_visible() {
    let mut app = App::new(Duration::from_secs(1), Order::default(), "");
    let jobs = (0..300).map(|number| container(&format!("job-{number:03}"))).collect();
    app.take(Input::Status(Box::new(status(jobs))), at(0));
    screen(&mut app, 80, 24, at(1));
    app.take(Input::Key(KeyCode::End.into()), at(1));
    assert!(screen(&mut app, 80, 24, at(1)).contains("> "));
    let name = app.selection().expect("a job").name.clone();
    assert!(screen(&mut app, 80, 24, at(1)).lines().any(|line| line.starts_with('>') && line.contains(&name)));
}

#[test]
fn an_ended_job_is_shown_below_those_that_run_with_its_end() {
    let end = Ended {
        kind: "killed-for-memory".to_owned(),
        text: "killed: memory".to_owned(),
        story: "The kernel killed it.".to_owned(),
        ago_s: 200.0,
        ..Ended::default()
    };
    let gone = Container { why: end.story.clone(), ended: Some(end), ..container("lroom") };
    let with = |containers: Vec<Container>, filter: &str| {
        let mut app = App::new(Duration::from_secs(1), Order::default(), filter);
        app.take(Input::Status(Box::new(Status { ended: vec![gone.clone()], ..status(containers) })), at(0));
        app
    };
    let mut app = with(containers(), "");
    app.take(Input::Key(KeyCode::End.into()), at(1));
    let shown = screen(&mut app, 80, 24, at(1));
    assert!(shown.contains(">  lroom          killed: memory, 3m20s ago\n"), "{shown}");
    assert!(shown.contains("4 jobs: ") && shown.contains("lroom: The kernel killed it."), "{shown}");
    app.take(Input::Key(KeyCode::Enter.into()), at(2));
    let shown = screen(&mut app, 80, 24, at(2));
    assert!(shown.contains("killed: memory 3m20s ago, ran for") && shown.contains("The kernel killed it."), "{shown}");
    assert!(screen(&mut with(Vec::new(), ""), 80, 24, at(1)).contains("killed: memory"), "without others");
    assert!(!screen(&mut with(Vec::new(), "nowhere"), 80, 24, at(1)).contains("killed: memory"), "it does not match");
}

#[test]
fn each_gpu_has_a_row_if_there_is_room_and_all_jobs_stay_visible() {
    let gpu = |index: u32| Gpu {
        index,
        name: "NVIDIA A100-SXM4-40GB".to_owned(),
        busy: Some(f64::from(index) / 10.0),
        memory_used_bytes: Some(30 << 30),
        memory_total_bytes: Some(40 << 30),
        ..Gpu::default()
    };
    let with = |gpus: u32| {
        let mut status = status(containers());
        status.node.gpus = (0..gpus).map(gpu).collect();
        let mut app = App::new(Duration::from_secs(1), Order::default(), "");
        app.take(Input::Status(Box::new(status)), at(0));
        app
    };
    let two = screen(&mut with(2), 80, 24, at(1));
    assert!(two.contains("GPU 1 █░░░░░░░░░  10% · 30.0G of 40.0G · NVIDIA A100-SXM4-40GB"), "{two}");
    for (name, height) in [("small", 15), ("usual", 24), ("large", 60)] {
        let shown = screen(&mut with(8), 80, height, at(1));
        assert!(containers().iter().all(|job| shown.contains(&job.name)), "{name}: {shown}");
        assert_eq!(height == 60, shown.contains("GPU 7"), "{name}: {shown}");
        assert_eq!(height != 60, shown.contains("the busiest 70%"), "{name}: {shown}");
    }
}
