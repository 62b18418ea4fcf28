//! A limit that may be unknown or unlimited, for formats such as JSON where both would be `null`: `null` is unknown, `"max"` is unlimited.
//!
//! For `#[serde(with = "…")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Limit<T> {
    At(T),
    Max(Max),
}

#[derive(Serialize, Deserialize)]
enum Max {
    #[serde(rename = "max")]
    Max,
}

pub(super) fn serialize<T, S>(limit: &Option<Option<T>>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + Copy,
    S: Serializer,
{
    limit.map(|limit| limit.map_or(Limit::Max(Max::Max), Limit::At)).serialize(serializer)
}

pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let limit: Option<Limit<T>> = Option::deserialize(deserializer)?;
    Ok(limit.map(|limit| match limit {
        Limit::At(value) => Some(value),
        Limit::Max(Max::Max) => None,
    }))
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Limits, Quota};

    #[test]
    fn unknown_and_unlimited_are_distinguished() {
        for (quota, high) in
            [(None, Some(None)), (Some(None), None), (Some(Some(Quota(1500))), Some(Some(Bytes(1 << 30))))]
        {
            let limits = Limits { cpu_quota: quota, memory_high: high, ..Limits::default() };
            let json = serde_json::to_string(&limits).unwrap();
            assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits, "{json}");
        }
    }
}
