Feature: Async loan creation

  Scenario: Client submits valid loan
    Given tenant "acme" and user "u1"
    When POST /api/loans with a valid payload and Idempotency-Key "k1"
    Then response is 202 with a correlationId
    And within 3 seconds an event "loan.created" is published for tenant "acme"
    And the loan record exists with status "created"
    And an audit record exists with action "loan_created"

  Scenario: Idempotent retry
    Given same request with Idempotency-Key "k1"
    When POST /api/loans again
    Then response is 202
    And exactly one loan record exists

  Scenario: Client submits a loan that cannot be
    Given tenant "acme" and user "u1"
    When POST /api/loans with a principal of "12.50" and Idempotency-Key "k2"
    Then response is 422 and names the field "/principal_minor"
    And no loan record exists
    And no message is published for tenant "acme"

  Scenario: Client submits a loan for nobody
    Given tenant "acme" and user "u1"
    When POST /api/loans for a borrower that does not exist
    Then response is 202 with a correlationId
    And the loan's status becomes "refused" with the reason "there is no borrower"
    And no loan record exists
