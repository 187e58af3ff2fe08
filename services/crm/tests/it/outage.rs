//! A provider that is away: no attempt is counted, nothing becomes a dead letter, and everything is sent after its return.

use crate::support::{CrmFixture, TENANT};
use onceward_testkit::{SmtpServer, TcpProxy, eventually};

/// Ends every wait now. Workers lock these rows in an order of their own, so rows that they hold are left for the next call.
const MAKE_DUE: &str = "UPDATE onceward.deferred SET due_at = now() WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM onceward.deferred WHERE state <> 'leased' AND due_at > now() FOR UPDATE SKIP LOCKED))";

#[tokio::test]
async fn mails_wait_for_a_provider_that_is_away_and_are_sent_once_after_its_return() {
    const MAILS: usize = 40;
    let server = SmtpServer::start();
    let proxy = TcpProxy::to(([127, 0, 0, 1], server.port()).into());
    let mut fixture = CrmFixture::start_with(|settings| {
        settings.providers = "smtp".to_owned();
        settings.smtp_host = "127.0.0.1".to_owned();
        settings.smtp_port = proxy.address().port();
        settings.smtp_tls = "none".to_owned();
    })
    .await;
    fixture.create_template(TENANT, "notice", "transactional").await;
    proxy.cut();
    fixture.platform.run_consumers();
    for number in 0..MAILS {
        fixture.request_mail("notice", &format!("borrower-{number}@example.org")).await;
    }
    eventually("the breaker is open", || async {
        (fixture.query::<i64>("SELECT count(*) FROM outbound.breaker", &[]).await > 0).then_some(())
    })
    .await;
    assert_eq!(server.received().len(), 0);
    proxy.resume();
    // The breaker's pause is 30 seconds; an operator who knows better closes it.
    fixture.execute("DELETE FROM outbound.breaker").await;
    eventually("everything is sent", || async {
        fixture.execute(MAKE_DUE).await;
        let sent: i64 = fixture.query("SELECT count(*) FROM crm.email WHERE status = 'sent'", &[]).await;
        (sent == i64::try_from(MAILS).unwrap_or(0)).then_some(())
    })
    .await;
    let mut received: Vec<String> = server.received().into_iter().flat_map(|mail| mail.rcpt_to).collect();
    received.sort();
    received.dedup();
    assert_eq!((received.len(), server.received().len()), (MAILS, MAILS), "each exactly once");
    let attempts: i64 = fixture.query("SELECT max(attempts)::bigint FROM crm.email", &[]).await;
    assert_eq!((attempts, fixture.count_dead_letters().await), (1, 0), "the outage cost no attempt");
    assert_eq!(fixture.count_messages("crm.email.failed.v1").await, 0);
}
