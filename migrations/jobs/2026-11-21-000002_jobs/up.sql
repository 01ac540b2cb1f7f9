-- Jobs of a service. Applied to the schema of every service and used by libs/jobs only.

-- Due and periodic jobs. The row of a due job is deleted when the job completes.
-- The row of a periodic job stays.
create table job (
    kind text not null,
    key text not null,
    -- The time from which a worker may claim the job. While it runs, this is the end of the lease.
    due_at timestamptz not null,
    attempts integer not null default 0,
    -- The current run. Null if the job is not running or was scheduled again during its run.
    run bigint,
    -- The trace of the change that scheduled the job at once.
    traceparent text,
    primary key (kind, key)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index job_due on job (kind, due_at);
-- Finds the jobs that fail. Few jobs are tried twice.
create index job_retried on job (kind, attempts) where attempts > 1;
create sequence job_run;
