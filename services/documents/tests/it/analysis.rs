//! Analyses run step by step and end with the extracted fields.

use crate::support::{DocumentsFixture, pdf};
use onceward_documents::Settings;
use onceward_testkit::{eventually, left_out, rabbitmq_url};
use serde_json::json;

#[tokio::test]
async fn several_pages_are_read_in_steps_and_each_step_publishes_its_progress() {
    check_steps(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_of_an_analysis_is_recorded_over_rabbitmq_too() {
    if !left_out("rabbitmq") {
        check_steps(Some(&rabbitmq_url())).await;
    }
}

async fn check_steps(bus: Option<&str>) {
    let settings = Settings { pages_per_step: 2, ..Settings::default() };
    let mut fixture = DocumentsFixture::on_bus(settings, bus).await;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let pages: [&[&str]; 5] = [
        &["PROMISSORY NOTE", "Loan Number: LN-0042"],
        &["Borrower: Ada Example"],
        &["Principal: $1,234.56"],
        &[],
        &["Dated March 5, 2024"],
    ];
    let (id, analysis) = client.upload_and_analyze(pdf::compressed(&pages)).await;
    assert_eq!(
        (&analysis["state"], &analysis["percent"], &analysis["pages"]),
        (&json!("completed"), &json!(100), &json!(5))
    );
    assert_eq!(analysis["kind"], "promissory_note");
    let fields = &analysis["fields"];
    assert_eq!(fields["loan_numbers"], json!([{"value": "LN-0042", "page": 1}]));
    assert_eq!(fields["borrower_names"], json!([{"value": "Ada Example", "page": 2}]));
    let amount = json!({"text": "$1,234.56", "minor": "123456", "currency": null, "label": "Principal", "page": 3});
    assert_eq!(fields["amounts"], json!([amount]));
    assert_eq!(fields["dates"][0]["date"], "2024-03-05");
    assert_eq!(analysis["notes"], json!(["page 4: contains no text; visible text may be an image"]));
    assert_eq!(client.page_text(id, 1).await, "PROMISSORY NOTE\nLoan Number: LN-0042");
    let updates = fixture.status_updates(id).await;
    let details: Vec<&str> = updates.iter().map(|(_, detail)| detail.as_str()).collect();
    let expected =
        ["0 %: analysis 1 is queued", "39 %: 2 of 5 pages read", "79 %: 4 of 5 pages read", "100 %: 5 pages read"];
    assert_eq!(details, expected);
    eventually("lending records that it is done", || async {
        let sql = "SELECT count(*) FROM lending.command_status WHERE kind = 'document.process.v1' AND state = 'done'";
        (fixture.query_value::<i64>(sql, &[]).await == 1).then_some(())
    })
    .await;
    for action in ["document_uploaded", "document_analysis_requested", "document_analyzed"] {
        assert_eq!(fixture.count_audit_entries(action, id).await, 1, "{action}");
    }
}

#[tokio::test]
async fn text_in_every_script_is_read() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let lines = ["Borrower: Nguyễn Thị Ánh 張偉", "Сумма: EUR 1,000.00 — ¼ 𝄞"];
    let (id, analysis) = client.upload_and_analyze(pdf::in_unicode(&[&lines])).await;
    assert_eq!(analysis["state"], "completed", "{analysis}");
    assert_eq!(client.page_text(id, 1).await, lines.join("\n"));
    assert_eq!(analysis["fields"]["borrower_names"][0]["value"], "Nguyễn Thị Ánh 張偉");
    assert_eq!(analysis["fields"]["amounts"][0]["minor"], "100000");
}

#[tokio::test]
async fn words_and_lines_are_separated_by_position() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let content = "q 2 0 0 2 10 10 cm BT /F1 10 Tf 1 0 0 1 20 300 Tm [(Lo) 20 (an) -300 (Number:)] TJ
                   80 0 Td (LN-1) Tj 10 TL T* (next) Tj (er) Tj (quoted) ' ET Q
                   BT /F1 10 Tf 0 1 -1 0 500 100 Tm (turned) Tj 60 0 Td (round) Tj ET";
    let (id, _) = client.upload_and_analyze(pdf::with_content(content.as_bytes().to_vec())).await;
    assert_eq!(client.page_text(id, 1).await, "Loan Number: LN-1\nnexter\nquoted\nturned round");
}

