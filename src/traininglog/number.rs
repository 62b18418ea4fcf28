//! Numbers that may be NaN or infinite, for formats such as JSON that have neither: `"NaN"`, `"inf"`, `"-inf"`.
//!
//! For `#[serde(with = "…")]`.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;

pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if number.is_finite() { serializer.serialize_f64(*number) } else { serializer.collect_str(number) }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(AnyNumber)
}

struct AnyNumber;

impl Visitor<'_> for AnyNumber {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        match text {
            "NaN" => Ok(f64::NAN),
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Evaluation, Millis};

    #[test]
    fn every_printed_value_survives_json() {
        for value in [0.1 + 0.2, -0.0, f64::MIN_POSITIVE, 1e300, f64::INFINITY, f64::NEG_INFINITY] {
            let evaluation = Evaluation { at: Millis(7), value, current: None, total: None };
            let json = serde_json::to_string(&evaluation).unwrap();
            assert_eq!(serde_json::from_str::<Evaluation>(&json).unwrap().value.to_bits(), value.to_bits(), "{json}");
        }
        let nan =
            serde_json::to_string(&Evaluation { at: Millis(7), value: f64::NAN, current: None, total: None }).unwrap();
        assert!(serde_json::from_str::<Evaluation>(&nan).unwrap().value.is_nan());
    }
}
