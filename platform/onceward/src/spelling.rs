//! Suggests the name that a misspelt one probably stands for.

/// Returns the candidate that differs least from `name`; `None` if all differ too much.
pub fn closest_match<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let max_distance = (name.chars().count() / 4).max(2);
    let by_distance = candidates.into_iter().map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    by_distance.filter(|(distance, _)| *distance <= max_distance).min().map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_has_a_match_and_nonsense_has_none() {
        let known = ["payment.posted.v1", "payment.failed.v1", "quota.full.v1"];
        assert_eq!(closest_match("paymnt.posted.v1", known), Some("payment.posted.v1"));
        assert_eq!(closest_match("payment.fialed.v1", known), Some("payment.failed.v1"));
        assert_eq!(closest_match("nonsense", known), None);
    }
}
