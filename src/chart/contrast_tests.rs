//! Checks the contrast of every colour in the style sheets on its background against WCAG 2.1 AA: 4.5 to 1 for text (1.4.3), 3 to 1 for
//! lines and areas that carry information (1.4.11).

use crate::STYLE;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

const TEXT: f64 = 4.5;
const GRAPHICS: f64 = 3.0;
/// Lines without information: grid lines and borders.
const DECORATION: [&str; 2] = ["grid", "edge"];

type Colour = [f64; 3];

/// The colours of one sheet in one scheme: by property, and by class for `--c`.
struct Sheet {
    properties: BTreeMap<String, String>,
    classes: BTreeMap<String, String>,
    rules: String,
}

impl Sheet {
    fn of(sheet: &str, is_dark: bool) -> Sheet {
        const DARK: &str = "@media (prefers-color-scheme:dark){";
        let (dark, light): (Vec<&str>, Vec<&str>) = sheet.lines().partition(|line| line.starts_with(DARK));
        let light = light.join("\n");
        let light = light.split("@media print").next().unwrap_or_default().to_owned();
        let mut found = Sheet { properties: BTreeMap::new(), classes: BTreeMap::new(), rules: light.clone() };
        found.read(&light);
        if is_dark {
            dark.iter().for_each(|line| found.read(line.trim_start_matches(DARK)));
        }
        found
    }

    fn read(&mut self, rules: &str) {
        let class = Regex::new(r"\.([a-z0-9]+)\{--c:([^;}]+)").expect("a pattern");
        self.classes.extend(class.captures_iter(rules).map(|found| (found[1].to_owned(), found[2].to_owned())));
        let property = Regex::new(r"--([a-z]{2,}):(#[0-9a-f]+)").expect("a pattern");
        self.properties.extend(property.captures_iter(rules).map(|found| (found[1].to_owned(), found[2].to_owned())));
    }

    /// Parses `#abc`, `#aabbcc` or `var(--name)` into components of 0 to 1.
    fn colour(&self, value: &str) -> Colour {
        if let Some(name) = value.strip_prefix("var(--").and_then(|rest| rest.strip_suffix(')')) {
            return self.colour(self.properties.get(name).unwrap_or_else(|| panic!("no colour is called {name}")));
        }
        let digits = value.trim_start_matches('#');
        let wide: String =
            if digits.len() == 3 { digits.chars().flat_map(|c| [c, c]).collect() } else { digits.to_owned() };
        [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&wide[at..at + 2], 16).expect("a colour")) / 255.0)
    }

    /// Properties used in rules that match a pattern.
    fn used(&self, how: &str) -> BTreeSet<String> {
        let used = Regex::new(how).expect("a pattern");
        used.captures_iter(&self.rules).map(|found| found[1].to_owned()).collect()
    }
}

/// A colour with this opacity on a background.
fn over(colour: Colour, opacity: f64, ground: Colour) -> Colour {
    [0, 1, 2].map(|at| colour[at] * opacity + ground[at] * (1.0 - opacity))
}

/// WCAG's relative luminance.
fn luminance(colour: Colour) -> f64 {
    let linear = colour.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Colours with too little contrast, as `dark: text dim on bg: 3.1`, and the number of checked colours.
fn weak(sheet: &str, scheme: &str) -> (Vec<String>, usize) {
    let sheet = Sheet::of(sheet, scheme == "dark");
    let mut checked = 0;
    let mut weak = Vec::new();
    let mut check = |what: String, colour: Colour, ground: &str, least: f64| {
        checked += 1;
        let found = contrast(colour, sheet.colour(&format!("var(--{ground})")));
        if found < least {
            weak.push(format!("{scheme}: {what} on {ground}: {found:.2}"));
        }
    };
    let mut texts = sheet.used(r"[{;]color:var\(--([a-z]+)\)");
    texts.extend(sheet.used(r"svg text[a-z.]*\{fill:var\(--([a-z]+)\)"));
    for name in texts {
        for ground in ["bg", "card"] {
            check(format!("text {name}"), sheet.colour(&format!("var(--{name})")), ground, TEXT);
        }
    }
    for name in sheet.used(r"(?:stroke|outline)[^;}]*var\(--([a-z]{2,})\)") {
        if !DECORATION.contains(&name.as_str()) {
            check(format!("line {name}"), sheet.colour(&format!("var(--{name})")), "card", GRAPHICS);
        }
    }
    let opacity = sheet
        .used(r"\.area\{[^}]*fill-opacity:([0-9.]+)")
        .pop_first()
        .map_or(1.0, |part| part.parse().expect("a part"));
    let card = sheet.colour("var(--card)");
    for (class, value) in &sheet.classes {
        let colour = sheet.colour(value);
        check(format!("line {class}"), colour, "card", GRAPHICS);
        check(format!("area {class}"), over(colour, opacity, card), "card", GRAPHICS);
    }
    (weak, checked)
}

#[test]
fn all_text_lines_and_areas_have_enough_contrast_in_light_and_dark() {
    let sheet = format!("{STYLE}\n{}", include_str!("page.css"));
    assert!(!sheet.contains("{opacity:"), "the contrast of an element with opacity cannot be checked");
    for scheme in ["light", "dark"] {
        let (weak, checked) = weak(&sheet, scheme);
        assert!(checked > 30, "only {checked} colours were found");
        assert_eq!(weak, [] as [String; 0]);
    }
}

#[test]
fn contrast_is_computed_as_in_the_standard() {
    let (black, white, grey) = ([0.0; 3], [1.0; 3], [119.0 / 255.0; 3]);
    assert!((contrast(black, white) - 21.0).abs() < 1e-9);
    assert!((contrast(grey, white) - 4.48).abs() < 0.005, "#777777, the standard's famous near miss");
    let (found, _) = weak(":root{--bg:#fff;--card:#fff}p{color:var(--bg)}\n.s1{--c:#eee}", "light");
    assert_eq!(found.len(), 4, "{found:?}");
}
