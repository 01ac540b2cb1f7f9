#!/usr/bin/env bash
# Refuses migrations that block the users of large tables (docs/decisions/0094-migrations-on-large-tables.md), and two
# migrations with one version.
# SQUAWK is the linter, squawk-cli of PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
squawk="${SQUAWK:-squawk}"

# Succeeds if no statement of the file blocks. A file beside `metadata.toml` runs outside of a transaction.
accepts() {
  local file="$1" transaction=--assume-in-transaction
  if grep -qs '^run_in_transaction = false' "$(dirname "$file")/metadata.toml"; then
    transaction=--no-assume-in-transaction
    # Several statements in one message run in a transaction after all.
    if [ "$(grep -c ';[[:space:]]*$' "$file")" != 1 ] || ! grep -qiE '^(create|drop|reindex) .*index concurrently' "$file"; then
      echo "$file: a migration without a transaction has one statement: create or drop an index concurrently"
      return 1
    fi
  elif grep -niw concurrently "$file"; then
    echo "$file: a concurrent statement needs metadata.toml with run_in_transaction = false"
    return 1
  fi
  # Squawk has no rule on changes of all rows. Bodies of functions are indented.
  if grep -niE '^(update|delete from|truncate|merge into)[[:space:]]|^insert into .*[[:space:]]select([[:space:]]|$)' "$file"; then
    echo "$file: change existing rows in a job, in batches"
    return 1
  fi
  "$squawk" --config .squawk.toml "$transaction" --reporter gcc "$file"
}

# Prints the versions that two folders have. Diesel reads the version from the name, without hyphens, and skips a version
# that it has applied. The migrations of a service and of the libraries share one table of versions.
duplicates() { sed -nE 's|^(.*/)?([0-9-]+)_[^/]*/$|\2|p' | tr -d - | sort | uniq -d; }

failed=0
for version in $(printf '%s\n' migrations/*/*/ libs/*/migrations/*/ | duplicates); do
  echo "$version: two migrations have this version"
  failed=1
done
for file in migrations/*/*/up.sql libs/*/migrations/*/up.sql; do
  accepts "$file" || failed=1
done

# The check itself: each of these must be refused or accepted.
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
check() {
  local expected="$1" transaction="$2" sql="$3" result=accepted
  echo "run_in_transaction = $transaction" > "$scratch/metadata.toml"
  printf '%s\n' "$sql" > "$scratch/up.sql"
  accepts "$scratch/up.sql" >/dev/null 2>&1 || result=refused
  [ "$result" = "$expected" ] || { echo "$result, not $expected: $sql"; failed=1; }
}
check refused true 'create index deal_x on deal (x);'
check refused true 'create index concurrently if not exists deal_x on deal (x);'
check refused true 'alter table deal add constraint deal_x check (x > 0);'
check refused true 'alter table deal add constraint deal_x foreign key (x) references y (id);'
check refused true 'alter table deal add constraint deal_x unique (x);'
check refused true 'alter table deal alter column x type bigint;'
check refused true 'alter table deal alter column x set not null;'
check refused true 'alter table deal add column x uuid not null default gen_random_uuid();'
check refused true 'update deal set x = 1;'
check refused true 'delete from deal where x = 1;'
check refused true 'insert into deal_copy select * from deal;'
check refused false 'alter table deal add column x text;'
check refused false $'drop index concurrently if exists deal_x;\ncreate index concurrently if not exists deal_x on deal (x);'
check refused false 'create index concurrently deal_x on deal (x);'
check accepted false 'create index concurrently if not exists deal_x on deal (x);'
check accepted false 'drop index concurrently if exists deal_x;'
check accepted true 'alter table deal add column x text;'
check accepted true 'alter table deal add column x integer not null default 0;'
check accepted true 'alter table deal add constraint deal_x check (x > 0) not valid;'
check accepted true $'create table y (id uuid primary key, x text);\ncreate index y_x on y (x);'

twice="$(printf '%s\n' a/2026-11-21-000001_x/ b/2026-11-21-000002_y/ b/20261121-000001_z/ | duplicates)"
[ "$twice" = 20261121000001 ] || { echo "a version of two migrations is not found: $twice"; failed=1; }

[ "$failed" = 0 ] && echo 'migrations: accepted'
exit "$failed"
