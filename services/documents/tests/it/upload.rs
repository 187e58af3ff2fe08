//! Files are stored unchanged.

use crate::support::{DocumentsFixture, pdf};
use onceward_documents::Settings;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn the_content_decides_the_media_type() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let document = client.upload(pdf::by_hand()).await.with_status(201);
    assert_eq!(document["media_type"], "application/pdf");
    assert_eq!(document["size_bytes"], pdf::by_hand().len());
    let text = client.upload(b"abc".to_vec()).await.with_status(201);
    assert_eq!(text["media_type"], "text/plain");
    assert_eq!(text["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let shown = client.get(&format!("/api/documents/{}", text["document_id"].as_str().unwrap())).await.with_status(200);
    assert_eq!(shown, text);
    for content in [b"PK\x03\x04zip".to_vec(), b"\xff\xd8\xff jpeg".to_vec(), Vec::new(), b"a\0b".to_vec()] {
        let refused = client.upload(content).await.with_status(415);
        assert_eq!(refused["type"], "/problems/unsupported-media-type", "{refused}");
    }
    assert_eq!(fixture.query_value::<i64>("SELECT count(*) FROM documents.document", &[]).await, 2);
    let id = text["document_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(fixture.count_audit_entries("document_uploaded", id).await, 1);
}

#[tokio::test]
async fn uploads_have_their_own_size_limit() {
    let limit = 3 * 1024 * 1024;
    let fixture = DocumentsFixture::start_with(Settings { max_bytes: limit, ..Settings::default() }).await;
    let client = fixture.client("acme");
    client.upload(vec![b'a'; limit]).await.with_status(201);
    client.upload(vec![b'a'; limit + 1]).await.with_status(413);
}

#[tokio::test]
async fn an_id_never_changes_its_content() {
    let fixture = DocumentsFixture::start().await;
    let client = fixture.client("acme");
    let id = Uuid::now_v7();
    let first = client.put(id, b"one".to_vec()).await.with_status(201);
    let second = client.put(id, b"one".to_vec()).await.with_status(200);
    assert_eq!(first, second);
    let refused = client.put(id, b"two".to_vec()).await.with_status(409);
    assert_eq!(refused["type"], "/problems/document-exists");
    assert_eq!(client.get(&format!("/api/documents/{id}")).await.with_status(200), first);
}

#[tokio::test]
async fn tenants_do_not_see_each_others_documents() {
    let fixture = DocumentsFixture::start().await;
    let (acme, globex) = (fixture.client("acme"), fixture.client("globex"));
    let id = Uuid::now_v7();
    acme.put(id, b"Loan number: A-1".to_vec()).await.with_status(201);
    globex.get(&format!("/api/documents/{id}")).await.with_status(404);
    globex.analyze(id, None).await.with_status(404);
    globex.put(id, b"Loan number: G-1".to_vec()).await.with_status(201);
    for (client, number) in [(&acme, "A-1"), (&globex, "G-1")] {
        client.analyze(id, None).await.with_status(202);
        let analysis = client.wait_for_analysis(id).await;
        assert_eq!(analysis["fields"]["loan_numbers"], json!([{"value": number, "page": 1}]));
    }
}
