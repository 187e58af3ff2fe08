-- A legacy lending schema: float amounts, a single implicit tenant, its own outbox.
CREATE TABLE borrowers (
    id    serial PRIMARY KEY,
    name  text,
    email text UNIQUE
);
CREATE TABLE loans (
    id          serial PRIMARY KEY,
    borrower_id integer REFERENCES borrowers (id),
    amount      double precision,
    rate        double precision,
    term        integer,
    status      text DEFAULT 'active',
    created_at  timestamp DEFAULT now()
);
-- Without a foreign key, as in the legacy program.
CREATE TABLE payments (
    id        serial PRIMARY KEY,
    loan_id   integer,
    amount    double precision NOT NULL,
    paid_at   timestamp DEFAULT now(),
    reference text
);
CREATE TABLE outbox (
    id           serial PRIMARY KEY,
    topic        text NOT NULL,
    payload      json,
    created_at   timestamp DEFAULT now(),
    published_at timestamp
);
