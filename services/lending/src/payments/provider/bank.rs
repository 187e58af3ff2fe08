//! A bank's file of ACH entries, as CSV with a header.
//!
//! | column | |
//! | --- | --- |
//! | `trace_number` | required; the bank's id of the entry, never used twice |
//! | `loan_id` | required; the loan that it pays, a UUID |
//! | `amount` | required; whole units with a point, such as `1250.00` |
//! | `effective_date` | the settlement day, `2026-01-31`; by default the day on which the file arrives |
//! | `currency` | `USD` by default |
//! | `bucket` | the bucket to pay first, such as `principal` |
//!
//! Other columns are stored but ignored. A single entry may also be sent as a JSON object with these names.

use super::{BANK, InvalidField, PayloadReader, ReportedPayment};
use crate::payments::events::PaymentMethod;
use onceward_money::Currency;
use serde_json::{Map, Value, json};

/// The most entries in one file.
pub(crate) const MAX_LINES: usize = 10_000;
const REQUIRED: [&str; 3] = ["trace_number", "loan_id", "amount"];

/// An entry of a file.
#[derive(Debug)]
pub(crate) struct BankFileLine {
    /// The line's number; 1 is the header.
    pub number: u64,
    pub payment: Result<ReportedPayment, Vec<InvalidField>>,
}

/// Returns all lines of a file, or the reason why it cannot be read at all.
pub(crate) fn read_file(bytes: &[u8]) -> Result<Vec<BankFileLine>, String> {
    // A byte order mark, as spreadsheets write it, is not part of the first column's name.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(bytes);
    let header = reader.headers().map_err(|error| format!("the header cannot be read: {error}"))?.clone();
    if let Some(missing) = REQUIRED.iter().find(|name| !header.iter().any(|column| column == **name)) {
        return Err(format!("the header has no column {missing}: begin the file with the names of its columns"));
    }
    let mut lines = Vec::new();
    let mut counter = LineCounter { bytes, at: 0, line: 1 };
    for (index, record) in reader.records().enumerate() {
        if index == MAX_LINES {
            return Err(format!("there are more than {MAX_LINES} entries: send them in several files"));
        }
        let position = match &record {
            Ok(record) => record.position(),
            Err(error) => error.position(),
        };
        let number = counter.line_at(position.map_or(0, csv::Position::byte));
        lines.push(BankFileLine { number, payment: read_record(&header, record) });
    }
    if lines.is_empty() {
        return Err("there is no entry below the header".to_owned());
    }
    Ok(lines)
}

fn read_record(
    header: &csv::StringRecord,
    record: csv::Result<csv::StringRecord>,
) -> Result<ReportedPayment, Vec<InvalidField>> {
    let error = |message: String| Err(vec![InvalidField { path: String::new(), message }]);
    match record {
        Err(unreadable) => error(format!("cannot be read: {unreadable}")),
        Ok(record) if record.len() != header.len() => {
            error(format!("has {} fields, but the header has {}", record.len(), header.len()))
        }
        Ok(record) => {
            let fields: Map<String, Value> =
                header.iter().zip(&record).map(|(name, text)| (name.to_owned(), text.into())).collect();
            read(&Value::Object(fields))
        }
    }
}

/// Counts lines as an editor does. The CSV reader's own count treats a carriage return as the end of a line and is one
/// behind.
struct LineCounter<'b> {
    bytes: &'b [u8],
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// Returns the line of a record that begins at `byte`, or right after the line feed at that position.
    fn line_at(&mut self, byte: u64) -> u64 {
        let byte = usize::try_from(byte).unwrap_or(usize::MAX).clamp(self.at, self.bytes.len());
        let end = if self.bytes.get(byte) == Some(&b'\n') { byte + 1 } else { byte };
        self.line += self.bytes[self.at..end].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = end;
        self.line
    }
}

