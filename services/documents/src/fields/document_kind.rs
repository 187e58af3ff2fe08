//! Classifies documents by typical words.

use serde::Serialize;

/// A kind of loan document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum DocumentKind {
    PromissoryNote,
    DeedOfTrust,
    LoanApplication,
    PayoffStatement,
    PaymentReceipt,
    BankStatement,
    EscrowStatement,
    /// None of these, or several with the same score.
    Unknown,
}

/// Words in lower case, the kind they indicate, and their weight. A title weighs more than a word that other kinds use
/// too.
const WORDS: &[(&str, DocumentKind, u32)] = &[
    ("promissory note", DocumentKind::PromissoryNote, 3),
    ("promise to pay", DocumentKind::PromissoryNote, 2),
    ("deed of trust", DocumentKind::DeedOfTrust, 3),
    ("trustor", DocumentKind::DeedOfTrust, 1),
    ("loan application", DocumentKind::LoanApplication, 3),
    ("gross monthly income", DocumentKind::LoanApplication, 2),
    ("payoff statement", DocumentKind::PayoffStatement, 3),
    ("payoff amount", DocumentKind::PayoffStatement, 2),
    ("good through", DocumentKind::PayoffStatement, 1),
    ("payment receipt", DocumentKind::PaymentReceipt, 3),
    ("payment received", DocumentKind::PaymentReceipt, 2),
    ("receipt number", DocumentKind::PaymentReceipt, 1),
    ("bank statement", DocumentKind::BankStatement, 3),
    ("account statement", DocumentKind::BankStatement, 2),
    ("opening balance", DocumentKind::BankStatement, 1),
    ("escrow statement", DocumentKind::EscrowStatement, 3),
    ("escrow analysis", DocumentKind::EscrowStatement, 3),
];

impl DocumentKind {
    /// Returns the name used in the database and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PromissoryNote => "promissory_note",
            Self::DeedOfTrust => "deed_of_trust",
            Self::LoanApplication => "loan_application",
            Self::PayoffStatement => "payoff_statement",
            Self::PaymentReceipt => "payment_receipt",
            Self::BankStatement => "bank_statement",
            Self::EscrowStatement => "escrow_statement",
            Self::Unknown => "unknown",
        }
    }
}

/// The typical words found so far.
#[derive(Default)]
pub(super) struct KindScores {
    seen: Vec<&'static str>,
}

impl KindScores {
    /// Adds the words of a page. A word counts once, however often it occurs.
    pub(super) fn count(&mut self, text: &str) {
        let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let new = WORDS.iter().map(|(word, _, _)| *word).filter(|word| text.contains(word));
        let new: Vec<_> = new.filter(|word| !self.seen.contains(word)).collect();
        self.seen.extend(new);
    }

    /// Returns the kind with the highest score.
    pub(super) fn best(&self) -> DocumentKind {
        let score = |kind: DocumentKind| -> u32 {
            let found = WORDS.iter().filter(|(word, for_kind, _)| *for_kind == kind && self.seen.contains(word));
            found.map(|(_, _, weight)| weight).sum()
        };
        let mut kinds: Vec<(u32, DocumentKind)> = Vec::new();
        for (_, kind, _) in WORDS {
            if !kinds.iter().any(|(_, counted)| counted == kind) {
                kinds.push((score(*kind), *kind));
            }
        }
        kinds.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        match kinds.as_slice() {
            [(best, kind), (second, _), ..] if *best >= 2 && best > second => *kind,
            _ => DocumentKind::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> DocumentKind {
        let mut scores = KindScores::default();
        scores.count(text);
        scores.best()
    }

    #[test]
    fn a_kind_needs_the_highest_score_and_a_tie_is_unknown() {
        assert_eq!(kind("PROMISSORY\nNOTE\nFor value received I promise to pay"), DocumentKind::PromissoryNote);
        assert_eq!(
            kind("Payoff Statement. Good through 2024-03-01. See your promissory note."),
            DocumentKind::PayoffStatement
        );
        assert_eq!(kind("Deed of Trust securing a Promissory Note"), DocumentKind::Unknown);
        assert_eq!(kind("opening balance"), DocumentKind::Unknown);
        assert_eq!(kind(""), DocumentKind::Unknown);
    }
}
