//! Deliberate violations of the platform's contract, in its database. Each must be found by the case that covers it.

use onceward_conformance::platform::{PlatformHarness, contents, failures, handling};

/// A platform on PostgreSQL with this change to its database.
struct FaultyPlatform(&'static str);

impl PlatformHarness for FaultyPlatform {
    fn bus_url(&self) -> Option<String> {
        None
    }

    fn fault_sql(&self) -> Option<&'static str> {
        Some(self.0)
    }
}

/// Creates a test for each fault, with the case that must find it and the SQL that causes it.
macro_rules! each_fault_is_found {
    ($($fault:ident: $module:ident::$case:ident, $sql:expr;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $fault() {
                let case = tokio::spawn(async { $module::$case(&FaultyPlatform($sql)).await });
                assert!(case.await.is_err_and(|error| error.is_panic()), "the suite did not find the fault");
            }
        )+
    };
}

each_fault_is_found! {
    a_platform_that_handles_a_message_twice: handling::a_message_has_its_effect_once, "
        CREATE FUNCTION conformance.twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO conformance.effect (tenant_id, queue, name, number, attempt, envelope)
            VALUES (NEW.tenant_id, NEW.queue, NEW.name, NEW.number, NEW.attempt, NEW.envelope);
            RETURN NULL;
        END $$;
        CREATE TRIGGER twice AFTER INSERT ON conformance.effect FOR EACH ROW WHEN (pg_trigger_depth() = 0)
        EXECUTE FUNCTION conformance.twice()";
    a_platform_that_drops_the_trace_state: contents::all_metadata_of_a_message_arrives, "
        CREATE FUNCTION conformance.stateless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.headers := (NEW.headers::jsonb - 'tracestate')::json;
            RETURN NEW;
        END $$;
        CREATE TRIGGER stateless BEFORE INSERT ON onceward.message_log FOR EACH ROW
        EXECUTE FUNCTION conformance.stateless()";
    a_platform_that_handles_a_delayed_message_at_once: handling::a_delayed_message_is_not_handled_before_its_time, "
        CREATE FUNCTION conformance.hasty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.due_at := clock_timestamp();
            RETURN NEW;
        END $$;
        CREATE TRIGGER hasty BEFORE INSERT ON onceward.deferred FOR EACH ROW EXECUTE FUNCTION conformance.hasty()";
    a_platform_that_reports_a_wrong_reason: failures::a_message_of_another_tenant_is_a_dead_letter, "
        CREATE FUNCTION conformance.blame() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.reason := 'malformed';
            RETURN NEW;
        END $$;
        CREATE TRIGGER blame BEFORE INSERT ON onceward.dead_letters FOR EACH ROW EXECUTE FUNCTION conformance.blame()";
    a_platform_that_gives_up_after_one_attempt:
        failures::a_poisoned_message_uses_up_its_attempts_and_blocks_no_other, "
        CREATE FUNCTION conformance.impatient() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.attempts := NEW.attempts + 2;
            RETURN NEW;
        END $$;
        CREATE TRIGGER impatient BEFORE INSERT ON onceward.deferred FOR EACH ROW
        EXECUTE FUNCTION conformance.impatient()";
}
