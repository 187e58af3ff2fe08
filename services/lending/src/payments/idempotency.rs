//! The idempotency key of a payment. Its format is fixed for compatibility with existing consumers.
//!
//! It is the correlation id of the payment's messages up to its posting, and is returned to callers. It does not
//! contain the provider, so it does not identify a payment alone: a payment is one transaction of one provider.

use jiff::civil::Date;
use onceward::envelope::fingerprint_hex;
use onceward_money::{Currency, Minor};
use uuid::Uuid;

/// Returns `SHA256(loan_id|gateway_txn_id|amount_minor|currency|effective_date)` as 64 hexadecimal digits.
pub(crate) fn key(loan_id: Uuid, gateway_txn_id: &str, amount: Minor, currency: Currency, effective: Date) -> String {
    fingerprint_hex(format!("{loan_id}|{gateway_txn_id}|{amount}|{currency}|{effective}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_hash_of_its_parts() {
        let loan = "018f3c9e-0000-7000-8000-000000000001".parse().unwrap();
        let day = "2026-01-05".parse().unwrap();
        let key_of = |amount| key(loan, "tx-1", Minor::new(amount), Currency::USD, day);
        // printf '018f3c9e-0000-7000-8000-000000000001|tx-1|12345|USD|2026-01-05' | sha256sum
        assert_eq!(key_of(12345), "32f3cd5c692502138dba2ffdfee41abd8c7086584848ba262683dd5b722e4490");
        assert_ne!(key_of(12346), key_of(12345));
    }
}
