//! A bank's file of ACH entries, as CSV with a header.
//!
//! | column | |
//! | --- | --- |
//! | `trace_number` | required; the bank's id of the entry, never used twice |
//! | `loan_id` | required; the loan that it pays, a UUID |
//! | `amount` | required; whole units with a point, such as `1250.00` |
//! | `effective_date` | the settlement day, `2026-01-31`; else the day on which the file comes |
//! | `currency` | else `USD` |
//! | `bucket` | what it shall pay first, such as `principal` |
//!
//! Other columns are kept and not read. An entry may also come alone, as an object with these names.

use super::{BANK, Claim, Fields, Wrong};
use crate::payments::events::PaymentMethod;
use onceward_money::Currency;
use serde_json::{Map, Value, json};

/// The most entries of one file.
pub(crate) const MOST_LINES: usize = 10_000;
const REQUIRED: [&str; 3] = ["trace_number", "loan_id", "amount"];

/// A line of a file, and the payment that it tells of.
#[derive(Debug)]
pub(crate) struct Line {
    /// 1 is the header.
    pub number: u64,
    pub read: Result<Claim, Vec<Wrong>>,
}

/// All lines of a file, or why it cannot be read at all.
pub(crate) fn read_file(bytes: &[u8]) -> Result<Vec<Line>, String> {
    // A byte order mark, as spreadsheets write it, is no part of the first column's name.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(bytes);
    let header = reader.headers().map_err(|error| format!("the header cannot be read: {error}"))?.clone();
    if let Some(missing) = REQUIRED.iter().find(|name| !header.iter().any(|column| column == **name)) {
        return Err(format!("the header has no column {missing}: begin the file with the names of its columns"));
    }
    let mut lines = Vec::new();
    let mut counter = LineCounter { bytes, at: 0, line: 1 };
    for (index, record) in reader.records().enumerate() {
        if index == MOST_LINES {
            return Err(format!("there are more than {MOST_LINES} entries: send them in several files"));
        }
        let position = match &record {
            Ok(record) => record.position(),
            Err(error) => error.position(),
        };
        let number = counter.line_at(position.map_or(0, csv::Position::byte));
        lines.push(Line { number, read: read_record(&header, record) });
    }
    if lines.is_empty() {
        return Err("there is no entry below the header".to_owned());
    }
    Ok(lines)
}

fn read_record(header: &csv::StringRecord, record: csv::Result<csv::StringRecord>) -> Result<Claim, Vec<Wrong>> {
    let refused = |message: String| Err(vec![Wrong { path: String::new(), message }]);
    match record {
        Err(error) => refused(format!("cannot be read: {error}")),
        Ok(record) if record.len() != header.len() => {
            refused(format!("has {} fields and not {}, as the header", record.len(), header.len()))
        }
        Ok(record) => {
            let fields: Map<String, Value> =
                header.iter().zip(&record).map(|(name, text)| (name.to_owned(), text.into())).collect();
            read(&Value::Object(fields))
        }
    }
}

/// Counts lines as an editor does. The reader's own count takes a carriage return for the end of a line, and is one behind.
struct LineCounter<'b> {
    bytes: &'b [u8],
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of a record that begins at `byte`, or right behind the line feed that is there.
    fn line_at(&mut self, byte: u64) -> u64 {
        let byte = usize::try_from(byte).unwrap_or(usize::MAX).clamp(self.at, self.bytes.len());
        let end = if self.bytes.get(byte) == Some(&b'\n') { byte + 1 } else { byte };
        self.line += self.bytes[self.at..end].iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = end;
        self.line
    }
}

