-- What is counted; each change of `n` is told by one event.
create table account (
    key uuid primary key,
    n bigint not null default 0,
    closed boolean not null default false
);

-- What was remarked of an account; each is told by one event of the account.
create table remark (
    id bigint generated always as identity primary key,
    account uuid not null references account (key)
);

-- What the events have told, in the order in which it was applied.
create table applied (
    id bigint generated always as identity primary key,
    key uuid not null,
    n bigint not null
);

-- Keys whose events cannot be applied, and how that shows: 'reject', 'panic', 'later', or 'nul' in the reason.
create table poison (
    key uuid primary key,
    kind text not null
);
