-- A lending program of the old kind: floats for money, one tenant that nobody names, an outbox of its own.
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
-- It never had a foreign key.
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