#[tokio::test]
async fn plain_text_is_read_and_a_form_feed_ends_a_page() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let text = "\u{feff}Payment Receipt\r\nLoan no: 7781\u{c}Received: USD 10.00";
    let (id, analysis) = client.upload_and_analyze(text.as_bytes().to_vec()).await;
    assert_eq!((&analysis["pages"], &analysis["kind"]), (&json!(2), &json!("payment_receipt")));
    assert_eq!(analysis["fields"]["amounts"][0]["page"], 2);
    assert_eq!(client.page_text(id, 2).await, "Received: USD 10.00");
    client.get(&format!("/api/documents/{id}/analysis/pages/3")).await.with_status(404);
}

#[tokio::test]
async fn a_second_request_returns_the_same_analysis_unless_again_is_set() {
    let fixture = DocumentsFixture::without_consumers(Settings::default()).await;
    let client = fixture.client("acme");
    let id = client.upload_document(pdf::by_hand()).await;
    client.get(&format!("/api/documents/{id}/analysis")).await.with_status(404);
    let first = client.analyze(id, None).await;
    assert_eq!(first.header("location"), Some(format!("/api/documents/{id}/analysis").as_str()));
    assert_eq!(first.with_status(202)["status"], "queued");
    let second = client.analyze(id, Some(json!({"again": false}))).await.with_status(202);
    assert_eq!((&second["analysis"], &second["status"]), (&json!(1), &json!("queued")));
    // Requested again while in progress: the first analysis is superseded, and its message has no effect.
    let again = client.analyze(id, Some(json!({"again": true}))).await.with_status(202);
    assert_eq!(again["analysis"], 2);
    let mut fixture = fixture;
    fixture.platform.run_consumers();
    let client = fixture.client("acme");
    let analysis = client.wait_for_analysis(id).await;
    assert_eq!((&analysis["analysis"], &analysis["state"]), (&json!(2), &json!("completed")));
    let states = "SELECT string_agg(state, ',' ORDER BY number) FROM documents.analysis";
    assert_eq!(fixture.query_value::<String>(states, &[]).await, "superseded,completed");
    let done = client.analyze(id, None).await.with_status(202);
    assert_eq!((&done["analysis"], &done["status"]), (&json!(2), &json!("completed")));
    assert_eq!(fixture.count_audit_entries("document_analyzed", id).await, 1);
    client.analyze(id, Some(json!({"agian": true}))).await.with_status(422);
}

#[tokio::test]
async fn an_analysis_continues_after_its_instance_dies_between_steps() {
    let settings = Settings { pages_per_step: 1, ..Settings::default() };
    let fixture = DocumentsFixture::without_consumers(settings).await;
    let client = fixture.client("acme");
    let pages: Vec<Vec<String>> = (1..=12).map(|page| vec![format!("Fee: ${page}.00")]).collect();
    let lines: Vec<Vec<&str>> = pages.iter().map(|page| page.iter().map(String::as_str).collect()).collect();
    let lines: Vec<&[&str]> = lines.iter().map(Vec::as_slice).collect();
    let id = client.upload_document(pdf::of_pages(&lines)).await;
    client.analyze(id, None).await.with_status(202);
    let (mut dying, stop) = fixture.platform.another_instance();
    dying.run_consumers();
    eventually("some pages are read", || async {
        let done: i32 = fixture.query_value("SELECT pages_done FROM documents.analysis", &[]).await;
        (done >= 2).then_some(())
    })
    .await;
    stop.cancel();
    drop(dying);
    let mut fixture = fixture;
    fixture.platform.run_consumers();
    let analysis = fixture.client("acme").wait_for_analysis(id).await;
    let minor: Vec<&str> = analysis["fields"]["amounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|amount| amount["minor"].as_str())
        .collect();
    assert_eq!(minor, (1..=12).map(|page| format!("{page}00")).collect::<Vec<_>>());
    assert_eq!(fixture.query_value::<i64>("SELECT count(*) FROM documents.page", &[]).await, 12);
}

#[tokio::test]
async fn long_text_is_cut_and_a_note_reports_it() {
    let settings = Settings { max_text_chars: 20, pages_per_step: 1, ..Settings::default() };
    let fixture = DocumentsFixture::start_with(settings).await;
    let (id, analysis) =
        fixture.client("acme").upload_and_analyze(b"0123456789\x0c0123456789ABC\x0cmore\x0cmore".to_vec()).await;
    assert_eq!((&analysis["text_chars"], &analysis["pages_done"]), (&json!(20), &json!(4)));
    assert_eq!(analysis["notes"], json!(["the text exceeds the limit; the rest was left out"]));
    assert_eq!(fixture.client("acme").page_text(id, 2).await, "0123456789");
}
