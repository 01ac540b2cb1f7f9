// Command peers serves two operations of the platform with net/http and pgx.
//
// `cargo dev bench --peers` compares it with the services: the same database, tables, rows, tokens,
// load and responses.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The pool of a service has 16 connections, too.
const poolSize = 16

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = poolSize, poolSize
	config.ConnConfig.RuntimeParams["search_path"] = os.Getenv("SCHEMA")
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	verifier, err := newVerifier(os.Getenv("AUTH_ISSUER"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /api/v1/selections/{code}", openSelection(pool))
	mux.HandleFunc("POST /api/platform-manager/crm/deals/{id}/override-status", overrideStatus(pool, verifier))
	server := http.Server{Addr: os.Getenv("LISTEN"), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err)
	}
}

func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "not found", http.StatusNotFound)
	case errors.Is(err, errConflict):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		log.Print(err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}
