CREATE TABLE orders.customer_order (
    tenant_id text        NOT NULL,
    order_id  uuid        NOT NULL,
    sku       text        NOT NULL,
    quantity  int         NOT NULL CHECK (quantity > 0),
    status    text        NOT NULL DEFAULT 'placed' CHECK (status IN ('placed', 'reserved', 'rejected')),
    placed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, order_id)
);
SELECT onceward_meta.protect('orders.customer_order');

CREATE TABLE orders.stock (
    tenant_id text NOT NULL,
    sku       text NOT NULL,
    available int  NOT NULL CHECK (available >= 0),
    PRIMARY KEY (tenant_id, sku)
);
SELECT onceward_meta.protect('orders.stock');
