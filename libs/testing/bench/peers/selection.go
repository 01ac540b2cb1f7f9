package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const selectSelection = `select public_code, title, description, items, items_count, created_at, updated_at
from selection where public_code = $1 and deleted_at is null and link_enabled
and (link_expires_at is null or link_expires_at > now())`

const selectCards = `select id::text, shown from property_object where id = any ($1::uuid[]) and is_public`

type selection struct {
	PublicCode  string
	Title       string
	Description *string
	Items       []item
	ItemsCount  int32
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

type item struct {
	PropertyObjectId string
	SortOrder        int
	AddedAt          time.Time
	Card             json.RawMessage
}

// openSelection returns a selection with the cards of its objects.
func openSelection(pool *pgxpool.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		var opened selection
		row := pool.QueryRow(ctx, selectSelection, r.PathValue("code"))
		err := row.Scan(&opened.PublicCode, &opened.Title, &opened.Description, &opened.Items, &opened.ItemsCount,
			&opened.CreatedAt, &opened.UpdatedAt)
		if err != nil {
			fail(w, err)
			return
		}
		ids := make([]string, len(opened.Items))
		for i, item := range opened.Items {
			ids[i] = item.PropertyObjectId
		}
		rows, err := pool.Query(ctx, selectCards, ids)
		if err != nil {
			fail(w, err)
			return
		}
		cards := make(map[string]json.RawMessage, len(ids))
		var id string
		var card []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &card}, func() error {
			cards[id] = card
			card = nil
			return nil
		})
		if err != nil {
			fail(w, err)
			return
		}
		for i := range opened.Items {
			opened.Items[i].Card = cards[opened.Items[i].PropertyObjectId]
		}
		respond(w, opened)
	}
}
