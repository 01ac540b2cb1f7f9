-- Revoked access. Applied to the schema of every service and owned by libs/service. Identity writes
-- the rows, and the other services keep a copy.

-- Tokens of the subject that were issued up to `not_before` are invalid.
create table access_revocation (
    subject_id uuid primary key,
    subject_kind text collate "C" not null check (subject_kind in ('User', 'Company')),
    not_before timestamptz not null
);
-- Finds the revocations that can still end a valid token.
create index access_revocation_not_before on access_revocation (not_before);
