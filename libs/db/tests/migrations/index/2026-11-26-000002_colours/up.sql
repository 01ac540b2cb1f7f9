create index concurrently if not exists item_colour on item (colour);
