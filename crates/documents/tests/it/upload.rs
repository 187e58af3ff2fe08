//! Files in, as they came.

use crate::support::{Archive, pdf};
use onceward_documents::Settings;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn a_file_is_what_its_content_says() {
    let archive = Archive::open().await;
    let clerk = archive.clerk("acme");
    let document = clerk.upload(pdf::by_hand()).await.with_status(201);
    assert_eq!(document["media_type"], "application/pdf");
    assert_eq!(document["size_bytes"], pdf::by_hand().len());
    let text = clerk.upload(b"abc".to_vec()).await.with_status(201);
    assert_eq!(text["media_type"], "text/plain");
    assert_eq!(text["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let shown = clerk.get(&format!("/api/documents/{}", text["document_id"].as_str().unwrap())).await.with_status(200);
    assert_eq!(shown, text);
    for content in [b"PK\x03\x04zip".to_vec(), b"\xff\xd8\xff jpeg".to_vec(), Vec::new(), b"a\0b".to_vec()] {
        let refused = clerk.upload(content).await.with_status(415);
        assert_eq!(refused["type"], "/problems/unsupported-media-type", "{refused}");
    }
    assert_eq!(archive.ask::<i64>("SELECT count(*) FROM documents.document", &[]).await, 2);
    let id = text["document_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(archive.audited("document_uploaded", id).await, 1);
}

#[tokio::test]
async fn a_file_may_be_larger_than_other_bodies_and_has_a_limit_of_its_own() {
    let limit = 3 * 1024 * 1024;
    let archive = Archive::open_with(Settings { max_bytes: limit, ..Settings::default() }).await;
    let clerk = archive.clerk("acme");
    clerk.upload(vec![b'a'; limit]).await.with_status(201);
    clerk.upload(vec![b'a'; limit + 1]).await.with_status(413);
}

#[tokio::test]
async fn an_id_stands_for_one_content() {
    let archive = Archive::open().await;
    let clerk = archive.clerk("acme");
    let id = Uuid::now_v7();
    let first = clerk.put(id, b"one".to_vec()).await.with_status(201);
    let second = clerk.put(id, b"one".to_vec()).await.with_status(200);
    assert_eq!(first, second);
    let refused = clerk.put(id, b"two".to_vec()).await.with_status(409);
    assert_eq!(refused["type"], "/problems/document-exists");
    assert_eq!(clerk.get(&format!("/api/documents/{id}")).await.with_status(200), first);
}

#[tokio::test]
async fn tenants_do_not_see_each_others_documents() {
    let archive = Archive::open().await;
    let (acme, globex) = (archive.clerk("acme"), archive.clerk("globex"));
    let id = Uuid::now_v7();
    acme.put(id, b"Loan number: A-1".to_vec()).await.with_status(201);
    globex.get(&format!("/api/documents/{id}")).await.with_status(404);
    globex.analyze(id, None).await.with_status(404);
    globex.put(id, b"Loan number: G-1".to_vec()).await.with_status(201);
    for (clerk, number) in [(&acme, "A-1"), (&globex, "G-1")] {
        clerk.analyze(id, None).await.with_status(202);
        let analysis = clerk.finished(id).await;
        assert_eq!(analysis["fields"]["loan_numbers"], json!([{"value": number, "page": 1}]));
    }
}
