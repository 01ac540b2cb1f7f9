-- Applied to the schema of every service. Owned by libs/jobs; nobody else reads or writes it.

-- What is to be done, and when. A row goes when it has been done; that of a periodic job stays.
create table job (
    kind text not null,
    key text not null,
    -- While somebody works on it: when another may take it up, unless this one puts it off again.
    due_at timestamptz not null,
    attempts integer not null default 0,
    -- Who works on it. Null: nobody, or it was scheduled anew meanwhile.
    run bigint,
    primary key (kind, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index job_due on job (kind, due_at);
create sequence job_run;
