//! Money without floats: amounts in minor units, currencies, annual rates. No I/O.
//!
//! [`Minor`] is a number of cents (or of whatever the currency's smallest unit is) and has checked
//! arithmetic only; [`Currency`] says how many digits that unit has; [`Rate`] is an exact decimal.
//! What must be rounded is computed as a [`Decimal`], and turned into a [`Minor`] at one place.
//!
//! Invariant: there is no way from a float to any of them. In JSON all three are strings, because a
//! JSON number above 2^53 loses digits on its way; in PostgreSQL they are `bigint`, `text` and `numeric`.

mod currency;
mod error;
mod minor;
mod rate;

pub use currency::Currency;
pub use error::MoneyError;
pub use minor::Minor;
pub use rate::Rate;
pub use rust_decimal::Decimal;
