//! Finds loan numbers and borrowers, which follow a label.

use super::{DocumentFields, LabeledField};
use regex::Regex;
use std::sync::LazyLock;

const NAME_MAX_CHARS: usize = 120;

static LOAN_NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)\bloan[ \t]*(?:account[ \t]*)?(?:number|no\b\.?|nr\b\.?|id\b|#)[ \t]*[:#.]?[ \t]*\n?[ \t]*([A-Z0-9][A-Z0-9/-]{2,39})\b";
    Regex::new(pattern).expect("a pattern that is tested")
});
static BORROWER: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?im)^[ \t]*(?:co-?)?borrower(?:\(s\)|s)?(?:'s)?(?:[ \t]+name)?[ \t]*:[ \t]*\n?[ \t]*(\S[^\n]*)$";
    Regex::new(pattern).expect("a pattern that is tested")
});

pub(super) fn find(text: &str, page: u32, fields: &mut DocumentFields) {
    for found in LOAN_NUMBER.captures_iter(text) {
        // A number has a digit; "loan number of the" has none.
        if found[1].bytes().any(|byte| byte.is_ascii_digit()) {
            add_distinct(&mut fields.loan_numbers, &found[1], page);
        }
    }
    for found in BORROWER.captures_iter(text) {
        let name = found[1].trim();
        // In an empty form, the next label follows instead of a name.
        if name.chars().count() <= NAME_MAX_CHARS && name.chars().any(char::is_alphabetic) && !name.ends_with(':') {
            add_distinct(&mut fields.borrower_names, name, page);
        }
    }
}

fn add_distinct(values: &mut Vec<LabeledField>, value: &str, page: u32) {
    if !values.iter().any(|one| one.value == value) {
        values.push(LabeledField { value: value.to_owned(), page });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Vec<String>, Vec<String>) {
        let mut fields = DocumentFields::default();
        find(text, 1, &mut fields);
        let values = |named: Vec<LabeledField>| named.into_iter().map(|one| one.value).collect();
        (values(fields.loan_numbers), values(fields.borrower_names))
    }

    #[test]
    fn loan_numbers_are_found_after_their_label() {
        let text = "Loan Number: LN-2024-0042\nloan no. 7731\nLOAN #A/17-9\nLoan ID\n000123\nLoan number: LN-2024-0042";
        assert_eq!(found(text).0, ["LN-2024-0042", "7731", "A/17-9", "000123"]);
        assert_eq!(found("the loan number of the borrower; a loan notice").0, Vec::<String>::new());
    }

    #[test]
    fn borrowers_are_found_after_their_label() {
        let text =
            "Borrower: Ada Example\n  Co-Borrower: Grace Hopper \nBorrower's Name:\nÉmile Zöllner\nThe borrower pays";
        assert_eq!(found(text).1, ["Ada Example", "Grace Hopper", "Émile Zöllner"]);
        assert_eq!(found("Borrower:\nLender:\n").1, Vec::<String>::new());
    }
}
