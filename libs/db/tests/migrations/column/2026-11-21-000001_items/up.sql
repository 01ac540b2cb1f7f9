alter table item add column colour text;
