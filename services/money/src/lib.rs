//! Money without floats: amounts in minor units, currencies, annual rates. No I/O.
//!
//! [`Minor`] is a number of cents (or of the currency's smallest unit) and has checked arithmetic only; [`Currency`]
//! defines how many decimals that unit has; [`Rate`] is an exact decimal. Values that must be rounded are computed as a
//! [`Decimal`] and converted to a [`Minor`] in one place.
//!
//! Invariant: no conversion from a float to any of them exists. In JSON all three are strings, because a JSON number
//! above 2^53 loses digits in transit; in PostgreSQL they are `bigint`, `text` and `numeric`.

mod currency;
mod error;
mod minor;
mod rate;
mod text_column;

pub use currency::Currency;
pub use error::MoneyError;
pub use minor::Minor;
pub use rate::Rate;
pub use rust_decimal::Decimal;

// For the macro.
#[doc(hidden)]
pub use {bytes, postgres_types};