/// One entry, as an object.
pub(crate) fn read(entry: &Value) -> Result<Claim, Vec<Wrong>> {
    let mut fields = Fields::of(entry);
    let gateway_txn_id = fields.transaction("trace_number");
    let loan_id = fields.loan("loan_id");
    let currency = fields.currency("currency");
    let amount = fields.decimal("amount", currency.unwrap_or(Currency::USD));
    let effective_date = fields.day("effective_date");
    let bucket = fields.get("bucket").map(|bucket| json!({ "allocation_hints": { "bucket": bucket } }));
    let hints = match &bucket {
        None => Some(Map::new()),
        Some(hints) => {
            let mut inner = Fields::of(hints);
            let read = inner.hints("allocation_hints");
            if let Err(wrong) = inner.finish(Some(())) {
                wrong.into_iter().for_each(|wrong| fields.refuse("bucket", wrong.message));
            }
            read
        }
    };
    let claim = || {
        Some(Claim {
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
    let claim = claim();
    fields.finish(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onceward_money::Minor;

    const LOAN: &str = "018f3c9e-0000-7000-8000-000000000001";

    fn lines(rows: &[String]) -> Vec<Line> {
        let text = format!("trace_number,loan_id,amount,effective_date,note\r\n{}", rows.join("\r\n"));
        read_file(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_line_stands_for_itself() {
        let lines = lines(&[
            format!("1,{LOAN},12.34,2026-01-31,\"a, \"\"quoted\"\" note\nover two lines\""),
            format!("2,{LOAN},12.345,,"),
            format!("3,{LOAN},12.34"),
            format!(" 4 , {LOAN} , 7 ,,"),
            "5,loan,7,,".to_owned(),
        ]);
        let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 4, 5, 6, 7]);
        let first = lines[0].read.as_ref().unwrap();
        assert_eq!((first.amount, first.method), (Minor::new(1234), PaymentMethod::Ach));
        assert_eq!(first.effective_date, Some("2026-01-31".parse().unwrap()));
        assert_eq!(first.raw["note"], "a, \"quoted\" note\nover two lines");
        assert_eq!(lines[1].read.as_ref().unwrap_err()[0].path, "/amount");
        assert!(lines[2].read.as_ref().unwrap_err()[0].message.contains("3 fields and not 5"));
        let fourth = lines[3].read.as_ref().unwrap();
        assert_eq!((fourth.gateway_txn_id.as_str(), fourth.effective_date), ("4", None));
        assert_eq!(lines[4].read.as_ref().unwrap_err()[0].path, "/loan_id");
    }

    #[test]
    fn a_file_that_is_none_is_refused_as_a_whole() {
        let refused = |text: &str| read_file(text.as_bytes()).unwrap_err();
        assert!(refused("").contains("no column trace_number"));
        assert!(refused("trace_number,loan_id\n1,2\n").contains("no column amount"));
        assert!(refused("trace_number,loan_id,amount\n").contains("no entry"));
        let many = format!("trace_number,loan_id,amount\n{}", "1,2,3\n".repeat(MOST_LINES + 1));
        assert!(refused(&many).contains("several files"));
        let marked = format!("\u{feff}trace_number,loan_id,amount\n1,{LOAN},5\n");
        assert_eq!(read_file(marked.as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn bytes_that_are_no_text_cost_their_own_line_only() {
        let mut file = b"trace_number,loan_id,amount\n\xff\xfe,x,1\n".to_vec();
        file.extend(format!("2,{LOAN},5\n").bytes());
        let lines = read_file(&file).unwrap();
        assert!(lines[0].read.is_err());
        assert_eq!(lines[1].read.as_ref().unwrap().gateway_txn_id, "2");
    }

    #[test]
    fn a_bucket_is_a_hint() {
        let hinted = read(&json!({"trace_number": "1", "loan_id": LOAN, "amount": "5", "bucket": "escrow"})).unwrap();
        assert_eq!(hinted.hints["bucket"], "escrow");
        let wrong = read(&json!({"trace_number": "1", "loan_id": LOAN, "amount": "5", "bucket": "beer"})).unwrap_err();
        assert_eq!(wrong[0].path, "/bucket");
    }
}
