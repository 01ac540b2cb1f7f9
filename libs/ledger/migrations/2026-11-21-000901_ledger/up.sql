-- Counters. Each change of `n` publishes one event. A closed account is republished as a tombstone.
create table account (
    key uuid primary key,
    n bigint not null default 0,
    closed boolean not null default false
);

-- Remarks on accounts. Each publishes one event of the account.
create table remark (
    id bigint generated always as identity primary key,
    account uuid not null references account (key)
);

-- Counts that the consumer has received, in the order of their application.
create table applied (
    id bigint generated always as identity primary key,
    key uuid not null,
    n bigint not null
);

-- The newest state of each account that the consumer has received.
create table account_replica (
    key uuid primary key,
    n bigint not null
);

-- Keys whose events fail, with the kind of failure. The kinds are 'reject', 'panic', 'later' (a
-- temporary failure), 'slow' (a slow statement), 'locked' (a wait for the row) and 'nul' (a long
-- reason with a NUL).
create table poison (
    key uuid primary key,
    kind text not null
);
