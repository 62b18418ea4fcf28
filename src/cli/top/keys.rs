//! Key bindings, the same as in `top`, `htop`, `less` and `k9s` where these have one. Pure.

use super::app::{App, Detail};
use super::input::{Effect, Now, Overlay, PromptKind};
use super::jobs::{Order, SortKey};
use api::client::segment;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

impl App {
    /// Handles a key; returns the effects to carry out.
    pub(super) fn press(&mut self, key: KeyEvent, now: Now) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return vec![Effect::Quit],
                KeyCode::Char('z') => return vec![Effect::Suspend],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                _ => {}
            }
        }
        let code = plain(key);
        match self.overlay.take() {
            Some(Overlay::Prompt(prompt)) => self.type_into(prompt, key, now),
            Some(Overlay::Sort(at)) => self.choose_order(at, code),
            Some(Overlay::Help(line)) => self.scroll_overlay(Overlay::Help, line, code),
            Some(Overlay::Messages(line)) => self.scroll_overlay(Overlay::Messages, line, code),
            None if self.detail.is_some() => self.press_in_detail(code, now),
            None => self.press_in_list(key, now),
        }
    }

    fn press_in_list(&mut self, key: KeyEvent, now: Now) -> Vec<Effect> {
        match plain(key) {
            KeyCode::Char('q') | KeyCode::F(10) => return vec![Effect::Quit],
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l' | 'e') => return self.open(),
            KeyCode::Char('/' | '\\') | KeyCode::F(3 | 4) => self.prompt_filter(),
            KeyCode::Esc => {
                self.filter.clear();
                self.arrange();
            }
            KeyCode::Char('s') | KeyCode::F(6) => self.overlay = Some(Overlay::Sort(self.order.key.index())),
            KeyCode::Char('<' | ',') => self.sort(self.order.key.step(-1)),
            KeyCode::Char('>' | '.') => self.sort(self.order.key.step(1)),
            KeyCode::Char('P') => self.sort(SortKey::Cpu),
            KeyCode::Char('M') => self.sort(SortKey::Memory),
            KeyCode::Char('T') => self.sort(SortKey::Left),
            KeyCode::Char('V') => self.sort(SortKey::Value),
            KeyCode::Char('R' | 'I') => {
                self.order.reversed = !self.order.reversed;
                self.arrange();
            }
            code => {
                if let Some(row) = self.row_to(key) {
                    self.select(row);
                } else {
                    return self.press_anywhere(code, now);
                }
            }
        }
        Vec::new()
    }

    /// The row that a key moves the cursor to.
    fn row_to(&self, key: KeyEvent) -> Option<usize> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let (cursor, page) = (self.cursor(), self.page);
        match key.code {
            KeyCode::Char('d') if control => return Some(cursor + page / 2),
            KeyCode::Char('u') if control => return Some(cursor.saturating_sub(page / 2)),
            _ => {}
        }
        Some(match plain(key) {
            KeyCode::Up | KeyCode::Char('k') => cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => cursor + 1,
            KeyCode::PageUp => cursor.saturating_sub(page),
            KeyCode::PageDown => cursor + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => usize::MAX,
            _ => return None,
        })
    }

    fn press_in_detail(&mut self, code: KeyCode, now: Now) -> Vec<Effect> {
        let step = |detail: &mut Option<Detail>, lines: isize| {
            if let Some(detail) = detail {
                detail.back = detail.back.saturating_add_signed(lines).min(super::app::MAX_BACK);
            }
        };
        match code {
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('q' | 'h') | KeyCode::Backspace => self.detail = None,
            KeyCode::Up | KeyCode::Char('k') => return self.open_neighbour(-1),
            KeyCode::Down | KeyCode::Char('j') => return self.open_neighbour(1),
            KeyCode::PageUp => step(&mut self.detail, 1),
            KeyCode::PageDown => step(&mut self.detail, -1),
            code => return self.press_anywhere(code, now),
        }
        Vec::new()
    }

    fn press_anywhere(&mut self, code: KeyCode, now: Now) -> Vec<Effect> {
        match code {
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.overlay = Some(Overlay::Help(0)),
            KeyCode::Char('m') => self.overlay = Some(Overlay::Messages(0)),
            KeyCode::Char('d') => self.open_prompt(PromptKind::Delay),
            KeyCode::Char(' ') => self.freeze(!self.frozen),
            KeyCode::Char('p') => return self.release_or_govern(now),
            KeyCode::Char('r') => return self.command("govern", "governing", now),
            KeyCode::Char('x') => return self.pin_or_unpin(now),
            KeyCode::F(5) => return vec![Effect::Refresh],
            _ => {}
        }
        Vec::new()
    }

    fn sort(&mut self, key: SortKey) {
        // The current key, selected again, reverses the order.
        self.order = Order { key, reversed: self.order.key == key && !self.order.reversed };
        self.arrange();
    }

    fn choose_order(&mut self, at: usize, code: KeyCode) -> Vec<Effect> {
        let last = SortKey::ALL.len() - 1;
        let at = match code {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
            KeyCode::Home => 0,
            KeyCode::End => last,
            KeyCode::Enter | KeyCode::Char(' ') => {
                self.order = Order { key: SortKey::ALL[at.min(last)], reversed: false };
                self.arrange();
                return Vec::new();
            }
            KeyCode::Esc | KeyCode::Char('q' | 's') => return Vec::new(),
            _ => at,
        };
        self.overlay = Some(Overlay::Sort(at));
        Vec::new()
    }

    fn scroll_overlay(&mut self, overlay: fn(usize) -> Overlay, line: usize, code: KeyCode) -> Vec<Effect> {
        let line = match code {
            KeyCode::Up | KeyCode::Char('k') => line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => line + 1,
            KeyCode::PageUp => line.saturating_sub(10),
            KeyCode::PageDown => line + 10,
            KeyCode::Home => 0,
            _ => return Vec::new(),
        };
        self.overlay = Some(overlay(line.min(super::app::MAX_BACK)));
        Vec::new()
    }

    fn open(&mut self) -> Vec<Effect> {
        let Some(id) = self.selection().map(|job| job.id.clone()) else { return Vec::new() };
        self.detail = Some(Detail { id, ..Detail::default() });
        vec![Effect::Refresh]
    }

    fn open_neighbour(&mut self, step: isize) -> Vec<Effect> {
        self.select(self.cursor().saturating_add_signed(step));
        if self.selection().is_some_and(|job| self.detail_id() != Some(&job.id)) { self.open() } else { Vec::new() }
    }

    /// Id and name of the job that a command applies to: the one on the detail page, else the one under the cursor.
    fn target(&self) -> Option<(String, String)> {
        let job = if self.detail.is_some() { self.detail_job() } else { self.selection() };
        job.map(|job| (job.id.clone(), job.name.clone()))
    }

    fn release_or_govern(&mut self, now: Now) -> Vec<Effect> {
        let job = if self.detail.is_some() { self.detail_job() } else { self.selection() };
        let released = job.and_then(|job| job.hold.as_ref()).is_some_and(|hold| hold.kind == "released");
        if released { self.command("govern", "governing", now) } else { self.command("release", "releasing", now) }
    }

    fn pin_or_unpin(&mut self, now: Now) -> Vec<Effect> {
        let job = if self.detail.is_some() { self.detail_job() } else { self.selection() };
        if job.is_some_and(|job| job.pinned_share.is_some()) {
            return self.command("unpin", "unpinning", now);
        }
        if let Some((id, name)) = self.target() {
            self.open_prompt(PromptKind::Pin { id, name });
        }
        Vec::new()
    }

    fn command(&mut self, verb: &str, doing: &str, now: Now) -> Vec<Effect> {
        let Some((id, name)) = self.target() else { return Vec::new() };
        self.show_message(&format!("{doing} {name} …"), false, now);
        vec![Effect::Command(format!("/v1/containers/{}/{verb}", segment(&id)))]
    }
}