/// Reads one entry from an object.
pub(crate) fn read(entry: &Value) -> Result<ReportedPayment, Vec<InvalidField>> {
    let mut fields = PayloadReader::new(entry);
    let gateway_txn_id = fields.transaction("trace_number");
    let loan_id = fields.loan("loan_id");
    let currency = fields.currency("currency");
    let amount = fields.decimal("amount", currency.unwrap_or(Currency::USD));
    let effective_date = fields.day("effective_date");
    let bucket = fields.get("bucket").map(|bucket| json!({ "allocation_hints": { "bucket": bucket } }));
    let hints = match &bucket {
        None => Some(Map::new()),
        Some(hints) => {
            let mut inner = PayloadReader::new(hints);
            let read = inner.hints("allocation_hints");
            if let Err(errors) = inner.finish(Some(())) {
                errors.into_iter().for_each(|error| fields.reject("bucket", error.message));
            }
            read
        }
    };
    let payment = || {
        Some(ReportedPayment {
            provider: BANK,
            loan_id: loan_id?,
            method: PaymentMethod::Ach,
            amount: amount?,
            currency: currency?,
            gateway_txn_id: gateway_txn_id?,
            effective_date: effective_date?,
            hints: hints?,
            raw: entry.clone(),
        })
    };
    let payment = payment();
    fields.finish(payment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_money::Minor;

    const LOAN: &str = "018f3c9e-0000-7000-8000-000000000001";

    fn lines(rows: &[String]) -> Vec<BankFileLine> {
        let text = format!("trace_number,loan_id,amount,effective_date,note\r\n{}", rows.join("\r\n"));
        read_file(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_invalid_line_does_not_affect_the_others() {
        let lines = lines(&[
            format!("1,{LOAN},12.34,2026-01-31,\"a, \"\"quoted\"\" note\nover two lines\""),
            format!("2,{LOAN},12.345,,"),
            format!("3,{LOAN},12.34"),
            format!(" 4 , {LOAN} , 7 ,,"),
            "5,loan,7,,".to_owned(),
        ]);
        let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 4, 5, 6, 7]);
        let first = lines[0].payment.as_ref().unwrap();
        assert_eq!((first.amount, first.method), (Minor::new(1234), PaymentMethod::Ach));
        assert_eq!(first.effective_date, Some("2026-01-31".parse().unwrap()));
        assert_eq!(first.raw["note"], "a, \"quoted\" note\nover two lines");
        assert_eq!(lines[1].payment.as_ref().unwrap_err()[0].path, "/amount");
        assert!(lines[2].payment.as_ref().unwrap_err()[0].message.contains("3 fields, but the header has 5"));
        let fourth = lines[3].payment.as_ref().unwrap();
        assert_eq!((fourth.gateway_txn_id.as_str(), fourth.effective_date), ("4", None));
        assert_eq!(lines[4].payment.as_ref().unwrap_err()[0].path, "/loan_id");
    }

    #[test]
    fn a_file_without_entries_is_rejected_as_a_whole() {
        let error_of = |text: &str| read_file(text.as_bytes()).unwrap_err();
        assert!(error_of("").contains("no column trace_number"));
        assert!(error_of("trace_number,loan_id\n1,2\n").contains("no column amount"));
        assert!(error_of("trace_number,loan_id,amount\n").contains("no entry"));
        let many = format!("trace_number,loan_id,amount\n{}", "1,2,3\n".repeat(MAX_LINES + 1));
        assert!(error_of(&many).contains("several files"));
        let marked = format!("\u{feff}trace_number,loan_id,amount\n1,{LOAN},5\n");
        assert_eq!(read_file(marked.as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn a_line_that_is_not_utf8_does_not_affect_the_others() {
        let mut file = b"trace_number,loan_id,amount\n\xff\xfe,x,1\n".to_vec();
        file.extend(format!("2,{LOAN},5\n").bytes());
        let lines = read_file(&file).unwrap();
        assert!(lines[0].payment.is_err());
        assert_eq!(lines[1].payment.as_ref().unwrap().gateway_txn_id, "2");
    }

    #[test]
    fn a_bucket_becomes_an_allocation_hint() {
        let hinted = read(&json!({"trace_number": "1", "loan_id": LOAN, "amount": "5", "bucket": "escrow"})).unwrap();
        assert_eq!(hinted.hints["bucket"], "escrow");
        let errors =
            read(&json!({"trace_number": "1", "loan_id": LOAN, "amount": "5", "bucket": "unknown"})).unwrap_err();
        assert_eq!(errors[0].path, "/bucket");
    }
}
