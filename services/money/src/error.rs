//! Errors about amounts, currencies and rates.

/// Why a value is not valid money, or no longer is. The text that was parsed is not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// The result does not fit into 64 bits.
    #[error("an amount is too large: it must fit 64 bits in minor units")]
    Overflow,
    /// The text is not an amount in minor units.
    #[error("an amount is a string of digits in minor units, such as \"12345\" or \"-12345\"")]
    NotMinor,
    /// The amount has more decimals than its currency.
    #[error("the amount has more decimals than its currency; round it first")]
    NotRepresentable,
    /// The text is not a currency code.
    #[error("a currency is three upper-case letters, such as \"USD\"")]
    NotCurrency,
    /// The text or the number is not an annual rate.
    #[error("a rate is a fraction of 1 from 0 to 10 with at most 12 decimals, such as \"0.075\" for 7.5 %")]
    NotRate,
}
