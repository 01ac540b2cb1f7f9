create index concurrently if not exists item_stock on item (stock);
