\set post random(0, :posts - 1)
\set author :post % :authors
update post set blocks = :blocks, search_text = :text, updated_at = clock_timestamp(),
updated_by_user_id = author_user_id, version = version + 1
where id = ('00000000-0000-4000-8000-' || lpad((:post)::text, 12, '0'))::uuid
and deleted_at is null and status <> 'Archived' and author_user_id = ('5eed0031-0000-4000-8000-' || lpad((:author)::text, 12, '0'))::uuid;
