//! Damaged, encrypted and malicious files.

use crate::support::{DocumentsFixture, pdf};
use onceward_documents::{
    MediaType, Settings,
    extract::{ExtractError, ExtractLimits, ExtractedPages, Extractor, read},
};
use proptest::prelude::*;
use std::{sync::LazyLock, time::Duration};

const LIMITS: ExtractLimits = ExtractLimits {
    time: Duration::from_secs(20),
    pages: 100,
    max_pages: 1000,
    chars: 100_000,
    unpacked_bytes: 1024 * 1024,
};

#[tokio::test]
async fn a_damaged_file_fails_with_a_reason_and_the_consumer_continues() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let mut failed = Vec::new();
    for content in [b"%PDF-1.7 and then nothing".to_vec(), b"%PDF-1.4\ntrailer\n<<>>\n%%EOF".to_vec()] {
        let (id, analysis) = client.upload_and_analyze(content).await;
        assert_eq!(analysis["state"], "failed", "{analysis}");
        assert!(analysis["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{analysis}");
        assert_eq!(fixture.status_updates(id).await.last().map(|(state, _)| state.clone()).as_deref(), Some("refused"));
        assert_eq!(fixture.count_audit_entries("document_analysis_failed", id).await, 1);
        failed.push(id);
    }
    let (_, fine) = client.upload_and_analyze(pdf::by_hand()).await;
    assert_eq!(fine["fields"]["loan_numbers"][0]["value"], "HAND-77");
    assert_eq!(fixture.query_value::<i64>("SELECT count(*) FROM onceward.dead_letters", &[]).await, 0);
    let again = client.analyze(failed[0], None).await.with_status(202);
    assert_eq!(again["status"], "failed");
}

#[tokio::test]
async fn an_analysis_fails_after_repeated_timeouts() {
    let fixture = DocumentsFixture::start_with(Settings { step_timeout_ms: 0, ..Settings::default() }).await;
    let (_, analysis) = fixture.client("acme").upload_and_analyze(pdf::by_hand()).await;
    assert_eq!(analysis["state"], "failed");
    assert!(analysis["reason"].as_str().is_some_and(|reason| reason.contains("took longer")), "{analysis}");
    assert_eq!(fixture.query_value::<i64>("SELECT count(*) FROM onceward.dead_letters", &[]).await, 0);
}

#[tokio::test]
async fn an_encrypted_file_fails_with_that_reason() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let (_, locked) = client.upload_and_analyze(pdf::encrypted(&[&["Loan Number: X-1"]], "secret")).await;
    assert_eq!(locked["state"], "failed");
    assert!(locked["reason"].as_str().is_some_and(|reason| reason.contains("encrypted")), "{locked}");
    // Protected against changes only: it opens without a password.
    let (_, open) = client.upload_and_analyze(pdf::encrypted(&[&["Loan Number: X-2"]], "")).await;
    assert_eq!(open["fields"]["loan_numbers"][0]["value"], "X-2", "{open}");
}

#[test]
fn a_page_that_unpacks_to_too_much_is_left_out() {
    let bomb = pdf::bomb(64 * 1024 * 1024);
    assert!(bomb.len() < 1024 * 1024);
    let step = read(&bomb, MediaType::Pdf, 1, LIMITS).expect("the rest can be read");
    assert_eq!(step.texts, [""]);
    assert_eq!(step.notes, ["page 1: left out: it unpacks to more than the limit"]);
}

#[test]
fn a_document_with_too_many_pages_is_not_read() {
    let limits = ExtractLimits { max_pages: 1, ..LIMITS };
    let two = pdf::of_pages(&[&["a"], &["b"]]);
    assert_eq!(read(&two, MediaType::Pdf, 1, limits), Err(ExtractError::Unreadable("it has more than 1 pages".into())));
}

#[test]
fn reading_stops_at_the_time_limit() {
    let limits = ExtractLimits { time: Duration::ZERO, ..LIMITS };
    assert_eq!(read(&pdf::by_hand(), MediaType::Pdf, 1, limits), Err(ExtractError::TimedOut));
    // The next reader on the same thread has its own deadline.
    assert!(read(&pdf::by_hand(), MediaType::Pdf, 1, LIMITS).is_ok());
}

#[tokio::test]
async fn without_a_free_reader_nothing_is_read() {
    let extractor = Extractor::new(0);
    let read = extractor.read(pdf::by_hand(), MediaType::Pdf, 1, LIMITS).await;
    assert_eq!(read, Err(ExtractError::NoReader));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let deep = |open: &str, close: &str| {
        format!("%PDF-1.4\n1 0 obj\n{}{}\nendobj\n", open.repeat(200_000), close.repeat(200_000))
    };
    for (open, close) in [("[", "]"), ("<</A", ">>"), ("(", ")")] {
        let file = deep(open, close) + "trailer <</Root 1 0 R>>\nstartxref\n9\n%%EOF";
        assert!(matches!(read(file.as_bytes(), MediaType::Pdf, 1, LIMITS), Err(ExtractError::Unreadable(_))));
        let page = format!("BT /F1 12 Tf {}{} Tj (after) Tj ET", open.repeat(200_000), close.repeat(200_000));
        let page = pdf::with_content(page.into_bytes());
        assert!(read(&page, MediaType::Pdf, 1, LIMITS).is_ok());
    }
}

static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let pages: &[&[&str]] = &[&["Loan Number: LN-1", "AmountField: $12.00"], &["Borrower: Ada"]];
    vec![
        pdf::by_hand(),
        pdf::of_pages(pages),
        pdf::compressed(pages),
        pdf::in_unicode(pages),
        pdf::encrypted(pages, ""),
        pdf::encrypted(pages, "locked"),
    ]
});

/// Either result is correct; reading must return in time, within the limits, and without a panic.
fn reads_safely(content: &[u8]) {
    let result = read(content, MediaType::Pdf, 1, LIMITS);
    assert_ne!(result, Err(ExtractError::TimedOut));
    if let Ok(ExtractedPages { texts, .. }) = result {
        assert!(texts.iter().map(|text| text.chars().count()).sum::<usize>() <= LIMITS.chars);
        assert!(!texts.concat().contains('\0'));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_bytes_are_read_safely(mut bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        reads_safely(&bytes);
        bytes.splice(0..0, *b"%PDF-1.5\n");
        reads_safely(&bytes);
    }

    #[test]
    fn a_truncated_file_is_read_safely(sample in 0..6_usize, part in 0.0..1.0_f64) {
        let content = &SAMPLES[sample];
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        reads_safely(&content[..(content.len() as f64 * part) as usize]);
    }

    #[test]
    fn a_file_with_changed_bytes_is_read_safely(
        sample in 0..6_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut content = SAMPLES[sample].clone();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        reads_safely(&content);
    }

    #[test]
    fn a_page_of_random_operations_is_read_safely(content in "(BT|ET|q|Q|cm|Tf|Td|TD|Tm|TJ|Tj|T\\*|'|\"|BI|ID|EI|/F1|[0-9.-]{1,9}|\\[|\\]|<<|>>|\\(a\\)|<41>| ){0,200}") {
        reads_safely(&pdf::with_content(content.into_bytes()));
    }
}
