//! Lists of ranks as ranges: for people, and for files, in which each of 10,000 ranks may list them all.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The first and the last of each run of ranks.
pub fn runs(ranks: &[u32]) -> Vec<(u32, u32)> {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => parts.push((*rank, *rank)),
        }
    }
    parts
}

/// Formats ranks as ranges: `0-3, 7`.
pub fn ranges(ranks: &[u32]) -> String {
    let text = |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs(ranks).into_iter().map(text).collect::<Vec<_>>().join(", ")
}

const MOST: usize = 1 << 24;

pub fn serialize<S: Serializer>(ranks: &Option<Vec<u32>>, to: S) -> Result<S::Ok, S::Error> {
    ranks.as_ref().map(|ranks| ranges(ranks).replace(' ', "")).serialize(to)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let mut ranks = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            return Err(D::Error::custom("a group's ranks are not ranges such as 0-3,7"));
        };
        if last < first {
            return Err(D::Error::custom("a group's ranks are not ascending ranges"));
        }
        if ranks.len() + ((last - first) as usize) >= MOST {
            return Err(D::Error::custom("a group has more than 16 million ranks"));
        }
        ranks.extend(first..=last);
    }
    Ok(Some(ranks))
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_ranks_are_ranges() {
        #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        struct Group(#[serde(with = "super")] Option<Vec<u32>>);
        let check = |ranks: Option<Vec<u32>>, text: &str| {
            assert_eq!(serde_json::to_string(&Group(ranks.clone())).unwrap(), text);
            assert_eq!(serde_json::from_str::<Group>(text).unwrap(), Group(ranks));
        };
        check(Some(vec![0, 1, 2, 3, 7]), r#""0-3,7""#);
        check(Some(vec![]), r#""""#);
        check(None, "null");
        assert!(serde_json::from_str::<Group>(r#""0-4294967295""#).is_err());
        assert!(serde_json::from_str::<Group>(r#""a""#).is_err());
    }
}
