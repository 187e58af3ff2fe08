//! `retention.key_days`: the event types whose idempotency keys are remembered longer than usual.

use onceward_envelope::EventType;
use std::collections::BTreeMap;

/// Anything longer is practically for ever, and then belongs in a table of the service itself.
const MAX_DAYS: u32 = 36_500;

/// Parses `name=days, name=days`. Fails with a sentence that explains what to correct.
pub(super) fn parse(text: &str, keep_days: u32) -> Result<BTreeMap<String, u32>, String> {
    let mut days = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, number) = part.split_once('=').map_or((part, ""), |(name, number)| (name.trim(), number.trim()));
        if format!("{name}.v1").parse::<EventType>().is_err() {
            return Err(format!(
                "retention.key_days: \"{name}\" is not an event type without its version, like payment.received"
            ));
        }
        let number: u32 = number.parse().ok().filter(|number| (keep_days..=MAX_DAYS).contains(number)).ok_or_else(|| {
            format!(
                "retention.key_days: {name} needs a number of days from retention.keep_days ({keep_days}) to {MAX_DAYS}, \
                 like {name}=90"
            )
        })?;
        if days.insert(name.to_owned(), number).is_some() {
            return Err(format!("retention.key_days: {name} is named twice; remove one"));
        }
    }
    Ok(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_days_are_parsed() {
        assert_eq!(parse("", 7), Ok(BTreeMap::new()));
        let days = parse(" payment.received = 400, loan.created=30 ,", 7).expect("it is valid");
        assert_eq!(
            days.into_iter().collect::<Vec<_>>(),
            [("loan.created".into(), 30), ("payment.received".into(), 400)]
        );
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, part) in [
            ("payment.received", "number of days"),
            ("payment.received=3", "retention.keep_days (7)"),
            ("payment.received=99999999", "number of days"),
            ("Payment Received=30", "event type"),
            ("a.b=30,a.b=40", "twice"),
        ] {
            let problem = parse(text, 7).expect_err(text);
            assert!(problem.contains(part), "{problem}");
        }
    }
}
