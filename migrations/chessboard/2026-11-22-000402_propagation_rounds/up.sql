-- Of a developer's changes each has a round of its own, so that developers take turns although a batch moves no other row than the one that it tells of.
alter table propagation add column round bigint not null default 0;
drop index propagation_turn;
create index propagation_turn on propagation (hides desc, round, turn);
create index propagation_tenant on propagation (tenant_id, hides, round);