/// The key that a combination stands for. One without a meaning becomes [`KeyCode::Null`], which does nothing: Ctrl-P must not release a
/// job as `p` does.
pub(super) fn plain(key: KeyEvent) -> KeyCode {
    let (control, alt) = (KeyModifiers::CONTROL, KeyModifiers::ALT);
    match key.code {
        code if !key.modifiers.intersects(control | alt) => code,
        KeyCode::Char(letter) if !key.modifiers.contains(alt) => match letter {
            'p' => KeyCode::Up,
            'n' => KeyCode::Down,
            'b' => KeyCode::PageUp,
            'f' => KeyCode::PageDown,
            'h' => KeyCode::Backspace, // some terminals send it for this key
            _ => KeyCode::Null,
        },
        _ => KeyCode::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::super::testing::{app, containers, press, selected, status, types};
    use super::*;
    use std::time::Duration;

    fn control(app: &mut App, letter: char) -> Vec<Effect> {
        app.take(Input::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)), Now::default())
    }

    #[test]
    fn q_and_control_c_quit_and_control_z_suspends() {
        assert_eq!(types(&mut app(), "q"), [Effect::Quit]);
        let mut typing = app();
        types(&mut typing, "/");
        assert_eq!(control(&mut typing, 'c'), [Effect::Quit], "also while typing");
        assert_eq!(control(&mut typing, 'z'), [Effect::Suspend]);
    }

    #[test]
    fn a_combination_without_a_meaning_is_not_the_letter_in_it() {
        let alt = |app: &mut App, letter| {
            app.take(Input::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::ALT)), Now::default())
        };
        for page in ["list", "detail"] {
            let mut app = app();
            if page == "detail" {
                press(&mut app, KeyCode::Enter);
            }
            for letter in "prxqmdesPMTR ?/".chars() {
                assert_eq!(alt(&mut app, letter), [], "Alt-{letter} on the {page}");
            }
            for letter in "rxqmdesu".chars() {
                assert_eq!(control(&mut app, letter), [], "Ctrl-{letter} on the {page}");
            }
            assert_eq!((app.overlay.as_ref(), app.frozen, selected(&app)), (None, false, "vae"), "{page}");
        }
    }

    #[test]
    fn control_n_and_p_move_by_one_line_d_and_u_by_half_a_page() {
        let mut app = app();
        assert_eq!(control(&mut app, 'n'), []);
        assert_eq!(selected(&app), "lstm");
        assert_eq!(control(&mut app, 'p'), []);
        assert_eq!(selected(&app), "vae");
        app.set_page(4);
        control(&mut app, 'd');
        assert_eq!(selected(&app), "resnet");
        control(&mut app, 'u');
        assert_eq!(selected(&app), "vae");
        control(&mut app, 'f');
        assert_eq!(selected(&app), "sweep");
        press(&mut app, KeyCode::Enter);
        assert_eq!(control(&mut app, 'p'), [Effect::Refresh], "opens the job above");
        assert_eq!(app.detail_id(), Some("resnet-0123456789abcdef"));
    }

    #[test]
    fn arrows_and_vi_keys_move_the_cursor_and_stop_at_the_ends() {
        let mut app = app();
        types(&mut app, "jj");
        assert_eq!(selected(&app), "resnet");
        app.set_page(2);
        assert_eq!(app.offset, 1, "the selected job is on the screen");
        press(&mut app, KeyCode::End);
        press(&mut app, KeyCode::Down);
        assert_eq!(selected(&app), "sweep");
        types(&mut app, "gk");
        assert_eq!(selected(&app), "vae");
        press(&mut app, KeyCode::PageDown);
        assert_eq!(selected(&app), "resnet");
    }

    #[test]
    fn the_sort_order_is_chosen_from_a_list_stepped_and_reversed() {
        let mut app = app();
        types(&mut app, "s");
        press(&mut app, KeyCode::Home);
        press(&mut app, KeyCode::Enter);
        assert_eq!(app.order, Order { key: SortKey::Name, reversed: false });
        types(&mut app, "R");
        assert!(app.order.reversed);
        types(&mut app, ">");
        assert_eq!(app.order, Order { key: SortKey::Health, reversed: false });
        types(&mut app, "MM");
        assert_eq!(app.order, Order { key: SortKey::Memory, reversed: true });
        types(&mut app, "V");
        assert_eq!((app.order.key, selected(&app)), (SortKey::Value, "vae"));
        press(&mut app, KeyCode::Home);
        assert_eq!(selected(&app), "lstm", "the largest value");
        types(&mut app, "Tg");
        assert_eq!(selected(&app), "resnet", "the nearest end");
    }

    #[test]
    fn p_releases_the_selected_job_by_its_full_id_and_governs_a_released_one() {
        let mut app = app();
        assert_eq!(types(&mut app, "p"), [Effect::Command("/v1/containers/vae-0123456789abcdef/release".to_owned())]);
        let mut jobs = containers();
        jobs[0].hold = Some(api::wire::Hold { kind: "released".to_owned(), why: String::new(), ends: String::new() });
        app.take(Input::Status(Box::new(status(jobs))), Now::default());
        assert_eq!(types(&mut app, "p"), [Effect::Command("/v1/containers/vae-0123456789abcdef/govern".to_owned())]);
    }

    #[test]
    fn a_command_without_a_job_has_no_effect() {
        let mut app = App::new(Duration::from_secs(1), Order::default(), "");
        assert_eq!(types(&mut app, "prx"), []);
        assert_eq!(press(&mut app, KeyCode::Enter), []);
    }

    #[test]
    fn enter_opens_a_job_arrows_open_its_neighbours_and_q_goes_back() {
        let mut app = app();
        assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Refresh]);
        assert_eq!(app.detail_id(), Some("vae-0123456789abcdef"));
        assert_eq!(press(&mut app, KeyCode::Down), [Effect::Refresh]);
        assert_eq!(app.detail_id(), Some("lstm-0123456789abcdef"));
        assert_eq!(types(&mut app, "q"), [], "q goes back first");
        assert_eq!(app.detail_id(), None);
        assert_eq!(selected(&app), "lstm");
    }

    #[test]
    fn any_key_closes_the_help_and_arrows_scroll_it() {
        let mut app = app();
        types(&mut app, "?jj");
        assert_eq!(app.overlay, Some(Overlay::Help(2)));
        assert_eq!(types(&mut app, "q"), []);
        assert_eq!(app.overlay, None);
    }
}
