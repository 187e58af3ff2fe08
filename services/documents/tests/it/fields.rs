//! Ambiguous values are listed, not guessed.

use crate::support::{DocumentsFixture, pdf};
use serde_json::json;

#[tokio::test]
async fn amounts_are_exact_or_listed_as_unclear() {
    let fixture = DocumentsFixture::start().await;
    let lines = ["Balance: 1,234.56", "Saldo: 1.234,56 EUR", "Due 03/04/2024", "Rate: 7.25%"];
    let (_, analysis) = fixture.client("acme").upload_and_analyze(pdf::of_pages(&[&lines])).await;
    let fields = &analysis["fields"];
    let amount = json!({"text": "1,234.56", "minor": "123456", "currency": null, "label": "Balance", "page": 1});
    assert_eq!(fields["amounts"], json!([amount]));
    assert_eq!(fields["dates"], json!([]));
    let unclear: Vec<(&str, &str)> = fields["unclear"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["what"].as_str().unwrap(), one["text"].as_str().unwrap()))
        .collect();
    assert_eq!(unclear, [("date", "03/04/2024"), ("amount", "1.234,56 EUR")]);
}
