-- By which messages are found that nobody waits for any longer.
create index thing_waiting_kept_at on thing_waiting (consumer, kept_at);
