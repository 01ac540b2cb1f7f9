-- Applied to the schema of every service. Owned by libs/service.

-- The pieces of three characters that a text has: what is found anywhere in it has all of its own among them. Of any
-- characters, and by no locale, which the trigrams of pg_trgm depend on.
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
