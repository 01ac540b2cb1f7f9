-- Text search. Applied to the schema of every service and owned by libs/service.

-- Returns all substrings of three characters. A text that contains another one has all trigrams of
-- it. Unlike pg_trgm this covers all characters and does not depend on the locale.
create or replace function trigrams(text text) returns text[] language plpgsql immutable strict parallel safe as $$
declare
    found text[] collate "C" := '{}';
begin
    for i in 1 .. char_length(text) - 2 loop
        found := found || substr(text, i, 3);
    end loop;
    return found;
end
$$;
