alter table thing add column colour text;
