//! Learning curves in scenario files: a formula, or measured points from a CSV file beside the scenario.

use super::check::Checker;
use super::text::{CurveText, Number};
use crate::curve::{LearningCurve, RateStage, Shape};
use crate::table_file::TableFile;
use std::path::Path;
use toml::Spanned;

const KINDS: &str = "\"exponential\", \"power\", \"plateaus\" or \"samples\"";

pub(super) fn parse(check: &Checker, text: &CurveText) -> Result<LearningCurve, String> {
    let noise = check.within("noise", &text.noise, 0.0, 1.0)?;
    if text.kind.get_ref() == "samples" {
        return measured(check, text);
    }
    let (from, to) = (text.from.get_ref().0, text.to.get_ref().0);
    if from == to || !from.is_finite() || !to.is_finite() {
        return Err(check.at(text.to.span(), "from and to: expected two different finite numbers"));
    }
    Ok(LearningCurve { from, to, noise, shape: shape(check, text)? })
}

fn shape(check: &Checker, text: &CurveText) -> Result<Shape, String> {
    let rate = optional(check, "rate", &text.rate, 6.0)?;
    match text.kind.get_ref().as_str() {
        "exponential" => Ok(Shape::Exponential { rate }),
        "power" => Ok(Shape::Power {
            exponent: optional(check, "exponent", &text.exponent, 0.5)?,
            knee: optional(check, "knee", &text.knee, 0.01)?,
        }),
        "plateaus" => plateaus(check, text, rate),
        other => Err(check.at(text.kind.span(), &format!("kind = \"{other}\"; expected {KINDS}"))),
    }
}

fn optional(check: &Checker, key: &str, value: &Option<Spanned<Number>>, default: f64) -> Result<f64, String> {
    value.as_ref().map_or(Ok(default), |value| check.positive(key, value))
}

fn plateaus(check: &Checker, text: &CurveText, rate: f64) -> Result<Shape, String> {
    let expected = "expected drops = [[until, level], …], both rising and between 0 and 1";
    let drops = text.drops.as_ref().ok_or_else(|| check.at(text.kind.span(), expected))?;
    let mut stages: Vec<RateStage> = Vec::new();
    for &[until, level] in drops.get_ref().iter().chain(&[[1.0, 1.0]]) {
        let (before, low) = stages.last().map_or((0.0, 0.0), |stage| (stage.until, stage.level));
        if !(until > before && until <= 1.0 && level > low && level <= 1.0) {
            return Err(check.at(drops.span(), expected));
        }
        stages.push(RateStage { until, level, rate });
    }
    Ok(Shape::Plateaus(stages))
}

fn measured(check: &Checker, text: &CurveText) -> Result<LearningCurve, String> {
    let Some(file) = &text.file else {
        return Err(check.at(text.kind.span(), "kind = \"samples\" needs file = \"curve.csv\", beside the scenario"));
    };
    let path = Path::new(check.path).parent().unwrap_or(Path::new("")).join(file.get_ref());
    let shown = path.display().to_string();
    let content = std::fs::read_to_string(&path)
        .map_err(|error| check.at(file.span(), &format!("cannot read {shown}: {error}; expected a CSV file")))?;
    let points = points(check, text, &TableFile::parse(&shown, &content)?)?;
    from_points(&points).ok_or_else(|| {
        check.at(
            file.span(),
            &format!("{shown}: expected two or more rows with rising x and different first and last y"),
        )
    })
}

fn points(check: &Checker, text: &CurveText, table: &TableFile) -> Result<Vec<(f64, f64)>, String> {
    let x = table.column(&[text.x.as_deref().unwrap_or("step")])?;
    let y = table.column(&[text.y.as_deref().unwrap_or("loss")])?;
    let only = match &text.only {
        Some(only) => {
            let wrong = || check.at(only.span(), "only: expected \"column=value\"");
            let (column, value) = only.get_ref().split_once('=').ok_or_else(wrong)?;
            Some((table.column(&[column])?, value.to_owned()))
        }
        None => None,
    };
    let wanted = |row: &crate::table_file::Row| only.as_ref().is_none_or(|(c, value)| row.text(*c) == value);
    table.rows().filter(wanted).map(|row| Ok((row.number(x)?, row.number(y)?))).collect()
}

/// Scales measured points to (0, 0) … (1, 1); the work starts at the first point.
fn from_points(points: &[(f64, f64)]) -> Option<LearningCurve> {
    let (&(x0, from), &(x1, to)) = (points.first()?, points.last()?);
    let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if !rising || from == to {
        return None;
    }
    let scaled: Vec<(f64, f64)> =
        points.iter().map(|(x, y)| ((x - x0) / (x1 - x0), (y - from) / (to - from))).collect();
    Some(LearningCurve { from, to, noise: 0.0, shape: Shape::Samples(scaled.into()) })
}
