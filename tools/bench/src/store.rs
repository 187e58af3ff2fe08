//! The SQL statements of the benches.

pub(crate) const WAL_BYTES: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
pub(crate) const INSERT_BUSINESS: &str = "INSERT INTO bench.business (tenant_id, id, note) VALUES ($1, $2, $3)";
pub(crate) const INSERT_ONE_ROW: &str = "INSERT INTO bench.one_row (id, note) VALUES ($1, $2)";
pub(crate) const UNREAD_LANES: &str =
    "SELECT count(*) FROM onceward.queue q CROSS JOIN LATERAL onceward.lanes_with_work(q.id)";
pub(crate) const LAST_PUBLISHED: &str = "SELECT max(published_at) FROM onceward.relay_batch";
pub(crate) const HOLD_SNAPSHOT: &str =
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id(); SELECT count(*) FROM onceward.lane";
pub(crate) const PAYMENTS_POSTED: &str = "SELECT count(*) FROM lending.payment_posting";
pub(crate) const OUTBOX_DEPTH: &str =
    "SELECT coalesce((SELECT depth FROM onceward.queue_stats(1) WHERE queue = '@outbox'), 0)::bigint";
pub(crate) const OUTBOX_LAG_MS: &str =
    "SELECT (1000 * coalesce((SELECT lag_seconds FROM onceward.queue_stats(1) WHERE queue = '@outbox'), 0))::float8";
pub(crate) const QUOTA_TAKEN: &str =
    "SELECT (reserved_n + filled_n)::bigint, (target_n + max_overfill)::bigint FROM surveys.quota_bucket";
pub(crate) const NOW: &str = "SELECT clock_timestamp()";
pub(crate) const POSTED_SINCE: &str = "SELECT count(*) FROM lending.payment_posting WHERE posted_at >= $1";
/// The 95th percentile of the time from receipt to posting. `posted_at` is the start of the posting transaction, not
/// its commit.
pub(crate) const E2E_P95_MS: &str = "
    SELECT (1000 * percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM p.posted_at - i.received_at)))::float8
    FROM lending.payment_posting p JOIN lending.payment_intake i USING (tenant_id, payment_id) WHERE i.received_at >= $1";
/// Saves a template as a tenant's own.
pub(crate) const INSERT_TEMPLATE: &str =
    "INSERT INTO crm.template (tenant_id, template_id, mail_class, version) VALUES ($1, $2, 'transactional', 1)";
pub(crate) const INSERT_TEMPLATE_VERSION: &str = "INSERT INTO crm.template_version
    (tenant_id, template_id, version, mail_class, delivery, source, sha256)
    VALUES ($1, $2, 1, 'transactional', 'at_most_once', $3, $4)";
/// The smallest record of mails that are sent at most once.
pub(crate) const CREATE_BARE_MAIL: &str =
    "CREATE TABLE public.bare_mail (id uuid PRIMARY KEY, is_sent boolean NOT NULL DEFAULT false)";
pub(crate) const HAND_OVER_BARE_MAIL: &str = "INSERT INTO public.bare_mail (id) VALUES ($1)";
pub(crate) const SETTLE_BARE_MAIL: &str = "UPDATE public.bare_mail SET is_sent = true WHERE id = $1";
/// The number of mails that the provider has taken.
pub(crate) const MAILS_SENT: &str = "SELECT count(*) FROM crm.email WHERE status = 'sent'";
/// The size of a mail.
pub(crate) const MAIL_BYTES: &str = "SELECT message_bytes FROM crm.artifact LIMIT 1";
/// The 99th percentile of the time from request to acceptance, of the latest $1 mails.
pub(crate) const MAIL_P99_MS: &str =
    "SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM settled_at - requested_at) * 1000)::float8
    FROM (
        SELECT recipient.settled_at, outbox.created_at AS requested_at
        FROM crm.email email
        JOIN crm.email_recipient recipient USING (email_id, tenant_id)
        JOIN onceward.outbox_messages outbox ON outbox.id = email.event_id
        ORDER BY email.requested_at DESC
        LIMIT $1
    ) latest";
