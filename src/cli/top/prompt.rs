//! Prompts at the bottom of the screen: filter, share, delay. Pure.

use super::app::App;
use super::input::{Effect, Now, Overlay, Prompt, PromptKind};
use super::keys::plain;
use crate::commands::share;
use api::client::segment;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Maximum length of typed text in bytes.
const MAX_INPUT: usize = 64;

/// Bounds of the delay, in seconds.
const DELAY: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

impl App {
    pub(super) fn open_prompt(&mut self, kind: PromptKind) {
        self.overlay = Some(Overlay::Prompt(Prompt { kind, text: String::new() }));
    }

    pub(super) fn prompt_filter(&mut self) {
        let before = self.filter.clone();
        let prompt = Prompt { text: before.clone(), kind: PromptKind::Filter { before } };
        self.overlay = Some(Overlay::Prompt(prompt));
    }

    pub(super) fn type_into(&mut self, mut prompt: Prompt, key: KeyEvent, now: Now) -> Vec<Effect> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match plain(key) {
            KeyCode::Enter => return self.submit(&prompt, now),
            KeyCode::Esc => {
                if let PromptKind::Filter { before } = prompt.kind {
                    self.filter = before;
                    self.arrange();
                }
                return Vec::new();
            }
            KeyCode::Backspace => {
                prompt.text.pop();
            }
            KeyCode::Char(typed) if prompt.text.len() < MAX_INPUT => prompt.text.push(typed),
            _ if control && matches!(key.code, KeyCode::Char('u' | 'w')) => prompt.text.clear(),
            _ => {}
        }
        if matches!(prompt.kind, PromptKind::Filter { .. }) {
            self.filter = prompt.text.clone();
            self.arrange();
        }
        self.overlay = Some(Overlay::Prompt(prompt));
        Vec::new()
    }

    fn submit(&mut self, prompt: &Prompt, now: Now) -> Vec<Effect> {
        let typed = prompt.text.trim();
        match &prompt.kind {
            PromptKind::Filter { .. } => Vec::new(),
            PromptKind::Delay => match typed.parse::<f64>() {
                Ok(seconds) if DELAY.contains(&seconds) => {
                    self.delay = Duration::from_secs_f64(seconds);
                    vec![Effect::Delay(self.delay)]
                }
                _ => self.reject("the delay must be a number of seconds between 0.1 and 3600", now),
            },
            PromptKind::Pin { id, name } => {
                let path = format!("/v1/containers/{}/pin", segment(id));
                let path = match share(typed) {
                    _ if typed.is_empty() => path,
                    Ok(share) => format!("{path}?share={share}"),
                    Err(why) => return self.reject(&why, now),
                };
                self.show_message(&format!("pinning {name} …"), false, now);
                vec![Effect::Command(path)]
            }
        }
    }

    fn reject(&mut self, why: &str, now: Now) -> Vec<Effect> {
        self.show_message(why, true, now);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::super::testing::{app, press, selected, types};
    use super::*;

    #[test]
    fn a_filter_applies_while_it_is_typed_and_escape_restores_the_previous_one() {
        let mut app = app();
        types(&mut app, "/lst");
        assert_eq!((app.rows.len(), selected(&app)), (1, "lstm"));
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.rows.len(), 4);
        types(&mut app, "/q");
        press(&mut app, KeyCode::Backspace);
        types(&mut app, "vae");
        press(&mut app, KeyCode::Enter);
        assert_eq!((app.filter.as_str(), app.rows.len()), ("vae", 1));
        press(&mut app, KeyCode::Esc);
        assert_eq!(app.rows.len(), 4, "escape in the list clears the filter");
    }

    #[test]
    fn pinning_asks_for_the_share_and_rejects_an_invalid_one() {
        let mut app = app();
        types(&mut app, "x40%");
        let pin = "/v1/containers/vae-0123456789abcdef/pin";
        assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Command(format!("{pin}?share=0.4"))]);
        types(&mut app, "x");
        assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Command(pin.to_owned())]);
        for wrong in ["0", "140%", "lots", "-1", "nan"] {
            types(&mut app, &format!("x{wrong}"));
            assert_eq!(press(&mut app, KeyCode::Enter), [], "{wrong}");
            assert!(app.message(Now::default()).is_some_and(|message| message.is_error), "{wrong}");
        }
    }

    #[test]
    fn the_delay_can_be_changed_within_bounds() {
        let mut app = app();
        types(&mut app, "d0.5");
        assert_eq!(press(&mut app, KeyCode::Enter), [Effect::Delay(Duration::from_millis(500))]);
        types(&mut app, "d0");
        assert_eq!(press(&mut app, KeyCode::Enter), []);
        assert_eq!(app.delay, Duration::from_millis(500));
    }

    #[test]
    fn combinations_edit_the_text_and_are_not_typed() {
        let mut app = app();
        let combine = |app: &mut App, letter, modifiers| {
            app.take(Input::Key(KeyEvent::new(KeyCode::Char(letter), modifiers)), Now::default())
        };
        types(&mut app, "/lstm");
        combine(&mut app, 'x', KeyModifiers::ALT);
        combine(&mut app, 'x', KeyModifiers::CONTROL);
        assert_eq!(app.filter, "lstm");
        combine(&mut app, 'h', KeyModifiers::CONTROL);
        assert_eq!(app.filter, "lst");
        combine(&mut app, 'u', KeyModifiers::CONTROL);
        assert_eq!(app.filter, "");
    }

    #[test]
    fn the_length_of_typed_text_is_bounded() {
        let mut app = app();
        types(&mut app, &format!("/{}", "x".repeat(1000)));
        assert_eq!(app.filter.len(), MAX_INPUT);
    }
}
