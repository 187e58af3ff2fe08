//! `onceward crm` as an operator runs it: explain a mail, export what proves it, and check that offline.

use crate::support::{Process, Scratch, http, json_lines_of, migrated_database, run, stdout_of};
use onceward_testkit::{HttpResponse, SECRET, eventually, free_port, token, wait_until_ready};
use serde_json::{Value, json};
use std::fs;

#[tokio::test]
async fn a_mail_is_explained_exported_and_verified_against_the_audit_chain() {
    let (database, scratch) = (migrated_database().await, Scratch::new());
    let (url, objects) = (database.url(), scratch.join("objects").display().to_string());
    let mails = scratch.join("mail").display().to_string();
    let variables = [
        ("DATABASE_URL", url.as_str()),
        ("ONCEWARD_AUTH_SECRET", SECRET),
        ("ONCEWARD_CRM_SENDER_ADDRESS", "servicing@lender.example"),
        ("ONCEWARD_CRM_OBJECTS", &objects),
        ("ONCEWARD_CRM_FOLDER", &mails),
    ];
    let listen = format!("127.0.0.1:{}", free_port());
    let args = ["serve", "--listen", &listen, "--role", "all"];
    let _server = Process::start(&args, &variables, &scratch.join("serve.log"));
    let api = format!("http://{listen}");
    wait_until_ready(&api).await;
    let token = token("acme", &["crm:read", "crm:write", "crm:admin"]);
    let post = |path: &str, body: Value| {
        let request = http().post(format!("{api}/api/crm/{path}")).bearer_auth(&token);
        HttpResponse::to(request.header("idempotency-key", path).json(&body))
    };
    let source = json!({ "subject": "Your statement", "text": "It is ready.", "variables": [] });
    post("templates", json!({ "template_id": "statement", "class": "transactional", "source": source }))
        .await
        .with_status(201);
    let accepted =
        post("emails", json!({ "template_id": "statement", "to": ["ada@example.org"] })).await.with_status(202);
    let id = accepted["email_id"].as_str().expect("an id");
    let explain = ["crm", "explain", id, "--tenant", "acme"];
    let text = eventually("the mail is sent", || async {
        let text = stdout_of(&explain, &variables).await;
        text.starts_with(&format!("mail {id}: sent")).then_some(text)
    })
    .await;
    for part in [
        "template statement version 1",
        "CRM.EMAIL.REQUESTED",
        "CRM.EMAIL.SENT",
        "by folder: accepted",
        "recipient 0 (to,",
        "matches its objects and the audit chain",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert!(!text.contains("ada@"), "{text}");
    let explained = json_lines_of(&["crm", "explain", id, "--tenant", "acme", "--json"], &variables).await;
    assert_eq!(explained[0]["artifact"]["is_verified"], true);

    let correlation = accepted["correlationId"].as_str().expect("a correlation id");
    let story = stdout_of(&["trace", correlation, "--tenant", "acme"], &variables).await;
    assert!(story.contains("by template statement version 1 to 1 recipient: sent after 1 attempt"), "{story}");

    let folder = scratch.join("export");
    let folder = folder.to_str().expect("a plain path");
    stdout_of(&["crm", "export", id, "--tenant", "acme", "--to", folder], &variables).await;
    let chain = scratch.join("chain.jsonl");
    fs::write(&chain, stdout_of(&["audit", "export", "--tenant", "acme"], &variables).await).expect("a file");
    let verify = ["crm", "verify", folder, "--audit", chain.to_str().expect("a plain path")];
    assert!(stdout_of(&verify, &[]).await.contains("are those that audit entry"));
    let message = scratch.join("export/message.eml");
    let changed = fs::read_to_string(&message).expect("a mail").replace("It is ready", "It is late");
    fs::write(&message, changed).expect("a file");
    let refused = run(&verify, &[]).await;
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not the message that the manifest names"));

    let unknown =
        run(&["crm", "explain", "00000000-0000-7000-8000-000000000000", "--tenant", "acme"], &variables).await;
    assert_eq!(unknown.status.code(), Some(3));
    // Somebody changes the stored message.
    let sha256 = explained[0]["artifact"]["message_sha256"].as_str().expect("a hash");
    let object = format!("{objects}/crm/acme/{}/{id}-message-{sha256}", &sha256[..2]);
    assert!(fs::metadata(&object).is_ok_and(|file| file.len() > 0), "{object}");
    fs::write(object, b"something else").expect("it can be changed");
    let differs = run(&explain, &variables).await;
    assert_eq!(differs.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&differs.stdout).contains("DIFFERS"));
}
