//! What kind of document it is, by words that such documents have.

use serde::Serialize;

/// Kinds of documents about loans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
    PromissoryNote,
    DeedOfTrust,
    LoanApplication,
    PayoffStatement,
    PaymentReceipt,
    BankStatement,
    EscrowStatement,
    /// None of these, or several alike.
    Unknown,
}

/// Words, in lower case, and what they speak for. A title speaks louder than a word that others use too.
const WORDS: &[(&str, Kind, u32)] = &[
    ("promissory note", Kind::PromissoryNote, 3),
    ("promise to pay", Kind::PromissoryNote, 2),
    ("deed of trust", Kind::DeedOfTrust, 3),
    ("trustor", Kind::DeedOfTrust, 1),
    ("loan application", Kind::LoanApplication, 3),
    ("gross monthly income", Kind::LoanApplication, 2),
    ("payoff statement", Kind::PayoffStatement, 3),
    ("payoff amount", Kind::PayoffStatement, 2),
    ("good through", Kind::PayoffStatement, 1),
    ("payment receipt", Kind::PaymentReceipt, 3),
    ("payment received", Kind::PaymentReceipt, 2),
    ("receipt number", Kind::PaymentReceipt, 1),
    ("bank statement", Kind::BankStatement, 3),
    ("account statement", Kind::BankStatement, 2),
    ("opening balance", Kind::BankStatement, 1),
    ("escrow statement", Kind::EscrowStatement, 3),
    ("escrow analysis", Kind::EscrowStatement, 3),
];

impl Kind {
    /// As it is written.
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

/// What the pages speak for.
#[derive(Default)]
pub(super) struct Votes {
    seen: Vec<&'static str>,
}

impl Votes {
    /// A word counts once, however often it stands there.
    pub(super) fn count(&mut self, text: &str) {
        let text = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let new = WORDS.iter().map(|(word, _, _)| *word).filter(|word| text.contains(word));
        let new: Vec<_> = new.filter(|word| !self.seen.contains(word)).collect();
        self.seen.extend(new);
    }

    pub(super) fn winner(&self) -> Kind {
        let votes = |kind: Kind| -> u32 {
            let spoken = WORDS.iter().filter(|(word, for_kind, _)| *for_kind == kind && self.seen.contains(word));
            spoken.map(|(_, _, weight)| weight).sum()
        };
        let mut kinds: Vec<(u32, Kind)> = Vec::new();
        for (_, kind, _) in WORDS {
            if !kinds.iter().any(|(_, known)| known == kind) {
                kinds.push((votes(*kind), *kind));
            }
        }
        kinds.sort_by_key(|(votes, _)| std::cmp::Reverse(*votes));
        match kinds.as_slice() {
            [(most, kind), (second, _), ..] if *most >= 2 && most > second => *kind,
            _ => Kind::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        let mut votes = Votes::default();
        votes.count(text);
        votes.winner()
    }

    #[test]
    fn a_kind_is_known_by_its_words_and_never_by_a_draw() {
        assert_eq!(kind("PROMISSORY\nNOTE\nFor value received I promise to pay"), Kind::PromissoryNote);
        assert_eq!(kind("Payoff Statement. Good through 2024-03-01. See your promissory note."), Kind::PayoffStatement);
        assert_eq!(kind("Deed of Trust securing a Promissory Note"), Kind::Unknown);
        assert_eq!(kind("opening balance"), Kind::Unknown);
        assert_eq!(kind(""), Kind::Unknown);
    }
}
